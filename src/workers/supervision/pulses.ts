/**
 * Instants that all workers of a process share, so that an idle process wakes up once for all of them, and so that what they write then is
 * one commit of an embedded store. One timer serves all intervals, because two timers for the same instant may fire a millisecond apart.
 */
import type { Clock } from '../../ports/clock.ts';

const earlyMs = 2;
const always = (): boolean => true;

interface Wait {
  readonly everyMs: number;
  readonly isDue: () => boolean;
  readonly done: () => void;
}

export class Pulses {
  readonly #clock: Pick<Clock, 'elapsed' | 'sleep'>;
  readonly #waits = new Set<Wait>();
  /** When the timer fires, by the monotonic clock; undefined where none runs. */
  #firesAt: number | undefined;
  /** Ends the timer. Another one follows once it is used, so that an idle process makes none in each second. */
  #stopping = new AbortController();

  constructor(clock: Pick<Clock, 'elapsed' | 'sleep'>) {
    this.#clock = clock;
  }

  /**
   * Resolves at the next multiple of the interval, or when the signal aborts.
   * @param isDue whether an instant ends the wait; it is cheap and does not throw
   */
  next(everyMs: number, signal: AbortSignal, isDue = always): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        this.#waits.delete(wait);
        // A timer that no worker waits for would keep the process alive.
        if (this.#waits.size === 0) this.#stop();
        resolve();
      };
      const wait = { everyMs, isDue, done };
      this.#waits.add(wait);
      signal.addEventListener('abort', done, { once: true });
      this.#fireFor([wait]);
    });
  }

  /** Makes the timer fire at the first of the waits' next instants, or earlier. */
  #fireFor(waits: readonly Wait[]): void {
    const now = this.#clock.elapsed();
    const firesAt = Math.min(...waits.map(({ everyMs }) => instantAfter(now, everyMs)));
    if (this.#firesAt !== undefined && this.#firesAt <= firesAt) return;
    this.#stop();
    this.#firesAt = firesAt;
    const { signal } = this.#stopping;
    void this.#clock.sleep(Math.ceil(firesAt - now), signal).then(() => {
      if (!signal.aborted) this.#fired(firesAt);
    });
  }

  #fired(firedAt: number): void {
    this.#firesAt = undefined;
    const now = this.#clock.elapsed();
    const hasPassed = ({ everyMs }: Wait): boolean =>
      instantAfter(firedAt - 2 * earlyMs, everyMs) <= now + earlyMs;
    // All are asked before the first one goes on, because it may commit.
    const waits = [...this.#waits];
    const due = waits.filter((wait) => hasPassed(wait) && wait.isDue());
    for (const { done } of due) done();
    // Also for those that are done, because most of them wait again in a moment, and would else replace the timer.
    if (this.#waits.size > 0) this.#fireFor(waits);
  }

  #stop(): void {
    if (this.#firesAt === undefined) return;
    this.#firesAt = undefined;
    this.#stopping.abort();
    this.#stopping = new AbortController();
  }
}

/** The next multiple of the interval; one that is nearer than a timer may be early was this instant. */
function instantAfter(now: number, everyMs: number): number {
  const untilNext = everyMs - (now % everyMs);
  return now + (untilNext < earlyMs ? untilNext + everyMs : untilNext);
}
