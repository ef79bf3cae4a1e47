/** The headers of an object: what a write sets, and what a read shows (public API "Object metadata"). */

import { isAllowed } from '../../auth/authorize.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { formatVersionId } from '../../domain/common/ids.ts';
import { bucketLifecycle, readRules } from '../../domain/configurations/families.ts';
import { type Due, findAbort, findExpiration } from '../../domain/configurations/lifecycle-rules.ts';
import { assertLockable, type Retention, type RetentionMode } from '../../domain/objects/object-lock.ts';
import { restoredUntil } from '../../domain/objects/read-object.ts';
import type { BucketRow, Checksum, Lock, ObjectHeaders, ObjectRow } from '../../metadata/tables.ts';
import { findStorageClassName } from '../../ports/storage-classes.ts';
import { parseIsoTime } from '../../protocol/formats/iso-time.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { type ChecksumFields, retentionModes } from '../../protocol/schemas/common.ts';
import { asciiHeader, encodeWords, headerText, systemHeaders } from '../../protocol/wire.ts';
import {
  defined,
  header,
  headersUnder,
  isOneOf,
  parseTags,
  type Tags,
  utf8Length,
} from '../../request/parameters.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';
import { encryptionHeaders } from './encryption-headers.ts';

const displayedAs: Readonly<Record<string, string>> = {
  'cache-control': 'Cache-Control',
  'content-disposition': 'Content-Disposition',
  'content-encoding': 'Content-Encoding',
  'content-language': 'Content-Language',
  'content-type': 'Content-Type',
  expires: 'Expires',
  'website-redirect-location': '*-website-redirect-location',
};
/** The content type that the public service returns for an object that was stored without one. */
const defaultContentType = 'binary/octet-stream';

/** Names and values of user metadata together (public API). */
const userMetadataMax = 2048;
/** The public API's limit for headers, which also keeps the row of an object small. */
const storedHeadersMax = 8192;
const redirectMax = 2048;

/** Asking for what is not built must not be answered as if it had been done. */
const refusedHeaders = [
  'object-lock-event-hold',
  'object-lock-event-hold-duration-days',
  'object-lock-event-hold-duration-years',
  'write-offset-bytes',
] as const;

export function refuseUnbuilt(request: Authorized): void {
  for (const name of refusedHeaders) {
    if (header(request, name) !== undefined)
      throw fail('NotImplemented', `The ${name} header is not implemented.`);
  }
}

const none: ObjectHeaders = {};

/** The headers that a write stores beside the content. */
export function readObjectHeaders(request: Authorized): ObjectHeaders {
  refuseUnbuilt(request);
  const system: Record<string, string> = {};
  for (const name of systemHeaders) {
    const value = name === 'content-encoding' ? readContentEncoding(request) : request.wire.headers.get(name);
    if (value !== undefined && value !== '') system[name] = value;
  }
  const redirect = readRedirect(request);
  if (redirect !== undefined) system['website-redirect-location'] = redirect;
  const user = readUserMetadata(request);
  const tags = parseTags(header(request, 'tagging'));
  const hasSystem = Object.keys(system).length > 0;
  if (!hasSystem && user === undefined && tags.length === 0) return none;
  const headers = defined({
    system: hasSystem ? system : undefined,
    user,
    tags: tags.length > 0 ? tags : undefined,
  });
  if (utf8Length(JSON.stringify(headers)) > storedHeadersMax) throw fail('RequestHeaderSectionTooLarge');
  return headers;
}

/** The website redirect of the object. @throws InvalidRedirectLocation */
function readRedirect(request: Authorized): string | undefined {
  const redirect = header(request, 'website-redirect-location');
  return redirect === undefined ? undefined : checkRedirect(redirect);
}

function checkRedirect(redirect: string): string {
  if (redirect.length > redirectMax)
    throw fail('InvalidRedirectLocation', `A redirect location has at most ${redirectMax} characters.`);
  if (!/^(\/|https?:\/\/)/.test(redirect)) throw fail('InvalidRedirectLocation');
  return redirect;
}

const framing = 'aws-chunked';

/** `aws-chunked` is the framing of the request, not an encoding of the object. The others keep their spelling. */
const readContentEncoding = ({ wire }: Authorized): string | undefined =>
  withoutFraming(wire.headers.get('content-encoding'));

function withoutFraming(value: string | undefined): string | undefined {
  if (value === undefined || !value.toLowerCase().includes(framing)) return value;
  return value
    .split(',')
    .filter((each) => each.trim().toLowerCase() !== framing)
    .join(',')
    .trim();
}

function readUserMetadata(request: Authorized): Record<string, string> | undefined {
  const pairs = headersUnder(request, 'meta-');
  if (pairs.length === 0) return undefined;
  const user = Object.fromEntries(pairs);
  assertUserSize(user);
  return user;
}

function assertUserSize(user: Readonly<Record<string, string>>): void {
  const size = Object.entries(user).reduce(
    // Header values are bytes, a character each.
    (sum, [name, value]) => sum + name.length + value.length,
    0,
  );
  if (size > userMetadataMax) {
    throw fail('MetadataTooLarge', { elements: { Size: size, MaxSizeAllowed: userMetadataMax } });
  }
}

/**
 * The headers as a write stores them, for those that came in another way than as headers.
 * @throws InvalidArgument, InvalidRedirectLocation, MetadataTooLarge, RequestHeaderSectionTooLarge
 */
export function checkStoredHeaders({ system: sent = {}, ...others }: ObjectHeaders): ObjectHeaders {
  const { user = {} } = others;
  const named = Object.entries(sent).map(
    ([name, value]) => [name, name === 'content-encoding' ? (withoutFraming(value) ?? '') : value] as const,
  );
  const system = Object.fromEntries(named.filter(([, value]) => value !== ''));
  const redirect = system['website-redirect-location'];
  if (redirect !== undefined) checkRedirect(redirect);
  for (const name of Object.keys(system)) if (!Object.hasOwn(displayedAs, name)) throw notStored(name);
  for (const name of Object.keys(user)) if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) throw notStored(name);
  assertUserSize(user);
  const headers = Object.keys(system).length === 0 ? others : { ...others, system };
  if (utf8Length(JSON.stringify(headers)) > storedHeadersMax) throw fail('RequestHeaderSectionTooLarge');
  return headers;
}

const notStored = (name: string) =>
  invalidArgument('headers', name.slice(0, 128), 'No such header is stored with an object.');

export const quoted = (etag: string): string => `"${etag}"`;

/** Query parameters that replace a header of the reply (public API "GetObject"), for signed requests only. */
const overridable: readonly (readonly [string, string])[] = systemHeaders.map((name) => [
  `response-${name}`,
  name,
]);

const acceptRanges: HeaderPair = ['Accept-Ranges', 'bytes'];

/** The headers of a GET or HEAD, without those of the content's extent. */
export function describeObject(request: Authorized, row: ObjectRow): HeaderPair[] {
  const { system, user } = row.headers;
  const overrides = request.query.pairs.length === 0 ? undefined : readOverrides(request);
  const values = overrides === undefined ? system : { ...system, ...overrides };
  const contentType = values?.['content-type'] ?? defaultContentType;
  const headers: HeaderPair[] = [
    ['ETag', quoted(row.etag)],
    ['Last-Modified', new Date(row.modified).toUTCString()],
    acceptRanges,
    ['Content-Type', asciiHeader(contentType)],
  ];
  if (values !== undefined)
    for (const [name, value] of Object.entries(values))
      if (name !== 'content-type') headers.push([displayedAs[name] ?? name, asciiHeader(value)]);
  if (user !== undefined)
    for (const [name, value] of Object.entries(user)) headers.push([`*-meta-${name}`, encodeWords(value)]);
  if (row.replication !== undefined) headers.push(['*-replication-status', row.replication]);
  if (row.etagUnverified) headers.push(['*-replica-etag', 'unverified']);
  if (row.storageClass !== 'STANDARD') headers.push(['*-storage-class', row.storageClass]);
  headers.push(
    ...encryptionHeaders(row.encryption),
    ...versionHeader(request, row),
    ...sandboxHeader(request, contentType),
  );
  return headers;
}

function readOverrides(request: Authorized): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [parameter, name] of overridable) {
    const value = request.query.get(parameter);
    // An empty one replaces nothing (public API).
    if (value === undefined || value === '') continue;
    if (request.identity === undefined) {
      throw fail(
        'InvalidRequest',
        'Request specific response headers cannot be used for anonymous GET requests.',
      );
    }
    values[name] = headerText(parameter, value);
  }
  return values;
}

/** A version id is shown wherever a version exists; an unversioned bucket has none. */
export function versionHeader(
  request: { readonly bucket?: { readonly versioning: string } } | object,
  row: ObjectRow,
): HeaderPair[] {
  const versioning = 'bucket' in request ? request.bucket?.versioning : undefined;
  // The bucket's versioning may have changed since the request began; a version id or a delete marker shows that.
  return row.isNull && !row.marker && !versioning ? [] : [['*-version-id', formatVersionId(row)]];
}

/** The version id of a write, except for the null version of a suspended bucket (public API). */
export const writtenVersionHeader = (row: Pick<ObjectRow, 'isNull' | 'version'>): HeaderPair[] =>
  row.isNull ? [] : [['*-version-id', row.version]];

/** The checksum of the whole content, if the request asks for it. */
export function checksumHeaders(checksum: ObjectRow['checksum']): HeaderPair[] {
  if (checksum === undefined) return [];
  return [
    [`*-checksum-${checksum.algorithm.toLowerCase()}`, checksum.value],
    ['*-checksum-type', checksum.type],
  ];
}

// The reply headers about objects and uploads that lifecycle rules will remove.

type Ctx = Pick<Context, 'caches' | 'metadata' | 'config'>;
type Bucket = Pick<BucketRow, 'id' | 'name' | 'documents'>;

/** Whether there are rules; most buckets have none, and then there is no promise. */
export const hasLifecycle = ({ documents }: Pick<Bucket, 'documents'>): boolean =>
  documents[bucketLifecycle.name] !== undefined;

/** The value of `x-amz-expiration`. */
export const formatExpiration = ({ at, rule }: Due): string =>
  `expiry-date="${new Date(at).toUTCString()}", rule-id="${encodeURIComponent(rule)}"`;

/** When the version expires. It must be the latest one of its key. */
export async function expirationHeaders(ctx: Ctx, bucket: Bucket, row: ObjectRow): Promise<HeaderPair[]> {
  const lifecycle = await readRules(ctx, bucket);
  const { key, size, modified, headers } = row;
  const due = lifecycle && findExpiration(lifecycle, { key, size, modified, tags: headers.tags });
  return due === undefined ? [] : [['*-expiration', formatExpiration(due)]];
}

/** When an open upload will be aborted. */
export async function abortHeaders(
  ctx: Ctx,
  bucket: Bucket,
  upload: { readonly key: string; readonly initiated: number },
): Promise<HeaderPair[]> {
  const lifecycle = await readRules(ctx, bucket);
  const due = lifecycle && findAbort(lifecycle, upload);
  if (due === undefined) return [];
  return [
    ['*-abort-date', new Date(due.at).toUTCString()],
    ['*-abort-rule-id', encodeURIComponent(due.rule)],
  ];
}

export function restoreHeaders(ctx: Pick<Context, 'clock'>, row: ObjectRow): HeaderPair[] {
  const until = restoredUntil(ctx, row);
  if (until === undefined) return [];
  return [['*-restore', `ongoing-request="false", expiry-date="${new Date(until).toUTCString()}"`]];
}

/**
 * Isolates documents that clients stored from the operators' API of the same host. A page that a tenant stored would otherwise run with
 * the log-in of an operator who opens it. With this header a browser gives it an origin of its own, to which cookies do not go.
 */
const sandbox: readonly HeaderPair[] = [
  ['Content-Security-Policy', 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads'],
];

const noHeaders: readonly HeaderPair[] = [];

/**
 * Media types that a browser does not show as a document with scripts and does not run as a worker, which this header
 * forbids too. The whole value must match: of a list of types browsers take the last one, and an unknown one they may
 * take for HTML.
 */
const inert =
  /^(?:binary\/octet-stream|application\/(?:octet-stream|json|pdf|zip|gzip|x-(?!javascript|ecmascript)[\w.-]+|vnd\.[\w.-]+)|image\/(?:png|jpeg|gif|webp|avif|bmp)|(?:audio|video|font)\/[\w.-]+|text\/(?:plain|csv))(?:; ?charset=[\w-]+)?$/i;

/** Other hosts get no cookies of this one. The port of `SVC_ADMIN_LISTEN` is another origin, but cookies do not distinguish ports. */
const sharesCookies = ({ virtual }: Authorized): boolean => virtual === undefined;

const sandboxHeader = (request: Authorized, contentType: string): readonly HeaderPair[] =>
  inert.test(contentType) || !sharesCookies(request) ? noHeaders : sandbox;

// The number of tags of a read.

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

// Object Lock headers of writes and reads (public API "PutObject", "GetObject").

const modeHeader = 'object-lock-mode';
const dateHeader = 'object-lock-retain-until-date';
const holdHeader = 'object-lock-legal-hold';

/** The request asks to bypass GOVERNANCE. `also` of its row requires the permission; DeleteObjects asks for each key. */
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
  if (!isOneOf(retentionModes, mode)) throw invalidArgument(modeHeader, mode, 'Unknown wormMode directive.');
  if (parseIsoTime(until) === undefined)
    throw invalidArgument(dateHeader, until, 'The retain until date must be provided in ISO 8601 format');
  return futureRetention(ctx, { mode, until }, dateHeader);
}

/** @throws InvalidArgument naming the header or element of the date, unless it is in the future */
export function futureRetention(
  { clock }: Pick<Context, 'clock'>,
  { mode, until }: { readonly mode: RetentionMode; readonly until: string },
  argument: string,
): Retention {
  const retainUntil = Date.parse(until);
  if (retainUntil <= clock.now())
    throw invalidArgument(argument, until, 'The retain until date must be in the future!');
  return { mode, retainUntil };
}

function readLegalHold(request: AuthorizedInBucket): boolean | undefined {
  const raw = header(request, holdHeader);
  if (raw === undefined || raw === 'ON' || raw === 'OFF') return raw && raw === 'ON';
  throw invalidArgument(holdHeader, raw, "Legal Hold must be either of 'ON' or 'OFF'");
}

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
  const name = findStorageClassName(raw);
  if (name === undefined) throw fail('InvalidStorageClass', { elements: { StorageClassRequested: raw } });
  return name;
}
