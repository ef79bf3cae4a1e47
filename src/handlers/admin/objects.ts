/** Single objects and open uploads, as operators see them. */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { formatVersionId } from '../../domain/common/ids.ts';
import { inParallelTurns } from '../../domain/common/turns.ts';
import { readRules } from '../../domain/configurations/families.ts';
import { findExpiration } from '../../domain/configurations/lifecycle-rules.ts';
import { restoredUntil } from '../../domain/objects/read-object.ts';
import { abortSession } from '../../domain/uploads/upload-session.ts';
import {
  findHead,
  historyAt,
  prefixRange,
  readExtents,
  scanVersions,
} from '../../metadata/objects/objects.ts';
import { type Encryption, encryptionNames } from '../../metadata/objects/properties.ts';
import { everyPart, findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import {
  type BucketRow,
  checkColumns,
  type Manifest,
  type ObjectRow,
  type UploadIndexRow,
  type uploadIndex,
} from '../../metadata/tables.ts';
import type { Cursor } from '../../ports/metadata-store.ts';
import { uploadsPageDefault, versionsPageDefault } from '../../protocol/admin/objects.ts';
import { readToken, writeToken } from '../../request/parameters.ts';
import { type AdminHandler, jsonReply, openCallTurns } from './call.ts';

const chunkBytes = 4 * 1024 * 1024;
const extentsMax = 1_000;
/** A page of versions ends with the one whose extents reach this number: all versions of a page may have 10 million. */
const extentsOfPageMax = 10_000;
const abortedMax = 1_000;
/** A page of open uploads ends with the upload whose parts reach this number: all parts of a page may be 10 million. */
const partsOfPageMax = 1_000;
const readAtOnce = 100;
/** Versions whose extents are read at the same time. */
const versionsAtOnce = 16;

const iso = (ms: number): string => new Date(ms).toISOString();

export const StatObject: AdminHandler<'StatObject'> = async (ctx, call) => {
  const { params, query } = call;
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const { key, limit = versionsPageDefault, after } = query;
  const rows = await readVersions(ctx, bucket, { key, after, count: limit + 1 });
  if (rows.length === 0)
    throw fail('NoSuchKey', { message: 'The bucket has no version of this key.', elements: { Key: key } });
  const page = limitExtents(rows.slice(0, limit));
  const rest = openCallTurns(ctx, call, { isParallel: true });
  const versions = await inParallelTurns({ limit: versionsAtOnce, rest }, page, (version) =>
    versionJson(ctx, bucket, version),
  );
  const last = rows.length > page.length ? page.at(-1) : undefined;
  return jsonReply({ versions, ...(last === undefined ? {} : { next: last.row.version }) });
};

interface Version {
  readonly row: ObjectRow;
  readonly isLatest: boolean;
}

/** Up to the version whose extents reach the number that a page may read. */
function limitExtents(versions: readonly Version[]): readonly Version[] {
  let extents = 0;
  const end = versions.findIndex(({ row: { manifest } }) => {
    extents += countExtents(manifest);
    return extents >= extentsOfPageMax;
  });
  return end < 0 ? versions : versions.slice(0, end + 1);
}

/** The head comes first, then the history. */
async function readVersions(
  { metadata }: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { key, after, count }: { readonly key: string; readonly after: string | undefined; readonly count: number },
): Promise<readonly Version[]> {
  const head = (await findHead(metadata, bucket, key))?.row;
  const cursor = scanVersions(metadata, bucket, key);
  if (after !== undefined && head?.version !== after) cursor.seek(historyAt(key, after), { past: true });
  const history = (await cursor.next(count))
    .map(({ row }) => row)
    .filter((row) => row.version !== head?.version);
  const isFirst = after === undefined && head !== undefined;
  const versions = history.map((row) => ({ row, isLatest: false }));
  return isFirst ? [{ row: head, isLatest: true }, ...versions].slice(0, count) : versions;
}

const algorithms: Readonly<Record<Encryption['by'], string>> = {
  ...encryptionNames,
  customer: 'customer key',
};

async function versionJson(ctx: Context, bucket: BucketRow, { row, isLatest }: Version) {
  const { headers, lock, encryption, checksum, manifest } = row;
  const until = restoredUntil(ctx, row);
  const { extents, leftOut } = await extentsJson(ctx, row.marker ? { extents: [] } : manifest);
  const keyId = encryption?.by === 'provider' ? encryption.keyId : undefined;
  return checkColumns('displayed', {
    versionId: formatVersionId(row),
    isLatest,
    isDeleteMarker: row.marker,
    modified: iso(row.modified),
    size: row.size,
    etag: row.etag,
    storageClass: row.storageClass,
    owner: row.owner,
    metadata: headers.user ?? {},
    headers: headers.system ?? {},
    tags: Object.fromEntries(headers.tags ?? []),
    ...(checksum === undefined ? {} : { checksum }),
    ...(encryption === undefined
      ? {}
      : { encryption: { algorithm: algorithms[encryption.by], ...(keyId === undefined ? {} : { keyId }) } }),
    ...(lock?.mode === undefined || lock.retainUntil === undefined
      ? {}
      : { retention: { mode: lock.mode, until: iso(lock.retainUntil) } }),
    legalHold: lock?.legalHold === true,
    ...(row.replication === undefined ? {} : { replication: row.replication }),
    ...(until === undefined ? {} : { restoredUntil: iso(until) }),
    ...(isLatest ? await expiresJson(ctx, bucket, row) : {}),
    parts: countParts(manifest),
    extents,
    ...(leftOut === 0 ? {} : { extentsLeftOut: leftOut }),
  });
}

function countExtents(manifest: Manifest): number {
  if ('extents' in manifest) return manifest.extents.length;
  return manifest.whole === undefined ? countParts(manifest) : 1;
}

const countParts = (manifest: Manifest): number =>
  'extents' in manifest ? 0 : 'parts' in manifest ? manifest.parts.length : manifest.partCount;

async function extentsJson({ metadata }: Pick<Context, 'metadata'>, manifest: Manifest) {
  const extents = [];
  let leftOut = 0;
  for await (const { cluster, id, size } of readExtents(metadata, manifest)) {
    if (extents.length < extentsMax)
      extents.push({ cluster, id, bytes: size, chunks: Math.ceil(size / chunkBytes) });
    else leftOut += 1;
  }
  return { extents, leftOut };
}

async function expiresJson(
  ctx: Context,
  bucket: BucketRow,
  { key, size, modified, headers, marker }: ObjectRow,
) {
  const lifecycle = marker ? undefined : await readRules(ctx, bucket);
  const due = lifecycle && findExpiration(lifecycle, { key, size, modified, tags: headers.tags });
  return due === undefined ? {} : { expires: { at: iso(due.at), rule: due.rule } };
}

function scanUploads(
  { metadata }: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { prefix = '', after }: { readonly prefix?: string | undefined; readonly after?: string | undefined },
): Cursor<typeof uploadIndex> {
  const cursor = metadata.scan(uploadsIn(bucket.id), prefixRange('key', prefix));
  const [key, uploadId] = readPosition(after);
  if (key !== undefined && uploadId !== undefined) cursor.seek({ key, uploadId }, { past: true });
  return cursor;
}

const writePosition = ({ key, uploadId }: UploadIndexRow): string =>
  writeToken({ after: JSON.stringify([key, uploadId]) });

/** @throws InvalidArgument for what is no `next` of a reply */
function readPosition(after: string | undefined): readonly string[] {
  const text = readToken(after)?.after;
  if (text === undefined) return [];
  try {
    const position: unknown = JSON.parse(text);
    if (
      Array.isArray(position) &&
      position.length === 2 &&
      position.every((each) => typeof each === 'string')
    )
      return position as string[];
  } catch {
    // The refusal below is for every other text.
  }
  throw fail('InvalidArgument', 'after must be the `next` of a reply.');
}

export const ListOpenUploads: AdminHandler<'ListOpenUploads'> = async (ctx, call) => {
  const { params, query } = call;
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const { limit = uploadsPageDefault } = query;
  const found = (await scanUploads(ctx, bucket, query).next(limit + 1)).map(({ row }) => row);
  const rest = openCallTurns(ctx, call);
  const now = ctx.clock.now();
  const rows = [];
  let partsRead = 0;
  for (const { key, uploadId, initiated, owner, initiator, storageClass } of found.slice(0, limit)) {
    if (partsRead >= partsOfPageMax) break;
    let parts = 0;
    let bytes = 0;
    for await (const { stored } of everyPart(ctx.metadata, uploadId)) {
      await rest();
      parts += 1;
      bytes += Math.max(stored.extent.size, 0);
    }
    partsRead += parts;
    const ageSeconds = Math.max(0, Math.floor((now - initiated) / 1_000));
    rows.push({
      key,
      uploadId,
      initiated: iso(initiated),
      ageSeconds,
      owner,
      initiator,
      storageClass,
      parts,
      bytes,
    });
  }
  const last = found.length > rows.length ? found[rows.length - 1] : undefined;
  return jsonReply({ rows, ...(last === undefined ? {} : { next: writePosition(last) }) });
};

export const AbortUploads: AdminHandler<'AbortUploads'> = async (ctx, call) => {
  const { params, body, record, requestId } = call;
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  record?.about(`bucket:${bucket.name}`);
  const before = ctx.clock.now() - body.olderThanSeconds * 1_000;
  const cursor = scanUploads(ctx, bucket, body);
  const rest = openCallTurns(ctx, call);
  let aborted = 0;
  for (let page = await cursor.next(readAtOnce); page.length > 0; page = await cursor.next(readAtOnce)) {
    await rest();
    for (const { row } of page) {
      if (aborted >= abortedMax) return jsonReply({ aborted, isTruncated: true });
      if (row.initiated > before) continue;
      const found = await findSession(ctx.metadata, row.uploadId);
      if (found !== undefined && (await isAborted(ctx, found, requestId))) aborted += 1;
    }
  }
  return jsonReply({ aborted, isTruncated: false });
};

/** False for an upload that was completed or aborted meanwhile. */
async function isAborted(
  ctx: Pick<Context, 'metadata'>,
  found: Parameters<typeof abortSession>[1],
  requestId: string,
): Promise<boolean> {
  try {
    await abortSession(ctx, found, { requestId });
    return true;
  } catch (cause) {
    if (cause instanceof Refusal) return false;
    throw cause;
  }
}
