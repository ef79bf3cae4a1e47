/** `audit-retention`: seals the hours of the audit log, and removes those that have expired (`SVC_AUDIT_RETENTION`). */
import type { Context } from '../../context.ts';
import { type HeldSeals, holdSeals, stepSeals } from '../../domain/events/audit/seal-hours.ts';
import { openTurns } from '../../domain/storage/turns.ts';
import { type Unit, unsupervised } from '../supervision/worker.ts';

/** @param generation of the leader's lease */
export const retainAudit = (
  context: Pick<Context, 'metadata' | 'hasher' | 'sealer' | 'config' | 'telemetry' | 'clock'>,
  generation = 0,
  services = unsupervised,
): Unit => {
  let held: HeldSeals | undefined;
  const rest = openTurns(context.clock);
  return async (signal) => {
    held ??= await holdSeals(context, generation);
    const step = await stepSeals(context, held, async () => {
      signal.throwIfAborted();
      await services.yieldToClients(signal);
      await rest();
    });
    held = step.held;
    if (step.rows !== undefined) services.report({ done: step.rows });
    return step.rows === undefined ? 'idle' : 'busy';
  };
};
