/** fsck from the rows to the bytes: checks that the bytes that a row names are stored completely. */

import { manifestParts, objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { everyPart, findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import { nextSound } from '../../metadata/sound-rows.ts';
import {
  type BucketRow,
  manifestSegmentParts,
  type ObjectRow,
  type objects,
  type UploadPart,
  type uploadIndex,
  uploads,
} from '../../metadata/tables.ts';
import type { SortOf, Stored } from '../../ports/metadata-store.ts';
import { inlineExtents } from '../common/garbage.ts';
import { contentSize } from '../content/segments.ts';
import {
  type ContentDigests,
  digestsOfPart,
  digestsOfVersion,
  type Fault,
  faultAmong,
  type NamedExtent,
} from './bytes.ts';
import { type FsckRun, pageRows } from './findings.ts';
import { dropVersion, keepRemoved, unlistUpload } from './repairs.ts';

type Place = SortOf<typeof objects>;

/** Bytes that a deep run reads before it saves its position; the version that crosses the limit is finished first. */
const deepBytesMax = 256 * 1024 * 1024;

/** A page of versions. @returns the last one of it; undefined at the end of the bucket */
export async function checkVersions(
  run: FsckRun,
  bucket: BucketRow,
  after: Place | undefined,
): Promise<Place | undefined> {
  const rows = run.metadata.scan(objectsAt(bucket), after === undefined ? {} : { after });
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

/** Attempts to compare a version that changes meanwhile. */
const looksMax = 8;

async function checkVersion(run: FsckRun, bucket: BucketRow, met: Stored<ObjectRow>): Promise<void> {
  run.count('versions');
  let seen = met;
  for (let look = 0; look < looksMax; look += 1) {
    const fault = await findFaultIn(run, seen.row);
    if (fault === undefined) return;
    // Read the row again: if it has changed, bytes of its former state may have been deleted correctly.
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
    return run.find(finding, () => keepRemoved(run, readExtents(run.metadata, manifest)));
  if (fault.kind !== 'missing') return run.find(finding, async () => ({ left: irreparable }));
  await run.find(finding, () => dropVersion(run, bucket, { seen, cluster: fault.cluster }));
}

const irreparable = 'its bytes cannot be made again';

/** The same version in the same place. The walk reads a version that moved in its new place, or has read it there already. */
async function findAgain(
  { metadata }: FsckRun,
  bucket: BucketRow,
  { space, key, slot, version }: ObjectRow,
): Promise<Stored<ObjectRow> | undefined> {
  const found = await metadata.get(objectsAt(bucket), { space, key, slot });
  return found?.row.version === version ? found : undefined;
}

/** The first fault of a version's bytes. */
async function findFaultIn(run: FsckRun, row: ObjectRow): Promise<Fault | undefined> {
  const { manifest, encryption } = row;
  const digests = compares(run) ? digestsOfVersion(run.hasher, row) : undefined;
  const inline: readonly NamedExtent[] =
    'parts' in manifest && manifest.whole === undefined
      ? manifest.parts
      : inlineExtents(manifest).map((extent) => ({ extent }));
  const fault = await faultAmong(run, inline, digests);
  if (fault !== undefined) return fault;
  let parts = 0;
  let size = 0;
  const named = 'extents' in manifest ? inline : 'parts' in manifest ? manifest.parts : [];
  for (const { extent } of named) size += contentSize(extent, encryption);
  if ('manifestId' in manifest) {
    for await (const segment of manifestParts(run.metadata, manifest.manifestId)) {
      parts += segment.length;
      for (const { extent } of segment) size += contentSize(extent, encryption);
      const partFault = manifest.whole === undefined && (await faultAmong(run, segment, digests));
      if (partFault) return partFault;
    }
    const segments = Math.ceil(manifest.partCount / manifestSegmentParts);
    if (parts !== manifest.partCount || segments !== manifest.offsets.length) {
      const detail = `manifest ${manifest.manifestId} has ${parts} parts, the object says ${manifest.partCount}`;
      return { kind: 'manifest', detail };
    }
  }
  if (size !== row.size)
    return { kind: 'manifest', detail: `its bytes are ${size}, the object says ${row.size}` };
  return damagedBy(digests);
}

/** Not for a store that verifies contents itself, because the ETags may be the store's own. */
const compares = ({ mode, bytes }: FsckRun): boolean => mode.deep === true && bytes.verifies === undefined;

function damagedBy(digests: ContentDigests | undefined): Fault | undefined {
  const detail = digests?.fault();
  return detail === undefined ? undefined : { kind: 'damaged', detail };
}

const md5Form = /^[0-9a-f]{32}$/;

/** An object that was written as one piece and unencrypted has its MD5 as ETag, so bytes of another object are detected. */
export const comparableMd5 = ({ manifest, encryption, etag }: ObjectRow): string | undefined =>
  encryption === undefined && 'extents' in manifest && md5Form.test(etag) ? etag : undefined;

/** A page of the parts of open uploads. Parts of ended uploads belong to an object or wait for deletion. */
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
    // Parts that the store holds cannot be read before the completion.
    if (stored.receipt !== undefined) continue;
    const digests = compares(run) ? await digestsOfOpenPart(run, uploadId, stored) : undefined;
    const fault = (await faultAmong(run, [{ extent: stored.extent }], digests)) ?? damagedBy(digests);
    if (fault === undefined) continue;
    if ((await findSession(run.metadata, uploadId))?.row.session.state !== 'uploading') return;
    const part = await run.metadata.get({ table: uploads, in: { uploadId } }, { part: row.part });
    if (part?.revision !== revision) continue;
    await run.find({ ...fault, ...named, part: row.part }, async () =>
      fault.kind === 'removed' ? keepRemoved(run, [stored.extent]) : { left: irreparable },
    );
  }
}

async function digestsOfOpenPart(
  { metadata, hasher }: FsckRun,
  uploadId: string,
  stored: UploadPart,
): Promise<ContentDigests | undefined> {
  const session = (await findSession(metadata, uploadId))?.row.session;
  const isPlain = session !== undefined && session.encryption === undefined;
  return isPlain ? digestsOfPart(hasher, stored) : undefined;
}

/** A session's row exists as long as the session is listed, because the commit that ends it also removes it from the list. */
async function isListedInVain({ metadata }: FsckRun, bucket: BucketRow, listed: Listed): Promise<boolean> {
  if ((await findSession(metadata, listed.uploadId)) !== undefined) return false;
  return (await metadata.get(uploadsIn(bucket.id), listed)) !== undefined;
}
