/** Reading an object: find the version, choose the bytes, stream them (spec "GetObject"). */
import type { Context } from '../context.ts';
import { fail } from '../errors/refusal.ts';
import { findHead, findVersion, manifestParts } from '../metadata/objects.ts';
import type { BucketRow, ManifestPart, ObjectRow } from '../metadata/tables.ts';
import type { Extent } from '../ports/object-bytes.ts';
import { isVersionId } from './version-ids.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes'>;

/** What the client sees as the id of a version. */
export const shownVersion = (row: ObjectRow): string => (row.isNull ? 'null' : row.version);

export interface Wanted {
  readonly key: string;
  readonly versionId?: string | undefined;
}

/** The row that is asked for, delete markers included; undefined where there is none. */
export async function lookUpVersion(
  ctx: Pick<Ctx, 'metadata'>,
  bucket: BucketRow,
  { key, versionId }: Wanted,
): Promise<ObjectRow | undefined> {
  if (versionId !== undefined && !isVersionId(versionId)) {
    throw fail('InvalidArgument', {
      message: 'Invalid version id specified',
      elements: { ArgumentName: 'versionId', ArgumentValue: versionId },
    });
  }
  const found =
    versionId === undefined
      ? await findHead(ctx.metadata, bucket, key)
      : await findVersion(ctx.metadata, bucket, key, versionId);
  return found?.row;
}

/** What a read asks for must be there, and no delete marker: 404 at the head, 405 when asked for by version. */
export function assertObject(row: ObjectRow | undefined, { key, versionId }: Wanted): ObjectRow {
  if (row === undefined) {
    throw versionId === undefined
      ? fail('NoSuchKey', { elements: { Key: key } })
      : fail('NoSuchVersion', { elements: { Key: key, VersionId: versionId } });
  }
  if (!row.marker) return row;
  const headers = { '*-delete-marker': 'true', '*-version-id': shownVersion(row) };
  throw versionId === undefined
    ? fail('NoSuchKey', { elements: { Key: key }, headers })
    : fail('MethodNotAllowed', {
        message: 'The specified version is a delete marker.',
        elements: { Method: 'GET', ResourceType: 'DeleteMarker' },
        headers: { ...headers, Allow: 'DELETE', 'Last-Modified': new Date(row.modified).toUTCString() },
      });
}

/** Inclusive positions in the object. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** The bytes of a slice of a version, in order, read no further ahead than the byte store's own window. */
export async function* readObject(
  ctx: Ctx,
  row: ObjectRow,
  slice: Slice,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let offset = 0;
  for await (const { extent, start } of extentsFrom(ctx, row, slice.start)) {
    offset = start;
    if (offset > slice.end) return;
    const from = Math.max(0, slice.start - offset);
    const to = Math.min(extent.size - 1, slice.end - offset);
    if (from <= to) yield* ctx.bytes.read(extent, { start: from, end: to }, signal);
  }
}

/** Extents with the position where each begins, from the first that reaches `position`. */
async function* extentsFrom(
  ctx: Pick<Ctx, 'metadata'>,
  { manifest }: ObjectRow,
  position: number,
): AsyncGenerator<{ readonly extent: Extent; readonly start: number }> {
  let start = 0;
  if ('manifestId' in manifest) {
    const segment = Math.max(
      0,
      manifest.offsets.findLastIndex((offset) => offset <= position),
    );
    start = manifest.offsets[segment] ?? 0;
    for await (const parts of manifestParts(ctx.metadata, manifest.manifestId, segment)) {
      for (const { extent } of parts) {
        yield { extent, start };
        start += extent.size;
      }
    }
    return;
  }
  const extents = 'parts' in manifest ? manifest.parts.map((part) => part.extent) : manifest.extents;
  for (const extent of extents) {
    yield { extent, start };
    start += extent.size;
  }
}

export interface PartSlice extends Slice {
  readonly part: ManifestPart;
  readonly partCount: number;
}

/** Where part N of a multipart object lies; undefined for an object that was not uploaded in parts. */
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
    if (part.number === number) return { part, partCount, start, end: start + part.extent.size - 1 };
    start += part.extent.size;
  }
  throw fail('InvalidPart', {
    message: `Part ${number} does not exist: the object has ${partCount} parts.`,
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
