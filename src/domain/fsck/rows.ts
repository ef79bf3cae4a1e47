/** fsck from the rows to the bytes: checks that the bytes that a row names are stored completely. */

import { toBase64 } from '../../base/text/base64.ts';
import { toHex } from '../../base/text/hex.ts';
import { manifestParts, objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { everyPart, findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import { nextSound } from '../../metadata/sound-rows.ts';
import {
  type BucketRow,
  type Checksum,
  type ManifestPart,
  manifestSegmentParts,
  type ObjectRow,
  type objects,
  type UploadPart,
  type uploadIndex,
  uploads,
} from '../../metadata/tables.ts';
import { compositeEtag, type Hash, type Hasher } from '../../ports/cryptography.ts';
import type { SortOf, Stored } from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import { inlineExtents } from '../common/garbage.ts';
import { checksumFacts, compositeChecksum } from '../content/digests.ts';
import { contentSize } from '../content/segments.ts';
import { readFault } from './bytes.ts';
import { type FsckFinding, type FsckRun, pageRows } from './findings.ts';
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

// Reads the content of a version or part, and compares it with its ETag and checksums.

const compositeForm = /^[0-9a-f]{32}-\d{1,5}$/;

/** In the form of the protocol: the digest of digests with `-<parts>` appended. */
const isComposite = (checksum: Expected['checksum']): boolean =>
  checksum?.type === 'COMPOSITE' || /-\d+$/.test(checksum?.value ?? '');

/** The digests in the row of a content that is stored unencrypted. */
interface Expected {
  readonly etag: string;
  readonly checksum?: Pick<Checksum, 'algorithm' | 'value'> & Partial<Pick<Checksum, 'type'>>;
  readonly isMultipart: boolean;
}

class ContentDigests {
  readonly #hasher: Hasher;
  readonly #expected: Expected;
  readonly #partMd5s: Uint8Array[] = [];
  readonly #partSums: Uint8Array[] = [];
  #md5: Hash | undefined;
  #sum: Hash | undefined;
  #partSum: Hash | undefined;
  #fault: string | undefined;

  constructor(hasher: Hasher, expected: Expected) {
    this.#hasher = hasher;
    this.#expected = expected;
    if (!isComposite(expected.checksum)) this.#sum = this.#newSum();
    this.#begin();
  }

  #newSum(): Hash | undefined {
    const { checksum } = this.#expected;
    return checksum && this.#hasher.create(checksumFacts[checksum.algorithm].hash);
  }

  #begin(): void {
    const { etag, isMultipart } = this.#expected;
    const isComparable = isMultipart ? compositeForm.test(etag) : md5Form.test(etag);
    this.#md5 = isComparable ? this.#hasher.create('md5') : undefined;
    this.#partSum = isMultipart ? this.#newSum() : undefined;
  }

  take(bytes: Uint8Array): void {
    this.#md5?.update(bytes);
    this.#sum?.update(bytes);
    this.#partSum?.update(bytes);
  }

  /** Call it after the bytes of a part. */
  endPart(number: number, checksum: string | undefined): void {
    if (!this.#expected.isMultipart) return;
    if (this.#md5 !== undefined) this.#partMd5s.push(this.#md5.digest());
    const sum = this.#partSum?.digest();
    if (sum !== undefined) {
      this.#partSums.push(sum);
      if (checksum !== undefined && toBase64(sum) !== checksum)
        this.#fault ??= `part ${number} is not what its ${this.#expected.checksum?.algorithm} ${checksum} says`;
    }
    this.#begin();
  }

  /** Call it after all bytes. @returns a sentence about the first digest that differs, or undefined */
  fault(): string | undefined {
    const { etag, checksum, isMultipart } = this.#expected;
    const found = isMultipart ? this.#compositeEtag() : this.#md5 && toHex(this.#md5.digest());
    if (found !== undefined && found !== etag) return `its content is not what its ETag ${etag} says`;
    if (this.#fault !== undefined || checksum === undefined) return this.#fault;
    const sum = this.#checksum();
    if (sum === undefined || sum === checksum.value) return undefined;
    return `its content is not what its ${checksum.algorithm} ${checksum.value} says`;
  }

  #compositeEtag(): string | undefined {
    return this.#md5 && compositeEtag(this.#hasher, this.#partMd5s);
  }

  #checksum(): string | undefined {
    const { checksum, isMultipart } = this.#expected;
    if (checksum === undefined) return undefined;
    if (this.#sum !== undefined) return toBase64(this.#sum.digest());
    return isMultipart
      ? compositeChecksum(this.#hasher, checksumFacts[checksum.algorithm].hash, this.#partSums)
      : undefined;
  }
}

/** Undefined when the stored bytes are encrypted, or when the store assembled the parts. */
function digestsOfVersion(hasher: Hasher, row: ObjectRow): ContentDigests | undefined {
  const { manifest, encryption, etag, checksum } = row;
  const isMultipart = !('extents' in manifest);
  if (encryption !== undefined || (isMultipart && manifest.whole !== undefined)) return undefined;
  return new ContentDigests(hasher, { etag, isMultipart, ...(checksum === undefined ? {} : { checksum }) });
}

function digestsOfPart(hasher: Hasher, { etag, checksum }: UploadPart): ContentDigests {
  return new ContentDigests(hasher, {
    etag,
    isMultipart: false,
    ...(checksum === undefined ? {} : { checksum }),
  });
}

// Whether the bytes that a row names are stored, complete, and unchanged.

type Fault = Pick<FsckFinding, 'kind' | 'detail' | 'cluster' | 'extent'>;

/** An extent of a version: a part, or a piece of a content that was written as one. */
type NamedExtent = Pick<ManifestPart, 'extent' | 'checksum'> & Partial<Pick<ManifestPart, 'number'>>;

/** The first fault among the extents. @param digests of the content; given only when all bytes are read */
async function faultAmong(
  run: FsckRun,
  parts: readonly NamedExtent[],
  digests?: ContentDigests,
): Promise<Fault | undefined> {
  for (const { extent, number, checksum } of parts) {
    run.count('named');
    const fault = (await faultIn(run, extent, digests)) ?? (await readMark(run, extent));
    if (fault !== undefined) return fault;
    if (number !== undefined) digests?.endPart(number, checksum);
  }
  return undefined;
}

/**
 * Reads the last byte of every piece, or all bytes in a deep run: a store verifies the checksum of a block before it returns a
 * byte of it. Reading the last byte is cheap, and fails if the piece is shorter, damaged there, or missing.
 */
async function faultIn(
  run: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const { bytes, signal } = run;
  const named = { cluster: extent.cluster, extent: extent.id };
  if (run.mode.deep === true) return readWhole(run, extent, digests);
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

/** The fault of bytes that are marked as removed but still stored: a restored backup of the metadata names them again. */
async function readMark({ bytes }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  if (extent.foreign !== undefined || (await bytes.removals?.isMarked(extent)) !== true) return undefined;
  const detail = 'its bytes are marked as removed, and go when their space is given back';
  return { kind: 'removed', detail, cluster: extent.cluster, extent: extent.id };
}

async function readWhole(
  { bytes, signal }: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const named = { cluster: extent.cluster, extent: extent.id };
  try {
    let got = 0;
    for await (const piece of bytes.read(extent, undefined, signal)) {
      got += piece.length;
      digests?.take(piece);
    }
    if (got === extent.size) return undefined;
    return { kind: 'missing', detail: `it has ${got} of ${extent.size} bytes`, ...named };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { ...readFault(cause), ...named };
  }
}
