/** What is stored for a time: `queue-retention`, `audit-retention` and `health-history`. */
import type { Context } from '../context.ts';
import { openTurns } from '../domain/common/turns.ts';
import { boundQueues, firstLook } from '../domain/event-deliveries/queue-retention.ts';
import { holdSeals, type SavedSeals, stepSeals } from '../domain/events/seal-hours.ts';
import { beginHistory, recordHealth } from '../domain/storage/storage-health.ts';
import type { Term } from '../metadata/background/tasks.ts';
import { type Unit, unsupervised } from './worker.ts';

// `queue-retention`: bounds and measures the queues of events, replication and access logs, one look each time.

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
    // A former leader shows no backlogs, because the gauges of the new leader are about the same queues.
    if (!isWatched) signal.addEventListener('abort', () => show({ queues: [], targets: [] }), { once: true });
    isWatched = true;
    const backlogs = await boundQueues(context, looks, signal);
    if (!signal.aborted) show(backlogs);
    return 'idle';
  };
};

// `audit-retention`: seals the hours of the audit log, and removes those that have expired (`SVC_AUDIT_RETENTION`).

/** @param generation of the leader's lease */
export const retainAudit = (
  context: Pick<Context, 'metadata' | 'hasher' | 'sealer' | 'config' | 'telemetry' | 'clock'>,
  generation = 0,
  services = unsupervised,
): Unit => {
  let saved: SavedSeals | undefined;
  const rest = openTurns(context.clock);
  return async (signal) => {
    saved ??= await holdSeals(context, generation);
    const step = await stepSeals(context, saved, async () => {
      signal.throwIfAborted();
      await services.yieldToClients(signal);
      await rest();
    });
    saved = step.saved;
    if (step.rows !== undefined) services.report({ done: step.rows });
    return step.rows === undefined ? 'idle' : 'busy';
  };
};

/**
 * `health-history`: probes storage, and writes down each change of its health.
 * @param generation of the leader's lease: one process probes, because two may not reach the same nodes
 */
export const keepHealthHistory = (
  context: Pick<Context, 'metadata' | 'bytes' | 'config'>,
  generation = 0,
  services = unsupervised,
): Unit => {
  let term: Term | undefined;
  return async () => {
    term ??= await beginHistory(context, generation);
    if (await recordHealth(context, term)) services.report({ done: 1 });
    return 'idle';
  };
};
