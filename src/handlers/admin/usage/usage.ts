/** The usage feed: rows of closed UTC days, by bucket and by account (spec, "Operator JSON API"). */
import type { Context } from '../../../context.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { assertClosed, assertTrafficClosed, exportLines } from '../../../domain/buckets/usage/export-day.ts';
import {
  type ExportFormat,
  type FormatName,
  storageFormats,
  trafficFormats,
} from '../../../domain/buckets/usage/export-formats.ts';
import { sumOwned } from '../../../domain/buckets/usage/read-usage.ts';
import { inTurns, openTurns } from '../../../domain/storage/turns.ts';
import { everyUsageOf, pageBucketDays, pageOwnerDays } from '../../../metadata/buckets/day-usage.ts';
import { everyTrafficOf } from '../../../metadata/buckets/traffic.ts';
import type { AdminHandler } from '../call.ts';
import { type Entries, visibleRows } from '../request/named-resources.ts';
import { pageReply, readAfter, readDay, readRange, withByteSeconds } from './usage-page.ts';

type Ctx = Pick<Context, 'metadata' | 'clock'>;

export const GetBucketUsage: AdminHandler<'GetBucketUsage'> = async (ctx, { params, query }) => {
  const { id } = await openBucket(ctx, params.get('name') ?? '');
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 2);
  const after = token && { day: token[0] ?? '', storageClass: token[1] ?? '' };
  const rows = await pageBucketDays(ctx.metadata, id, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    toJson: (row) => withByteSeconds({ day: row.day, storageClass: row.storageClass }, row),
    toToken: ({ day, storageClass }) => [day, storageClass],
  });
};

export const GetUserUsage: AdminHandler<'GetUserUsage'> = async (ctx, { params, query, signal, entries }) => {
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
    totals: await sumOwned(ctx, owner, signal),
  });
};

interface Asked {
  readonly day: string;
  readonly format: FormatName;
  readonly entries: Entries;
  readonly signal: AbortSignal | undefined;
}

/** What an export is about: the rows of a day, whether it is closed, and their formats. */
const exports = {
  storage: {
    assertClosed,
    open: (ctx: Ctx, asked: Asked) =>
      exported(ctx, asked, {
        format: storageFormats[asked.format],
        rows: everyUsageOf(ctx.metadata, asked.day),
      }),
  },
  traffic: {
    assertClosed: assertTrafficClosed,
    open: (ctx: Ctx, asked: Asked) =>
      exported(ctx, asked, {
        format: trafficFormats[asked.format],
        rows: everyTrafficOf(ctx.metadata, asked.day),
      }),
  },
} as const;

/** Rows that a Deny covers cost turns as well, so the turns are counted ahead of them. */
const exported = <Row extends object>(
  { clock }: Ctx,
  { entries, signal }: Asked,
  { format, rows }: { readonly format: ExportFormat<Row>; readonly rows: AsyncIterable<Row> },
) => ({
  mediaType: format.mediaType,
  body: exportLines(visibleRows(entries, 'rows', inTurns(rows, openTurns(clock, signal))), format),
});

export const ExportUsage: AdminHandler<'ExportUsage'> = async (ctx, { query, entries, signal }) => {
  const day = readDay(query.day, 'day');
  const { of = 'storage', format = 'csv' } = query;
  await exports[of].assertClosed(ctx, day);
  const { mediaType, body } = exports[of].open(ctx, { day, format, entries, signal });
  return {
    status: 200,
    headers: [
      ['Content-Type', mediaType],
      ['Cache-Control', 'no-store'],
    ],
    body,
  };
};
