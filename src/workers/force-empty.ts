/** `force-empty`: deletes the content of buckets that operators want empty, a page of each in turn. */
import type { Context } from '../context.ts';
import { emptyings, emptyPage, everyEmptying } from '../domain/buckets/force-empty.ts';
import { noteTaskError } from '../domain/tasks/progress.ts';
import { ShardPanic, type Unit, unsupervised } from './supervision/worker.ts';

export const emptyBuckets =
  (
    context: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'>,
    _generation = 0,
    services = unsupervised,
  ): Unit =>
  async (signal) => {
    let said: 'busy' | 'idle' = 'idle';
    let panic: ShardPanic | undefined;
    for await (const task of everyEmptying(context)) {
      if (signal.aborted) break;
      said = 'busy';
      try {
        await services.yieldToClients(signal);
        services.report({ done: await emptyPage(context, task) });
      } catch (cause) {
        // The other buckets are not to wait for this one; then it is the supervisor's.
        if (!signal.aborted) await noteTaskError(context, emptyings, { name: task.name, cause });
        panic ??= new ShardPanic(task.state.bucket, cause);
      }
    }
    if (panic !== undefined) throw panic;
    services.idle?.nothingBefore(Number.POSITIVE_INFINITY);
    return said;
  };
