/**
 * Checks that each extent has one owner. If bytes have two owners, deleting one removes the other's content; if the deletion queue
 * names bytes that a version owns, gc deletes them. Both are reported only where two reads of all rows that name the bytes return
 * the same revisions, so that the rows existed at one moment.
 */

import { fnv32a, mixBits } from '../../base/shard.ts';
import { allRows, queueAt, queueSlots } from '../../metadata/background/queues.ts';
import { everyBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { everyPart, findSession, findSessionPart, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { GarbageTask, QueueRow } from '../../metadata/records/queues.ts';
import { soundPages } from '../../metadata/sound-rows.ts';
import type { BucketRow, ObjectRow, UploadIndexRow } from '../../metadata/tables.ts';
import type { MetadataStore, Revision, Stored } from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import { type FsckRun, pageRows } from './findings.ts';
import { unqueue } from './repairs.ts';

const passesMax = 1 << 12;

/** Walks over all rows that name extents: first finds ids that occur more than once, then the rows that name these. */
export class OwnersWalk {
  readonly #ids: number;
  #passes: number;
  #pass = 0;
  #repeated: RepeatedIds;
  #found: Map<string, Reference[]> | undefined;
  #rows: AsyncGenerator<ExtentReference>;

  constructor(run: FsckRun, ids: number) {
    this.#ids = ids;
    this.#passes = passesFor(ids);
    this.#repeated = this.#filter();
    this.#rows = everyReference(run);
  }

  #filter(): RepeatedIds {
    return new RepeatedIds(this.#ids, { passes: this.#passes, pass: this.#pass });
  }

  /** @returns whether there is more */
  async check(run: FsckRun, count: number): Promise<boolean> {
    for (let seen = 0; seen < count; seen += 1) {
      run.signal.throwIfAborted();
      const { done, value } = await this.#rows.next();
      if (done === true) return this.#atTheEnd(run);
      this.#note(value);
    }
    return true;
  }

  #note({ extent: { id }, reference }: ExtentReference): void {
    if (this.#found === undefined) this.#repeated.add(id);
    if (this.#found === undefined || !this.#repeated.candidates.has(id)) return;
    const known = this.#found.get(id) ?? [];
    // The walk may have read a version twice, because it moved.
    if (known.length < referencesMax && !known.some(({ name }) => name === reference.name))
      this.#found.set(id, [...known, reference]);
  }

  async #atTheEnd(run: FsckRun): Promise<boolean> {
    const isLooking = this.#found === undefined;
    if (isLooking && this.#repeated.isOverfull && this.#passes < passesMax) {
      this.#passes *= 2;
      this.#pass = 0;
    } else if (isLooking && this.#repeated.candidates.size > 0) {
      this.#found = new Map();
    } else {
      for (const [id, references] of this.#found ?? []) await examine(run, id, references);
      this.#found = undefined;
      this.#pass += 1;
      if (this.#pass === this.#passes) return false;
    }
    if (this.#found === undefined) this.#repeated = this.#filter();
    this.#rows = everyReference(run);
    return true;
  }
}

/** The largest number of rows that are reported for one extent. */
const referencesMax = 8;

async function examine(run: FsckRun, id: string, references: readonly Reference[]): Promise<void> {
  if (references.length < 2) return;
  const standing = await standingAtOnce(references);
  const owners = standing.filter(({ queued }) => queued === undefined);
  const [first, ...others] = owners;
  if (first === undefined) return;
  if (others.length > 0) {
    const detail = `its bytes are those of another version or part too: ${others.map(placeText).join(', ')}`;
    await run.find({ kind: 'shared', detail, extent: id, ...first.place }, async () => ({
      left: manualRepair,
    }));
  }
  for (const reference of standing) {
    const { queued } = reference;
    if (queued === undefined) continue;
    const detail = 'its bytes wait to be deleted, though a version or part owns them';
    await run.find({ kind: 'queued', detail, extent: id, ...first.place }, () => unqueue(run, queued));
  }
}

const manualRepair = 'write one of them again from a copy, then delete the other';

/** The rows that were the same before and after all others were read. */
async function standingAtOnce(references: readonly Reference[]): Promise<readonly Reference[]> {
  const standing: Reference[] = [];
  for (const reference of references) if ((await reference.look()) !== undefined) standing.push(reference);
  const still: Reference[] = [];
  for (const reference of standing) if ((await reference.look()) !== undefined) still.push(reference);
  return still;
}

const placeText = ({ place }: Reference): string =>
  Object.entries(place)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

// Every place in the metadata that names an extent: versions, parts of open uploads, rows of the deletion queue.

type Ctx = { readonly metadata: MetadataStore };

/** A place that names an extent. */
interface Reference {
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

interface ExtentReference {
  readonly extent: Extent;
  readonly reference: Reference;
}

async function* everyReference(ctx: Ctx): AsyncGenerator<ExtentReference> {
  yield* inQueue(ctx);
  for await (const name of everyBucket(ctx.metadata)) {
    const bucket = (await findBucket(ctx.metadata, name))?.row;
    if (bucket === undefined) continue;
    yield* inUploads(ctx, bucket);
    yield* inVersions(ctx, bucket);
  }
}

async function* inQueue({ metadata }: Ctx): AsyncGenerator<ExtentReference> {
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for await (const page of soundPages(cursor, 100)) {
      for (const { row } of page) {
        const { extents, manifestId, owner } = row.task as GarbageTask;
        // `gc` looks for an owner of these itself.
        if (owner !== undefined) continue;
        const at = queueAt(row.queue, row.slot);
        const reference: Reference = {
          name: `queue/${slot}/${row.due}/${row.id}`,
          place: {},
          queued: row,
          look: async () => {
            const found = await metadata.get(at, { due: row.due, id: row.id });
            return found === undefined ? undefined : 'queued';
          },
        };
        for (const extent of extents) yield { extent, reference };
        if (manifestId === undefined || extents.length > 0) continue;
        const manifest = { manifestId, partCount: 0, offsets: [] };
        for await (const extent of readExtents(metadata, manifest)) yield { extent, reference };
      }
    }
  }
}

async function* inVersions({ metadata }: Ctx, bucket: BucketRow): AsyncGenerator<ExtentReference> {
  const cursor = metadata.scan(objectsAt(bucket));
  for await (const page of soundPages(cursor, pageRows))
    for (const found of page) {
      if (found.row.marker) continue;
      const reference = versionReference({ metadata }, bucket, found);
      for await (const extent of readExtents(metadata, found.row.manifest))
        if (extent.foreign === undefined) yield { extent, reference };
    }
}

function versionReference(
  { metadata }: Ctx,
  bucket: BucketRow,
  { row, revision }: Stored<ObjectRow>,
): Reference {
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

async function* inUploads({ metadata }: Ctx, bucket: BucketRow): AsyncGenerator<ExtentReference> {
  const cursor = metadata.scan(uploadsIn(bucket.id));
  for await (const page of soundPages(cursor, pageRows))
    for (const { row } of page) {
      if (!(await isUploading({ metadata }, row))) continue;
      for await (const part of everyPart(metadata, row.uploadId)) {
        const { key, uploadId } = row;
        const number = part.row.part;
        const reference: Reference = {
          name: `${uploadId}/${number}`,
          place: { bucket: bucket.name, key, uploadId, part: number },
          look: async () => {
            const found = await findSessionPart(metadata, uploadId, number);
            const isTheSame = found?.revision === part.revision && (await isUploading({ metadata }, row));
            return isTheSame ? part.revision : undefined;
          },
        };
        // Parts that the store holds become an extent only at completion.
        if (part.stored.receipt === undefined) yield { extent: part.stored.extent, reference };
      }
    }
}

/** Only an upload in this state owns its parts: a completion hands them to the version. */
const isUploading = async ({ metadata }: Ctx, { uploadId }: Pick<UploadIndexRow, 'uploadId'>) =>
  (await findSession(metadata, uploadId))?.row.session.state === 'uploading';

// Finds ids that occur more than once in a long stream. A Bloom filter finds candidates, so that memory is bounded.

const hashes = 4;
const bitsPerId = 16;
const bitsMin = 1 << 16;
/** 32 MiB; with 16 bits for each id, one of 400 unique ids becomes a candidate. */
const bitsMax = 1 << 28;
/** Candidates that are kept in memory together; with more, a pass handles fewer ids. */
const candidatesMax = 100_000;

interface Slice {
  /** Each pass takes the ids of one hash; a power of two. */
  readonly passes: number;
  readonly pass: number;
}

const passesFor = (ids: number): number =>
  2 ** Math.max(0, Math.ceil(Math.log2((ids * bitsPerId) / bitsMax)));

export class RepeatedIds {
  readonly candidates = new Set<string>();
  readonly #slice: Slice;
  readonly #words: Uint32Array;
  readonly #mask: number;

  /** @param ids the expected number of ids in all passes together */
  constructor(ids: number, slice: Slice) {
    this.#slice = slice;
    const bits = 2 ** Math.ceil(Math.log2((ids * bitsPerId) / slice.passes + 1));
    const bounded = Math.min(bitsMax, Math.max(bitsMin, bits));
    this.#words = new Uint32Array(bounded / 32);
    this.#mask = bounded - 1;
  }

  get isOverfull(): boolean {
    return this.candidates.size > candidatesMax;
  }

  add(id: string): void {
    const first = mixBits(fnv32a(id));
    const { passes, pass } = this.#slice;
    const second = mixBits(fnv32a(`${id}/`) ^ first);
    if ((mixBits(second) & (passes - 1)) !== pass || this.isOverfull) return;
    let isNew = false;
    for (let i = 0; i < hashes; i += 1) {
      const bit = (first + Math.imul(i, second | 1)) & this.#mask;
      const word = this.#words[bit >>> 5] as number;
      if ((word & (1 << (bit & 31))) !== 0) continue;
      isNew = true;
      this.#words[bit >>> 5] = word | (1 << (bit & 31));
    }
    if (!isNew) this.candidates.add(id);
  }
}
