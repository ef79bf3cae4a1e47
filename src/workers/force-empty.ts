/** `force-empty`: deletes the content of buckets that operators want empty, a page of each in turn. */
import type { Context } from '../context.ts';
import { emptyPage, everyEmptying } from '../domain/buckets/force-empty.ts';
import { ShardPanic, type Unit, unsupervised } from './supervision/worker.ts';

export const emptyBuckets =
  (
    context: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>,
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
        panic ??= new ShardPanic(task.state.bucket, cause);
      }
    }
    if (panic !== undefined) throw panic;
    return said;
  };
