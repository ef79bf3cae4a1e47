/** A clock that only the test advances, so that a day passes in a millisecond. */
import { setImmediate } from 'node:timers';
import type { Clock } from '../../src/ports/clock.ts';

export interface VirtualClock extends Clock {
  /** Every requested sleep in order, in ms. */
  readonly slept: readonly number[];
  /** Advances the time; sleepers wake in order, each at its own time. */
  advance(ms: number): Promise<void>;
  /** Changes only `now`, like a corrected wall clock: no sleeper wakes and `elapsed` does not change. */
  jump(ms: number): void;
  /** Runs everything that is ready, without advancing the time. */
  settle(): Promise<void>;
}

interface Sleeper {
  readonly at: number;
  readonly order: number;
  wake(): void;
}

/** A turn of the event loop: all ready promise callbacks have run when it resolves. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function virtualClock(startMs = Date.UTC(2026, 0, 1)): VirtualClock {
  const slept: number[] = [];
  const sleepers = new Set<Sleeper>();
  let elapsed = 0;
  let offset = startMs;
  let orders = 0;

  const settle = async (): Promise<void> => {
    for (let turns = 0; turns < 3; turns++) await turn();
  };
  const nextUntil = (end: number): Sleeper | undefined =>
    [...sleepers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at || a.order - b.order)[0];

  return {
    slept,
    settle,
    now: () => offset + elapsed,
    elapsed: () => elapsed,
    jump: (ms) => {
      offset += ms;
    },
    sleep(ms, signal) {
      slept.push(ms);
      if (signal?.aborted) return Promise.resolve();
      // `sleep(0)` yields to others without advancing the time.
      if (ms <= 0) return turn();
      return new Promise((resolve) => {
        const sleeper: Sleeper = {
          at: elapsed + Math.max(ms, 0),
          order: orders++,
          wake() {
            sleepers.delete(sleeper);
            signal?.removeEventListener('abort', sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', sleeper.wake, { once: true });
      });
    },
    async advance(ms) {
      const end = elapsed + ms;
      await settle();
      for (let next = nextUntil(end); next !== undefined; next = nextUntil(end)) {
        elapsed = Math.max(elapsed, next.at);
        next.wake();
        await settle();
      }
      elapsed = end;
    },
  };
}

/** A virtual clock on which each look at the elapsed time takes 10 ms: all work is long. */
export function slowClock(startMs?: number): VirtualClock {
  const clock = virtualClock(startMs);
  let looks = 0;
  return Object.assign(clock, { elapsed: () => (looks += 10) });
}
