/** Whether a target of events or replication takes what it is sent. */
import type { FailingTarget } from '../../domain/deliveries/lanes/stored-states.ts';
import type { Refused } from '../../domain/deliveries/lanes/target-states.ts';

const none: Refused = { objects: 0, reasons: [] };

export const failingJson = (failing: FailingTarget | undefined) => ({
  ...(failing === undefined || failing.failures === 0
    ? { state: 'ok' as const }
    : {
        state: 'failing' as const,
        failures: failing.failures,
        lastError: { at: new Date(failing.at).toISOString(), message: failing.error },
      }),
  refused: failing?.refused ?? none,
});
