/** Splits long work on the event loop into turns, so that other work runs in between. */
import type { Clock } from '../../ports/clock.ts';

/** The longest turn. */
const turnMs = 10;

/** @returns a function that the work calls and awaits between its pieces; it returns undefined until the turn is over */
export function openTurns(clock: Pick<Clock, 'elapsed' | 'sleep'>): () => Promise<void> | undefined {
  let since = clock.elapsed();
  let others: Promise<void> | undefined;
  return () => {
    if (others === undefined && clock.elapsed() - since >= turnMs)
      others = clock.sleep(0).then(() => {
        since = clock.elapsed();
        others = undefined;
      });
    return others;
  };
}
