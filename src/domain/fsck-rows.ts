/** fsck from the rows to the bytes: whatever a row names is stored, and whole. */
import { manifestParts, objectsOf } from '../metadata/objects.ts';
import { type BucketRow, manifestSegmentParts, type ObjectRow, uploads } from '../metadata/tables.ts';
import { everyPart, findSession, uploadsIn } from '../metadata/uploads.ts';
import { ChunkDamaged, ChunkMissing, chunkBytes, type Extent } from '../ports/object-bytes.ts';
import { type FsckFinding, type FsckRun, versionsIn } from './fsck-findings.ts';
import { inlineExtents } from './garbage.ts';

const pageRows = 200;

type Fault = Pick<FsckFinding, 'kind' | 'detail' | 'cluster' | 'extent'>;

export async function checkVersions(run: FsckRun, bucket: BucketRow): Promise<void> {
  for await (const row of versionsIn(run, bucket)) {
    run.count('versions');
    const fault = await faultOf(run, row);
    // Bytes go once their row is gone: what is read late may rightly be missing.
    if (fault === undefined || !(await isStillThere(run, bucket, row))) continue;
    await run.find({ ...fault, bucket: bucket.name, key: row.key, version: row.version });
  }
}

/** The same version under the same place; one that moved is met again there, or was met already. */
async function isStillThere({ metadata }: FsckRun, bucket: BucketRow, row: ObjectRow): Promise<boolean> {
  const { space, key, slot, version } = row;
  const found = await metadata.get(objectsOf(bucket), { space, key, slot });
  return found?.row.version === version;
}

/** The first thing that is wrong with a version's bytes. */
async function faultOf(run: FsckRun, { manifest }: ObjectRow): Promise<Fault | undefined> {
  if (!('manifestId' in manifest)) return faultAmong(run, inlineExtents(manifest));
  let parts = 0;
  for await (const segment of manifestParts(run.metadata, manifest.manifestId)) {
    parts += segment.length;
    const extents = segment.map((part) => part.extent);
    const fault = await faultAmong(run, extents);
    if (fault !== undefined) return fault;
  }
  const segments = Math.ceil(manifest.partCount / manifestSegmentParts);
  if (parts === manifest.partCount && segments === manifest.offsets.length) return undefined;
  const detail = `manifest ${manifest.manifestId} has ${parts} parts, the object says ${manifest.partCount}`;
  return { kind: 'manifest', detail };
}

async function faultAmong(run: FsckRun, extents: readonly Extent[]): Promise<Fault | undefined> {
  for (const extent of extents) {
    run.count('named');
    const fault = await faultIn(run, extent);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Reads the last byte of every chunk: cheap, and it fails if the chunk is shorter, damaged there, or gone. */
async function faultIn({ bytes, signal }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  const named = { cluster: extent.cluster, extent: extent.id };
  for (let start = 0; start < extent.size; start += chunkBytes) {
    const last = Math.min(start + chunkBytes, extent.size) - 1;
    try {
      let got = 0;
      for await (const piece of bytes.read(extent, { start: last, end: last }, signal)) got += piece.length;
      if (got !== 1) return { kind: 'missing', detail: `it ends before byte ${last}`, ...named };
    } catch (cause) {
      if (signal.aborted) throw cause;
      return { ...faultFrom(cause), ...named };
    }
  }
  return undefined;
}

function faultFrom(cause: unknown): Pick<Fault, 'kind' | 'detail'> {
  const detail = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof ChunkMissing) return { kind: 'missing', detail };
  return { kind: cause instanceof ChunkDamaged ? 'damaged' : 'unreadable', detail };
}

/** The parts of open uploads. Those of finished ones belong to an object, or are on their way out. */
export async function checkUploads(run: FsckRun, bucket: BucketRow): Promise<void> {
  const open = run.metadata.scan(uploadsIn(bucket.id));
  for (let page = await open.next(pageRows); page.length > 0; page = await open.next(pageRows)) {
    for (const { row } of page) await checkUpload(run, bucket, row);
  }
}

async function checkUpload(
  run: FsckRun,
  bucket: BucketRow,
  { key, uploadId }: { readonly key: string; readonly uploadId: string },
): Promise<void> {
  for await (const { row, revision, stored } of everyPart(run.metadata, uploadId)) {
    run.signal.throwIfAborted();
    run.count('parts');
    const fault = await faultAmong(run, [stored.extent]);
    if (fault === undefined) continue;
    const session = (await findSession(run.metadata, uploadId))?.row.session;
    if (session?.state !== 'uploading') return;
    const part = await run.metadata.get({ table: uploads, in: { uploadId } }, { part: row.part });
    if (part?.revision !== revision) continue;
    await run.find({ ...fault, bucket: bucket.name, key, uploadId, part: row.part });
  }
}
