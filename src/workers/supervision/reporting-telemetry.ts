/** Derives the progress of workers from what they tell telemetry anyway. */
import type { Telemetry } from '../../ports/telemetry.ts';
import type { WorkerServices } from './worker.ts';

const sum = (counts: Iterable<number>): number => {
  let total = 0;
  for (const count of counts) total += count;
  return total;
};

export const reportingTelemetry = (telemetry: Telemetry, report: WorkerServices['report']): Telemetry => ({
  ...telemetry,
  lifecycleActions(action, count) {
    telemetry.lifecycleActions(action, count);
    report({ done: count });
  },
  eventsDelivered(target, events) {
    telemetry.eventsDelivered(target, events);
    report({ done: events });
  },
  replicated(peer, sent) {
    telemetry.replicated(peer, sent);
    report({ done: 1 });
  },
  replicationWaits(waits) {
    telemetry.replicationWaits(waits);
    const oldestSeconds = Math.max(0, ...waits.map((wait) => wait.oldestSeconds));
    report({ left: sum(waits.map(({ waiting }) => waiting)), oldestSeconds });
  },
  accessLogDelivered(lines) {
    telemetry.accessLogDelivered(lines);
    report({ done: lines });
  },
  scrubbed(read) {
    telemetry.scrubbed(read);
    report({ done: read.bytes });
  },
  gcBacklog(extents) {
    telemetry.gcBacklog(extents);
    report({ left: sum(extents.values()) });
  },
  queueBacklogs(queues) {
    telemetry.queueBacklogs(queues);
    const oldestSeconds = Math.max(0, ...queues.map((queue) => queue.oldestSeconds));
    report({ left: sum(queues.map(({ rows }) => rows)), oldestSeconds, queues });
  },
});
