/** Ends a process that must not go on, once it has had time to answer; the primary or the service manager starts another one. */
import type { Telemetry } from '../../ports/telemetry.ts';
import { endAtOnce } from './node-workers.ts';

const answerMs = 1_000;

export function endForReplacement(telemetry: Pick<Telemetry, 'log'>, cause: unknown): void {
  telemetry.log('ERROR', 'lmdb failed to write the metadata file: this process ends, to be replaced', {
    cause,
  });
  setTimeout(endAtOnce, answerMs);
}
