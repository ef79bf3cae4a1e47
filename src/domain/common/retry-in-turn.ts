/**
 * Conditional writes of one row by many requests: the requests of a process take turns, so that they do not refuse each other, and
 * a request that loses to another process retries after a random pause. The last writer wins.
 */

import { fail } from '../../base/errors.ts';
import { KeyedMutex } from '../../base/mutex.ts';
import type { Context } from '../../context.ts';

type Ctx = Pick<Context, 'caches' | 'clock' | 'random'>;

/** Attempts of one request once it has its turn: about 6 s at most. */
const attemptsMax = 32;
const pauseMsMax = 250;

/** One mutex for all conditional writes of the gateway. */
class WritesInTurn extends KeyedMutex {}

/** The pause before a retry, in whole milliseconds: random, with an upper bound that doubles each time. */
export function pauseMs({ random }: Pick<Ctx, 'random'>, attempt: number): number {
  const [low = 0, high = 0] = random.bytes(2);
  const share = (high * 256 + low + 1) / 65_536;
  return Math.ceil(Math.min(pauseMsMax, 2 ** Math.min(attempt, 16)) * share);
}

/**
 * @param key names the row: `bucket name`, `account id`
 * @param attempt reads, decides and commits; undefined when another writer committed first
 * @throws OperationAborted when other writers committed first each time
 */
export const retryInTurn = <T>(
  ctx: Ctx,
  key: string,
  attempt: () => Promise<{ readonly value: T } | undefined>,
): Promise<T> =>
  ctx.caches.of(WritesInTurn).run(key, async () => {
    for (let tries = 0; tries < attemptsMax; tries += 1) {
      if (tries > 0) await ctx.clock.sleep(pauseMs(ctx, tries));
      const outcome = await attempt();
      if (outcome !== undefined) return outcome.value;
    }
    throw fail('OperationAborted');
  });
