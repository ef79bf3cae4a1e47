/**
 * Sets the quota of an account or an IAM user. Its `totalMaxBytes` is a sum over all of its buckets, for which it gets
 * counters of its own: each bucket is entered with what it holds, while no writer commits, and each later commit adds
 * to both counters.
 */
import { fail } from '../../base/errors.ts';
import { findBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { changeAccountQuota, findAccountQuota } from '../../metadata/buckets/quotas.ts';
import { accountUsage, counterChanges, readUsage } from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { AccountQuotaRow } from '../../metadata/records/usage.ts';
import type { BucketQuota, BucketRow } from '../../metadata/tables.ts';
import { assertOpen, changeBucket, fenceWriters, openBucket } from '../common/buckets.ts';
import { drawId } from '../common/ids.ts';
import type { State } from '../common/recorder.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import { sum } from './amounts.ts';
import { bucketScope, everyBucketOf, holderScope, holdersFor, type QuotaHolder } from './scopes.ts';
import { isSettled, recall, type ShareCtx } from './shares.ts';

export type AccountQuota = Pick<AccountQuotaRow, 'maxBuckets' | 'totalMaxBytes' | 'isDefault'>;

const quotaState = (quota: AccountQuota | undefined): State | undefined =>
  quota && { maxBuckets: quota.maxBuckets, totalMaxBytes: quota.totalMaxBytes };

interface AccountQuotaChange {
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present quota. */
  readonly check?: ((present: AccountQuota | undefined) => void) | undefined;
}

export async function putAccountQuota(
  ctx: ShareCtx,
  holder: QuotaHolder,
  {
    quota,
    record,
    check,
  }: { readonly quota: (present: AccountQuota | undefined) => AccountQuota } & AccountQuotaChange,
): Promise<void> {
  const epoch = await retryInTurn(ctx, `quota of ${holder.key}`, async () => {
    const found = await findAccountQuota(ctx.metadata, holder.key);
    check?.(found?.row);
    const next = quota(found?.row);
    record?.change?.(quotaState(found?.row), quotaState(next));
    const row = { account: holder.key, ...next, epoch: found?.row.epoch ?? drawId(ctx.random) };
    const change = { put: row, expect: found?.revision ?? ('absent' as const) };
    const outcome = await changeAccountQuota(ctx.metadata, holder.key, change, await recorded(record));
    if (!outcome.applied) return undefined;
    record?.applied();
    return { value: row.epoch };
  });
  for await (const bucket of everyBucketOf(ctx, holder)) await enterBucket(ctx, bucket, { holder, epoch });
  await recall(ctx, holderScope(holder, epoch), () => true);
}

export async function deleteAccountQuota(
  ctx: ShareCtx,
  holder: QuotaHolder,
  { record, check }: AccountQuotaChange,
): Promise<void> {
  const found = await findAccountQuota(ctx.metadata, holder.key);
  check?.(found?.row);
  if (found === undefined) return;
  record?.change?.(quotaState(found.row), undefined);
  const removal = { remove: {}, expect: found.revision };
  const outcome = await changeAccountQuota(ctx.metadata, holder.key, removal, await recorded(record));
  if (!outcome.applied) throw fail('OperationAborted');
  record?.applied();
  const { epoch } = found.row;
  const { field } = holder;
  for await (const bucket of everyBucketOf(ctx, holder)) {
    if (bucket[field] !== epoch) continue;
    await changeBucket(ctx, bucket, {
      change: (row) => {
        const { [field]: present, ...others } = row;
        return present === epoch ? others : row;
      },
    });
  }
}

/**
 * Enters a bucket into the counters of its account, or of the IAM user who created it. The bucket is closed to writers
 * meanwhile, for as long as it takes to read its counters: their commits wait, as they do beside a DeleteBucket.
 */
async function enterBucket(
  ctx: ShareCtx,
  bucket: Pick<BucketRow, 'name' | 'id'>,
  { holder: { field }, epoch }: { readonly holder: QuotaHolder; readonly epoch: string },
): Promise<void> {
  await retryInTurn(ctx, `bucket ${bucket.name}`, async () => {
    const found = await findBucket(ctx.metadata, bucket.name);
    if (found?.row.id !== bucket.id || found.row[field] === epoch) return { value: undefined };
    const open = await assertOpen(ctx, found);
    if (open !== found.row) return undefined;
    const closing = { ...open, closedAt: await ctx.metadata.now(), generation: open.generation + 1 };
    const closed = await replaceBucket(ctx.metadata, found, closing);
    if (!closed.applied) return undefined;
    const reopened = { ...closing, closedAt: 0, generation: closing.generation + 1 };
    // Writers that read the closed row are refused too.
    await ctx.metadata.raiseFence(objectsAt(closing), reopened.generation);
    const isCounted = await isSettled(ctx, open.id);
    const stored = sum((await readUsage(ctx.metadata, open.id)).values());
    const entered = isCounted ? { ...reopened, [field]: epoch } : reopened;
    const then = isCounted
      ? counterChanges(accountUsage(epoch), open.id, [{ storageClass: '', ...stored }])
      : [];
    const outcome = await replaceBucket(
      ctx.metadata,
      { row: closing, revision: closed.revision },
      entered,
      then,
    );
    if (!outcome.applied) return undefined;
    if (!isCounted)
      throw fail(
        'ServiceUnavailable',
        `The counters of bucket ${bucket.name} miss additions of a gateway that died. Send the request again in a minute.`,
      );
    return { value: undefined };
  });
}

/** Enters a bucket that a request for the quota of its account or creator left out, because it was cut short. */
export async function enterIfLeftOut(ctx: ShareCtx, bucket: BucketRow): Promise<void> {
  for (const holder of holdersFor(bucket)) {
    const epoch = (await findAccountQuota(ctx.metadata, holder.key))?.row.epoch;
    if (epoch !== undefined && epoch !== bucket[holder.field])
      await enterBucket(ctx, bucket, { holder, epoch });
  }
}

// Sets the quota of a bucket. Every write that ends after the answer obeys it.

interface QuotaChange {
  readonly bucket: string;
  /** The quota by the present one; undefined removes it. */
  readonly quota: (present: BucketQuota | undefined) => BucketQuota | undefined;
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present quota. */
  readonly check?: ((present: BucketQuota | undefined) => void) | undefined;
}

export async function changeBucketQuota(
  ctx: ShareCtx,
  { bucket, quota: decide, record, check }: QuotaChange,
): Promise<void> {
  // Writers that read the row before do not know the quota.
  const row = await fenceWriters(ctx, await openBucket(ctx, bucket), {
    record,
    change: ({ quota: present, ...others }): BucketRow => {
      check?.(present);
      const quota = decide(present);
      return { ...others, ...(quota && { quota }) };
    },
  });
  // Shares of the former quota may be larger than the new one.
  await recall(ctx, bucketScope(row), () => true);
}
