/** The usage feed: rows of closed UTC days, by bucket and by account (spec, "Operator JSON API"). */
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { assertClosed, exportDay, exportFormats } from '../../../domain/buckets/usage/export-day.ts';
import { sumOwned } from '../../../domain/buckets/usage/read-usage.ts';
import { fail } from '../../../errors/refusal.ts';
import { pageBucketDays, pageOwnerDays } from '../../../metadata/buckets/day-usage.ts';
import type { AdminHandler } from '../call.ts';
import { pageReply, readDay, readRange, readToken, withByteSeconds } from './usage-page.ts';

export const GetBucketUsage: AdminHandler = async (ctx, { params, query }) => {
  const { id } = await openBucket(ctx, params.get('name') ?? '');
  const range = readRange(query, await ctx.metadata.now());
  const token = readToken(query, 2);
  const after = token && { day: token[0] ?? '', storageClass: token[1] ?? '' };
  const rows = await pageBucketDays(ctx.metadata, id, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    toJson: (row) => withByteSeconds({ day: row.day, storageClass: row.storageClass }, row),
    toToken: ({ day, storageClass }) => [day, storageClass],
  });
};

export const GetUserUsage: AdminHandler = async (ctx, { params, query }) => {
  const owner = params.get('user') ?? '';
  const range = readRange(query, await ctx.metadata.now());
  const token = readToken(query, 3);
  const after = token && { day: token[0] ?? '', bucketId: token[1] ?? '', storageClass: token[2] ?? '' };
  const rows = await pageOwnerDays(ctx.metadata, owner, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
    toJson: (row) =>
      withByteSeconds({ bucket: row.bucket, day: row.day, storageClass: row.storageClass }, row),
    toToken: ({ day, bucketId, storageClass }) => [day, bucketId, storageClass],
    totals: await sumOwned(ctx, owner),
  });
};

export const ExportUsage: AdminHandler = async (ctx, { query }) => {
  const day = readDay(query, 'day');
  if (day === undefined) throw fail('InvalidArgument', 'day is missing: a UTC day such as 2026-01-31.');
  const name = query.get('format') ?? 'csv';
  const format = Object.hasOwn(exportFormats, name) ? exportFormats[name] : undefined;
  if (format === undefined)
    throw fail('InvalidArgument', `format must be one of ${Object.keys(exportFormats).join(', ')}.`);
  await assertClosed(ctx, day);
  return {
    status: 200,
    headers: [
      ['Content-Type', format.mediaType],
      ['Cache-Control', 'no-store'],
    ],
    body: exportDay(ctx, day, format),
  };
};
