/**
 * Rebuilds a lost index from the back-references beside the bytes. It creates only keys that do not exist at all, so it never changes
 * an existing row, and it can resume after a kill.
 */
import type { Awaitable } from '../../base/awaitable.ts';
import { fnv32a } from '../../base/shard.ts';
import { toHex } from '../../base/text/hex.ts';
import { everyBucket, findBucket, insertBucket } from '../../metadata/buckets/buckets.ts';
import { usageChanges } from '../../metadata/buckets/usage.ts';
import { ageChanges } from '../../metadata/objects/ages.ts';
import {
  liveHeadAt,
  manifestRows,
  markerHeadAt,
  objectsAt,
  scanVersions,
} from '../../metadata/objects/objects.ts';
import {
  type BucketRow,
  checkColumns,
  headSlot,
  historySpace,
  liveSpace,
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  type ObjectRow,
  tables,
} from '../../metadata/tables.ts';
import { compositeEtag } from '../../ports/cryptography.ts';
import {
  ChunkDamaged,
  ChunkMissing,
  DataUnavailable,
  type FoundExtent,
  unknownSize,
} from '../../ports/object-bytes.ts';
import { refreshBucket } from '../common/buckets.ts';
import { drawId, versionBefore, versionFor, versionTime } from '../common/ids.ts';
import { findWhetherOwned, openOwnership } from '../common/ownership.ts';
import { sift } from './bytes.ts';
import type { FsckContext } from './findings.ts';

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

interface RebuildSummary {
  readonly rebuilt: number;
  readonly left: number;
}

interface Run extends RebuildContext {
  readonly signal: AbortSignal;
  tell(rebuilt: Rebuilt): Promise<void>;
}

/** Extents without an owner that are kept in memory together; more of them take several walks over the bytes. */
const suspectsMax = 50_000;
const passesMax = 1 << 16;

export async function rebuildIndex(
  context: RebuildContext,
  options: {
    readonly buckets: readonly LostBucket[];
    readonly report: (rebuilt: Rebuilt) => Awaitable<void>;
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
    tell: async (rebuilt) => {
      summary[rebuilt.kind] += 1;
      await report(rebuilt);
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
      if (!isMine(found)) continue;
      // Where the key changes all the time, `sift` would leave it to the next run, too.
      if ((await findWhetherOwned(run, ownership, found)) !== 'unowned') continue;
      suspects.set(found.extent.id, found);
      if (suspects.size > atOnce) return undefined;
    }
  }
  return suspects;
}

async function rebuildKeys(run: Run, suspects: ReadonlyMap<string, FoundExtent>): Promise<void> {
  const { unowned, underway } = await sift(run, suspects, { includesSwept: true });
  if (underway > 0)
    await run.tell({
      kind: 'left',
      detail: `${underway} extents may be of writes under way: stop the gateways, and run the command again after SVC_INTENT_TTL`,
    });
  const buckets = await bucketsById(run);
  const byBucket = Map.groupBy(unowned, ({ owner }) => owner.bucketId);
  for (const [bucketId, inBucket] of byBucket) {
    const bucket = buckets.get(bucketId);
    if (bucket === undefined) {
      await tellOfNoBucket(run, bucketId, inBucket);
      continue;
    }
    for (const [key, found] of Map.groupBy(inBucket, ({ owner }) => owner.key)) {
      run.signal.throwIfAborted();
      try {
        await rebuildKey(run, { bucket, key }, found);
      } catch (cause) {
        // Nothing of the key was written, so a later run rebuilds all of its versions.
        if (!(cause instanceof DataUnavailable)) throw cause;
        await run.tell({ kind: 'left', bucket: bucket.name, key, detail: cause.message });
      }
    }
  }
}

async function tellOfNoBucket(run: Run, bucketId: string, found: readonly FoundExtent[]): Promise<void> {
  const [unreadable, readable] = [true, false].map((is) =>
    found.filter(({ owner }) => (owner.unreadable === true) === is),
  ) as [FoundExtent[], FoundExtent[]];
  for (const { extent } of unreadable)
    await run.tell({ kind: 'left', detail: `${extent.id} on ${extent.cluster}: its owner cannot be read` });
  if (readable.length === 0) return;
  const detail = `${readable.length} extents are of a bucket that is not known: name it by --bucket`;
  await run.tell({ kind: 'left', bucketId, detail });
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
  for (const remains of retained(bucket, usable)) {
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
  await run.assertMayRepair?.();
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

// Rebuilds the versions of a key from stored bytes whose back-references name it. Facts that only the lost rows had stay lost:
// headers, tags, ACLs, locks, delete markers, empty objects.

type RebuildContext = FsckContext;

/** The bytes of one former version: of one write, or the parts of an upload. */
interface Remains {
  /** The op of its last write, which orders it among the others. */
  readonly opId: string;
  readonly storageClass: string;
  /** The version id that the write had drawn. */
  readonly requested?: string;
  readonly uploadId?: string;
  readonly parts: readonly ManifestPart[];
}

/** The versions that can be rebuilt from the extents of one key, oldest first; and the unusable extents, with the reason. */
function groupRemains(found: readonly FoundExtent[]): {
  readonly usable: readonly Remains[];
  readonly unusable: ReadonlyMap<FoundExtent, string>;
} {
  const unusable = new Map<FoundExtent, string>();
  for (const each of found) {
    if (each.owner.encrypted) unusable.set(each, 'it is encrypted, and its key went with its row');
    else if (each.extent.size === unknownSize) unusable.set(each, 'its write was torn');
  }
  const whole = found.filter((each) => !unusable.has(each));
  const usable = whole.filter(({ owner }) => owner.uploadId === undefined).map(toSingle);
  const uploads = Map.groupBy(
    whole.filter(({ owner }) => owner.uploadId !== undefined),
    ({ owner }) => owner.uploadId ?? '',
  );
  for (const [uploadId, parts] of uploads) {
    const upload = toUpload(uploadId, parts);
    // Do not use an incomplete upload: the result would look like the object, but lack bytes.
    const gap = upload.parts.findIndex(({ number }, i) => number !== i + 1) + 1;
    if (gap === 0) usable.push(upload);
    else for (const part of parts) unusable.set(part, `part ${gap} of upload ${uploadId} is not there`);
  }
  return { usable: usable.sort((a, b) => (a.opId < b.opId ? -1 : 1)), unusable };
}

const toSingle = ({ extent, owner }: FoundExtent): Remains => ({
  opId: extent.id,
  storageClass: owner.storageClass ?? 'STANDARD',
  ...(owner.version === undefined ? {} : { requested: owner.version }),
  parts: [{ number: 1, extent }],
});

/** If a part was uploaded twice, the later upload counts. A content that the store assembled is one part. */
function toUpload(uploadId: string, found: readonly FoundExtent[]): Remains {
  const sorted = found.toSorted((a, b) => (a.extent.id < b.extent.id ? -1 : 1));
  const parts = new Map(sorted.map(({ extent, owner }) => [owner.part ?? 1, extent]));
  const last = sorted.at(-1);
  return {
    opId: last?.extent.id ?? '',
    storageClass: last?.owner.storageClass ?? 'STANDARD',
    uploadId,
    ...(last?.owner.version === undefined ? {} : { requested: last.owner.version }),
    parts: [...parts].sort(([a], [b]) => a - b).map(([number, extent]) => ({ number, extent })),
  };
}

/** Without versioning only the last write counts; with it the last null version, and the last place of a version that moved. */
function retained(bucket: Pick<BucketRow, 'versioning'>, usable: readonly Remains[]): readonly Remains[] {
  if (bucket.versioning === '') return usable.slice(-1);
  const remainsName = ({ requested, uploadId }: Remains): string => requested ?? uploadId ?? 'null';
  const last = new Map(usable.map((each) => [remainsName(each), each]));
  return usable.filter((each) => last.get(remainsName(each)) === each);
}
const isNull = ({ requested, uploadId }: Remains): boolean =>
  requested === undefined && uploadId === undefined;

/** A content that was read back without a fault; damaged bytes give no version. */
interface Read extends Remains {
  readonly etag: string;
  readonly size: number;
}

/**
 * The versions with known ids in the order of their ids: a replica may have been written after newer versions. All others keep their
 * places in the order of the writes.
 */
function sortById(remains: readonly Read[]): readonly Read[] {
  const named = remains.filter(({ requested }) => requested !== undefined);
  const sorted = named.toSorted((a, b) => ((a.requested ?? '') < (b.requested ?? '') ? -1 : 1)).values();
  return remains.map((each) => (each.requested === undefined ? each : (sorted.next().value ?? each)));
}

/** Rows of versions, the oldest first, with their original ids where possible, else with ids that sort the same way. */
async function buildRows(
  ctx: RebuildContext,
  { bucket, key }: { readonly bucket: BucketRow; readonly key: string },
  remains: readonly Read[],
): Promise<readonly ObjectRow[]> {
  const rows: ObjectRow[] = [];
  const ordered = sortById(remains);
  for (const [i, each] of ordered.entries()) {
    const behind = rows.at(-1)?.version;
    const next = ordered.slice(i + 1).find(({ requested }) => requested !== undefined)?.requested;
    const requested =
      each.requested ?? each.uploadId ?? (next === undefined ? undefined : versionBefore(ctx, next));
    const version = versionFor(ctx, requested, { behind });
    const row = checkColumns('rebuild', {
      bucketId: bucket.id,
      space: historySpace,
      key,
      slot: version,
      version,
      isNull: bucket.versioning === '' || isNull(each),
      marker: false,
      modified: requested === undefined ? ctx.clock.now() : versionTime(requested),
      size: each.size,
      etag: each.etag,
      storageClass: each.storageClass,
      manifest: await buildManifest(ctx, each),
      headers: {},
      owner: bucket.owner,
      ...(each.uploadId === undefined ? {} : { uploadId: each.uploadId }),
      requestId: 'fsck',
      // This row stands for an old write, so no concurrent write may be ordered before it.
      conditional: true,
    });
    rows.push(row);
  }
  return rows;
}

/** Reads the content whole: there is no other way to learn the ETag, and whether the bytes are sound. @throws ChunkDamaged, ChunkMissing */
async function readBack({ bytes, hasher }: RebuildContext, remains: Remains): Promise<Read> {
  const digests: Uint8Array[] = [];
  let size = 0;
  for (const { extent } of remains.parts) {
    const md5 = hasher.create('md5');
    for await (const piece of bytes.read(extent)) md5.update(piece);
    digests.push(md5.digest());
    size += extent.size;
  }
  if (remains.uploadId === undefined)
    return { ...remains, etag: toHex(digests[0] ?? new Uint8Array()), size };
  return { ...remains, etag: compositeEtag(hasher, digests), size };
}

const inlinePartsMax = 16;

async function buildManifest(ctx: RebuildContext, { parts, uploadId }: Remains): Promise<Manifest> {
  if (uploadId === undefined) return { extents: parts.map(({ extent }) => extent) };
  if (parts.length <= inlinePartsMax) return { parts };
  const manifestId = drawId(ctx.random);
  for (const row of manifestRows(manifestId, parts)) await ctx.metadata.apply([row]);
  const offsets: number[] = [];
  let offset = 0;
  for (const [i, { extent }] of parts.entries()) {
    if (i % manifestSegmentParts === 0) offsets.push(offset);
    offset += extent.size;
  }
  return { manifestId, partCount: parts.length, offsets };
}

/**
 * Commits the history first and the head last: until then the key does not exist, and after a kill another run begins it again.
 * @returns whether this run created the key; false when a client was faster
 */
async function commitRows(
  ctx: RebuildContext,
  bucket: BucketRow,
  rows: readonly ObjectRow[],
): Promise<boolean> {
  const head = rows.at(-1);
  if (head === undefined) return false;
  for (const row of rows.slice(0, -1)) await putAbsent(ctx, bucket, row);
  const nullVersion = head.isNull ? undefined : await findNullVersion(ctx, bucket, head.key);
  const named = nullVersion === undefined ? {} : { nullVersion };
  return putAbsent(ctx, bucket, { ...head, ...named, space: liveSpace, slot: headSlot });
}

async function findNullVersion(
  { metadata }: RebuildContext,
  bucket: BucketRow,
  key: string,
): Promise<string | undefined> {
  const rows = scanVersions(metadata, bucket, key);
  for (let page = await rows.next(200); page.length > 0; page = await rows.next(200)) {
    const found = page.find(({ row }) => row.isNull);
    if (found !== undefined) return found.row.version;
  }
  return undefined;
}

async function putAbsent(ctx: RebuildContext, bucket: BucketRow, row: ObjectRow): Promise<boolean> {
  const { storageClass, size, modified } = row;
  const delta = { storageClass, bytes: size, objects: 1 };
  let cachedBucket = bucket;
  for (let attempt = 0; attempt < 4; attempt += 1) {
    await ctx.assertMayRepair?.();
    const then = [
      ...usageChanges(cachedBucket, drawId(ctx.random), [delta], modified),
      ...ageChanges(cachedBucket, { before: [], after: [row] }),
    ];
    const outcome = await ctx.metadata.commit(objectsAt(cachedBucket), [{ put: row, expect: 'absent' }], {
      then,
    });
    if (outcome.applied) return true;
    if (outcome.because !== 'fenced') return false;
    cachedBucket = await refreshBucket(ctx, cachedBucket);
  }
  return false;
}

/** Whether the key exists: then fsck leaves it alone, because unowned bytes may never have been acknowledged. */
async function isThere({ metadata }: RebuildContext, bucket: BucketRow, key: string): Promise<boolean> {
  const heads = [liveHeadAt(key), markerHeadAt(key)];
  for (const head of heads) if ((await metadata.get(objectsAt(bucket), head)) !== undefined) return true;
  return false;
}
