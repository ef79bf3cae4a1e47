/** Object Lock headers of writes and reads (public API "PutObject", "GetObject"). */
import { isAllowed } from '../../../auth/authorization/authorize.ts';
import type { Context } from '../../../context.ts';
import {
  assertLockable,
  type Retention,
  type RetentionMode,
} from '../../../domain/objects/lock/object-lock.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { Lock, ObjectRow } from '../../../metadata/tables.ts';
import type { HeaderPair } from '../../../protocol/reply/reply.ts';
import { header } from '../../common/own-headers.ts';
import { defined } from '../../common/parameters.ts';

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
