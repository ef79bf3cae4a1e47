/** Conditional headers, ranges and part numbers. */
import { authorize } from '../../auth/authorize.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { type Conditions, isAnyEtag, presentRow } from '../../domain/objects/conditions.ts';
import type { Slice } from '../../domain/objects/read-object.ts';
import { partNumberMax } from '../../domain/uploads/part-list.ts';
import { findHead } from '../../metadata/objects/objects.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { parseHttpDate } from '../../protocol/formats/iso-time.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { ObjectToDelete } from '../../protocol/schemas/object.ts';
import { defined, header } from '../../request/parameters.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply } from '../handler.ts';
import { describeObject } from './object-headers.ts';

// Conditional headers, read once for reads, writes and the sources of copies.

/** Undefined when the request is unconditional. An unreadable date counts as absent (RFC 9110 §13.1.3). */
export const readConditions = ({ wire }: Authorized): Conditions | undefined =>
  toConditions({
    ifMatch: wire.headers.get('if-match'),
    ifNoneMatch: wire.headers.get('if-none-match'),
    ifModifiedSince: parseHttpDate(wire.headers.get('if-modified-since')),
    ifUnmodifiedSince: parseHttpDate(wire.headers.get('if-unmodified-since')),
  });

type Fields = { readonly [Name in keyof Conditions]: Conditions[Name] | undefined };

/** Undefined when no field has a value: the request is unconditional. */
function toConditions(fields: Fields): Conditions | undefined {
  for (const name in fields) if (fields[name as keyof Conditions] !== undefined) return defined(fields);
  return undefined;
}

/**
 * Undefined when the write is unconditional. If-Modified-Since is for reads alone (RFC 9110 §13.1.3).
 * @throws InvalidArgument for a list without an ETag: the write would be unconditional, or never succeed
 */
const readWriteConditions = (request: Authorized): Conditions | undefined => {
  const read = readConditions(request);
  if (read === undefined) return undefined;
  const { ifModifiedSince: _, ...conditions } = read;
  assertNamesEtag('if-match', conditions.ifMatch);
  assertNamesEtag('if-none-match', conditions.ifNoneMatch);
  return toConditions(conditions);
};

function assertNamesEtag(name: string, list: string | undefined): void {
  if (list !== undefined && /^[\s,]*$/.test(list))
    throw invalidArgument(name, list, `${name} is empty: it must be an ETag, a list of ETags or *.`);
}

/**
 * Undefined at once for an unconditional write, so that it waits for nothing.
 * @throws InvalidArgument, and AccessDenied where the caller may write and the conditions compare with what it may not read
 */
export function writeConditions(
  ctx: Context,
  request: AuthorizedInBucket,
): Promise<Conditions | undefined> | undefined {
  const conditions = readWriteConditions(request);
  return conditions && authorizeConditions(ctx, request, { key: request.key, conditions });
}

/**
 * Refuses an invalid condition: a delete that ignored its condition could not be undone.
 * @throws InvalidArgument, and AccessDenied as `writeConditions` does
 */
export async function deleteConditions(
  ctx: Context,
  request: AuthorizedInBucket,
): Promise<Conditions | undefined> {
  const size = header(request, 'if-match-size');
  if (size !== undefined && !/^\d{1,15}$/.test(size)) throw unreadable('if-match-size', size);
  const conditions = toConditions({
    ...readWriteConditions(request),
    ifModifiedAt: readMatchedTime(request, 'if-match-last-modified-time'),
    ifSize: size === undefined ? undefined : Number(size),
  });
  const { key } = request;
  return authorizeConditions(ctx, request, { key, conditions, versionId: request.query.get('versionId') });
}

/** Of an entry of DeleteObjects. @throws AccessDenied as `writeConditions` does */
export function entryConditions(
  ctx: Context,
  request: AuthorizedInBucket,
  { object, turn }: { readonly object: ObjectToDelete; readonly turn: () => Promise<void> },
): Promise<Conditions | undefined> {
  const { Key, VersionId, ETag, LastModifiedTime, Size } = object;
  return authorizeConditions(ctx, request, {
    key: Key,
    versionId: VersionId,
    conditions: toConditions({
      ifMatch: ETag,
      ifModifiedAt: LastModifiedTime === undefined ? undefined : Date.parse(LastModifiedTime),
      ifSize: Size,
    }),
    turn,
  });
}

interface AskedConditions {
  readonly key: string;
  /** A deletion of one version refuses conditions, so it compares nothing. */
  readonly versionId?: string | undefined;
  readonly conditions: Conditions | undefined;
  /** Called ahead of the authorization, which may take as long as the one of the operation. */
  readonly turn?: () => Promise<void>;
}

/**
 * The answer to a condition reveals properties of the stored object, so a caller that compares them needs `s3:GetObject` (public API,
 * "Conditional writes"). `*` asks only whether a version exists, which the public API tells every writer.
 */
async function authorizeConditions(
  ctx: Context,
  request: AuthorizedInBucket,
  { versionId, conditions, ...asked }: AskedConditions,
): Promise<Conditions | undefined> {
  if (conditions === undefined || versionId !== undefined || !compares(conditions)) return conditions;
  return { ...conditions, seen: await seeHead(ctx, request, asked) };
}

const compares = ({ ifMatch, ifNoneMatch, ...others }: Conditions): boolean =>
  !isAnyEtag(ifMatch ?? '*') || !isAnyEtag(ifNoneMatch ?? '*') || Object.keys(others).length > 0;

/** The head of the key, once the caller may compare with it. @throws AccessDenied */
async function seeHead(
  ctx: Context,
  request: AuthorizedInBucket,
  { key, turn }: Pick<AskedConditions, 'key' | 'turn'>,
): Promise<NonNullable<Conditions['seen']>> {
  await turn?.();
  const { identity, bucket, bucketName } = request;
  // The root of the bucket's account can list all ETags of the bucket, so the ACL of the object does not decide.
  const isOwner = identity?.root === true && identity.owner === bucket.owner;
  const assertMayCompare = async (head: Stored<ObjectRow> | undefined): Promise<void> => {
    const target = isOwner ? undefined : presentRow(head);
    await authorize(ctx, request, { action: 's3:GetObject', bucket, bucketName, key, target });
  };
  const head = await findHead(ctx.metadata, bucket, key);
  await assertMayCompare(head);
  return { head, assertMayCompare };
}

/** A time that must be the one of what is deleted. @throws InvalidArgument where it is no HTTP date */
export function readMatchedTime(request: Authorized, name: string): number | undefined {
  const raw = header(request, name);
  const time = parseHttpDate(raw);
  if (raw !== undefined && time === undefined) throw unreadable(name, raw);
  return time;
}

const unreadable = (name: string, value: string) =>
  invalidArgument(name, value, `${name} cannot be understood`);

/** Undefined when the copy does not depend on its source. */
export const sourceConditions = (request: Authorized): Conditions | undefined =>
  toConditions({
    ifMatch: header(request, 'copy-source-if-match'),
    ifNoneMatch: header(request, 'copy-source-if-none-match'),
    ifModifiedSince: parseHttpDate(header(request, 'copy-source-if-modified-since')),
    ifUnmodifiedSince: parseHttpDate(header(request, 'copy-source-if-unmodified-since')),
  });

// The 304 of a conditional read, with the headers on validity and freshness that a 200 would have (RFC 9110 §15.4.5).

const retained = new Set([
  'ETag',
  'Last-Modified',
  'Cache-Control',
  'Expires',
  '*-version-id',
  'Content-Security-Policy',
]);

export const notModified = (request: AuthorizedInBucket, row: ObjectRow): Reply =>
  emptyReply(
    304,
    describeObject(request, row).filter(([name]) => retained.has(name)),
  );

// The `Range` header (RFC 9110 §14): one range of bytes. An invalid header is ignored, as the RFC requires.

/** @returns undefined for the whole content @throws InvalidRange when the range has no byte of the content */
export function parseRange(raw: string | undefined, size: number): Slice | undefined {
  const requested = raw === undefined ? undefined : positionsIn(raw);
  if (raw === undefined || requested === undefined) return undefined;
  const { first, last } = requested;
  if (first === '' && last === '') return undefined;
  if (first !== '' && last !== '' && Number(first) > Number(last)) return undefined;
  // A suffix that is longer than the content is all of it, also of nothing (RFC 9110 §14.1.2).
  if (size === 0 && first === '' && Number(last) > 0) return undefined;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (start > end || start >= size) {
    throw fail('InvalidRange', {
      elements: { RangeRequested: raw, ActualObjectSize: size },
      headers: { 'Content-Range': `bytes */${size}` },
    });
  }
  return { start, end };
}

/** The first and last position as written, either may be empty; undefined for anything but one range of bytes. */
function positionsIn(raw: string): { readonly first: string; readonly last: string } | undefined {
  const equals = raw.indexOf('=');
  const hyphen = raw.indexOf('-', equals);
  if (equals < 0 || hyphen < 0) return undefined;
  if (raw.slice(0, equals).trim().toLowerCase() !== 'bytes') return undefined;
  const first = raw.slice(equals + 1, hyphen);
  const last = raw.slice(hyphen + 1).trimEnd();
  return digits.test(first) && digits.test(last) ? { first, last } : undefined;
}

const digits = /^\d*$/;

/** @throws InvalidArgument outside 1…10000 */
export function readPartNumber({ query }: Authorized): number {
  const raw = query.get('partNumber') ?? '';
  const number = /^\d{1,5}$/.test(raw) ? Number(raw) : 0;
  if (number >= 1 && number <= partNumberMax) return number;
  throw invalidArgument(
    'partNumber',
    raw,
    `Part number must be an integer between 1 and ${partNumberMax}, inclusive`,
  );
}
