/** The unit that the scrub reads: a version, or a part of an open upload. */
import { objectsAt, readExtents } from '../../../metadata/objects/objects.ts';
import { findSession, findSessionPart } from '../../../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow, UploadPart, UploadRow } from '../../../metadata/tables.ts';
import type { MetadataStore, Revision, Stored } from '../../../ports/metadata-store.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';
import { timeOf } from '../../objects/version-ids.ts';
import { comparableMd5 } from '../fsck/compare/rows.ts';
import type { DamagedContent } from './state.ts';

type Ctx = { readonly metadata: MetadataStore };

export interface Content {
  /** Unique among all contents. */
  readonly name: string;
  readonly labels: Pick<DamagedContent, 'bucket' | 'bucketId' | 'key' | 'version' | 'uploadId' | 'part'>;
  readonly revision: Revision;
  /** The MD5 of its bytes, where its row has it. */
  readonly md5?: string | undefined;
  extents(): AsyncIterable<Extent>;
  /** Reads its row again; undefined when the row is gone or names other content. */
  again(): Promise<Content | undefined>;
}

/** The largest lead of a gateway's clock. Later times are wrong, and do not show when a row was written. */
const clockSkewMax = 15 * 60_000;

/** Whether bytes were stored during the pass: then the next pass reads them, so that writers cannot prolong a pass forever. */
export const isNewer = (
  writtenAt: number,
  { startedAt, now }: { readonly startedAt: number; readonly now: number },
): boolean => writtenAt >= startedAt && writtenAt <= now + clockSkewMax;

/** A time before which none of a version's bytes were stored. */
export const bytesSince = ({ uploadId, modified }: ObjectRow): number =>
  uploadId === undefined ? modified : timeOf(uploadId);

export function versionContent(ctx: Ctx, bucket: BucketRow, { row, revision }: Stored<ObjectRow>): Content {
  const { space, key, slot, version } = row;
  return {
    name: `${bucket.id}/${version}`,
    labels: { bucket: bucket.name, bucketId: bucket.id, key, version },
    revision,
    md5: comparableMd5(row),
    extents: () => readExtents(ctx.metadata, row.manifest),
    async again() {
      const found = await ctx.metadata.get(objectsAt(bucket), { space, key, slot });
      return found?.row.version === version ? versionContent(ctx, bucket, found) : undefined;
    },
  };
}

export interface PartPlace {
  readonly bucket: BucketRow;
  readonly key: string;
}

export function partContent(
  ctx: Ctx,
  place: PartPlace,
  { row, revision, stored }: Stored<UploadRow> & { readonly stored: UploadPart },
): Content {
  const { bucket, key } = place;
  const { uploadId, part } = row;
  return {
    name: `${bucket.id}/${uploadId}/${part}`,
    labels: { bucket: bucket.name, bucketId: bucket.id, key, uploadId, part },
    revision,
    async *extents() {
      yield stored.extent;
    },
    async again() {
      const session = (await findSession(ctx.metadata, uploadId))?.row.session;
      if (session === undefined || !isOpen(session)) return undefined;
      const found = await findSessionPart(ctx.metadata, uploadId, part);
      const now = found?.row.stored;
      if (found === undefined || now?.extent.id !== stored.extent.id) return undefined;
      return partContent(ctx, place, { ...found, stored: now });
    },
  };
}

/** Whether the session still owns its parts. */
export const isOpen = ({ state }: { readonly state: string }): boolean =>
  state === 'uploading' || state === 'completing';
