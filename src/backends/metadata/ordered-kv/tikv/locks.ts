/**
 * Locks of other transactions that stand in the way: what became of a transaction is written at its primary key, so
 * whoever meets one of its locks can finish or undo it there, once its owner is done or has been silent for too long.
 */
import { fromWide, type LockInfo, toWide } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import type { Sender } from './sender.ts';
import { physicalMs } from './timestamps.ts';

const pessimistic = 5;
/** What a store says of a lock that it rolled back, or found to be nothing, without telling of a commit. */
const endless = toWide(0xffff_ffff_ffff_ffffn);

export class Locks {
  readonly #pd: PlacementDriver;
  readonly #sender: Sender;

  constructor(pd: PlacementDriver, sender: Sender) {
    this.#pd = pd;
    this.#sender = sender;
  }

  /**
   * Clears those locks whose transactions are over.
   * @returns whether one of them is held by somebody who may be alive: then the caller waits
   */
  async resolve(locks: readonly LockInfo[], callerStart: bigint): Promise<boolean> {
    const now = await this.#pd.timestamp();
    const held = await Promise.all(locks.map((lock) => this.#resolveOne(lock, { now, callerStart })));
    return held.includes(true);
  }

  async #resolveOne(
    lock: LockInfo,
    { now, callerStart }: { readonly now: bigint; readonly callerStart: bigint },
  ): Promise<boolean> {
    const start = fromWide(lock.lock_version);
    const isExpired = physicalMs(start) + Number(fromWide(lock.lock_ttl)) < physicalMs(now);
    const isPessimistic = lock.lock_type === pessimistic;
    const status = await this.#sender.one('CheckTxnStatus', lock.primary_lock, {
      primary_key: lock.primary_lock,
      lock_ts: lock.lock_version,
      caller_start_ts: toWide(callerStart),
      current_ts: toWide(now),
      // Its primary may not have arrived yet: that counts as rolled back only when its time is over.
      rollback_if_not_exist: isExpired,
      resolving_pessimistic_lock: isPessimistic,
    });
    if (status.error) return true;
    const commit = fromWide(status.commit_version);
    if (commit === 0n && fromWide(status.lock_ttl) > 0n) return true;
    if (isPessimistic && commit === 0n) {
      await this.#sender.one('PessimisticRollback', lock.key, {
        start_version: lock.lock_version,
        for_update_ts: endless,
        keys: [lock.key],
      });
    } else {
      await this.#sender.one('ResolveLock', lock.key, {
        start_version: lock.lock_version,
        commit_version: toWide(commit),
        keys: [lock.key],
      });
    }
    return false;
  }
}
