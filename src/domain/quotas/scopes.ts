/** What a quota limits: one bucket, all buckets of an account, or those that an IAM user created. */
import type { Context } from '../../context.ts';
import { findBucket, pageBuckets } from '../../metadata/buckets/buckets.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import { accountUsage, partUsage } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Amount, Freed } from './amounts.ts';
import type { Exceeded } from './exceeded.ts';

type Ctx = Pick<Context, 'metadata'>;

export interface Scope {
  /** Names the shares. */
  readonly id: string;
  /** What a refusal says about whose quota it is. */
  readonly whose: Pick<Exceeded, 'of' | 'name' | 'account'>;
  /** Names the counters. */
  readonly usageIds: readonly string[];
  /** What of these parts the scope counts. */
  bytesOf(freed: Freed): number;
  /** As they are stored now; Infinity for an unlimited kind, undefined where the quota exists no more. */
  limits(ctx: Ctx): Promise<Amount | undefined>;
  /** The buckets whose commits the scope counts. */
  buckets(ctx: Ctx): AsyncIterable<BucketRow>;
}

const orUnlimited = (limit: number): number => (limit === 0 ? Number.POSITIVE_INFINITY : limit);

export const bucketScope = ({ id, name, owner }: Pick<BucketRow, 'id' | 'name' | 'owner'>): Scope => ({
  id: `bucket/${id}`,
  whose: { of: 'bucket', name, account: owner },
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

/** Who has a quota over several buckets. */
export interface QuotaHolder {
  /** The key of the quota's row. */
  readonly key: string;
  readonly account: string;
  /** The field of a bucket's row that has the epoch of the quota. */
  readonly field: 'accountQuota' | 'userQuota';
  has(bucket: BucketRow): boolean;
}

export const accountHolder = (account: string): QuotaHolder => ({
  key: account,
  account,
  field: 'accountQuota',
  has: ({ owner }) => owner === account,
});

/** An IAM user owns the buckets of its account that it has created. @param id the unique id, which a rename keeps */
export const userHolder = (account: string, id: string): QuotaHolder => ({
  key: `user/${id}`,
  account,
  field: 'userQuota',
  has: ({ owner, creatorId }) => owner === account && creatorId === id,
});

/** Those whose quotas count a bucket, the account first. */
export const holdersFor = ({
  owner,
  creatorId,
}: Pick<BucketRow, 'owner' | 'creatorId'>): readonly QuotaHolder[] => [
  accountHolder(owner),
  ...(creatorId === undefined ? [] : [userHolder(owner, creatorId)]),
];

export async function* everyBucketOf({ metadata }: Ctx, holder: QuotaHolder): AsyncGenerator<BucketRow> {
  let after: string | undefined;
  for (;;) {
    const page = await pageBuckets(metadata, holder.account, { prefix: '', after, limit: pageMax });
    for (const { name } of page) {
      const row = (await findBucket(metadata, name))?.row;
      if (row !== undefined && holder.has(row)) yield row;
    }
    if (page.length < pageMax) return;
    after = page.at(-1)?.name;
  }
}

/** Whose quota it is, for refusals. */
export const describeHolder = ({ account, field }: QuotaHolder) =>
  ({ of: field === 'userQuota' ? 'IAM user' : 'account', name: account, account }) as const;

export const holderScope = (holder: QuotaHolder, epoch: string): Scope => ({
  id: `account/${epoch}`,
  whose: describeHolder(holder),
  usageIds: [accountUsage(epoch)],
  bytesOf: ({ accounts }) => accounts.get(epoch) ?? 0,
  async limits({ metadata }) {
    const row = (await findAccountQuota(metadata, holder.key))?.row;
    if (row?.epoch !== epoch) return undefined;
    return { bytes: orUnlimited(row.totalMaxBytes), objects: Number.POSITIVE_INFINITY };
  },
  async *buckets(ctx) {
    for await (const bucket of everyBucketOf(ctx, holder)) if (bucket[holder.field] === epoch) yield bucket;
  },
});
