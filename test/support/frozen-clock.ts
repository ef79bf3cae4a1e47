/** A clock that stands still until the test sets its time; a sleep ends at once. */
import type { Clock } from '../../src/ports/clock.ts';

export interface FrozenClock extends Clock {
  /** What `now` and `elapsed` return, in ms. */
  time: number;
}

export function frozenClock(time = Date.UTC(2026, 0, 1)): FrozenClock {
  const clock: FrozenClock = {
    time,
    now: () => clock.time,
    elapsed: () => clock.time,
    sleep: async () => {},
  };
  return clock;
}
