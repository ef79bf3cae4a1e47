/**
 * Old versions: TiKV drops those before the safe point in PD, which a client must advance. In a cluster with TiDB that is TiDB; in one
 * without, this client, under the same name. Locks from before the safe point are settled first, because afterwards the outcome of
 * their transactions could not be determined.
 */
import { Backoff } from '../backoff.ts';
import { decodeKey } from '../cluster/encoded-key.ts';
import { fromWide, type LockInfo, toWide } from '../cluster/messages.ts';
import { toTimestamp } from './timestamps.ts';
import type { Parts } from './transaction.ts';

/** Locks that are resolved in one request. */
const page = 256;
const noKey = new Uint8Array(0);

export interface Collection {
  /** The age from which a version may be dropped. */
  readonly ageMs: number;
  /** A safe point that is no older than this beyond the age was moved by another, and stays. */
  readonly everyMs: number;
}

type Swept = Pick<Parts, 'pd' | 'sender' | 'locks' | 'budgetMs'>;

export async function collect(parts: Swept, { ageMs, everyMs }: Collection): Promise<void> {
  const { pd, budgetMs } = parts;
  const now = await pd.timestamp();
  const wanted = now - toTimestamp(ageMs);
  const current = await pd.safePoint(new Backoff(budgetMs));
  if (current > wanted - toTimestamp(everyMs)) return;
  // Backups and change feeds hold it back.
  const allowed = await pd.claimSafePoint(wanted, new Backoff(budgetMs));
  const safe = await clearLocks(parts, allowed);
  if (safe > current) await pd.moveSafePoint(safe, new Backoff(budgetMs));
}

/** @returns the latest timestamp before which there are no locks */
async function clearLocks({ sender, locks, budgetMs }: Swept, until: bigint): Promise<bigint> {
  let safe = until;
  for (let from: Uint8Array = noKey; ; ) {
    const backoff = new Backoff(budgetMs);
    const region = await sender.locate(from, backoff, 'at');
    const request = { start_key: from, end_key: noKey, max_version: toWide(until), limit: page };
    const answer = await sender.inRegion('ScanLock', region, { request, backoff });
    if (answer === undefined) {
      await backoff.wait('no store serves ScanLock');
      continue;
    }
    const found = answer.locks ?? [];
    const oldest = await oldestHeld(found, (some) => locks.resolve(some, { readsAt: 0n, backoff }));
    if (oldest <= safe) safe = oldest - 1n;
    const last = found.at(-1);
    if (last !== undefined && found.length === page) from = Buffer.concat([last.key, Buffer.of(0)]);
    else if (region.end.length === 0) return safe;
    else from = decodeKey(region.end);
  }
}

/** The start of the oldest transaction that lives on. */
async function oldestHeld(
  found: readonly LockInfo[],
  resolve: (locks: readonly LockInfo[]) => Promise<{ readonly isHeld: boolean }>,
): Promise<bigint> {
  let oldest = 0xffff_ffff_ffff_ffffn;
  for (const lock of found) {
    const start = fromWide(lock.lock_version);
    if ((await resolve([lock])).isHeld && start < oldest) oldest = start;
  }
  return oldest;
}
