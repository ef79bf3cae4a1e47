/** The usage feed and the traffic feed. */

import { isGrantable } from '../../auth/administer.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { pageOwnedBuckets } from '../../domain/common/owned-buckets.ts';
import { inParallelTurns, inTurns } from '../../domain/common/turns.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { requestPayment } from '../../domain/configurations/families.ts';
import {
  assertClosed,
  assertTrafficClosed,
  type ExportFormat,
  exportLines,
  type FormatName,
  storageFormats,
  trafficFormats,
} from '../../domain/usage/export-formats.ts';
import { findProgress } from '../../domain/usage/progress.ts';
import { type DayUsage, sumOwned } from '../../domain/usage/samples.ts';
import { addDays, dayMs, isDay, toDay } from '../../domain/usage/traffic-counter.ts';
import {
  everyTrafficOn,
  everyUsageOn,
  pageBucketDays,
  pageBucketTraffic,
  pageOwnerDays,
  pagePayerTraffic,
  type Traffic,
} from '../../metadata/buckets/usage.ts';
import type { DayUsageRow } from '../../metadata/records/usage.ts';
import { bucketsPageDefault } from '../../protocol/admin/objects.ts';
import type { AdminQuery, AdminReply } from '../../protocol/admin/operations.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply, openCallTurns } from './call.ts';
import { type Entries, visible, visibleRows } from './named-resources.ts';

// The usage feed: rows of closed UTC days, by bucket and by account (spec, "Operator JSON API").

type Ctx = Pick<Context, 'metadata' | 'clock'>;

/**
 * The account of a caller that is no operator: of the time before an operator gave it a bucket it sees nothing.
 * @throws AccessDenied for a caller that is not known: undefined would show it what operators see
 */
async function findTenant(
  ctx: Context,
  { identity }: Pick<AdminRequest, 'identity'>,
): Promise<string | undefined> {
  if (identity === undefined) throw fail('AccessDenied');
  return (await isGrantable(ctx, identity)) ? undefined : identity.owner;
}

export const GetBucketUsage: AdminHandler<'GetBucketUsage'> = async (ctx, call) => {
  const { params, query } = call;
  const tenant = await findTenant(ctx, call);
  const { id } = await openBucket(ctx, params.get('name') ?? '');
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 2);
  const after = token && { day: token[0] ?? '', storageClass: token[1] ?? '' };
  const rows = await pageBucketDays(ctx.metadata, id, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    isVisible: ({ owner }) => tenant === undefined || owner === tenant,
    toJson: (row) => withByteSeconds({ day: row.day, storageClass: row.storageClass }, row),
    toToken: ({ day, storageClass }) => [day, storageClass],
  });
};

/** Buckets whose days are read at once. */
const seriesAtOnce = 8;
const seriesDays = 30;
/** Rows of a bucket: a day has one for each storage class. */
const seriesRowsMax = 2_500;

export const ListBucketUsage: AdminHandler<'ListBucketUsage'> = async (ctx, call) => {
  const { prefix = '', days: count = seriesDays, limit = bucketsPageDefault, after, owner } = call.query;
  const rest = openCallTurns(ctx, call, { isParallel: true });
  const tenant = await findTenant(ctx, call);
  const filter = { prefix, ...(owner === undefined ? {} : { owner }) };
  const { buckets, next } = await pageOwnedBuckets(ctx, filter, { after, limit, rest });
  const progress = await findProgress(ctx.metadata);
  const yesterday = addDays(toDay(await ctx.metadata.now()), -1);
  const before = addDays(progress?.closedThrough ?? yesterday, 1);
  const start = addDays(before, -count);
  const days = Array.from({ length: count }, (_, index) => addDays(start, index));
  const rows = await inParallelTurns(
    { limit: seriesAtOnce, rest },
    buckets,
    async ({ row: { id, name, owner: of } }) => {
      const found = await pageBucketDays(ctx.metadata, id, { start, before, limit: seriesRowsMax });
      const own = tenant === undefined ? found : found.filter((row) => row.owner === tenant);
      const byDay = Map.groupBy(own, ({ day }) => day);
      return { name, owner: of, bytes: days.map((day) => computeAverage(byDay.get(day))) };
    },
  );
  return jsonReply({ start, rows, ...(next === undefined ? {} : { next }) });
};

const computeAverage = (rows: readonly DayUsageRow[] | undefined): number | null =>
  rows === undefined
    ? null
    : Math.round(rows.reduce((sum, { byteSeconds }) => sum + Number(byteSeconds), 0) / (dayMs / 1_000));

export const GetUserUsage: AdminHandler<'GetUserUsage'> = async (ctx, call) => {
  const { params, query, entries } = call;
  const owner = params.get('user') ?? '';
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 3);
  const after = token && { day: token[0] ?? '', bucketId: token[1] ?? '', storageClass: token[2] ?? '' };
  const rows = await pageOwnerDays(ctx.metadata, owner, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    entries,
    toJson: (row) =>
      withByteSeconds({ bucket: row.bucket, day: row.day, storageClass: row.storageClass }, row),
    toToken: ({ day, bucketId, storageClass }) => [day, bucketId, storageClass],
    totals: await sumOwned(ctx, owner, openCallTurns(ctx, call, { isParallel: true })),
  });
};

interface Asked {
  readonly day: string;
  readonly format: FormatName;
  readonly entries: Entries;
  readonly rest: () => Promise<void>;
}

/** What an export is about: the rows of a day, whether it is closed, and their formats. */
const exports = {
  storage: {
    assertClosed,
    open: (ctx: Ctx, asked: Asked) =>
      exported(asked, {
        format: storageFormats[asked.format],
        rows: everyUsageOn(ctx.metadata, asked.day),
      }),
  },
  traffic: {
    assertClosed: assertTrafficClosed,
    open: (ctx: Ctx, asked: Asked) =>
      exported(asked, {
        format: trafficFormats[asked.format],
        rows: everyTrafficOn(ctx.metadata, asked.day),
      }),
  },
} as const;

/** Rows that a Deny covers cost turns as well, so the turns are counted ahead of them. */
const exported = <Row extends object>(
  { entries, rest }: Asked,
  { format, rows }: { readonly format: ExportFormat<Row>; readonly rows: AsyncIterable<Row> },
) => ({
  mediaType: format.mediaType,
  body: exportLines(visibleRows(entries, 'rows', inTurns(rows, rest)), format),
});

export const ExportUsage: AdminHandler<'ExportUsage'> = async (ctx, call) => {
  const { query, entries } = call;
  const day = readDay(query.day, 'day');
  const { of = 'storage', format = 'csv' } = query;
  await exports[of].assertClosed(ctx, day);
  const { mediaType, body } = exports[of].open(ctx, { day, format, entries, rest: openCallTurns(ctx, call) });
  return {
    status: 200,
    headers: [
      ['Content-Type', mediaType],
      ['Cache-Control', 'no-store'],
    ],
    body,
  };
};

// Query parameters and JSON of the usage feed.

/** The default window reaches this many days back. */
const windowDays = 30;

type RangeQuery = AdminQuery<'GetBucketUsage'>;

/** @throws InvalidArgument naming the parameter */
function readRange(query: RangeQuery, now: number): { start: string; before: string; limit: number } {
  const end = readDay(query.end, 'end') ?? toDay(now);
  const start = readDay(query.start, 'start') ?? addDays(end, -windowDays);
  if (start > end)
    throw fail('InvalidArgument', { message: `start (${start}) is after end (${end}).`, field: 'start' });
  return { start, before: addDays(end, 1), limit: query.limit ?? pageDefault };
}

function readDay<T extends string | undefined>(input: T, name: string): T {
  if (input === undefined) return input;
  // The day after the last one must also have four digits in its year, because days are compared as text.
  if (!isDay(input) || input === '9999-12-31')
    throw fail('InvalidArgument', { message: `${name} must be a UTC day such as 2026-01-31.`, field: name });
  return input;
}

/** The position that `next` of the page before named. */
function readAfter(input: string | undefined, parts: number): readonly string[] | undefined {
  if (input === undefined) return undefined;
  const read = input.split(':');
  if (read.length !== parts || !isDay(read[0] ?? ''))
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return read;
}

interface Page<Row> {
  /** Leaves out the rows of resources that policies deny; absent where all rows are of one. */
  readonly entries?: Entries;
  /** Leaves out further rows; absent: none. */
  readonly isVisible?: (row: Row) => boolean;
  readonly toJson: (row: Row) => string;
  readonly toToken: (row: Row) => readonly string[];
  readonly totals?: object;
}

/** @param rows one more than `limit` where more follow */
async function pageReply<Row extends object>(
  rows: readonly Row[],
  limit: number,
  { entries, isVisible = () => true, toJson, toToken, totals }: Page<Row>,
): Promise<Reply> {
  const displayed = rows.slice(0, limit);
  const last = displayed.at(-1);
  const permitted = displayed.filter(isVisible);
  const listed = entries === undefined ? permitted : await visible(entries, 'rows', permitted);
  const more = rows.length > limit && last !== undefined ? { next: toToken(last).join(':') } : {};
  const rest = JSON.stringify({ ...(totals === undefined ? {} : { totals }), ...more });
  const body = `{"rows":[${listed.map(toJson).join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
  return { ...jsonReply(undefined), body };
}

/** `byteSeconds` is written digit by digit: it may be larger than the integers that a `number` holds exactly. */
function withByteSeconds(named: object, row: DayUsageRow): string {
  const { byteSeconds, objectCountAvg, objectCountMax } = row;
  const counts: Omit<DayUsage, 'byteSeconds' | 'samples'> = {
    objectCountAvg,
    objectCountMax,
  } satisfies Partial<AdminReply<'GetBucketUsage'>['rows'][number]>;
  return `${JSON.stringify(named).slice(0, -1)},"byteSeconds":${byteSeconds},${JSON.stringify(counts).slice(1)}`;
}

// Requests and bytes by bucket, by account that pays, and UTC day. Those of the present day are what the processes have written so far.

export const GetBucketTraffic: AdminHandler<'GetBucketTraffic'> = async (ctx, call) => {
  const { params, query } = call;
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const { id } = bucket;
  const tenant = await findTenant(ctx, call);
  // Rows do not say who owned the bucket then. The former owner's requests look like those of a requester who paid, so
  // what others paid is open from the day after the change of the owner on.
  const { ownedSince } = bucket;
  const ownDay = ownedSince === undefined ? '' : toDay(ownedSince);
  // Operators see every row.
  const requesterPays =
    tenant !== undefined && (await readDocument(ctx, bucket, requestPayment))?.Payer === 'Requester';
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 3);
  const after = token && { day: token[0] ?? '', requester: token[1] ?? '', payer: token[2] ?? '' };
  const rows = await pageBucketTraffic(ctx.metadata, id, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    isVisible: ({ day, requester, payer }) =>
      tenant === undefined || payer === tenant || (requesterPays && payer === requester && day > ownDay),
    toJson: ({ day, requester, payer, ...row }) => JSON.stringify({ day, requester, payer, ...amounts(row) }),
    toToken: ({ day, requester, payer }) => [day, requester, payer],
  });
};

export const GetUserTraffic: AdminHandler<'GetUserTraffic'> = async (ctx, { params, query, entries }) => {
  const payer = params.get('user') ?? '';
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 3);
  const after = token && { day: token[0] ?? '', bucketId: token[1] ?? '', requester: token[2] ?? '' };
  const rows = await pagePayerTraffic(ctx.metadata, payer, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    entries,
    toJson: ({ bucket, day, requester, ...row }) =>
      JSON.stringify({ bucket, day, requester, ...amounts(row) }),
    toToken: ({ day, bucketId, requester }) => [day, bucketId, requester],
  });
};

/** All of what is counted. The schema of the replies has each, for the compiler. */
type TrafficAmounts = Omit<Traffic, 'bucketId' | 'bucket' | 'day' | 'requester' | 'payer'>;

const amounts = ({
  requestsA,
  requestsB,
  requestsFree,
  ingressBytes,
  egressBytes,
}: TrafficAmounts): TrafficAmounts =>
  ({
    requestsA,
    requestsB,
    requestsFree,
    ingressBytes,
    egressBytes,
  }) satisfies Partial<AdminReply<'GetBucketTraffic'>['rows'][number]>;
