/** Headers of writes: tags, locks, checksums, storage class. */
import { isAllowed } from '../../../auth/authorization/authorize.ts';
import { fail, Refusal } from '../../../base/errors.ts';
import { toWireClass } from '../../../config/values/clusters.ts';
import type { Context } from '../../../context.ts';
import { assertLockable, type Retention, type RetentionMode } from '../../../domain/objects/object-lock.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { Checksum, Lock, ObjectRow } from '../../../metadata/tables.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import type { HeaderPair } from '../../../protocol/reply/reply.ts';
import { Query } from '../../../protocol/request/wire.ts';
import { tagging } from '../../../protocol/schemas/object.ts';
import { header } from '../../common/own-headers.ts';
import { defined } from '../../common/parameters.ts';

// The tags of objects, from the `tagging` header (a query string) or from a body, as the public API bounds them.

export type Tags = readonly (readonly [string, string])[];

const tagsMax = 10;
const keyMax = 128;
const valueMax = 256;
const allowed = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/** The tags of a header value. @throws InvalidArgument, InvalidTag or BadRequest naming the tag */
export function parseTags(raw: string | undefined): Tags {
  if (raw === undefined || raw === '') return [];
  const tags = readPairs(raw);
  checkCount(tags);
  const names = new Set(tags.map(([key]) => key));
  if (names.size !== tags.length || names.has('')) throw malformedHeader(raw);
  return checkTags(tags);
}

function readPairs(raw: string): Tags {
  try {
    return new Query(raw).pairs;
  } catch (cause) {
    if (cause instanceof Refusal) throw malformedHeader(raw);
    throw cause;
  }
}

const malformedHeader = (raw: string): Refusal =>
  fail('InvalidArgument', {
    message:
      'The tagging header shall be encoded as UTF-8 then URL-encoded query parameters without tag name duplicates.',
    elements: { ArgumentName: 'tagging', ArgumentValue: raw },
  });

/** The tags of a body. @throws MalformedXML, InvalidTag or BadRequest naming the tag */
export function tagsIn(body: Uint8Array): Tags {
  const { TagSet } = readXml(tagging, 'Tagging', body, { maxBytes: bodyMaxDefault });
  return checkTagging(TagSet.map(({ Key, Value }) => [Key, Value] as const));
}

/** Tags in the order of their keys. @throws InvalidTag or BadRequest naming the tag */
export function checkTagging(tags: Tags): Tags {
  checkCount(tags);
  for (const [i, [key]] of tags.entries()) {
    if (tags.findIndex(([each]) => each === key) < i)
      throw invalidTag('Cannot provide multiple Tags with the same key', key);
  }
  return checkTags(tags);
}

/** The number of tags, for callers with the permission to read them. */
export async function tagCountHeaders(
  ctx: Context,
  request: AuthorizedInBucket,
  tags: Tags,
): Promise<HeaderPair[]> {
  const { bucket, key, query, target } = request;
  const action = query.get('versionId') === undefined ? 's3:GetObjectTagging' : 's3:GetObjectVersionTagging';
  const mayRead = await isAllowed(ctx, request, { action, bucket, bucketName: bucket.name, key, target });
  return mayRead ? [['*-tagging-count', String(tags.length)]] : [];
}

function checkCount(tags: Tags): void {
  if (tags.length > tagsMax) throw fail('BadRequest', `Object tags cannot be greater than ${tagsMax}`);
}

/** The tags in the order of their keys, as the public service shows them. */
function checkTags(tags: Tags): Tags {
  for (const tag of tags) checkTag(tag);
  return tags.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** @throws InvalidTag naming the key */
export function checkTag([key, value]: Tags[number]): void {
  const isKeyRight =
    key !== '' &&
    Array.from(key).length <= keyMax &&
    allowed.test(key) &&
    !key.toLowerCase().startsWith('aws:');
  if (!isKeyRight) throw invalidTag('The TagKey you have provided is invalid', key);
  if (Array.from(value).length > valueMax || !allowed.test(value))
    throw invalidTag('The TagValue you have provided is invalid', key);
}

const invalidTag = (message: string, key: string) =>
  fail('InvalidTag', { message, elements: { TagKey: key } });

// Object Lock headers of writes and reads (public API "PutObject", "GetObject").

const modeHeader = 'object-lock-mode';
const dateHeader = 'object-lock-retain-until-date';
const holdHeader = 'object-lock-legal-hold';

/** The request asks to bypass GOVERNANCE; the operation table requires the permission. */
export const asksBypass = (request: AuthorizedInBucket): boolean =>
  header(request, 'bypass-governance-retention')?.toLowerCase() === 'true';

/**
 * The lock of a new version.
 * @throws InvalidArgument, and InvalidRequest where the bucket has no Object Lock
 */
export function readLock(ctx: Pick<Context, 'clock'>, request: AuthorizedInBucket): Lock | undefined {
  const retention = readRetention(ctx, request);
  const legalHold = readLegalHold(request);
  if (retention === undefined && legalHold === undefined) return undefined;
  assertLockable(request.bucket);
  return { ...retention, ...defined({ legalHold }) };
}

function readRetention(ctx: Pick<Context, 'clock'>, request: AuthorizedInBucket): Retention | undefined {
  const [mode, until] = [header(request, modeHeader), header(request, dateHeader)];
  if (mode === undefined && until === undefined) return undefined;
  if (mode === undefined || until === undefined) {
    throw fail('InvalidArgument', {
      message: `${dateHeader} and ${modeHeader} must both be supplied`,
      elements: { ArgumentName: mode === undefined ? modeHeader : dateHeader },
    });
  }
  if (mode !== 'GOVERNANCE' && mode !== 'COMPLIANCE')
    throw invalid('Unknown wormMode directive.', modeHeader, mode);
  if (!isoDate.test(until) || Number.isNaN(Date.parse(until)))
    throw invalid('The retain until date must be provided in ISO 8601 format', dateHeader, until);
  return futureRetention(ctx, { mode, until }, dateHeader);
}

const isoDate = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;

/** @throws InvalidArgument naming the header or element of the date, unless it is in the future */
export function futureRetention(
  { clock }: Pick<Context, 'clock'>,
  { mode, until }: { readonly mode: RetentionMode; readonly until: string },
  argument: string,
): Retention {
  const retainUntil = Date.parse(until);
  if (retainUntil <= clock.now())
    throw invalid('The retain until date must be in the future!', argument, until);
  return { mode, retainUntil };
}

function readLegalHold(request: AuthorizedInBucket): boolean | undefined {
  const raw = header(request, holdHeader);
  if (raw === undefined || raw === 'ON' || raw === 'OFF') return raw && raw === 'ON';
  throw invalid("Legal Hold must be either of 'ON' or 'OFF'", holdHeader, raw);
}

const invalid = (message: string, ArgumentName: string, ArgumentValue: string) =>
  fail('InvalidArgument', { message, elements: { ArgumentName, ArgumentValue } });

/** The headers of a version's lock, for callers with the permission to read it. */
export async function lockHeaders(
  ctx: Context,
  request: AuthorizedInBucket,
  row: ObjectRow,
): Promise<HeaderPair[]> {
  const { bucket, key } = request;
  const { mode, retainUntil, legalHold } = row.lock ?? {};
  const about = { bucket, bucketName: bucket.name, key, target: row };
  const headers: HeaderPair[] = [];
  if (mode !== undefined && retainUntil !== undefined) {
    if (await isAllowed(ctx, request, { ...about, action: 's3:GetObjectRetention' }))
      headers.push([`*-${modeHeader}`, mode], [`*-${dateHeader}`, new Date(retainUntil).toISOString()]);
  }
  if (legalHold !== undefined) {
    if (await isAllowed(ctx, request, { ...about, action: 's3:GetObjectLegalHold' }))
      headers.push([`*-${holdHeader}`, legalHold ? 'ON' : 'OFF']);
  }
  return headers;
}

// Checksums as XML elements.

interface ChecksumFields {
  ChecksumCRC32?: string;
  ChecksumCRC32C?: string;
  ChecksumCRC64NVME?: string;
  ChecksumSHA1?: string;
  ChecksumSHA256?: string;
  ChecksumSHA512?: string;
  ChecksumMD5?: string;
  ChecksumXXHASH64?: string;
  ChecksumXXHASH3?: string;
  ChecksumXXHASH128?: string;
  ChecksumType?: Checksum['type'];
}

export function toChecksumFields(checksum: Checksum | undefined): ChecksumFields {
  return checksum === undefined
    ? {}
    : { [`Checksum${checksum.algorithm}`]: checksum.value, ChecksumType: checksum.type };
}

/** The checksum of a part, which has no type of its own. */
export const partChecksumFields = (
  algorithm: Checksum['algorithm'] | undefined,
  value: string | undefined,
): ChecksumFields =>
  algorithm === undefined || value === undefined ? {} : { [`Checksum${algorithm}`]: value };

// The storage class of a write, by either of its names.

/** The storage class of a write; the default of its bucket if the request names none. */
export function readStorageClass(request: AuthorizedInBucket): string {
  const raw = header(request, 'storage-class');
  if (raw === undefined || raw === '') return request.bucket.defaultClass ?? 'STANDARD';
  const name = toWireClass(raw);
  if (name === undefined) throw fail('InvalidStorageClass', { elements: { StorageClassRequested: raw } });
  return name;
}
