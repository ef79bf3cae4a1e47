/** fsck from the rows to the bytes: whatever a row names is stored, and whole. */
import { extentsOf, manifestParts, objectsOf } from '../../metadata/objects.ts';
import {
  type BucketRow,
  manifestSegmentParts,
  type ObjectRow,
  type objects,
  type uploadIndex,
  uploads,
} from '../../metadata/tables.ts';
import { everyPart, findSession, uploadsIn } from '../../metadata/uploads.ts';
import { toHex } from '../../ports/hex.ts';
import type { SortOf, Stored } from '../../ports/metadata-store.ts';
import { ChunkDamaged, ChunkMissing, type Extent } from '../../ports/object-bytes.ts';
import { inlineExtents } from '../garbage.ts';
import { type FsckFinding, type FsckRun, pageRows } from './findings.ts';
import { dropVersion, keepRemoved, unlistUpload } from './mend.ts';
import { nextSound } from './next-sound.ts';

type Fault = Pick<FsckFinding, 'kind' | 'detail' | 'cluster' | 'extent'>;
type Place = SortOf<typeof objects>;

/** What a deep run reads before it saves its position, beyond the version that reaches it. */
const deepBytesMax = 256 * 1024 * 1024;

/** A page of versions. @returns the last one of it; undefined at the end of the bucket */
export async function checkVersions(
  run: FsckRun,
  bucket: BucketRow,
  after: Place | undefined,
): Promise<Place | undefined> {
  const rows = run.metadata.scan(objectsOf(bucket), after === undefined ? {} : { after });
  const page = await nextSound(rows, pageRows);
  let read = 0;
  let last: ObjectRow | undefined;
  for (const seen of page) {
    run.signal.throwIfAborted();
    if (!seen.row.marker) await checkVersion(run, bucket, seen);
    last = seen.row;
    read += run.mode.deep === true ? last.size : 0;
    if (read >= deepBytesMax) break;
  }
  return last && { space: last.space, key: last.key, slot: last.slot };
}

/** How often a version that changes while its bytes are looked at is looked at again. */
const looksMax = 8;

async function checkVersion(run: FsckRun, bucket: BucketRow, met: Stored<ObjectRow>): Promise<void> {
  run.count('versions');
  let seen = met;
  for (let look = 0; look < looksMax; look += 1) {
    const fault = (await faultOf(run, seen.row)) ?? (await digestFault(run, seen.row));
    if (fault === undefined) return;
    // Bytes go once no row names them any more: those that a former state of the row named may rightly be missing.
    const now = await findAgain(run, bucket, seen.row);
    if (now === undefined) return;
    if (now.revision === seen.revision) return findFault(run, bucket, { seen, fault });
    seen = now;
  }
}

async function findFault(
  run: FsckRun,
  bucket: BucketRow,
  { seen, fault }: { readonly seen: Stored<ObjectRow>; readonly fault: Fault },
): Promise<void> {
  const finding = { ...fault, bucket: bucket.name, key: seen.row.key, version: seen.row.version };
  const { manifest } = seen.row;
  if (fault.kind === 'removed')
    return run.find(finding, () => keepRemoved(run, extentsOf(run.metadata, manifest)));
  if (fault.kind !== 'missing') return run.find(finding, async () => ({ left: unmendable }));
  await run.find(finding, () => dropVersion(run, bucket, { seen, cluster: fault.cluster }));
}

const unmendable = 'its bytes cannot be made again';

/** The same version under the same place; one that moved is met again there, or was met already. */
async function findAgain(
  { metadata }: FsckRun,
  bucket: BucketRow,
  { space, key, slot, version }: ObjectRow,
): Promise<Stored<ObjectRow> | undefined> {
  const found = await metadata.get(objectsOf(bucket), { space, key, slot });
  return found?.row.version === version ? found : undefined;
}

/** The first thing that is wrong with a version's bytes. */
async function faultOf(run: FsckRun, { manifest }: ObjectRow): Promise<Fault | undefined> {
  const fault = await faultAmong(run, inlineExtents(manifest));
  if (fault !== undefined || !('manifestId' in manifest)) return fault;
  let parts = 0;
  for await (const segment of manifestParts(run.metadata, manifest.manifestId)) {
    parts += segment.length;
    if (manifest.whole !== undefined) continue;
    const partFault = await faultAmong(
      run,
      segment.map((part) => part.extent),
    );
    if (partFault !== undefined) return partFault;
  }
  const segments = Math.ceil(manifest.partCount / manifestSegmentParts);
  if (parts === manifest.partCount && segments === manifest.offsets.length) return undefined;
  const detail = `manifest ${manifest.manifestId} has ${parts} parts, the object says ${manifest.partCount}`;
  return { kind: 'manifest', detail };
}

async function faultAmong(run: FsckRun, extents: readonly Extent[]): Promise<Fault | undefined> {
  for (const extent of extents) {
    run.count('named');
    const fault = (await faultIn(run, extent)) ?? (await markOf(run, extent));
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/**
 * Reads the last byte of every piece, or all bytes where the run is deep: a store verifies the checksum of a block before it
 * hands out a byte of it. The last byte is cheap, and it fails if the piece is shorter, damaged there, or gone. */
async function faultIn(run: FsckRun, extent: Extent): Promise<Fault | undefined> {
  const { bytes, signal } = run;
  const named = { cluster: extent.cluster, extent: extent.id };
  if (run.mode.deep === true) return readWhole(run, extent);
  for (let start = 0; start < extent.size; start += bytes.pieceBytes) {
    const last = Math.min(start + bytes.pieceBytes, extent.size) - 1;
    try {
      let got = 0;
      for await (const piece of bytes.read(extent, { start: last, end: last }, signal)) got += piece.length;
      if (got !== 1) return { kind: 'missing', detail: `it ends before byte ${last}`, ...named };
    } catch (cause) {
      if (signal.aborted) throw cause;
      return { ...readFault(cause), ...named };
    }
  }
  return undefined;
}

/** Bytes that a store still has, and was told to remove: metadata that is older than the removal names them again. */
async function markOf({ bytes }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  if (extent.foreign !== undefined || (await bytes.removals?.isMarked(extent)) !== true) return undefined;
  const detail = 'its bytes are marked as removed, and go when their space is given back';
  return { kind: 'removed', detail, cluster: extent.cluster, extent: extent.id };
}

async function readWhole({ bytes, signal }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  const named = { cluster: extent.cluster, extent: extent.id };
  try {
    let got = 0;
    for await (const piece of bytes.read(extent, undefined, signal)) got += piece.length;
    if (got === extent.size) return undefined;
    return { kind: 'missing', detail: `it has ${got} of ${extent.size} bytes`, ...named };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { ...readFault(cause), ...named };
  }
}

const md5Form = /^[0-9a-f]{32}$/;

/** The ETag of an object that came in one piece and is stored as it came is its MD5: bytes of another object show here. */
export const comparableMd5 = ({ manifest, encryption, etag }: ObjectRow): string | undefined =>
  encryption === undefined && 'extents' in manifest && md5Form.test(etag) ? etag : undefined;

async function digestFault(run: FsckRun, row: ObjectRow): Promise<Fault | undefined> {
  const { bytes, hasher, signal, mode } = run;
  const etag = comparableMd5(row);
  if (mode.deep !== true || etag === undefined || bytes.verifies !== undefined) return undefined;
  const md5 = hasher.create('md5');
  for (const extent of inlineExtents(row.manifest))
    for await (const piece of bytes.read(extent, undefined, signal)) md5.update(piece);
  if (toHex(md5.digest()) === etag) return undefined;
  return { kind: 'damaged', detail: `its content is not what its ETag ${etag} says` };
}

export interface ReadFault {
  readonly kind: 'missing' | 'damaged' | 'unreadable';
  readonly detail: string;
}

/** What a failed read says about the bytes. */
export function readFault(cause: unknown): ReadFault {
  const detail = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof ChunkMissing) return { kind: 'missing', detail };
  return { kind: cause instanceof ChunkDamaged ? 'damaged' : 'unreadable', detail };
}

/** A page of the parts of open uploads. Those of finished ones belong to an object, or are on their way out. */
export async function checkUploads(
  run: FsckRun,
  bucket: BucketRow,
  after: SortOf<typeof uploadIndex> | undefined,
): Promise<SortOf<typeof uploadIndex> | undefined> {
  const rows = run.metadata.scan(uploadsIn(bucket.id), after === undefined ? {} : { after });
  const page = await nextSound(rows, pageRows);
  for (const { row } of page) await checkUpload(run, bucket, row);
  const last = page.at(-1)?.row;
  return last && { key: last.key, uploadId: last.uploadId };
}

interface Listed {
  readonly key: string;
  readonly uploadId: string;
}

async function checkUpload(run: FsckRun, bucket: BucketRow, { key, uploadId }: Listed): Promise<void> {
  const named = { bucket: bucket.name, key, uploadId };
  if (await isListedInVain(run, bucket, { key, uploadId })) {
    const detail = 'it is in the list of open uploads, and is not there';
    return run.find({ kind: 'upload', detail, ...named }, () =>
      unlistUpload(run, { bucketId: bucket.id, key, uploadId }),
    );
  }
  for await (const { row, revision, stored } of everyPart(run.metadata, uploadId)) {
    run.signal.throwIfAborted();
    run.count('parts');
    // The store shows what it holds itself only when it is put together.
    if (stored.receipt !== undefined) continue;
    const fault = await faultAmong(run, [stored.extent]);
    if (fault === undefined) continue;
    const session = (await findSession(run.metadata, uploadId))?.row.session;
    if (session?.state !== 'uploading') return;
    const part = await run.metadata.get({ table: uploads, in: { uploadId } }, { part: row.part });
    if (part?.revision !== revision) continue;
    await run.find({ ...fault, ...named, part: row.part }, async () =>
      fault.kind === 'removed' ? keepRemoved(run, [stored.extent]) : { left: unmendable },
    );
  }
}

/** A session leaves the list in the commit that ends it, so its row is there as long as it is listed. */
async function isListedInVain({ metadata }: FsckRun, bucket: BucketRow, listed: Listed): Promise<boolean> {
  if ((await findSession(metadata, listed.uploadId)) !== undefined) return false;
  return (await metadata.get(uploadsIn(bucket.id), listed)) !== undefined;
}
