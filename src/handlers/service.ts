/** Operations at service scope: ListBuckets, and the two that operators use. */
import { authorizeAdmin } from '../auth/administer.ts';
import { invalidArgument } from '../base/errors.ts';
import type { Context } from '../context.ts';
import { auditMatcher } from '../domain/events/audit-formats.ts';
import { readSubject } from '../domain/events/envelope.ts';
import { readAudit, requestOfRow } from '../metadata/audit.ts';
import { readDeadLetters } from '../metadata/background/queues.ts';
import { pageBuckets } from '../metadata/buckets/buckets.ts';
import type { AuditRow } from '../metadata/records/audit.ts';
import type { DeadLetter } from '../metadata/records/queues.ts';
import { auditAbout, lettersAbout } from '../protocol/admin/row.ts';
import { isoTime, parseIsoTime } from '../protocol/formats/iso-time.ts';
import {
  auditResult,
  deadLettersResult,
  listAllMyBucketsResult,
  recordsMax,
} from '../protocol/schemas/account.ts';
import { defined, positionIn, readCount, readToken, writeToken } from '../request/parameters.ts';
import type { Authorized } from '../request/request.ts';
import { openCallTurns } from './admin/call.ts';
import { type Entries, openEntries, visible } from './admin/named-resources.ts';
import { type HandlerOf, xmlReply } from './handler.ts';

// ListBuckets: the caller's own, in pages on request; empty for anonymous.

const bucketsMax = 10_000;

export const ListBuckets: HandlerOf<'ListBuckets'> = async (ctx, { identity, query }) => {
  if (identity === undefined)
    return xmlReply(listAllMyBucketsResult, 'ListAllMyBucketsResult', { Buckets: [] });
  // Other lists cap the size of a page; this one refuses what it cannot return (public API).
  const limit = readCount(query, 'max-buckets', { fallback: bucketsMax, max: bucketsMax + 1 });
  if (limit === 0 || limit > bucketsMax)
    throw invalidArgument(
      'max-buckets',
      query.get('max-buckets') ?? '',
      `max-buckets must be from 1 to ${bucketsMax}`,
    );
  const prefix = positionIn(query, 'prefix');
  const region = query.get('bucket-region');
  const found = await pageBuckets(ctx.metadata, identity.owner, {
    prefix,
    after: readToken(query.get('continuation-token'))?.after,
    limit: limit + 1,
  });
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return xmlReply(listAllMyBucketsResult, 'ListAllMyBucketsResult', {
    Owner: { ID: identity.owner, DisplayName: identity.displayName },
    Buckets: page
      .filter((row) => region === undefined || row.region === region)
      .map((row) => ({
        Name: row.name,
        CreationDate: isoTime(row.created),
        BucketRegion: row.region,
      })),
    ...(found.length > limit && last !== undefined
      ? { ContinuationToken: writeToken({ after: last.name }) }
      : {}),
    ...(prefix === '' ? {} : { Prefix: prefix }),
  });
};

// ListAuditRecords: the audit log for operators, the newest first.

export const ListAuditRecords: HandlerOf<'ListAuditRecords'> = async (ctx, request) => {
  const { max, before, entries } = await operatorsPage(ctx, request, 'audit', request.query.get('bucket'));
  const now = ctx.clock.now();
  const retainedFrom = now - ctx.config.SVC_AUDIT_RETENTION;
  const { rows, next } = await readAudit(ctx.metadata, {
    // No record is older than the retention or newer than now, so a wide range costs no further reads.
    start: Math.max(readMoment(request, 'start') ?? retainedFrom, retainedFrom),
    end: Math.min(readMoment(request, 'end') ?? now, now),
    before: before && { time: before.at, id: before.id },
    max,
    matches: auditMatcher({
      bucket: request.query.get('bucket'),
      action: request.query.get('action'),
      identity: request.query.get('identity'),
    }),
    rest: openCallTurns(ctx, request),
  });
  return xmlReply(auditResult, 'AuditLog', {
    Entries: (await visible(entries, 'rows', rows)).map(toEntry),
    ...toPaging(next && { at: next.time, id: next.id }),
  });
};

const toEntry = (row: AuditRow) => {
  const { requestId, page } = requestOfRow(row);
  return {
    Time: new Date(row.time).toISOString(),
    RequestId: requestId,
    Action: row.action,
    Resource: row.resource,
    Status: row.status,
    SourceIp: row.source,
    ...defined({
      Key: row.key,
      Error: row.error,
      Principal: row.principal,
      AccessKeyId: row.accessKey,
      Account: row.account,
      Count: row.count,
      Page: page,
      Keys: row.keys?.map(({ key, versionId, status, error }) => ({
        Key: key,
        ...defined({ VersionId: versionId, Status: status, Error: error }),
      })),
    }),
  };
};

// ListNotifyDeadLetters: the notifications that could not be delivered, newest first.

export const ListNotifyDeadLetters: HandlerOf<'ListNotifyDeadLetters'> = async (ctx, request) => {
  const { max, before, entries } = await operatorsPage(ctx, request, 'notify/dead-letters');
  const { rows, next } = await readDeadLetters(ctx.metadata, {
    before: before && { due: before.at, id: before.id },
    max,
  });
  // The cast: each queue has one type of task.
  const letters = rows.map((row) => ({ ...row, ...(row.task as DeadLetter) }));
  const about = letters.map((row) => ({ ...row, target: row.sink, bucket: readSubject(row.message).bucket }));
  const displayed = await visible(entries, 'rows', about);
  return xmlReply(deadLettersResult, 'NotifyDeadLetters', {
    Entries: displayed.map(({ due, id, requestId, attempts, sink, message, error, since }) => {
      return {
        Time: new Date(due).toISOString(),
        Since: new Date(since).toISOString(),
        RequestId: requestId,
        Sink: sink,
        Id: id,
        Attempts: attempts,
        Error: error,
        Message: JSON.stringify(message),
      };
    }),
    ...toPaging(next && { at: next.due, id: next.id }),
  });
};

// The common part of the operators' listings at service scope: permission and paging.

/** A position between two entries: entries before it are older. */
interface Place {
  readonly at: number;
  readonly id: string;
}

interface PageAsked {
  readonly max: number;
  readonly before: Place | undefined;
  /** What policies say about the entries of the same listing of the operator API. */
  readonly entries: Entries;
}

/** @throws AccessDenied, InvalidArgument */
async function operatorsPage(
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
  if (max === 0) throw invalidArgument('max-entries', '0', 'max-entries must be at least 1');
  const raw = query.get('continuation-token');
  const token = readToken(raw);
  const lists = { rows: path === 'audit' ? auditAbout : lettersAbout };
  const asking = { caller: request, action: `admin:${operation}`, path, fields: {} };
  const entries = openEntries(ctx, { lists }, asking);
  if (token === undefined) return { max, before: undefined, entries };
  const [, at = '', id = ''] = /^(\d{1,15})\/(.*)$/s.exec(token.after) ?? [];
  if (at === '')
    throw invalidArgument('continuation-token', raw ?? '', 'The continuation token provided is incorrect');
  return { max, before: { at: Number(at), id }, entries };
}

const toPaging = (next: Place | undefined) => ({
  IsTruncated: next !== undefined,
  ...(next === undefined ? {} : { NextContinuationToken: writeToken({ after: `${next.at}/${next.id}` }) }),
});

/** A day, or a time with its zone, as ISO 8601. @throws InvalidArgument */
function readMoment({ query }: Pick<Authorized, 'query'>, name: string): number | undefined {
  const raw = query.get(name);
  if (raw === undefined || raw === '') return undefined;
  const ms = parseIsoTime(/^[\d-]{10}$/.test(raw) ? `${raw}T00:00:00Z` : raw);
  if (ms !== undefined) return ms;
  throw invalidArgument(
    name,
    raw,
    `${name} must be a date as ISO 8601 writes it, such as 2026-11-21T12:00:00Z`,
  );
}
