/** `force-empty`: deletes the content of buckets that operators want empty, a page of each in turn. */
import type { Context } from '../context.ts';
import { emptyPage, everyEmptying } from '../domain/buckets/force-empty.ts';
import { aloneHere, ShardPanic, type Unit } from './supervision/worker.ts';

export const emptyBuckets =
  (
    context: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>,
    _generation = 0,
    around = aloneHere,
  ): Unit =>
  async (signal) => {
    let said: 'busy' | 'idle' = 'idle';
    let panic: ShardPanic | undefined;
    for await (const task of everyEmptying(context)) {
      if (signal.aborted) break;
      said = 'busy';
      try {
        await around.giveWay(signal);
        around.report({ done: await emptyPage(context, task) });
      } catch (cause) {
        // The other buckets are not to wait for this one; then it is the supervisor's.
        panic ??= new ShardPanic(task.state.bucket, cause);
      }
    }
    if (panic !== undefined) throw panic;
    return said;
  };
