/**
 * Rebuilds a lost index from the back-references beside the bytes. It creates only keys that do not exist at all, so it never changes
 * an existing row, and it can resume after a kill.
 */

import type { Awaitable } from '../../../../base/awaitable.ts';
import { fnv32a } from '../../../../base/shard.ts';
import { everyBucket, findBucket, insertBucket } from '../../../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../../../metadata/objects/objects.ts';
import { type BucketRow, tables } from '../../../../metadata/tables.ts';
import { ChunkDamaged, ChunkMissing, type FoundExtent } from '../../../../ports/storage/object-bytes.ts';
import { isOwned, openOwnership } from '../../ownership.ts';
import { sift } from '../compare/bytes.ts';
import {
  buildRows,
  commitRows,
  groupRemains,
  isThere,
  kept,
  type Read,
  type RebuildContext,
  type Remains,
  readBack,
} from './rebuild-key.ts';

/** A bucket whose row is lost too: fsck reports its id, the operator supplies the rest. */
export interface LostBucket {
  readonly id: string;
  readonly name: string;
  /** The account that it belongs to. */
  readonly owner: string;
}

export interface Rebuilt {
  readonly kind: 'rebuilt' | 'left';
  readonly detail: string;
  readonly bucket?: string;
  readonly bucketId?: string;
  readonly key?: string;
  readonly version?: string;
}

export interface RebuildSummary {
  readonly rebuilt: number;
  readonly left: number;
}

interface Run extends RebuildContext {
  readonly signal: AbortSignal;
  tell(told: Rebuilt): Promise<void>;
}

/** Extents without an owner that are kept in memory together; more of them take several walks over the bytes. */
const suspectsMax = 50_000;
const passesMax = 1 << 16;

export async function rebuildIndex(
  context: RebuildContext,
  options: {
    readonly buckets: readonly LostBucket[];
    readonly report: (told: Rebuilt) => Awaitable<void>;
    readonly signal?: AbortSignal;
    /** For tests. */
    readonly atOnce?: number;
  },
): Promise<RebuildSummary> {
  const { report, buckets, atOnce = suspectsMax, signal = new AbortController().signal } = options;
  const summary = { rebuilt: 0, left: 0 };
  const run: Run = {
    ...context,
    signal,
    tell: async (told) => {
      summary[told.kind] += 1;
      await report(told);
    },
  };
  await assertSound(run);
  // Check all flags before restoring the first bucket, so that a refused run changes nothing.
  for (const bucket of buckets) await assertRestorable(run, bucket);
  for (const bucket of buckets) await restoreBucket(run, bucket);
  for (let passes = 1; passes <= passesMax; passes *= 2) {
    if (await rebuildIn(run, { passes, atOnce })) return summary;
  }
  throw new Error('there are more unowned extents of one key than can be held');
}

/** Refuses to run on damaged metadata, because keys that cannot be read would look lost and be created a second time. */
async function assertSound({ metadata, signal }: Run): Promise<void> {
  for await (const [fault] of metadata.verify?.(Object.values(tables)) ?? []) {
    signal.throwIfAborted();
    if (fault !== undefined)
      throw new Error(
        `the metadata is damaged (${fault.detail}): leave the damage out first, see docs/recovery.md`,
      );
  }
}

/** Each pass handles the keys of one hash. @returns false when they were too many for one pass */
async function rebuildIn(
  run: Run,
  { passes, atOnce }: { readonly passes: number; readonly atOnce: number },
): Promise<boolean> {
  for (let pass = 0; pass < passes; pass += 1) {
    const isMine = ({ owner }: FoundExtent): boolean =>
      (fnv32a(`${owner.bucketId}/${owner.key}`) >>> 0) % passes === pass;
    const suspects = await suspectsAmong(run, isMine, atOnce);
    if (suspects === undefined) return false;
    await rebuildKeys(run, suspects);
  }
  return true;
}

async function suspectsAmong(
  run: Run,
  isMine: (found: FoundExtent) => boolean,
  atOnce: number,
): Promise<ReadonlyMap<string, FoundExtent> | undefined> {
  const ownership = await openOwnership(run);
  const suspects = new Map<string, FoundExtent>();
  for (const cluster of run.bytes.clusters) {
    for await (const found of run.bytes.find(cluster, '')) {
      run.signal.throwIfAborted();
      if (!isMine(found) || (await isOwned(run, ownership, found))) continue;
      suspects.set(found.extent.id, found);
      if (suspects.size > atOnce) return undefined;
    }
  }
  return suspects;
}

async function rebuildKeys(run: Run, suspects: ReadonlyMap<string, FoundExtent>): Promise<void> {
  const { unowned } = await sift(run, suspects);
  const buckets = await bucketsById(run);
  const byBucket = Map.groupBy(unowned, ({ owner }) => owner.bucketId);
  for (const [bucketId, inBucket] of byBucket) {
    const bucket = buckets.get(bucketId);
    if (bucket === undefined) {
      const detail = `${inBucket.length} extents are of a bucket that is not known: name it by --bucket`;
      await run.tell({ kind: 'left', bucketId, detail });
      continue;
    }
    for (const [key, found] of Map.groupBy(inBucket, ({ owner }) => owner.key)) {
      run.signal.throwIfAborted();
      await rebuildKey(run, { bucket, key }, found);
    }
  }
}

async function rebuildKey(
  run: Run,
  place: { readonly bucket: BucketRow; readonly key: string },
  found: readonly FoundExtent[],
): Promise<void> {
  const { bucket, key } = place;
  const named = { bucket: bucket.name, key };
  if (await isThere(run, bucket, key)) {
    const detail = `the key is there; ${found.length} extents that no row owns are left`;
    return run.tell({ kind: 'left', ...named, detail });
  }
  const { usable, unusable } = groupRemains(found);
  for (const [{ extent }, why] of unusable)
    await run.tell({ kind: 'left', ...named, detail: `${extent.id}: ${why}` });
  const sound: Read[] = [];
  for (const remains of kept(bucket, usable)) {
    const read = await readSound(run, place, remains);
    if (read !== undefined) sound.push(read);
  }
  const rows = await buildRows(run, place, sound);
  if (rows.length === 0) return;
  if (!(await commitRows(run, bucket, rows)))
    return run.tell({ kind: 'left', ...named, detail: 'a client wrote it meanwhile' });
  for (const { version, size, uploadId } of rows) {
    const detail = `${size} bytes${uploadId === undefined ? '' : ' of the parts of an upload that may not have been completed'}`;
    await run.tell({ kind: 'rebuilt', ...named, version, detail });
  }
}

async function readSound(
  run: Run,
  { bucket, key }: { readonly bucket: BucketRow; readonly key: string },
  remains: Remains,
): Promise<Read | undefined> {
  try {
    return await readBack(run, remains);
  } catch (cause) {
    if (!(cause instanceof ChunkDamaged || cause instanceof ChunkMissing)) throw cause;
    await run.tell({ kind: 'left', bucket: bucket.name, key, detail: cause.message });
    return undefined;
  }
}

async function bucketsById({ metadata }: Run): Promise<ReadonlyMap<string, BucketRow>> {
  const buckets = new Map<string, BucketRow>();
  for await (const name of everyBucket(metadata)) {
    const found = await findBucket(metadata, name);
    if (found !== undefined) buckets.set(found.row.id, found.row);
  }
  return buckets;
}

async function assertRestorable(run: Run, { id, name }: LostBucket): Promise<void> {
  const there = await findBucket(run.metadata, name);
  if (there !== undefined && there.row.id !== id)
    throw new Error(`there is another bucket ${name}, of the id ${there.row.id}: nothing was changed`);
}

/** Creates the row of a bucket with its old id, so that the stored bytes belong to it. Versioned if any of its writes was. */
async function restoreBucket(run: Run, { id, name, owner }: LostBucket): Promise<void> {
  const there = await findBucket(run.metadata, name);
  if (there?.row.id === id) return;
  if (there !== undefined) throw new Error(`there is another bucket ${name}, of the id ${there.row.id}`);
  const shards = run.config.SVC_BUCKET_SHARDS;
  const row: BucketRow = {
    name,
    id,
    owner,
    ownerName: owner,
    creator: owner,
    created: run.clock.now(),
    region: run.config.SVC_REGION,
    generation: await run.metadata.fence(objectsAt({ id, shards, generation: 0 })),
    versioning: (await wasVersioned(run, id)) ? 'Enabled' : '',
    objectLock: false,
    shards,
    documents: {},
    closedAt: 0,
  };
  await run.assertMayMend?.();
  const outcome = await insertBucket(run.metadata, row);
  if (!outcome.applied) throw new Error(`another request created a bucket ${name} meanwhile`);
  await run.metadata.raiseFence(objectsAt(row), row.generation);
  await run.tell({ kind: 'rebuilt', bucket: name, bucketId: id, detail: `the bucket, of account ${owner}` });
}

async function wasVersioned({ bytes }: Run, bucketId: string): Promise<boolean> {
  for (const cluster of bytes.clusters) {
    for await (const { owner } of bytes.find(cluster, ''))
      if (owner.bucketId === bucketId && owner.version !== undefined) return true;
  }
  return false;
}
