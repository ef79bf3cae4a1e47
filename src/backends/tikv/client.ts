/** A TiKV cluster as its users see it: snapshots to read, transactions to write. See README.md. */
import { Backoff, Conflict, Undetermined } from './backoff.ts';
import type { Tls } from './channel.ts';
import { Locks } from './locks.ts';
import { decodeKey, fromWide, type LockInfo, toWide } from './messages.ts';
import { PlacementDriver } from './placement-driver.ts';
import { Regions } from './regions.ts';
import { Sender } from './sender.ts';
import { latest, Snapshot } from './snapshot.ts';
import { Stores } from './stores.ts';
import { toTimestamp } from './timestamps.ts';
import { type Parts, Transaction } from './transaction.ts';

interface ClientOptions {
  /** PD's endpoints, `host:port`. */
  readonly endpoints: readonly string[];
  readonly tls?: Tls | undefined;
  /** How long a read, or one phase of a transaction, is retried before it fails. Default 15 s. */
  readonly timeoutMs?: number | undefined;
}

const defaultTimeoutMs = 15_000;
/** Transactions that met others are tried again this often. */
const attemptsMax = 30;

export class TikvClient {
  readonly #pd: PlacementDriver;
  readonly #stores: Stores;
  readonly #parts: Parts;
  readonly #background = new Set<Promise<unknown>>();

  constructor({ endpoints, tls, timeoutMs: budgetMs = defaultTimeoutMs }: ClientOptions) {
    const pd = new PlacementDriver({ endpoints, tls, budgetMs });
    this.#pd = pd;
    this.#stores = new Stores(pd, tls);
    const sender = new Sender(new Regions(pd), this.#stores);
    const background = (work: Promise<unknown>): void => this.#inBackground(work);
    this.#parts = { pd, sender, locks: new Locks(pd, sender), budgetMs, background };
  }

  /** The cluster's clock, in ms since the epoch. */
  now(): Promise<number> {
    return this.#pd.now();
  }

  /** The latest committed value of one key; costs no timestamp. */
  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return new Snapshot(this.#parts, latest).get(key);
  }

  /** Everything that was committed before this call, as of one moment. */
  async snapshot(): Promise<Snapshot> {
    return new Snapshot(this.#parts, await this.#pd.timestamp());
  }

  /**
   * Runs `work` in a transaction and commits it; repeats both on a conflict with another transaction. Returns the result of `work`; an
   * error rolls back.
   * @throws Undetermined when it is unknown whether it was committed; after any other error it was not
   */
  async transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const backoff = new Backoff(attemptsMax * this.#parts.budgetMs);
    for (let attempt = 1; ; attempt += 1) {
      const start = await this.#pd.timestamp();
      const transaction = new Transaction(this.#parts, { start, isCareful: attempt > 1 });
      try {
        return await this.#attempt(transaction, work);
      } catch (error) {
        if (!(error instanceof Conflict) || attempt >= attemptsMax) throw error;
        await backoff.wait('others were faster each time', error);
      }
    }
  }

  async #attempt<T>(transaction: Transaction, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await work(transaction);
    } catch (error) {
      await this.#clean(transaction.rollback(), error);
      throw error;
    }
    try {
      await transaction.commit();
      return result;
    } catch (error) {
      // Undo nothing of an undetermined commit, because it may have applied.
      if (!(error instanceof Undetermined)) await this.#clean(transaction.undo(), error);
      throw error;
    }
  }

  /** A retry waits for this, so that it does not meet its own locks; other callers do not wait. */
  async #clean(work: Promise<void>, error: unknown): Promise<void> {
    this.#inBackground(work);
    if (error instanceof Conflict) await work.catch(() => undefined);
  }

  /** Settles old locks and lets stores drop old versions; for clusters without a TiDB, which does that otherwise. */
  collect(collection: Collection): Promise<void> {
    return collect(this.#parts, collection);
  }

  async close(): Promise<void> {
    await Promise.all(this.#background);
    await this.#stores.close();
    await this.#pd.close();
  }

  /** Work that no caller waits for: a transaction that meets a leftover lock clears it. */
  #inBackground(work: Promise<unknown>): void {
    const settled = work.catch(() => undefined).finally(() => this.#background.delete(settled));
    this.#background.add(settled);
  }
}

// Old versions: TiKV drops those before the safe point in PD, which a client must advance. In a cluster with TiDB that is TiDB; in one
// without, this client, under the same name. Locks from before the safe point are settled first, because afterwards the outcome of
// their transactions could not be determined.

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

async function collect(parts: Swept, { ageMs, everyMs }: Collection): Promise<void> {
  const { pd, budgetMs } = parts;
  const now = await pd.timestamp();
  const target = now - toTimestamp(ageMs);
  const current = await pd.safePoint(new Backoff(budgetMs));
  if (current > target - toTimestamp(everyMs)) return;
  // Backups and change feeds hold it back.
  const allowed = await pd.claimSafePoint(target, new Backoff(budgetMs));
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
    const oldest = await oldestOpen(found, (some) => locks.resolve(some, { readsAt: 0n, backoff }));
    if (oldest <= safe) safe = oldest - 1n;
    const last = found.at(-1);
    if (last !== undefined && found.length === page) from = Buffer.concat([last.key, Buffer.of(0)]);
    else if (region.end.length === 0) return safe;
    else from = decodeKey(region.end);
  }
}

/** The start of the oldest transaction that lives on. */
async function oldestOpen(
  found: readonly LockInfo[],
  resolve: (locks: readonly LockInfo[]) => Promise<{ readonly isLocked: boolean }>,
): Promise<bigint> {
  let oldest = 0xffff_ffff_ffff_ffffn;
  for (const lock of found) {
    const start = fromWide(lock.lock_version);
    if ((await resolve([lock])).isLocked && start < oldest) oldest = start;
  }
  return oldest;
}
