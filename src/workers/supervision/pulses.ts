/**
 * Instants that all workers of a process share, so that an idle process wakes up once for all of them, and so that what they write then is
 * one commit of an embedded store.
 */
import type { Clock } from '../../ports/clock.ts';

const earlyMs = 2;

interface Waiting {
  readonly resolve: Set<() => void>;
  readonly stop: AbortController;
}

export class Pulses {
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly #waiting = new Map<number, Waiting>();

  constructor(clock: Pick<Clock, 'elapsed' | 'sleep'>) {
    this.#clock = clock;
  }

  /** Resolves at the next multiple of the interval, or when the signal aborts. */
  next(everyMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const waiting = this.#waiting.get(everyMs) ?? this.#start(everyMs);
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        waiting.resolve.delete(done);
        // A timer that no worker waits for would keep the process alive.
        if (waiting.resolve.size === 0) waiting.stop.abort();
        resolve();
      };
      waiting.resolve.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #start(everyMs: number): Waiting {
    const waiting: Waiting = { resolve: new Set(), stop: new AbortController() };
    this.#waiting.set(everyMs, waiting);
    const untilNext = everyMs - (this.#clock.elapsed() % everyMs);
    // A timer may fire a moment early: that was this instant.
    const restMs = untilNext < earlyMs ? untilNext + everyMs : untilNext;
    void this.#clock.sleep(Math.ceil(restMs), waiting.stop.signal).then(() => {
      if (this.#waiting.get(everyMs) === waiting) this.#waiting.delete(everyMs);
      for (const done of [...waiting.resolve]) done();
    });
    return waiting;
  }
}
