/** The workers that go from bucket to bucket: `bucket-stats`, `force-empty`, `reshard`, `usage-rollup` and `quota-reconcile`. */
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { beginSampling, ClassSample, publishSnapshot } from '../domain/buckets/class-stats.ts';
import { emptyings, emptyPage, everyEmptying } from '../domain/buckets/force-empty.ts';
import { type Doubling, everyResharding, reshardings, reshardRound } from '../domain/buckets/reshard.ts';
import { passOverDamage } from '../domain/common/damaged-buckets.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { holdProgress, type Saved, toSchedule } from '../domain/usage/progress.ts';
import { holdReconcile, type SavedReconcile, stepReconcile } from '../domain/usage/reconcile.ts';
import { stepRollup } from '../domain/usage/rollup.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { everySoundBucket } from '../metadata/buckets/buckets.ts';
import type { LeaseContext } from './leadership.ts';
import { ShardRound, type Unit, unsupervised } from './worker.ts';

// `bucket-stats`: sums what the buckets hold, a page of them at a time.

type BucketStatsContext = Pick<Context, 'metadata' | 'config' | 'clock' | 'telemetry'>;

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
      names: everySoundBucket(metadata),
    };
    const { sample, names } = pass;
    for (let count = 0; count < unitBuckets; count += 1) {
      signal.throwIfAborted();
      const { value, done } = await names.next();
      if (done !== true) {
        await passOverDamage(context, {
          bucket: value,
          left: 'a bucket is missing in the totals of storage classes',
          run: () => sample.add(context, value),
        });
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

// `force-empty`: deletes the content of buckets that operators want empty, a page of each in turn.

export const emptyBuckets =
  (
    context: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'>,
    _generation = 0,
    services = unsupervised,
  ): Unit =>
  async (signal) => {
    let said: 'busy' | 'idle' = 'idle';
    const round = new ShardRound(services, signal);
    for await (const task of everyEmptying(context)) {
      if (signal.aborted) break;
      if (round.isResting(task.name)) continue;
      said = 'busy';
      const onFailure = (cause: unknown) => noteTaskError(context, emptyings, { name: task.name, cause });
      await round.work({ id: task.name, name: task.state.bucket, onFailure }, async () => {
        await services.yieldToClients(signal);
        services.report({ done: await emptyPage(context, task) });
      });
    }
    round.end();
    services.idle?.nothingBefore(services.shards?.endsAt ?? Number.POSITIVE_INFINITY);
    return said;
  };

// `reshard`: moves rows of the buckets that operators want more shards for, a round of each in turn.

export const reshardBuckets = (context: LeaseContext, _generation = 0, services = unsupervised): Unit => {
  const doublings = new Map<string, Doubling>();
  return async (signal) => {
    let said: 'busy' | 'idle' = 'idle';
    const round = new ShardRound(services, signal);
    let waitMs = Number.POSITIVE_INFINITY;
    for await (const task of everyResharding(context)) {
      if (signal.aborted) break;
      if (round.isResting(task.name)) continue;
      said = 'busy';
      const onFailure = (cause: unknown) => noteTaskError(context, reshardings, { name: task.name, cause });
      const succeeded = await round.work({ id: task.name, name: task.state.bucket, onFailure }, async () => {
        waitMs = Math.min(waitMs, await reshardRound(context, task, { doublings, signal }));
        services.report({ done: 1 });
      });
      if (!succeeded) waitMs = 0;
    }
    round.end();
    // Readers may still be where they were: there is nothing to do before they know.
    if (said === 'busy' && waitMs > 0) await context.clock.sleep(waitMs, signal);
    services.idle?.nothingBefore(services.shards?.endsAt ?? Number.POSITIVE_INFINITY);
    return said;
  };
};

// `usage-rollup`: samples the counters of all buckets, and writes the usage of each day once it has ended.

type UsageRollupContext = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

/** How often the worker checks whether something is due: a sample may be late by this time. */
export const usageRollupEveryMs = (config: Config): number => Math.min(5_000, toSchedule(config).sampleMs);

/** @param generation of the leader's lease */
export const rollUpUsage = (context: UsageRollupContext, generation = 0, services = unsupervised): Unit => {
  let saved: Saved | undefined;
  return async () => {
    saved ??= await holdProgress(context.metadata, generation);
    const step = await stepRollup(context, saved);
    saved = step.saved;
    if (step.isBusy) services.report({ done: 1 });
    const { nextSampleAt, nextTickAt } = saved.progress;
    services.idle?.nothingBefore(Math.min(nextSampleAt, nextTickAt));
    return step.isBusy ? 'busy' : 'idle';
  };
};

// `quota-reconcile`: compares the counters of every bucket with its rows, a bucket at a time, and corrects what drifted.

type QuotaReconcileContext = Pick<
  Context,
  'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'
>;

/** How often the worker checks whether a pass is due. */
export const quotaReconcileEveryMs = 30_000;
/** Buckets with a gauge: those with the largest drift, so that the number of gauges is bounded. */
const gaugesMax = 1_000;

/** @param generation of the leader's lease */
export const reconcileQuotas = (
  context: QuotaReconcileContext,
  generation = 0,
  services = unsupervised,
): Unit => {
  const { metadata, telemetry } = context;
  let saved: SavedReconcile | undefined;
  let drifts = new Map<string, number>();
  const isLarger = (a: readonly [string, number], b: readonly [string, number]) =>
    Math.abs(b[1]) - Math.abs(a[1]);
  const cut = (): void => {
    drifts = new Map([...drifts].sort(isLarger).slice(0, gaugesMax));
  };
  return async (signal) => {
    if (saved === undefined) {
      // A process that no longer leads shows no gauges: the process of the new leader shows the same buckets.
      signal.addEventListener('abort', () => telemetry.usageDrifts(new Map()), { once: true });
      saved = await holdReconcile(metadata, generation);
    }
    const step = await stepReconcile(context, saved, { signal, runAt: services.runAt() });
    saved = step.saved;
    if (step.is === 'busy') services.report({ done: 1 });
    if (step.found !== undefined) drifts.set(step.found.bucket, step.found.driftBytes);
    if (drifts.size >= 2 * gaugesMax) cut();
    if (step.is === 'finished') {
      cut();
      if (!signal.aborted) telemetry.usageDrifts(drifts);
      drifts = new Map();
    }
    return step.is === 'busy' ? 'busy' : 'idle';
  };
};
