/** Long work on the event loop's thread that lets others have their turn. */
import type { Clock } from '../../ports/clock.ts';

/** How long work may go on before others come first. */
const turnMs = 10;

/** @returns what the work awaits between its pieces: nothing, until its time is up */
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
