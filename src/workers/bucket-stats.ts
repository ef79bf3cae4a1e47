/** `bucket-stats`: sums what the buckets hold, a page of them at a time. */
import type { Context } from '../context.ts';
import { beginSampling, ClassSample, publishSnapshot } from '../domain/buckets/class-stats.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { everyBucket } from '../metadata/buckets/buckets.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

export type BucketStatsContext = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

const unitBuckets = 100;

/** @param generation of the leader's lease */
export const sampleBuckets = (context: BucketStatsContext, generation = 0, services = unsupervised): Unit => {
  const { metadata, config, telemetry } = context;
  let pass: { readonly sample: ClassSample; readonly names: AsyncGenerator<string> } | undefined;
  let isWatched = false;
  let term: Term | undefined;
  return async (signal) => {
    // A process that no longer leads shows no gauges: the new leader's process shows the same buckets.
    if (!isWatched) signal.addEventListener('abort', () => telemetry.bucketClasses([]), { once: true });
    isWatched = true;
    term ??= await beginSampling(context, generation);
    pass ??= { sample: new ClassSample(config.SVC_BUCKETSTATS_TOPN), names: everyBucket(metadata) };
    const { sample, names } = pass;
    for (let count = 0; count < unitBuckets; count += 1) {
      signal.throwIfAborted();
      const { value, done } = await names.next();
      if (done !== true) {
        await sample.add(context, value);
        services.report({ done: 1 });
      } else {
        pass = undefined;
        await publishSnapshot(context, sample, term);
        if (!signal.aborted) telemetry.bucketClasses(sample.largest());
        return 'idle';
      }
    }
    return 'busy';
  };
};
