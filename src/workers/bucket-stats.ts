/** `bucket-stats` (spec "Per-storage-class breakdown"): sums what the buckets hold, a page of them at a time. */
import type { Context } from '../context.ts';
import { ClassSample, publishSnapshot } from '../domain/class-stats.ts';
import { everyBucket } from '../metadata/buckets.ts';
import type { Unit } from './worker.ts';

export type BucketStatsContext = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

const unitBuckets = 100;

export const sampleBuckets = (context: BucketStatsContext): Unit => {
  const { metadata, config, telemetry } = context;
  let pass: { readonly sample: ClassSample; readonly names: AsyncGenerator<string> } | undefined;
  let isWatched = false;
  return async (signal) => {
    // Who leads no longer shows nothing: another process's gauges tell of the same buckets.
    if (!isWatched) signal.addEventListener('abort', () => telemetry.bucketClasses([]), { once: true });
    isWatched = true;
    pass ??= { sample: new ClassSample(config.SVC_BUCKETSTATS_TOPN), names: everyBucket(metadata) };
    const { sample, names } = pass;
    for (let count = 0; count < unitBuckets; count += 1) {
      signal.throwIfAborted();
      const { value, done } = await names.next();
      if (done !== true) await sample.add(context, value);
      else {
        pass = undefined;
        await publishSnapshot(context, sample);
        if (!signal.aborted) telemetry.bucketClasses(sample.largest());
        return 'idle';
      }
    }
    return 'busy';
  };
};
