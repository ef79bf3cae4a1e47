/** The audit log as JSON: lists and follows rows, counts them over time, exports them, and verifies the chain. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { auditFormats, auditMatcher, exportAudit, toAuditJson } from '../../domain/events/audit-formats.ts';
import { toTime } from '../../domain/events/seal-hours.ts';
import { type AuditGap, type Noted, verifyAudit } from '../../domain/events/verify-audit.ts';
import {
  type AuditPlace,
  auditHourOf,
  type FollowPlace,
  followAudit,
  readAudit,
} from '../../metadata/audit.ts';
import type { AuditRow } from '../../metadata/records/audit.ts';
import type { AdminReply } from '../../protocol/admin/operations.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { type AdminHandler, jsonReply, openCallTurns, readTime } from './call.ts';

type ReplyRow = AdminReply<'ListAudit'>['rows'][number];

/** The same object, whose fields must be those of the reply's schema: a new column of the audit log needs a field there. */
const checkFields = <T extends object>(
  row: T & { readonly [F in Exclude<keyof T, keyof ReplyRow> | Exclude<keyof ReplyRow, keyof T>]: never },
): T => row;
const toReplyRow = (row: AuditRow) => checkFields(toAuditJson(row));

export const ListAudit: AdminHandler<'ListAudit'> = async (ctx, call) => {
  const { query } = call;
  const { limit = pageDefault, after } = query;
  const { rows, next } = await readAudit(ctx.metadata, {
    ...readSpan(ctx, query),
    before: readPlace(after),
    max: limit,
    requestId: query.requestId,
    matches: auditMatcher(query),
    rest: openCallTurns(ctx, call),
  });
  return jsonReply({
    rows: rows.map(toReplyRow),
    ...(next === undefined
      ? {}
      : { searchedTo: new Date(next.time).toISOString(), next: `${next.time}:${next.id}` }),
  });
};

/** A follower polls: a process keeps no state for it (ADR 38). */
export const FollowAudit: AdminHandler<'FollowAudit'> = async (ctx, call) => {
  const { query } = call;
  const { limit = followedDefault, after } = query;
  const { rows, place, hasMore } = await followAudit(ctx.metadata, {
    now: ctx.clock.now(),
    start: ctx.clock.now() - ctx.config.SVC_AUDIT_RETENTION,
    place: after === undefined ? undefined : readFollowPlace(after),
    max: limit,
    matches: auditMatcher(query),
    rest: openCallTurns(ctx, call),
    markOf: ({ time, id }) => ctx.hasher.sha256Hex(`${time} ${id}`).slice(0, markLength),
  });
  return jsonReply({
    rows: rows.map(toReplyRow),
    lateFrom: new Date(place.from).toISOString(),
    hasMore,
    next: `${place.from}:${[...place.seen].join('')}`,
  });
};

const followedDefault = 100;
/** Hexadecimal digits. Another row of the same mark would be left out: one of 500,000 rows. */
const markLength = 7;

function readFollowPlace(after: string): FollowPlace {
  const [, from, marks = ''] = /^(\d{1,15}):((?:[0-9a-f]{7}){0,500})$/.exec(after) ?? [];
  if (from === undefined) throw notNext();
  return { from: Number(from), seen: new Set(marks.match(/.{7}/g) ?? []) };
}

const dayMs = 24 * 60 * 60_000;
const pointsDefault = 48;
/** What one histogram reads of the log at most. */
const histogramMax = { rows: 20_000, pages: 20, rowsOfPage: 1_000 } as const;

export const GetAuditHistogram: AdminHandler<'GetAuditHistogram'> = async (ctx, call) => {
  const { query, entries } = call;
  const { points: count = pointsDefault, ...filter } = query;
  const now = ctx.clock.now();
  const { start, end } = readSpan(ctx, {
    ...filter,
    start: filter.start ?? `${new Date(now - dayMs).toISOString().slice(0, 19)}Z`,
  });
  const stepMs = Math.max(1_000, Math.ceil((end - start + 1) / count / 1_000) * 1_000);
  const points = Array.from({ length: Math.ceil((end - start + 1) / stepMs) }, (_, index) => ({
    at: new Date(start + index * stepMs).toISOString(),
    ...{ done: 0, refused: 0, failed: 0 },
  }));
  const matches = auditMatcher(filter);
  const rest = openCallTurns(ctx, call);
  let before: AuditPlace | undefined;
  let rows = 0;
  for (let page = 0; page < histogramMax.pages; page += 1) {
    const read = await readAudit(ctx.metadata, {
      ...{ start, end, before, matches, rest },
      max: histogramMax.rowsOfPage,
    });
    for (const row of read.rows) {
      if ((await entries.denialOf('rows', row)) !== undefined) continue;
      const point = points[Math.floor((row.time - start) / stepMs)];
      if (point !== undefined) point[classifyStatus(row.status)] += row.count ?? 1;
    }
    before = read.next;
    rows += read.rows.length;
    if (before === undefined || rows >= histogramMax.rows) break;
  }
  return jsonReply({
    stepSeconds: stepMs / 1_000,
    countedFrom: new Date(Math.max(start, before?.time ?? start)).toISOString(),
    points,
  });
};

const classifyStatus = (status: number): 'done' | 'refused' | 'failed' =>
  status >= 500 ? 'failed' : status >= 400 ? 'refused' : 'done';

export const ExportAudit: AdminHandler<'ExportAudit'> = async (ctx, call) => {
  const { query, entries } = call;
  const format = auditFormats[query.format ?? 'jsonl'];
  return {
    status: 200,
    headers: [
      ['Content-Type', format.mediaType],
      ['Cache-Control', 'no-store'],
    ],
    body: exportAudit(ctx, {
      ...readSpan(ctx, query),
      format,
      rest: openCallTurns(ctx, call),
      matches: auditMatcher(query),
      isVisible: async (row) => (await entries.denialOf('rows', row)) === undefined,
    }),
  };
};

export const VerifyAudit: AdminHandler<'VerifyAudit'> = async (ctx, call) => {
  const { from, seal, sealedHour } = call.query;
  const hour = from === undefined ? undefined : auditHourOf(readTime('from', from));
  const { head, gaps, furtherGaps, next, firstLate, ...counts } = await verifyAudit(ctx, {
    from: hour,
    noted: readNoted(seal, sealedHour),
    rest: openCallTurns(ctx, call),
  });
  return jsonReply({
    isIntact: gaps.length === 0,
    ...(head === undefined
      ? {}
      : { since: toTime(head.first), sealedThrough: toTime(head.hour), seal: head.seal }),
    ...counts,
    ...(firstLate === undefined ? {} : { sealedLateFrom: toTime(firstLate) }),
    ...(gaps[0] === undefined ? {} : { gap: toReplyGap(gaps[0]), gaps: gaps.map(toReplyGap) }),
    ...(furtherGaps === 0 ? {} : { furtherGaps }),
    ...(next === undefined ? {} : { nextFrom: toTime(next) }),
  });
};

const toReplyGap = (gap: AuditGap) => ({ ...gap, hour: toTime(gap.hour) });

/** @throws InvalidArgument for a seal without its hour, or an hour without its seal */
function readNoted(seal: string | undefined, sealedHour: string | undefined): Noted | undefined {
  if (seal === undefined && sealedHour === undefined) return undefined;
  if (seal === undefined || sealedHour === undefined)
    throw fail('InvalidArgument', {
      message: 'seal and sealedHour belong together.',
      field: seal === undefined ? 'seal' : 'sealedHour',
    });
  return { seal, hour: auditHourOf(readTime('sealedHour', sealedHour)) };
}

/** No row is older than the retention or newer than now, so a wide span costs no further reads. */
function readSpan(
  { clock, config }: Pick<Context, 'clock' | 'config'>,
  input: { readonly start?: string | undefined; readonly end?: string | undefined },
): { readonly start: number; readonly end: number } {
  const now = clock.now();
  const retainedFrom = now - config.SVC_AUDIT_RETENTION;
  const start = input.start === undefined ? retainedFrom : readTime('start', input.start);
  const end = input.end === undefined ? now : readTime('end', input.end);
  if (start > end) throw fail('InvalidArgument', { message: 'start is after end.', field: 'start' });
  return { start: Math.max(start, retainedFrom), end: Math.min(end, now) };
}

function readPlace(after: string | undefined): AuditPlace | undefined {
  if (after === undefined) return undefined;
  const [, time, id = ''] = /^(\d{1,15}):(.*)$/s.exec(after) ?? [];
  if (time === undefined) throw notNext();
  return { time: Number(time), id };
}

const notNext = () =>
  fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
