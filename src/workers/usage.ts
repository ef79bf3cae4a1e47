/** `usage-rollup` and `quota-reconcile`. */
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { holdProgress, type Saved, toSchedule } from '../domain/usage/progress.ts';
import { holdReconcile, type SavedReconcile, stepReconcile } from '../domain/usage/reconcile.ts';
import { stepRollup } from '../domain/usage/rollup.ts';
import { type Unit, unsupervised } from './worker.ts';

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
