/** `usage-rollup`: samples the counters of all buckets, and writes the usage of each day once it has ended. */
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { type Held, holdProgress, toSchedule } from '../../domain/buckets/usage/progress.ts';
import { stepRollup } from '../../domain/buckets/usage/rollup.ts';
import { type Unit, unsupervised } from '../supervision/worker.ts';

export type UsageRollupContext = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

/** How often the worker checks whether something is due: a sample may be late by this time. */
export const usageRollupEveryMs = (config: Config): number => Math.min(5_000, toSchedule(config).sampleMs);

/** @param generation of the leader's lease */
export const rollUpUsage = (context: UsageRollupContext, generation = 0, services = unsupervised): Unit => {
  let held: Held | undefined;
  return async () => {
    held ??= await holdProgress(context.metadata, generation);
    const step = await stepRollup(context, held);
    held = step.held;
    if (step.isBusy) services.report({ done: 1 });
    const { nextSampleAt, nextTickAt } = held.progress;
    services.idle?.nothingBefore(Math.min(nextSampleAt, nextTickAt));
    return step.isBusy ? 'busy' : 'idle';
  };
};
