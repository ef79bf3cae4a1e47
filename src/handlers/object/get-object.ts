/** GetObject and HeadObject: one path, with and without a body. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { assertMayDecrypt } from '../../domain/content/provider-key.ts';
import { checkRead } from '../../domain/objects/conditions.ts';
import {
  assertReadable,
  findHotSlice,
  findPart,
  type ReadOptions,
  readObject,
  readSlice,
  type Slice,
} from '../../domain/objects/read-object.ts';
import { headSlot, type ObjectRow } from '../../metadata/tables.ts';
import { parseHttpDate } from '../../protocol/formats/iso-time.ts';
import type { HeaderPair, Reply, ReplyBody } from '../../protocol/reply.ts';
import { header } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { type HandlerOf, requireTarget } from '../handler.ts';
import { notModified, parseRange, readConditions, readPartNumber } from './conditions.ts';
import { needsDescribedKey, openContentKey, openDescribedKey } from './encryption-headers.ts';
import {
  checksumHeaders,
  describeObject,
  expirationHeaders,
  hasLifecycle,
  lockHeaders,
  quoted,
  restoreHeaders,
  tagCountHeaders,
} from './object-headers.ts';

/** Contents up to this size are read before the reply begins: one write, and an error can still be answered. */
const eagerMax = 64 * 1024;

export const GetObject: HandlerOf<'GetObject'> = (ctx, request) => answer(ctx, request, true);
export const HeadObject: HandlerOf<'HeadObject'> = (ctx, request) => answer(ctx, request, false);

async function answer(ctx: Context, request: AuthorizedInBucket, withBody: boolean): Promise<Reply> {
  const row = requireTarget(request);
  const described = needsDescribedKey(request, row) ? await openDescribedKey(ctx, request, row) : undefined;
  const conditions = readConditions(request);
  if (conditions !== undefined && checkRead(conditions, row, ctx.clock.now()) === 'not-modified') {
    return notModified(request, row);
  }
  if (withBody) assertReadable(ctx, row);
  // A checksum reveals as much about a content as a read of it.
  if (wantsChecksum(request)) await assertMayDecrypt(ctx, row.encryption, openKeyUser(ctx, request));
  const part = request.query.has('partNumber') ? await choosePart(ctx, request, row) : undefined;
  const slice = part === undefined ? chooseRange(request, row) : part.slice;
  const { start, end } = slice ?? { start: 0, end: row.size - 1 };
  const headers = describeObject(request, row);
  // A range shows no checksum: that one is of the whole.
  if (part !== undefined) headers.push(...part.headers);
  else if (slice === undefined) headers.push(...wholeChecksum(request, row));
  if (row.headers.tags !== undefined)
    headers.push(...(await tagCountHeaders(ctx, request, row.headers.tags)));
  if (row.lock !== undefined) headers.push(...(await lockHeaders(ctx, request, row)));
  if (row.restore !== undefined) headers.push(...restoreHeaders(ctx, row));
  if (row.slot === headSlot && hasLifecycle(request.bucket) && request.query.get('versionId') === undefined)
    headers.push(...(await expirationHeaders(ctx, request.bucket, row)));
  headers.push(['Content-Length', String(end - start + 1)]);
  // An empty part has no position.
  if (slice !== undefined && start <= end)
    headers.push(['Content-Range', `bytes ${start}-${end}/${row.size}`]);
  const status = slice === undefined ? 200 : 206;
  if (!withBody || end < start) return { status, headers };
  const isEncrypted = row.encryption !== undefined;
  const objectKey = described ?? (isEncrypted ? await openContentKey(ctx, request, row) : undefined);
  const options = { objectKey, signal: request.signal, account: request.bucket.owner };
  return {
    status,
    headers,
    body: findHotSlice(ctx, row, { start, end }) ?? (await openBody(ctx, row, { start, end }, options)),
  };
}

/** The range; undefined for the whole content. */
const chooseRange = (request: AuthorizedInBucket, row: ObjectRow): Slice | undefined =>
  isRangeValid(request, row) ? parseRange(request.wire.headers.get('range'), row.size) : undefined;

/** If-Range: the range counts only while the object is the one that the client has a piece of. A date must be the one of the object. */
function isRangeValid({ wire }: AuthorizedInBucket, row: ObjectRow): boolean {
  const condition = wire.headers.get('if-range');
  if (condition === undefined) return true;
  if (condition.includes('"')) return condition.trim() === quoted(row.etag);
  const date = parseHttpDate(condition);
  return date === undefined ? condition.trim() === row.etag : Math.floor(row.modified / 1000) === date / 1000;
}

interface Chosen {
  /** Undefined for the whole content. */
  readonly slice: Slice | undefined;
  readonly headers: readonly HeaderPair[];
}

async function choosePart(ctx: Context, request: AuthorizedInBucket, row: ObjectRow): Promise<Chosen> {
  if (request.wire.headers.has('range'))
    throw fail('InvalidRequest', 'Cannot specify both Range header and partNumber query parameter');
  const number = readPartNumber(request);
  const found = await findPart(ctx, row, number);
  if (found === undefined) {
    // The specification's code; the public service answers as for a part that an upload does not have.
    if (number !== 1)
      throw fail('InvalidPart', {
        message: 'The object was not uploaded in parts: its only part number is 1.',
        elements: { ActualPartCount: 1, PartNumberRequested: number },
      });
    return {
      slice: row.size === 0 ? undefined : { start: 0, end: row.size - 1 },
      headers: wholeChecksum(request, row),
    };
  }
  const { part, partCount, start, end } = found;
  const headers: HeaderPair[] = [['*-mp-parts-count', String(partCount)]];
  if (wantsChecksum(request) && row.checksum !== undefined && part.checksum !== undefined) {
    headers.push([`*-checksum-${row.checksum.algorithm.toLowerCase()}`, part.checksum]);
    headers.push(['*-checksum-type', row.checksum.type]);
  }
  return { slice: { start, end }, headers };
}

const wantsChecksum = (request: AuthorizedInBucket): boolean =>
  header(request, 'checksum-mode')?.toUpperCase() === 'ENABLED';
const wholeChecksum = (request: AuthorizedInBucket, row: ObjectRow): HeaderPair[] =>
  wantsChecksum(request) ? checksumHeaders(row.checksum) : [];

async function openBody(
  ctx: Context,
  row: ObjectRow,
  slice: Slice,
  options: ReadOptions,
): Promise<ReplyBody> {
  const isSmall = slice.end - slice.start < eagerMax;
  return isSmall ? await readSlice(ctx, row, slice, options) : readObject(ctx, row, slice, options);
}
