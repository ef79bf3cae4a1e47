/** Compares the installation once a store that did not answer at the start does. */
import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { endAtOnce } from './processes/process-exit.ts';
import { StartRefusal } from './start-refusal.ts';

const againMs = 5_000;

export interface LaterOptions {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** The places that could not be compared, and why. */
  readonly away: readonly string[];
  readonly compare: () => Promise<readonly string[]>;
  /** Ends the process; a test's own. */
  readonly end?: () => void;
}

/** @returns what stops it */
export function compareLater({
  clock,
  telemetry,
  away,
  compare,
  end = endAtOnce,
}: LaterOptions): () => Promise<void> {
  telemetry.log('WARN', 'the installation cannot be compared: a store does not answer yet', { away });
  const stopping = new AbortController();
  const { signal } = stopping;
  const work = async (): Promise<void> => {
    for (let left = away; left.length > 0 && !signal.aborted; ) {
      try {
        await clock.sleep(againMs, signal);
        left = await compare();
      } catch (cause) {
        if (signal.aborted) return;
        if (!(cause instanceof StartRefusal)) continue;
        telemetry.log('ERROR', 'a store belongs to another installation; the process ends', { cause });
        end();
        return;
      }
    }
  };
  const working = work();
  return async () => {
    stopping.abort();
    await working;
  };
}
