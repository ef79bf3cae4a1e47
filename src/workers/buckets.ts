/** The workers that go from bucket to bucket: `bucket-stats`, `force-empty`, `reshard`, `usage-rollup` and `quota-reconcile`. */
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { beginSampling, ClassSample, publishSnapshot } from '../domain/buckets/class-stats.ts';
import { emptyings, emptyPage, everyEmptying } from '../domain/buckets/force-empty.ts';
import { type Doubling, everyResharding, reshardings, reshardRound } from '../domain/buckets/reshard.ts';
import { passOverDamage } from '../domain/common/damaged-buckets.ts';
import { noteTaskError } from '../domain/common/task-progress.ts';
import { openTurns } from '../domain/common/turns.ts';
import { holdProgress, type Saved, toSchedule } from '../domain/usage/progress.ts';
import { holdReconcile, type SavedReconcile, stepReconcile } from '../domain/usage/reconcile.ts';
import { stepRollup } from '../domain/usage/rollup.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { everySoundBucket } from '../metadata/buckets/buckets.ts';
import { noLabels } from '../ports/telemetry.ts';
import type { LeaseContext } from './leadership.ts';
import { inSteps, pauseForClients, stepTasks, type TaskRound, type Turn } from './worker.ts';

// `bucket-stats`: sums what the buckets hold, a page of them at a time.

type BucketStatsContext = Pick<Context, 'metadata' | 'config' | 'clock' | 'telemetry'>;

const unitBuckets = 100;

/** @param sample undefined where this process does not lead any more: the process of the new leader shows the same buckets */
function showSample({ telemetry }: BucketStatsContext, sample: ClassSample | undefined): void {
  const largest = sample?.largest() ?? [];
  telemetry.replace(
    'svc_storage_class_bytes',
    largest.map(({ bucket, storageClass, bytes }) => [{ bucket, class: storageClass }, bytes]),
  );
  telemetry.replace(
    'svc_storage_class_objects',
    largest.map(({ bucket, storageClass, objects }) => [{ bucket, class: storageClass }, objects]),
  );
  telemetry.replace(
    'svc_quota_used_ratio',
    (sample?.quotas() ?? []).map(({ of, name, limit, ratio }) => [{ of, name, limit }, ratio]),
  );
  const keys = sample?.signingKeys();
  for (const state of ['valid', 'expiring', 'expired'] as const)
    telemetry.set('svc_signing_keys', { state }, keys?.[state]);
  telemetry.set('svc_signing_key_oldest_seconds', noLabels, keys?.oldestSeconds);
}

interface Pass {
  readonly sample: ClassSample;
  readonly names: AsyncGenerator<string>;
}

const beginPass = ({ metadata, config, clock }: BucketStatsContext): Pass => ({
  sample: new ClassSample(config.SVC_BUCKETSTATS_TOPN, {
    maxAgeMs: config.SVC_KEY_MAX_AGE,
    now: clock.now(),
  }),
  names: everySoundBucket(metadata),
});

export const sampleBuckets = inSteps<BucketStatsContext, { readonly term: Term; readonly pass?: Pass }>({
  retire: (context) => showSample(context, undefined),
  begin: async (context, generation) => ({ term: await beginSampling(context, generation) }),
  async step(context, { term, pass = beginPass(context) }, { signal, report }) {
    const { sample, names } = pass;
    for (let count = 0; count < unitBuckets; count += 1) {
      signal.throwIfAborted();
      const { value, done } = await names.next();
      if (done === true) {
        await publishSnapshot(context, sample, term);
        showSample(context, sample);
        return { is: 'idle', saved: { term } };
      }
      await passOverDamage(context, {
        bucket: value,
        left: 'a bucket is missing in the totals of storage classes',
        run: () => sample.add(context, value),
      });
      report({ done: 1 });
    }
    return { is: 'busy', saved: { term, pass } };
  },
});

// `force-empty`: deletes the content of buckets that operators want empty, a page of each in turn.

type EmptyingContext = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'>;

export const emptyBuckets = inSteps<EmptyingContext, TaskRound | undefined>({
  begin: () => undefined,
  async step(context, former, turn) {
    const round = await stepTasks(context, {
      turn,
      former,
      tasks: (range) => everyEmptying(context, range),
      nameOf: ({ bucket }) => bucket,
      onFailure: ({ name }, cause) => noteTaskError(context, emptyings, { name, cause }),
      async step(task) {
        await turn.yieldToClients(turn.signal);
        turn.report({ done: await emptyPage(context, task) });
      },
    });
    if (round.after !== undefined) return { is: 'busy', saved: round };
    round.shards.end();
    return { is: round.hasWorked ? 'busy' : 'idle', saved: round, nothingBefore: restsEnd(turn) };
  },
});

/** Nothing wakes these workers before the next rest of a task ends, unless a request of an operator is committed. */
const restsEnd = ({ shards }: Pick<Turn, 'shards'>): number => shards?.endsAt ?? Number.POSITIVE_INFINITY;

// `reshard`: moves rows of the buckets that operators want more shards for, a round of each in turn.

interface SavedReshards {
  readonly doublings: Map<string, Doubling>;
  readonly former?: TaskRound;
  /** The least pause that the buckets of this round ask for. */
  readonly waitMs: number;
}

const noPause = { waitMs: Number.POSITIVE_INFINITY };

export const reshardBuckets = inSteps<LeaseContext, SavedReshards>({
  begin: () => ({ doublings: new Map(), ...noPause }),
  async step(context, { doublings, former, ...saved }, turn) {
    const { signal, report } = turn;
    let { waitMs } = saved;
    const round = await stepTasks(context, {
      turn,
      former,
      tasks: (range) => everyResharding(context, range),
      nameOf: ({ bucket }) => bucket,
      onFailure: ({ name }, cause) => {
        waitMs = 0;
        return noteTaskError(context, reshardings, { name, cause });
      },
      async step(task) {
        waitMs = Math.min(waitMs, await reshardRound(context, task, { doublings, signal }));
        report({ done: 1 });
      },
    });
    if (round.after !== undefined) return { is: 'busy', saved: { doublings, former: round, waitMs } };
    round.shards.end();
    // Readers may still be where they were: there is nothing to do before they know.
    const { hasWorked } = round;
    if (hasWorked && waitMs > 0 && !signal.aborted) await context.clock.sleep(waitMs, signal);
    return {
      is: hasWorked ? 'busy' : 'idle',
      saved: { doublings, ...noPause },
      nothingBefore: restsEnd(turn),
    };
  },
});

// `usage-rollup`: samples the counters of all buckets, and writes the usage of each day once it has ended.

type UsageRollupContext = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

/** How often the worker checks whether something is due: a sample may be late by this time. */
export const usageRollupEveryMs = (config: Config): number => Math.min(5_000, toSchedule(config).sampleMs);

export const rollUpUsage = inSteps<UsageRollupContext, Saved>({
  begin: ({ metadata }, generation) => holdProgress(metadata, generation),
  async step(context, former) {
    const { saved, isBusy } = await stepRollup(context, former);
    const { nextSampleAt, nextTickAt } = saved.progress;
    const nothingBefore = Math.min(nextSampleAt, nextTickAt);
    return isBusy ? { is: 'busy', saved, done: 1, nothingBefore } : { is: 'idle', saved, nothingBefore };
  },
});

// `quota-reconcile`: compares the counters of every bucket with its rows, some buckets at a time, and corrects what drifted.

type QuotaReconcileContext = Pick<
  Context,
  'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'
>;

/** How often the worker checks whether a pass is due. */
export const quotaReconcileEveryMs = 30_000;
/** Buckets with a gauge: those with the largest drift, so that the number of gauges is bounded. */
const gaugesMax = 1_000;

/** Drift in bytes by bucket; negative where the counter is too high. */
type Drifts = Map<string, number>;

/** The largest drift first. */
const compareDrifts = ([, a]: readonly [string, number], [, b]: readonly [string, number]): number =>
  Math.abs(b) - Math.abs(a);
const keepLargest = (drifts: Drifts): Drifts => new Map([...drifts].sort(compareDrifts).slice(0, gaugesMax));

const showDrifts = ({ telemetry }: QuotaReconcileContext, drifts: Drifts): void =>
  telemetry.replace(
    'svc_quota_reconcile_drift_bytes',
    [...drifts].map(([bucket, bytes]) => [{ bucket }, bytes]),
  );

interface Reconciling {
  readonly progress: SavedReconcile;
  /** Those that this pass has found; each step adds to them. */
  readonly drifts: Drifts;
}

export const reconcileQuotas = inSteps<QuotaReconcileContext, Reconciling>({
  retire: (context) => showDrifts(context, new Map()),
  begin: async ({ metadata }, generation) => ({
    progress: await holdReconcile(metadata, generation),
    drifts: new Map(),
  }),
  async step(context, { progress, drifts: found }, turn) {
    const { signal } = turn;
    const pause = () => pauseForClients(context, turn);
    const rest = openTurns(context.clock, { signal });
    const step = await stepReconcile(context, progress, { signal, runAt: turn.runAt(), pause, rest });
    const { is, saved, compared: done } = step;
    for (const [bucket, driftBytes] of step.drifts) found.set(bucket, driftBytes);
    const drifts = found.size >= 2 * gaugesMax ? keepLargest(found) : found;
    if (is !== 'finished') return { is, saved: { progress: saved, drifts }, done };
    showDrifts(context, keepLargest(drifts));
    return { is: 'idle', saved: { progress: saved, drifts: new Map() }, done };
  },
});
