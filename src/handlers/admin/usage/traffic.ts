/** Requests and bytes by bucket, by account that pays, and UTC day. Those of the present day are what the processes have written so far. */
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { pageBucketTraffic, pagePayerTraffic, type Traffic } from '../../../metadata/buckets/traffic.ts';
import type { AdminHandler } from '../call.ts';
import { pageReply, readAfter, readRange } from './usage-page.ts';

export const GetBucketTraffic: AdminHandler<'GetBucketTraffic'> = async (ctx, { params, query }) => {
  const { id } = await openBucket(ctx, params.get('name') ?? '');
  const range = readRange(query, await ctx.metadata.now());
  const token = readAfter(query.after, 3);
  const after = token && { day: token[0] ?? '', requester: token[1] ?? '', payer: token[2] ?? '' };
  const rows = await pageBucketTraffic(ctx.metadata, id, { ...range, after, limit: range.limit + 1 });
  return pageReply(rows, range.limit, {
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

const amounts = ({
  requestsA,
  requestsB,
  requestsFree,
  ingressBytes,
  egressBytes,
}: Pick<Traffic, 'requestsA' | 'requestsB' | 'requestsFree' | 'ingressBytes' | 'egressBytes'>) => ({
  requestsA,
  requestsB,
  requestsFree,
  ingressBytes,
  egressBytes,
});
