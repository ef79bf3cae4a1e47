/** Ends of this process that do not wait for what it does. */
import type { Telemetry } from '../../ports/telemetry.ts';

const answerMs = 1_000;

/**
 * Ends this process as a kill does. `process.exit` waits for the threads of the pool, and in the middle of a transaction
 * lmdb's waits for this thread in turn: such a process would never end, and would keep the lock that all writers need.
 */
export function endAtOnce(): never {
  process.kill(process.pid, 'SIGKILL');
  // The first process of a container cannot kill itself.
  process.abort();
}

/** How long a process may take to stop beyond `SVC_SHUTDOWN_TIMEOUT`. The primary kills those of several; a single one ends itself. */
export const killAfterMs = 5_000;

/** Ends this process unless it has stopped in time. @returns ends the watch */
export function endWhenLate(shutdownTimeoutMs: number, { log }: Pick<Telemetry, 'log'>): () => void {
  const timer = setTimeout(() => {
    log('ERROR', 'the process did not stop in time, so it kills itself', { pid: process.pid });
    endAtOnce();
  }, shutdownTimeoutMs + killAfterMs);
  return () => clearTimeout(timer);
}

/** Ends a process that must not go on, once it has had time to answer; the primary or the service manager starts another one. */
export function endForReplacement(telemetry: Pick<Telemetry, 'log'>, cause: unknown): void {
  telemetry.log('ERROR', 'lmdb failed to write the metadata file: this process ends, to be replaced', {
    cause,
  });
  setTimeout(endAtOnce, answerMs);
}
