/** `reshard`: moves rows of the buckets that operators want more shards for, a round of each in turn. */
import { type Doubling, everyResharding, reshardings, reshardRound } from '../domain/buckets/reshard.ts';
import { noteTaskError } from '../domain/tasks/progress.ts';
import type { LeaseContext } from './supervision/leadership.ts';
import { ShardPanic, type Unit, unsupervised } from './supervision/worker.ts';

export const reshardBuckets = (context: LeaseContext, _generation = 0, services = unsupervised): Unit => {
  const doublings = new Map<string, Doubling>();
  return async (signal) => {
    let said: 'busy' | 'idle' = 'idle';
    let panic: ShardPanic | undefined;
    let waitMs = Number.POSITIVE_INFINITY;
    for await (const task of everyResharding(context)) {
      if (signal.aborted) break;
      said = 'busy';
      try {
        waitMs = Math.min(waitMs, await reshardRound(context, task, { doublings, signal }));
        services.report({ done: 1 });
      } catch (cause) {
        // The other buckets are not to wait for this one; then it is the supervisor's.
        waitMs = 0;
        if (!signal.aborted) await noteTaskError(context, reshardings, { name: task.name, cause });
        panic ??= new ShardPanic(task.state.bucket, cause);
      }
    }
    if (panic !== undefined) throw panic;
    // Readers may still be where they were: there is nothing to do before they know.
    if (said === 'busy' && waitMs > 0) await context.clock.sleep(waitMs, signal);
    services.idle?.nothingBefore(Number.POSITIVE_INFINITY);
    return said;
  };
};
