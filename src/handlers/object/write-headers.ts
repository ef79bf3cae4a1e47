/** Headers of writes: tags, locks, checksums, storage class. */
import { isAllowed } from '../../auth/authorize.ts';
import { fail } from '../../base/errors.ts';
import { toWireClass } from '../../config/clusters.ts';
import type { Context } from '../../context.ts';
import { assertLockable, type Retention, type RetentionMode } from '../../domain/objects/object-lock.ts';
import type { Checksum, Lock, ObjectRow } from '../../metadata/tables.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { defined, header } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import type { Tags } from '../../request/tags.ts';

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
