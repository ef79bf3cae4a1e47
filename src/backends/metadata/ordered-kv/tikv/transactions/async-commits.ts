/**
 * Transactions of other clients that commit asynchronously: such a transaction is committed as soon as all its locks are, so a client
 * that finds it abandoned must check each lock. (This client does not commit in that way.)
 */
import type { Backoff } from '../backoff.ts';
import { fromWide, type LockInfo } from '../cluster/messages.ts';
import type { Sender } from '../cluster/sender.ts';

/**
 * Keys that were not locked yet can not be any more when this returns.
 * @param primary the lock at the transaction's primary key, which names the others
 * @returns its commit timestamp, 0 when it was rolled back, undefined when it commits as others do after all
 */
export async function asyncOutcome(
  sender: Sender,
  primary: LockInfo,
  backoff: Backoff,
): Promise<bigint | undefined> {
  const parts = await sender.many('CheckSecondaryLocks', {
    keys: primary.secondaries ?? [],
    request: (keys) => ({ start_version: primary.lock_version, keys }),
    backoff,
  });
  let commit = fromWide(primary.min_commit_ts);
  let isRolledBack = false;
  for (const { keys, answer } of parts) {
    const { locks = [] } = answer;
    const decided = fromWide(answer.commit_ts);
    if (decided > 0n) return decided;
    if (locks.some(({ use_async_commit }) => !use_async_commit)) return undefined;
    isRolledBack ||= locks.length < keys.length;
    for (const lock of locks) {
      const least = fromWide(lock.min_commit_ts);
      if (least > commit) commit = least;
    }
  }
  return isRolledBack ? 0n : commit;
}
