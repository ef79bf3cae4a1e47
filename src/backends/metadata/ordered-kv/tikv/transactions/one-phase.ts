/**
 * One-phase commits: where all keys of a transaction are in one region, the command that prewrites them can commit them too. A client
 * without an answer must not send it again, in one phase or in two: it may have been executed, and other transactions may have locked
 * the keys since. So its outcome is determined first, by the transaction's primary key.
 */
import type { Backoff } from '../backoff.ts';
import { type Asked, fromWide, type KeyError, toWide } from '../cluster/messages.ts';
import type { PlacementDriver } from '../cluster/placement-driver.ts';
import type { Sender } from '../cluster/sender.ts';
import { Undetermined, Unreachable } from '../errors.ts';

export interface OnePhase {
  readonly keys: readonly Uint8Array[];
  /** Called for each attempt, once it is known that the keys are in one region. */
  readonly request: () => Promise<Asked<'Prewrite'>>;
  readonly backoff: Backoff;
}

/**
 * - `committed`: the transaction has applied.
 * - `prewritten`: the store has locked the keys for a commit in two phases.
 * - `refused`: nothing was done; the errors have the reason.
 * - `apart`: nothing was done, because the keys are in several regions.
 * - `lost`: it was sent, and not answered.
 */
export type Sent =
  | { readonly is: 'committed' | 'prewritten' | 'apart' | 'lost' }
  | { readonly is: 'refused'; readonly errors: readonly KeyError[] };

export async function commitAtOnce(sender: Sender, { keys, request, backoff }: OnePhase): Promise<Sent> {
  for (;;) {
    const region = await sender.regionOfAll(keys, backoff);
    if (region === undefined) return { is: 'apart' };
    // Its timestamp is not drawn under its locks: two that write an unlocked key at one moment could get the same.
    const sent = { request: { ...(await request()), try_one_pc: true }, backoff, checksAll: true };
    const answer = await sender.ask('Prewrite', region, sent);
    if (answer === 'lost') return { is: 'lost' };
    if (answer !== 'moved') {
      if (answer.errors?.length) return { is: 'refused', errors: answer.errors };
      return { is: fromWide(answer.one_pc_commit_ts) > 0n ? 'committed' : 'prewritten' };
    }
    await backoff.wait('no store serves Prewrite');
  }
}

interface Lost {
  readonly primary: Uint8Array;
  readonly start: bigint;
  readonly backoff: Backoff;
}

/**
 * Whether a transaction whose only command was lost has applied. If it has not, it never will: without the lock on its primary key, its
 * command is refused when it arrives.
 * @throws Undetermined when its outcome stays unknown
 */
export async function settle(
  { pd, sender }: { readonly pd: PlacementDriver; readonly sender: Sender },
  { primary, start, backoff }: Lost,
): Promise<boolean> {
  try {
    const start_version = toWide(start);
    // Refused where it is committed.
    await sender.one('BatchRollback', primary, { request: { start_version, keys: [primary] }, backoff });
    const status = await sender.one('CheckTxnStatus', primary, {
      request: {
        primary_key: primary,
        lock_ts: start_version,
        caller_start_ts: toWide(0n),
        current_ts: toWide(await pd.timestamp()),
        rollback_if_not_exist: true,
        force_sync_commit: false,
        resolving_pessimistic_lock: false,
      },
      backoff,
    });
    if (fromWide(status.commit_version) > 0n) return true;
    if (!status.error && fromWide(status.lock_ttl) === 0n) return false;
  } catch (cause) {
    if (!(cause instanceof Unreachable)) throw cause;
    throw new Undetermined('the commit was sent, and its outcome is unknown', { cause });
  }
  throw new Undetermined('the commit was sent and its primary key does not tell what became of it');
}
