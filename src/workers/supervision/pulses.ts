/**
 * Instants that all workers of a process share, so that an idle process wakes up once for all of them, and so that what they write then is
 * one commit of an embedded store.
 */
import type { Clock } from '../../ports/clock.ts';

const earlyMs = 2;
const always = (): boolean => true;

interface Waiting {
  /** By what ends each wait: whether the instant ends it. */
  readonly resolve: Map<() => void, () => boolean>;
  readonly stop: AbortController;
}

export class Pulses {
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly #waiting = new Map<number, Waiting>();

  constructor(clock: Pick<Clock, 'elapsed' | 'sleep'>) {
    this.#clock = clock;
  }

  /**
   * Resolves at the next multiple of the interval, or when the signal aborts.
   * @param isDue whether an instant ends the wait; it is cheap and does not throw
   */
  next(everyMs: number, signal: AbortSignal, isDue = always): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    const waiting = this.#waiting.get(everyMs) ?? this.#start(everyMs);
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        waiting.resolve.delete(done);
        // A timer that no worker waits for would keep the process alive.
        if (waiting.resolve.size === 0) {
          this.#forget(everyMs, waiting);
          waiting.stop.abort();
        }
        resolve();
      };
      waiting.resolve.set(done, isDue);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #start(everyMs: number): Waiting {
    const waiting: Waiting = { resolve: new Map(), stop: new AbortController() };
    this.#waiting.set(everyMs, waiting);
    void this.#run(everyMs, waiting);
    return waiting;
  }

  /** Until nothing waits. */
  async #run(everyMs: number, waiting: Waiting): Promise<void> {
    const { signal } = waiting.stop;
    while (!signal.aborted) {
      await this.#clock.sleep(this.#untilNext(everyMs), signal);
      // All are asked before the first one goes on, because it may commit.
      const due = [...waiting.resolve].filter(([, isDue]) => isDue());
      for (const [done] of due) done();
    }
  }

  #forget(everyMs: number, waiting: Waiting): void {
    if (this.#waiting.get(everyMs) === waiting) this.#waiting.delete(everyMs);
  }

  #untilNext(everyMs: number): number {
    const untilNext = everyMs - (this.#clock.elapsed() % everyMs);
    // A timer may fire a moment early: that was this instant.
    const restMs = untilNext < earlyMs ? untilNext + everyMs : untilNext;
    return Math.ceil(restMs);
  }
}
