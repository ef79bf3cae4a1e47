/** Reads an object: finds the version, chooses the bytes, streams them. */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findHead, findVersion, manifestParts } from '../../metadata/objects/objects.ts';
import type { BucketRow, ManifestPart, ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import type { ByteRange, Extent } from '../../ports/object-bytes.ts';
import { isArchive } from '../../ports/storage-classes.ts';
import { assertVersionId, formatVersionId } from '../common/ids.ts';
import { extentKey, type ObjectKey } from '../content/extent-keys.ts';
import { contentSize, decryptSegments } from '../content/segments.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'cipher' | 'telemetry'>;

export interface Requested {
  readonly key: string;
  readonly versionId?: string | undefined;
}

/** The requested row, delete markers included; undefined when there is none. */
export function lookUpVersion(
  ctx: Pick<Ctx, 'metadata'>,
  bucket: BucketRow,
  { key, versionId }: Requested,
): Promise<ObjectRow | undefined> {
  assertVersionId(versionId);
  const found =
    versionId === undefined
      ? findHead(ctx.metadata, bucket, key)
      : findVersion(ctx.metadata, bucket, key, versionId);
  return found.then(rowOf);
}

const rowOf = (found: Stored<ObjectRow> | undefined): ObjectRow | undefined => found?.row;

/** Refuses a read of a missing object or a delete marker: 404 for the latest version, 405 for a version id. */
export function assertObject(row: ObjectRow | undefined, { key, versionId }: Requested): ObjectRow {
  if (row === undefined) {
    throw versionId === undefined
      ? fail('NoSuchKey', { elements: { Key: key } })
      : fail('NoSuchVersion', { elements: { Key: key, VersionId: versionId } });
  }
  if (!row.marker) return row;
  const deleteMarker = { versionId: formatVersionId(row), modified: row.modified };
  throw versionId === undefined
    ? fail('NoSuchKey', { elements: { Key: key }, deleteMarker })
    : fail('MethodNotAllowed', {
        message: 'The specified version is a delete marker.',
        deleteMarker,
      });
}

/** Inclusive positions in the object. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

export interface ReadOptions {
  /** For an encrypted object: see `openObjectKey`. */
  readonly objectKey?: ObjectKey | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The account of the bucket, whose share of the store the read takes. */
  readonly account?: string | undefined;
}

/** The bytes of a slice of a version, in order, read no further ahead than the byte store's own window. */
export async function* readObject(
  ctx: Ctx,
  row: ObjectRow,
  slice: Slice,
  { objectKey, signal, account }: ReadOptions = {},
): AsyncGenerator<Uint8Array> {
  for await (const found of spansFrom(ctx, row, slice.start)) {
    const { extent, base, start, size } = found;
    if (start > slice.end) return;
    const range = { start: Math.max(0, slice.start - start), end: Math.min(size - 1, slice.end - start) };
    if (range.start > range.end) continue;
    if (row.encryption === undefined) yield* ctx.bytes.read(extent, moved(range, base), signal, { account });
    else yield* decrypted(ctx, row, found, { range, objectKey, signal, account });
  }
}

/**
 * The bytes of a slice in one array, which the caller must not change: it may be cached. For small slices only.
 * @throws Error where the store gives another number of bytes
 */
export async function readSlice(
  ctx: Ctx & Pick<Context, 'caches'>,
  row: ObjectRow,
  slice: Slice,
  options: ReadOptions = {},
): Promise<Uint8Array> {
  const size = slice.end - slice.start + 1;
  let bytes: Uint8Array | undefined;
  let at = 0;
  for await (const piece of readObject(ctx, row, slice, options)) {
    // In nearly all cases there is one array, which belongs to the consumer.
    if (piece.length === size) bytes = piece;
    else {
      bytes ??= new Uint8Array(size);
      bytes.set(piece, at);
    }
    at += piece.length;
  }
  if (bytes === undefined || at !== size) throw new Error(`object ${row.key} gave ${at} of ${size} bytes`);
  const id = hotId(row);
  if (id !== undefined && size === row.size) ctx.caches.of(HotContents).offer(id, bytes);
  return bytes;
}

/** The same from memory; undefined where the content is not cached. */
export function findHotSlice(
  { caches }: Pick<Context, 'caches'>,
  row: ObjectRow,
  { start, end }: Slice,
): Uint8Array | undefined {
  const id = hotId(row);
  const known = id === undefined ? undefined : caches.of(HotContents).get(id);
  return known === undefined || end - start + 1 === row.size ? known : known.subarray(start, end + 1);
}

/** Larger contents are not cached: beside their transfer the read is cheap. */
const hotBytesMax = 16 * 1024;
const hotBytesOfAllMax = 8 * 1024 * 1024;
/** Of an entry, beside its bytes: two objects, the key, and its place in a map. */
const entryBytes = 400;
const recentMax = 4_096;

/**
 * The id of the extent that a content may be cached under; undefined where it may not. Encrypted contents are not
 * cached, nor are those that other clients of an upstream may replace.
 */
function hotId({ manifest, encryption, size }: ObjectRow): string | undefined {
  if (encryption !== undefined || size > hotBytesMax || !('extents' in manifest)) return undefined;
  const extent = manifest.extents.length === 1 ? manifest.extents[0] : undefined;
  if (extent === undefined || extent.foreign !== undefined) return undefined;
  return extent.size === size ? extent.id : undefined;
}

/**
 * Small contents that were read twice or more lately. The bytes of an extent never change and its id is never reused,
 * so an entry cannot be stale in any process: a reader takes the id from a row that it has just read.
 */
class HotContents {
  readonly #contents = new BoundedCache<Uint8Array>({
    name: 'hot-contents',
    entriesMax: hotBytesOfAllMax / entryBytes,
    bytes: { max: hotBytesOfAllMax, sizeOf: ({ length }, id) => length + id.length + entryBytes },
  });
  /** Ids that were read once. The older ones are dropped together. */
  #recent = new Set<string>();
  #former = new Set<string>();

  get(id: string): Uint8Array | undefined {
    return this.#contents.get(id);
  }

  /** Caches a verified content that is read again. A content that is read once costs no copy. */
  offer(id: string, bytes: Uint8Array): void {
    if (this.#recent.has(id) || this.#former.has(id)) {
      // A copy, because the array may be a piece of a larger buffer.
      this.#contents.set(id, new Uint8Array(bytes));
      return;
    }
    if (this.#recent.size >= recentMax) [this.#former, this.#recent] = [this.#recent, new Set()];
    this.#recent.add(id);
  }
}

const moved = ({ start, end }: ByteRange, by: number): ByteRange =>
  by === 0 ? { start, end } : { start: start + by, end: end + by };

/** A range of the content of one encrypted span. */
async function* decrypted(
  ctx: Omit<Ctx, 'metadata'>,
  { bucketId, key }: ObjectRow,
  { extent, base, sealed, part }: Span,
  { range, objectKey, signal, account }: ReadOptions & { readonly range: ByteRange },
): AsyncGenerator<Uint8Array> {
  if (objectKey === undefined) throw new Error(`${key} is encrypted, and its key was not opened`);
  const id = sealed.sealedAs ?? sealed.id;
  const extentsOwn = await extentKey(ctx, objectKey, { bucketId, key, id, part });
  const read = (stored: ByteRange) => ctx.bytes.read(extent, moved(stored, base), signal, { account });
  const onDamage = () =>
    ctx.telemetry.count('svc_backend_errors_total', { call: 'data.read', why: 'damaged' });
  yield* decryptSegments({ size: sealed.size, read, onDamage }, extentsOwn, range);
}

/** A range of a content within one extent. */
interface Span {
  /** The extent that holds the stored bytes. */
  readonly extent: Extent;
  /** The offset in it. */
  readonly base: number;
  /** The extent that the content was written and encrypted as. */
  readonly sealed: Extent;
  /** 0 outside of multipart uploads. */
  readonly part: number;
  /** The offset of this piece in the object's content. */
  readonly start: number;
  /** Bytes of content. */
  readonly size: number;
}

/** The spans of an object in order, from the first that reaches `position`. */
async function* spansFrom(
  ctx: Pick<Ctx, 'metadata'>,
  { manifest, encryption }: ObjectRow,
  position: number,
): AsyncGenerator<Span> {
  const whole = 'extents' in manifest ? undefined : manifest.whole;
  if (whole !== undefined && encryption === undefined) {
    yield { extent: whole, base: 0, sealed: whole, part: 0, start: 0, size: whole.size };
    return;
  }
  let start = 0;
  const place = (sealed: Extent, part: number, base = 0): Span => {
    const found = {
      extent: whole ?? sealed,
      base,
      sealed,
      part,
      start,
      size: contentSize(sealed, encryption),
    };
    start += found.size;
    return found;
  };
  if ('manifestId' in manifest) {
    const segment = Math.max(
      0,
      manifest.offsets.findLastIndex((offset) => offset <= position),
    );
    start = manifest.offsets[segment] ?? 0;
    for await (const parts of manifestParts(ctx.metadata, manifest.manifestId, segment)) {
      for (const { extent, number, offset } of parts) yield place(extent, number, offset);
    }
  } else if ('parts' in manifest)
    for (const { extent, number, offset } of manifest.parts) yield place(extent, number, offset);
  else for (const extent of manifest.extents) yield place(extent, 0);
}

export interface PartSlice extends Slice {
  readonly part: ManifestPart;
  readonly partCount: number;
}

/** The range of part N of a multipart object; undefined for an object that was not uploaded in parts. */
export async function findPart(
  ctx: Pick<Ctx, 'metadata'>,
  row: ObjectRow,
  number: number,
): Promise<PartSlice | undefined> {
  const { manifest } = row;
  if ('extents' in manifest) return undefined;
  const partCount = 'parts' in manifest ? manifest.parts.length : manifest.partCount;
  let start = 0;
  for await (const part of partsFrom(ctx, row)) {
    const size = contentSize(part.extent, row.encryption);
    if (part.number === number) return { part, partCount, start, end: start + size - 1 };
    start += size;
  }
  throw fail('InvalidPartNumber', {
    elements: { ActualPartCount: partCount, PartNumberRequested: number },
  });
}

/** The parts of a multipart object in order, after a part number. */
export async function* partsFrom(
  ctx: Pick<Ctx, 'metadata'>,
  { manifest }: ObjectRow,
  after = 0,
): AsyncGenerator<ManifestPart> {
  if ('extents' in manifest) return;
  if ('parts' in manifest) {
    yield* manifest.parts.filter((part) => part.number > after);
    return;
  }
  for await (const parts of manifestParts(ctx.metadata, manifest.manifestId)) {
    for (const part of parts) if (part.number > after) yield part;
  }
}

// Archived versions, and their restored copies.

/** When the restored copy expires; undefined when there is none, or it has expired. */
export function restoredUntil(
  { clock }: Pick<Context, 'clock'>,
  { restore }: Pick<ObjectRow, 'restore'>,
): number | undefined {
  return restore !== undefined && restore.expires > clock.now() ? restore.expires : undefined;
}

/** @throws InvalidObjectState for an archived version without a restored copy */
export function assertReadable(
  ctx: Pick<Context, 'clock'>,
  row: ObjectRow,
  message = "The operation is not valid for the object's storage class",
): void {
  if (isArchive(row.storageClass) && restoredUntil(ctx, row) === undefined)
    throw fail('InvalidObjectState', { message, elements: { StorageClass: row.storageClass } });
}
