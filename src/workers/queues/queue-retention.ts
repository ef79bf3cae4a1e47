/** `queue-retention`: bounds and measures the queues of events, replication and access logs, one look each time. */
import type { Context } from '../../context.ts';
import { boundQueues, firstLook } from '../../domain/events/queue-retention.ts';
import type { Unit } from '../supervision/worker.ts';

export const boundAllQueues = (
  context: Pick<Context, 'caches' | 'metadata' | 'config' | 'telemetry' | 'clock' | 'random'>,
): Unit => {
  const looks = firstLook();
  const show = ({ queues, targets }: Awaited<ReturnType<typeof boundQueues>>): void => {
    context.telemetry.queueBacklogs(queues);
    context.telemetry.eventBacklogs(targets);
  };
  let isWatched = false;
  return async (signal) => {
    // A process that leads no longer shows nothing: the new leader's gauges are about the same queues.
    if (!isWatched) signal.addEventListener('abort', () => show({ queues: [], targets: [] }), { once: true });
    isWatched = true;
    const backlogs = await boundQueues(context, looks, signal);
    if (!signal.aborted) show(backlogs);
    return 'idle';
  };
};
