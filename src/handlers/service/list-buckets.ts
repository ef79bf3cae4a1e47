/** ListBuckets: the caller's own, in pages on request; empty for anonymous. */

import { fail } from '../../errors/refusal.ts';
import { pageBuckets } from '../../metadata/buckets/buckets.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { listAllMyBucketsResult } from '../../protocol/schemas/account/service.ts';
import { readToken, writeToken } from '../common/continuation-token.ts';
import { positionIn } from '../common/key.ts';
import { readCount } from '../common/parameters.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

const bucketsMax = 10_000;

export const ListBuckets: HandlerOf<'ListBuckets'> = async (ctx, { identity, query }) => {
  if (identity === undefined)
    return xmlReply(listAllMyBucketsResult, 'ListAllMyBucketsResult', { Buckets: [] });
  // Other lists cap the size of a page; this one refuses what it cannot return (public API).
  const limit = readCount(query, 'max-buckets', { fallback: bucketsMax, max: bucketsMax + 1 });
  if (limit === 0 || limit > bucketsMax)
    throw fail('InvalidArgument', {
      message: `max-buckets must be from 1 to ${bucketsMax}`,
      elements: { ArgumentName: 'max-buckets', ArgumentValue: query.get('max-buckets') ?? '' },
    });
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
