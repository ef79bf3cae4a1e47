/** Sets the quota of a bucket. Every write that ends after the answer obeys it. */
import type { BucketQuota, BucketRow } from '../../../metadata/tables.ts';
import type { Recorder } from '../../events/recorder.ts';
import { openBucket } from '../buckets.ts';
import { changeBucket } from '../change-bucket.ts';
import { type Ctx, fenceBucket, recall } from './recall.ts';
import { bucketScope } from './scopes.ts';

export interface QuotaChange {
  readonly bucket: string;
  /** The quota by the present one; undefined removes it. */
  readonly quota: (present: BucketQuota | undefined) => BucketQuota | undefined;
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present quota. */
  readonly check?: ((present: BucketQuota | undefined) => void) | undefined;
}

export async function changeBucketQuota(
  ctx: Ctx,
  { bucket, quota: decide, record, check }: QuotaChange,
): Promise<void> {
  const row = await changeBucket(ctx, await openBucket(ctx, bucket), {
    record,
    change: ({ quota: present, ...others }): BucketRow => {
      check?.(present);
      const quota = decide(present);
      return {
        ...others,
        // Writers that read the row before do not know the quota.
        generation: others.generation + 1,
        ...(quota === undefined ? {} : { quota }),
      };
    },
  });
  await fenceBucket(ctx, row);
  // Shares of the former quota may be larger than the new one.
  await recall(ctx, bucketScope(row), () => true);
}
