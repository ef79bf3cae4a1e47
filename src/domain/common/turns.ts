/** Splits long work on the event loop into turns, so that other work runs in between. */
import type { Clock } from '../../ports/clock.ts';

const turnMs = 10;

/**
 * @param signal ends the work: the function throws its reason once it is aborted, such as by the disconnect of the client that asked
 * @returns a function that the work calls and awaits between its pieces; it waits where the turn is over
 */
export function openTurns(
  clock: Pick<Clock, 'elapsed' | 'sleep'>,
  signal?: AbortSignal,
): () => Promise<void> {
  let since = clock.elapsed();
  let others: Promise<void> | undefined;
  return async () => {
    if (others === undefined && clock.elapsed() - since >= turnMs)
      others = clock.sleep(0).then(() => {
        since = clock.elapsed();
        others = undefined;
      });
    await others;
    signal?.throwIfAborted();
  };
}

/** The same items, with a rest of `openTurns` ahead of each. */
export async function* inTurns<T>(items: AsyncIterable<T>, rest: () => Promise<void>): AsyncGenerator<T> {
  for await (const item of items) {
    await rest();
    yield item;
  }
}
