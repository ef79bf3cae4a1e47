/**
 * Rebuilds the versions of a key from stored bytes whose back-references name it. Facts that only the lost rows had stay lost:
 * headers, tags, ACLs, locks, delete markers, empty objects.
 */

import { fromHex, toHex } from '../../../../base/text/hex.ts';
import { usageChanges } from '../../../../metadata/buckets/usage.ts';
import { ageChanges } from '../../../../metadata/objects/ages.ts';
import {
  liveHeadAt,
  manifestRows,
  markerHeadAt,
  objectsAt,
  scanVersions,
} from '../../../../metadata/objects/objects.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  liveSpace,
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  type ObjectRow,
} from '../../../../metadata/tables.ts';
import { type FoundExtent, unknownSize } from '../../../../ports/storage/object-bytes.ts';
import { refreshBucket } from '../../../buckets/buckets.ts';
import { drawId, timeOf, versionBefore, versionFor } from '../../../objects/version-ids.ts';
import type { FsckContext } from '../findings.ts';

export type RebuildContext = FsckContext;

/** The bytes of one former version: of one write, or the parts of an upload. */
export interface Remains {
  /** The op of its last write, which orders it among the others. */
  readonly opId: string;
  readonly storageClass: string;
  /** The version id that the write had drawn. */
  readonly wanted?: string;
  readonly uploadId?: string;
  readonly parts: readonly ManifestPart[];
}

/** The versions that can be rebuilt from the extents of one key, oldest first; and the unusable extents, with the reason. */
export function groupRemains(found: readonly FoundExtent[]): {
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
  ...(owner.version === undefined ? {} : { wanted: owner.version }),
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
    ...(last?.owner.version === undefined ? {} : { wanted: last.owner.version }),
    parts: [...parts].sort(([a], [b]) => a - b).map(([number, extent]) => ({ number, extent })),
  };
}

/** Without versioning only the last write counts; with it the last null version, and the last place of a version that moved. */
export function kept(bucket: Pick<BucketRow, 'versioning'>, usable: readonly Remains[]): readonly Remains[] {
  if (bucket.versioning === '') return usable.slice(-1);
  const nameOf = ({ wanted, uploadId }: Remains): string => wanted ?? uploadId ?? 'null';
  const last = new Map(usable.map((each) => [nameOf(each), each]));
  return usable.filter((each) => last.get(nameOf(each)) === each);
}
const isNull = ({ wanted, uploadId }: Remains): boolean => wanted === undefined && uploadId === undefined;

/** A content that was read back without a fault; damaged bytes give no version. */
export interface Read extends Remains {
  readonly etag: string;
  readonly size: number;
}

/**
 * The versions with known ids in the order of their ids: a replica may have been written after newer versions. All others keep their
 * places in the order of the writes.
 */
function sortById(remains: readonly Read[]): readonly Read[] {
  const named = remains.filter(({ wanted }) => wanted !== undefined);
  const sorted = named.toSorted((a, b) => ((a.wanted ?? '') < (b.wanted ?? '') ? -1 : 1)).values();
  return remains.map((each) => (each.wanted === undefined ? each : (sorted.next().value ?? each)));
}

/** Rows of versions, the oldest first, with their original ids where possible, else with ids that sort the same way. */
export async function buildRows(
  ctx: RebuildContext,
  { bucket, key }: { readonly bucket: BucketRow; readonly key: string },
  remains: readonly Read[],
): Promise<readonly ObjectRow[]> {
  const rows: ObjectRow[] = [];
  const ordered = sortById(remains);
  for (const [i, each] of ordered.entries()) {
    const behind = rows.at(-1)?.version;
    const next = ordered.slice(i + 1).find(({ wanted }) => wanted !== undefined)?.wanted;
    const wanted =
      each.wanted ?? each.uploadId ?? (next === undefined ? undefined : versionBefore(ctx, next));
    const version = versionFor(ctx, wanted, { behind });
    rows.push({
      bucketId: bucket.id,
      space: historySpace,
      key,
      slot: version,
      version,
      isNull: bucket.versioning === '' || isNull(each),
      marker: false,
      modified: wanted === undefined ? ctx.clock.now() : timeOf(wanted),
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
  }
  return rows;
}

/** Reads the content whole: there is no other way to learn the ETag, and whether the bytes are sound. @throws ChunkDamaged, ChunkMissing */
export async function readBack({ bytes, hasher }: RebuildContext, remains: Remains): Promise<Read> {
  const digests: string[] = [];
  let size = 0;
  for (const { extent } of remains.parts) {
    const md5 = hasher.create('md5');
    for await (const piece of bytes.read(extent)) md5.update(piece);
    digests.push(toHex(md5.digest()));
    size += extent.size;
  }
  if (remains.uploadId === undefined) return { ...remains, etag: digests[0] ?? '', size };
  const composite = toHex(hasher.once('md5', fromHex(digests.join(''))));
  return { ...remains, etag: `${composite}-${remains.parts.length}`, size };
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
export async function commitRows(
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
  const { storageClass, size } = row;
  const delta = { storageClass, bytes: size, objects: 1 };
  let believed = bucket;
  for (let attempt = 0; attempt < 4; attempt += 1) {
    await ctx.assertMayMend?.();
    const then = [
      ...usageChanges(believed, drawId(ctx.random), [delta]),
      ...ageChanges(believed, { before: [], after: [row] }),
    ];
    const outcome = await ctx.metadata.commit(objectsAt(believed), [{ put: row, expect: 'absent' }], {
      then,
    });
    if (outcome.applied) return true;
    if (outcome.because !== 'fenced') return false;
    believed = await refreshBucket(ctx, believed);
  }
  return false;
}

/** Whether the key exists: then fsck leaves it alone, because unowned bytes may never have been acknowledged. */
export async function isThere(
  { metadata }: RebuildContext,
  bucket: BucketRow,
  key: string,
): Promise<boolean> {
  const heads = [liveHeadAt(key), markerHeadAt(key)];
  for (const head of heads) if ((await metadata.get(objectsAt(bucket), head)) !== undefined) return true;
  return false;
}
