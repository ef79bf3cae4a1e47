/** The common part of the operators' listings at service scope: permission and paging. */
import { authorizeAdmin } from '../../auth/authorization/administer.ts';
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import type { Authorized } from '../../gateway/request.ts';
import { describeAdminOperation } from '../../protocol/operations/admin.ts';
import { recordsMax } from '../../protocol/schemas/account/recorded.ts';
import { type Entries, openEntries } from '../admin/request/named-resources.ts';
import { readToken, writeToken } from '../common/continuation-token.ts';
import { readCount } from '../common/parameters.ts';

/** A position between two entries: entries before it are older. */
export interface Place {
  readonly at: number;
  readonly id: string;
}

export interface PageAsked {
  readonly max: number;
  readonly before: Place | undefined;
  /** What policies say about the entries of the same listing of the operator API. */
  readonly entries: Entries;
}

/** @throws AccessDenied, InvalidArgument */
export async function operatorsPage(
  ctx: Context,
  request: Authorized,
  path: 'audit' | 'notify/dead-letters',
  bucket = '',
): Promise<PageAsked> {
  const { operation, query } = request;
  // As for the operations of the operator API that name a bucket in their query.
  const named = bucket === '' ? [] : [{ path: `buckets/${bucket}/${path}`, rule: 'scope' } as const];
  await authorizeAdmin(ctx, request, { action: `admin:${operation}`, path, named });
  const max = readCount(query, 'max-entries', { fallback: recordsMax, max: recordsMax });
  if (max === 0) throw invalid('max-entries', '0', 'max-entries must be at least 1');
  const raw = query.get('continuation-token');
  const token = readToken(raw);
  const row = describeAdminOperation(path === 'audit' ? 'ListAudit' : 'ListDeadLetters');
  const asking = { caller: request, action: `admin:${operation}`, path, fields: {} };
  const entries = openEntries(ctx, row, asking);
  if (token === undefined) return { max, before: undefined, entries };
  const [, at = '', id = ''] = /^(\d{1,15})\/(.*)$/s.exec(token.after) ?? [];
  if (at === '')
    throw invalid('continuation-token', raw ?? '', 'The continuation token provided is incorrect');
  return { max, before: { at: Number(at), id }, entries };
}

export const toPaging = (next: Place | undefined) => ({
  IsTruncated: next !== undefined,
  ...(next === undefined ? {} : { NextContinuationToken: writeToken({ after: `${next.at}/${next.id}` }) }),
});

/** A moment as ISO 8601. @throws InvalidArgument */
export function readMoment({ query }: Pick<Authorized, 'query'>, name: string): number | undefined {
  const raw = query.get(name);
  if (raw === undefined || raw === '') return undefined;
  const ms = /^\d{4}-\d\d-\d\d/.test(raw) ? Date.parse(raw) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw invalid(name, raw, `${name} must be a date as ISO 8601 writes it, such as 2026-11-21T12:00:00Z`);
}

const invalid = (name: string, value: string, message: string) =>
  fail('InvalidArgument', { message, elements: { ArgumentName: name, ArgumentValue: value } });
