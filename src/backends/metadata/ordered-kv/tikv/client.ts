/** A TiKV cluster as its users see it: snapshots to read, transactions to write. See README.md. */
import { Backoff } from './backoff.ts';
import type { Tls } from './cluster/channel.ts';
import { PlacementDriver } from './cluster/placement-driver.ts';
import { Regions } from './cluster/regions.ts';
import { Sender } from './cluster/sender.ts';
import { Stores } from './cluster/stores.ts';
import { Conflict, Undetermined } from './errors.ts';
import { type Collection, collect } from './transactions/garbage.ts';
import { Locks } from './transactions/locks.ts';
import { latest, Snapshot } from './transactions/snapshot.ts';
import { type Parts, Transaction } from './transactions/transaction.ts';

export interface ClientOptions {
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
