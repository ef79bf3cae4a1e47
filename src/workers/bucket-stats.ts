/** `bucket-stats`: sums what the buckets hold, a page of them at a time. */
import type { Context } from '../context.ts';
import { beginSampling, ClassSample, publishSnapshot } from '../domain/buckets/class-stats.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { everyBucket } from '../metadata/buckets/buckets.ts';
import { type Unit, unsupervised } from './supervision/worker.ts';

export type BucketStatsContext = Pick<Context, 'metadata' | 'config' | 'clock' | 'telemetry'>;

const unitBuckets = 100;

const stopShowing = ({ telemetry }: BucketStatsContext): void => {
  telemetry.bucketClasses([]);
  telemetry.quotaUse([]);
  telemetry.signingKeys(undefined);
};

/** @param generation of the leader's lease */
export const sampleBuckets = (context: BucketStatsContext, generation = 0, services = unsupervised): Unit => {
  const { metadata, config, clock, telemetry } = context;
  let pass: { readonly sample: ClassSample; readonly names: AsyncGenerator<string> } | undefined;
  let isWatched = false;
  let term: Term | undefined;
  return async (signal) => {
    // A process that no longer leads shows no gauges: the new leader's process shows the same buckets.
    if (!isWatched) signal.addEventListener('abort', () => stopShowing(context), { once: true });
    isWatched = true;
    term ??= await beginSampling(context, generation);
    pass ??= {
      sample: new ClassSample(config.SVC_BUCKETSTATS_TOPN, {
        maxAgeMs: config.SVC_KEY_MAX_AGE,
        now: clock.now(),
      }),
      names: everyBucket(metadata),
    };
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
        if (!signal.aborted) {
          telemetry.bucketClasses(sample.largest());
          telemetry.quotaUse(sample.quotas());
          telemetry.signingKeys(sample.signingKeys());
        }
        return 'idle';
      }
    }
    return 'busy';
  };
};
