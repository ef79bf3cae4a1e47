/**
 * Locks of other transactions: the outcome of a transaction is stored at its primary key, so a transaction that meets one of its locks
 * can commit or roll it back, once its owner is done or its lock has expired.
 */
import type { Backoff } from './backoff.ts';
import { type Answered, fromWide, type LockInfo, toWide, type Wide } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import type { Sender } from './sender.ts';
import { physicalMs } from './timestamps.ts';

const pessimistic = 5;
/** The store has made sure that the transaction, if it commits, commits after the caller's timestamp. */
const minCommitPushed = 3;
/** The timestamp of an update lock has no limit. */
const endless = toWide(0xffff_ffff_ffff_ffffn);

interface Meeting {
  /** The timestamp of a reader; 0 for a writer, which cannot pass a lock. */
  readonly readsAt: bigint;
  readonly backoff: Backoff;
}

interface Met {
  /** A transaction that may be alive holds one, or a store could not remove it: wait. */
  readonly isLocked: boolean;
  /** Start timestamps of the transactions whose locks a reader may ignore. */
  readonly passable: readonly Wide[];
}

interface Asking extends Meeting {
  readonly now: bigint;
  readonly isForced?: boolean;
}

type Status = Answered<'CheckTxnStatus'>;
type Fate = 'held' | 'passable' | 'gone';

const groupKey = ({ lock_version, lock_type }: LockInfo): string =>
  `${fromWide(lock_version)}/${lock_type === pessimistic}`;

export class Locks {
  readonly #pd: PlacementDriver;
  readonly #sender: Sender;

  constructor(pd: PlacementDriver, sender: Sender) {
    this.#pd = pd;
    this.#sender = sender;
  }

  /** Clears those locks whose transactions are over. */
  async resolve(locks: readonly LockInfo[], meeting: Meeting): Promise<Met> {
    const now = await this.#pd.timestamp();
    // A transaction leaves many locks: its status is requested once.
    const groups = [...Map.groupBy(locks, groupKey).values()];
    const fates = await Promise.all(groups.map((some) => this.#resolveGroup(some, { ...meeting, now })));
    return {
      isLocked: fates.includes('held'),
      passable: groups.flatMap(([lock], i) =>
        lock !== undefined && fates[i] === 'passable' ? [lock.lock_version] : [],
      ),
    };
  }

  /** @param locks of one transaction, and of one kind */
  async #resolveGroup(locks: readonly LockInfo[], asking: Asking): Promise<Fate> {
    const [lock] = locks;
    if (lock === undefined) return 'gone';
    const status = await this.#check(lock, asking);
    if (status.error) return 'held';
    const { backoff, now, readsAt } = asking;
    if (fromWide(status.lock_ttl) === 0n) return this.#clear(locks, fromWide(status.commit_version), backoff);
    const primary = status.lock_info;
    const isPassable = readsAt > 0n && status.action === minCommitPushed;
    if (!primary?.use_async_commit) return isPassable ? 'passable' : 'held';
    if (!isExpired(primary, now)) return 'held';
    const commit = await asyncOutcome(this.#sender, primary, backoff);
    if (commit === 'unknown') return 'held';
    // One of its locks shows that it fell back to an ordinary commit: then its primary key alone decides.
    if (commit === 'ordinary')
      return asking.isForced ? 'held' : this.#resolveGroup(locks, { ...asking, isForced: true });
    const secondaries = (primary.secondaries ?? []).map((key) => ({ ...primary, key }));
    return this.#clear([{ ...primary, key: primary.primary_lock }, ...secondaries], commit, backoff);
  }

  #check(lock: LockInfo, { readsAt, backoff, now, isForced = false }: Asking): Promise<Status> {
    return this.#sender.one('CheckTxnStatus', lock.primary_lock, {
      request: {
        primary_key: lock.primary_lock,
        lock_ts: lock.lock_version,
        caller_start_ts: toWide(readsAt),
        current_ts: toWide(now),
        // Its primary may not have arrived yet: that counts as rolled back only when its time is over.
        rollback_if_not_exist: isExpired(lock, now),
        force_sync_commit: isForced,
        resolving_pessimistic_lock: lock.lock_type === pessimistic,
      },
      backoff,
    });
  }

  /** @param commit 0 when the transaction was rolled back */
  async #clear(locks: readonly LockInfo[], commit: bigint, backoff: Backoff): Promise<Fate> {
    const [first] = locks;
    if (first === undefined) return 'gone';
    const start_version = first.lock_version;
    const keys = locks.map(({ key }) => key);
    if (commit === 0n && first.lock_type === pessimistic) {
      const request = (some: readonly Uint8Array[]) => ({
        start_version,
        for_update_ts: endless,
        keys: some,
      });
      const parts = await this.#sender.many('PessimisticRollback', { keys, request, backoff });
      return parts.some(({ answer }) => answer.errors?.length) ? 'held' : 'gone';
    } else {
      const request = (some: readonly Uint8Array[]) => ({
        start_version,
        commit_version: toWide(commit),
        keys: some,
      });
      const parts = await this.#sender.many('ResolveLock', { keys, request, backoff });
      return parts.some(({ answer }) => answer.error) ? 'held' : 'gone';
    }
  }
}

const isExpired = ({ lock_version, lock_ttl }: LockInfo, now: bigint): boolean =>
  physicalMs(fromWide(lock_version)) + Number(fromWide(lock_ttl)) < physicalMs(now);

// Transactions of other clients that commit asynchronously: such a transaction is committed as soon as all its locks are, so a client
// that finds it abandoned must check each lock. (This client does not commit in that way.)

/**
 * Keys that were not locked yet can not be any more when this returns.
 * @param primary the lock at the transaction's primary key, which names the others
 * @returns its commit timestamp, 0 when it was rolled back, `ordinary` when it commits as others do after all, `unknown` when a store
 * does not tell
 */
async function asyncOutcome(
  sender: Sender,
  primary: LockInfo,
  backoff: Backoff,
): Promise<bigint | 'ordinary' | 'unknown'> {
  const parts = await sender.many('CheckSecondaryLocks', {
    keys: primary.secondaries ?? [],
    request: (keys) => ({ start_version: primary.lock_version, keys }),
    backoff,
  });
  let commit = fromWide(primary.min_commit_ts);
  let isRolledBack = false;
  for (const { keys, answer } of parts) {
    if (answer.error) return 'unknown';
    const { locks = [] } = answer;
    const decided = fromWide(answer.commit_ts);
    if (decided > 0n) return decided;
    if (locks.some(({ use_async_commit }) => !use_async_commit)) return 'ordinary';
    isRolledBack ||= locks.length < keys.length;
    for (const lock of locks) {
      const least = fromWide(lock.min_commit_ts);
      if (least > commit) commit = least;
    }
  }
  return isRolledBack ? 0n : commit;
}
