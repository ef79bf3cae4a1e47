/** What is stored for a time: `queue-retention`, `audit-retention` and `health-history`. */
import type { Context } from '../context.ts';
import { openTurns } from '../domain/common/turns.ts';
import { beginBounds, boundQueues } from '../domain/event-deliveries/queue-retention.ts';
import { holdSeals, type SavedSeals, stepSeals } from '../domain/events/seal-hours.ts';
import { beginHistory, recordHealth } from '../domain/storage/storage-health.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { inSteps, type WorkerServices } from './worker.ts';

// `queue-retention`: bounds and measures the queues of events, replication and access logs, in one pass each time.

type QueueContext = Pick<Context, 'caches' | 'metadata' | 'config' | 'telemetry' | 'clock' | 'random'>;

function showBacklogs(
  { telemetry }: QueueContext,
  { queues, targets }: Awaited<ReturnType<typeof boundQueues>>,
  report: WorkerServices['report'],
): void {
  telemetry.replace(
    'svc_queue_rows',
    queues.map(({ queue, rows }) => [{ queue }, rows]),
  );
  telemetry.replace(
    'svc_queue_oldest_seconds',
    queues.map(({ queue, oldestSeconds }) => [{ queue }, oldestSeconds]),
  );
  telemetry.replace(
    'svc_notify_queued',
    targets.map(({ target, rows }) => [{ target }, rows]),
  );
  telemetry.replace(
    'svc_notify_oldest_seconds',
    targets.map(({ target, oldestSeconds }) => [{ target }, oldestSeconds]),
  );
  report({
    left: queues.reduce((sum, { rows }) => sum + rows, 0),
    oldestSeconds: Math.max(0, ...queues.map(({ oldestSeconds }) => oldestSeconds)),
    queues,
  });
}

export const boundAllQueues = inSteps<QueueContext, ReturnType<typeof beginBounds>>({
  retire: (context, { report }) => showBacklogs(context, { queues: [], targets: [] }, report),
  begin: beginBounds,
  async step(context, saved, { signal, report }) {
    const backlogs = await boundQueues(context, saved, signal);
    showBacklogs(context, backlogs, report);
    return { is: 'idle' };
  },
});

// `audit-retention`: seals the hours of the audit log, and removes those that have expired (`SVC_AUDIT_RETENTION`).

type AuditContext = Pick<
  Context,
  'caches' | 'metadata' | 'hasher' | 'sealer' | 'config' | 'telemetry' | 'clock'
>;

interface Sealing {
  readonly seals: SavedSeals;
  readonly rest: ReturnType<typeof openTurns>;
}

export const retainAudit = inSteps<AuditContext, Sealing>({
  begin: async (context, generation) => ({
    seals: await holdSeals(context, generation),
    rest: openTurns(context.clock),
  }),
  async step(context, { seals, rest }, { signal, yieldToClients }) {
    const { saved, rows } = await stepSeals(context, seals, async () => {
      signal.throwIfAborted();
      await yieldToClients(signal);
      await rest();
    });
    const next = { seals: saved, rest };
    return rows === undefined ? { is: 'idle', saved: next } : { is: 'busy', saved: next, done: rows };
  },
});

// `health-history`: probes storage, and writes down each change of its health. One process probes, because two may not
// reach the same nodes.

export const keepHealthHistory = inSteps<Pick<Context, 'metadata' | 'bytes' | 'config'>, Term>({
  begin: beginHistory,
  step: async (context, term) =>
    (await recordHealth(context, term)) ? { is: 'idle', done: 1 } : { is: 'idle' },
});
