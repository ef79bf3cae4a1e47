/**
 * The rest of a worker that has found nothing to do. Where the store tells cheaply whether any process has committed, the worker looks for
 * work again only after a commit or at a due time. It checks for both as often as it would look, so work begins as early as with looks.
 */

import type { Clock } from '../ports/clock.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import type { Random } from '../ports/random.ts';

/** A rest up to this length is shared with other workers. */
const sharedRestMs = 60_000;
/** The longest time without a look, in case the clock of the store jumps. Heartbeats are commits too. */
const quietMaxMs = 90_000;
/** Rests in front of a distant store are shorter by up to this share, so that processes do not look at the same instants. */
const jitter = 0.2;

const always = (): number => Number.NEGATIVE_INFINITY;

interface IdleContext {
  readonly metadata: Pick<MetadataStore, 'watchCommits' | 'isDistant'>;
  readonly clock: Clock;
  readonly random: Random;
}

export class IdleRest {
  readonly #ctx: IdleContext;
  readonly #pulses: Pulses | undefined;
  #hasChanged: (() => boolean) | undefined;
  #due = always;

  /** @param pulses absent: it rests at times of its own */
  constructor(ctx: IdleContext, pulses?: Pulses) {
    this.#ctx = ctx;
    this.#pulses = pulses;
  }

  /** A look for work begins: a commit from now on ends the next rest. */
  begin(): void {
    this.#hasChanged = this.#ctx.metadata.watchCommits?.();
    this.#due = always;
  }

  /**
   * Until a commit there is nothing to do before this time.
   * @param due store time (ms), asked for again at each check; `Infinity`: only a commit brings work
   */
  nothingBefore(due: number | (() => number)): void {
    this.#due = typeof due === 'number' ? () => due : due;
  }

  /** Rests until it is time for the next look, or until the signal aborts. @param everyMs the time between two checks */
  async rest(everyMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#ctx;
    const lookAt = clock.elapsed() + quietMaxMs;
    const isTime = (): boolean => clock.elapsed() >= lookAt || !this.#isQuiet();
    if (this.#pulses !== undefined && everyMs > 0 && everyMs <= sharedRestMs)
      return this.#pulses.next(everyMs, signal, isTime);
    do {
      await this.#sleep(everyMs, signal);
    } while (!signal.aborted && !isTime());
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { clock, metadata, random } = this.#ctx;
    if (!metadata.isDistant) return clock.sleep(ms, signal);
    const [byte = 0] = random.bytes(1);
    return clock.sleep(ms * (1 - (jitter * byte) / 255), signal);
  }

  /** Only stores of this machine tell of commits, and their time is that of its clock. */
  #isQuiet(): boolean {
    if (this.#hasChanged === undefined) return false;
    try {
      return !this.#hasChanged() && this.#ctx.clock.now() < this.#due();
    } catch {
      // The look itself meets the fault, and reports it.
      return false;
    }
  }
}

// Instants that all workers of a process share, so that an idle process wakes up once for all of them, and so that what they write then is
// one commit of an embedded store. One timer serves all intervals, because two timers for the same instant may fire a millisecond apart.

const earlyMs = 2;
const alwaysDue = (): boolean => true;

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
  next(everyMs: number, signal: AbortSignal, isDue = alwaysDue): Promise<void> {
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
