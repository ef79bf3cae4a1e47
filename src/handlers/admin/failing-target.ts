/** Whether a target of events or replication takes what it is sent. */
import type { FailingTarget } from '../../domain/deliveries/lanes/stored-states.ts';

export const failingJson = (failing: FailingTarget | undefined) =>
  failing === undefined
    ? { state: 'ok' as const }
    : {
        state: 'failing' as const,
        failures: failing.failures,
        lastError: { at: new Date(failing.at).toISOString(), message: failing.error },
      };
