/** Every place in the metadata that names an extent: versions, parts of open uploads, rows of the deletion queue. */

import { allRows, queueAt, queueSlots } from '../../../metadata/background/queues.ts';
import { everyBucket, findBucket } from '../../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../../metadata/objects/objects.ts';
import { everyPart, findSession, findSessionPart, uploadsIn } from '../../../metadata/objects/uploads.ts';
import type { GarbageTask, QueueRow } from '../../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow, UploadIndexRow } from '../../../metadata/tables.ts';
import type { MetadataStore, Revision, Stored } from '../../../ports/metadata-store.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';
import { pageRows } from './findings.ts';
import { nextSound } from './next-sound.ts';

type Ctx = { readonly metadata: MetadataStore };

/** A place that names an extent. */
export interface Naming {
  /** The name stays the same when a version moves. */
  readonly name: string;
  readonly place: {
    readonly bucket?: string;
    readonly key?: string;
    readonly version?: string;
    readonly uploadId?: string;
    readonly part?: number;
  };
  /** The row, if it is one of the deletion queue. */
  readonly queued?: QueueRow;
  /** The revision of the row, undefined if it no longer names the extent; 'queued' for rows of the queue, which never change. */
  look(): Promise<Revision | 'queued' | undefined>;
}

export interface Named {
  readonly extent: Extent;
  readonly naming: Naming;
}

export async function* everyNaming(ctx: Ctx): AsyncGenerator<Named> {
  yield* inQueue(ctx);
  for await (const name of everyBucket(ctx.metadata)) {
    const bucket = (await findBucket(ctx.metadata, name))?.row;
    if (bucket === undefined) continue;
    yield* inUploads(ctx, bucket);
    yield* inVersions(ctx, bucket);
  }
}

async function* inQueue({ metadata }: Ctx): AsyncGenerator<Named> {
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for (let page = await nextSound(cursor, 100); page.length > 0; page = await nextSound(cursor, 100)) {
      for (const { row } of page) {
        const { extents, manifestId, owner } = row.task as GarbageTask;
        // `gc` looks for an owner of these itself.
        if (owner !== undefined) continue;
        const at = queueAt(row.queue, row.slot);
        const naming: Naming = {
          name: `queue/${slot}/${row.due}/${row.id}`,
          place: {},
          queued: row,
          look: async () => {
            const found = await metadata.get(at, { due: row.due, id: row.id });
            return found === undefined ? undefined : 'queued';
          },
        };
        for (const extent of extents) yield { extent, naming };
        if (manifestId === undefined || extents.length > 0) continue;
        const manifest = { manifestId, partCount: 0, offsets: [] };
        for await (const extent of readExtents(metadata, manifest)) yield { extent, naming };
      }
    }
  }
}

async function* inVersions({ metadata }: Ctx, bucket: BucketRow): AsyncGenerator<Named> {
  const cursor = metadata.scan(objectsAt(bucket));
  for (
    let page = await nextSound(cursor, pageRows);
    page.length > 0;
    page = await nextSound(cursor, pageRows)
  )
    for (const found of page) {
      if (found.row.marker) continue;
      const naming = versionNaming({ metadata }, bucket, found);
      for await (const extent of readExtents(metadata, found.row.manifest))
        if (extent.foreign === undefined) yield { extent, naming };
    }
}

function versionNaming({ metadata }: Ctx, bucket: BucketRow, { row, revision }: Stored<ObjectRow>): Naming {
  const { space, key, slot, version } = row;
  return {
    name: `${bucket.id}/${version}/${key}`,
    place: { bucket: bucket.name, key, version },
    look: async () => {
      const found = await metadata.get(objectsAt(bucket), { space, key, slot });
      // A row that was changed or moved is found by the next run.
      return found?.revision === revision ? revision : undefined;
    },
  };
}

async function* inUploads({ metadata }: Ctx, bucket: BucketRow): AsyncGenerator<Named> {
  const cursor = metadata.scan(uploadsIn(bucket.id));
  for (
    let page = await nextSound(cursor, pageRows);
    page.length > 0;
    page = await nextSound(cursor, pageRows)
  )
    for (const { row } of page) {
      if (!(await isUploading({ metadata }, row))) continue;
      for await (const part of everyPart(metadata, row.uploadId)) {
        const { key, uploadId } = row;
        const number = part.row.part;
        const naming: Naming = {
          name: `${uploadId}/${number}`,
          place: { bucket: bucket.name, key, uploadId, part: number },
          look: async () => {
            const found = await findSessionPart(metadata, uploadId, number);
            const isTheSame = found?.revision === part.revision && (await isUploading({ metadata }, row));
            return isTheSame ? part.revision : undefined;
          },
        };
        // Parts that the store holds become an extent only at completion.
        if (part.stored.receipt === undefined) yield { extent: part.stored.extent, naming };
      }
    }
}

/** Only an upload in this state owns its parts: a completion hands them to the version. */
const isUploading = async ({ metadata }: Ctx, { uploadId }: Pick<UploadIndexRow, 'uploadId'>) =>
  (await findSession(metadata, uploadId))?.row.session.state === 'uploading';
