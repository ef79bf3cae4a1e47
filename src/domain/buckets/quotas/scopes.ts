/** What a quota limits: one bucket, or all buckets of an account. */
import type { Context } from '../../../context.ts';
import { findBucket, pageBuckets } from '../../../metadata/buckets/buckets.ts';
import { findAccountQuota } from '../../../metadata/buckets/quotas.ts';
import { accountUsage, partUsage } from '../../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import type { Amount, Freed } from './amounts.ts';

type Ctx = Pick<Context, 'metadata'>;

export interface Scope {
  /** Names the shares. */
  readonly id: string;
  /** The last word of the refusal. */
  readonly of: 'bucket' | 'user';
  /** Names the counters. */
  readonly usageIds: readonly string[];
  /** What of these parts the scope counts. */
  bytesOf(freed: Freed): number;
  /** As they are stored now; Infinity for an unlimited kind, undefined where the quota exists no more. */
  limits(ctx: Ctx): Promise<Amount | undefined>;
  /** The buckets whose commits the scope counts. */
  buckets(ctx: Ctx): AsyncIterable<BucketRow>;
}

export const orUnlimited = (limit: number): number => (limit === 0 ? Number.POSITIVE_INFINITY : limit);

/** The scopes whose room a commit in the bucket needs. */
export function scopesOf(bucket: BucketRow): readonly Scope[] {
  const { quota, accountQuota } = bucket;
  return [
    ...(quota === undefined || (quota.maxBytes === 0 && quota.maxObjects === 0) ? [] : [bucketScope(bucket)]),
    ...(accountQuota === undefined ? [] : [accountScope(bucket.owner, accountQuota)]),
  ];
}

export const bucketScope = ({ id, name }: Pick<BucketRow, 'id' | 'name'>): Scope => ({
  id: `bucket/${id}`,
  of: 'bucket',
  usageIds: [id, partUsage(id)],
  bytesOf: ({ bucket }) => bucket,
  async limits({ metadata }) {
    const row = (await findBucket(metadata, name))?.row;
    if (row?.id !== id || row.quota === undefined) return undefined;
    return { bytes: orUnlimited(row.quota.maxBytes), objects: orUnlimited(row.quota.maxObjects) };
  },
  async *buckets({ metadata }) {
    const row = (await findBucket(metadata, name))?.row;
    if (row?.id === id) yield row;
  },
});

const pageMax = 100;

export async function* bucketsOf({ metadata }: Ctx, owner: string): AsyncGenerator<BucketRow> {
  let after: string | undefined;
  for (;;) {
    const page = await pageBuckets(metadata, owner, { prefix: '', after, limit: pageMax });
    for (const { name } of page) {
      const row = (await findBucket(metadata, name))?.row;
      if (row?.owner === owner) yield row;
    }
    if (page.length < pageMax) return;
    after = page.at(-1)?.name;
  }
}

export const accountScope = (account: string, epoch: string): Scope => ({
  id: `account/${epoch}`,
  of: 'user',
  usageIds: [accountUsage(epoch)],
  bytesOf: ({ accounts }) => accounts.get(epoch) ?? 0,
  async limits({ metadata }) {
    const row = (await findAccountQuota(metadata, account))?.row;
    if (row?.epoch !== epoch) return undefined;
    return { bytes: orUnlimited(row.totalMaxBytes), objects: Number.POSITIVE_INFINITY };
  },
  async *buckets(ctx) {
    for await (const bucket of bucketsOf(ctx, account)) if (bucket.accountQuota === epoch) yield bucket;
  },
});
