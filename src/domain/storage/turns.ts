/** Splits long work on the event loop into turns, so that other work runs in between. */
import type { Clock } from '../../ports/clock.ts';

/** The longest turn. */
const turnMs = 10;

/** @returns a function that the work calls and awaits between its pieces; it waits where the turn is over */
export function openTurns(clock: Pick<Clock, 'elapsed' | 'sleep'>): () => Promise<void> {
  let since = clock.elapsed();
  let others: Promise<void> | undefined;
  return async () => {
    if (others === undefined && clock.elapsed() - since >= turnMs)
      others = clock.sleep(0).then(() => {
        since = clock.elapsed();
        others = undefined;
      });
    await others;
  };
}
