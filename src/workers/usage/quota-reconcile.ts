/** `quota-reconcile`: compares the counters of every bucket with its rows, a bucket at a time, and corrects what drifted. */
import type { Context } from '../../context.ts';
import { type HeldReconcile, holdReconcile, stepReconcile } from '../../domain/buckets/usage/reconcile.ts';
import { type Unit, unsupervised } from '../supervision/worker.ts';

export type QuotaReconcileContext = Pick<
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
  let held: HeldReconcile | undefined;
  let drifts = new Map<string, number>();
  const isLarger = (a: readonly [string, number], b: readonly [string, number]) =>
    Math.abs(b[1]) - Math.abs(a[1]);
  const cut = (): void => {
    drifts = new Map([...drifts].sort(isLarger).slice(0, gaugesMax));
  };
  return async (signal) => {
    if (held === undefined) {
      // A process that no longer leads shows no gauges: the process of the new leader shows the same buckets.
      signal.addEventListener('abort', () => telemetry.usageDrifts(new Map()), { once: true });
      held = await holdReconcile(metadata, generation);
    }
    const step = await stepReconcile(context, held, { signal, runAt: services.runAt() });
    held = step.held;
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
