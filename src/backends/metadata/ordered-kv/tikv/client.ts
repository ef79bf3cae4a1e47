/** A TiKV cluster as its users see it: snapshots to read, transactions to write. See README.md. */
import type { Tls } from './channel.ts';
import { Conflict } from './errors.ts';
import { Locks } from './locks.ts';
import { PlacementDriver } from './placement-driver.ts';
import { Regions } from './regions.ts';
import { Sender } from './sender.ts';
import { latest, Snapshot } from './snapshot.ts';
import { physicalMs } from './timestamps.ts';
import { Transaction } from './transaction.ts';

export interface ClientOptions {
  /** PD's endpoints, `host:port`. */
  readonly endpoints: readonly string[];
  readonly tls?: Tls | undefined;
}

/** Transactions that met others are tried again this often. */
const attemptsMax = 30;

export class TikvClient {
  readonly #pd: PlacementDriver;
  readonly #regions: Regions;
  readonly #sender: Sender;
  readonly #locks: Locks;
  readonly #background = new Set<Promise<unknown>>();

  constructor({ endpoints, tls }: ClientOptions) {
    this.#pd = new PlacementDriver(endpoints, tls);
    this.#regions = new Regions(this.#pd, tls);
    this.#sender = new Sender(this.#regions);
    this.#locks = new Locks(this.#pd, this.#sender);
  }

  /** The cluster's clock, in ms since the epoch. */
  async now(): Promise<number> {
    return physicalMs(await this.#pd.timestamp());
  }

  /** The latest committed value of one key; costs no timestamp. */
  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#snapshot(latest).get(key);
  }

  /** Everything that was committed before this call, as of one moment. */
  async snapshot(): Promise<Snapshot> {
    return this.#snapshot(await this.#pd.timestamp());
  }

  #snapshot(at: bigint): Snapshot {
    return new Snapshot({ sender: this.#sender, regions: this.#regions, locks: this.#locks }, at);
  }

  /**
   * Runs `work` in a transaction and commits it; again from the start when it met another transaction. What `work`
   * gives is given back; a throw rolls back.
   */
  async transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const transaction = new Transaction(
        { pd: this.#pd, sender: this.#sender, locks: this.#locks },
        await this.#pd.timestamp(),
        (more) => this.#inBackground(more),
      );
      let stage: 'working' | 'committing' = 'working';
      try {
        const result = await work(transaction);
        stage = 'committing';
        await transaction.commit();
        return result;
      } catch (error) {
        const isConflict = error instanceof Conflict;
        // Of an undetermined commit nothing may be undone: it may have happened.
        if (stage === 'working') this.#inBackground(transaction.rollback());
        else if (isConflict) await transaction.undo();
        if (!isConflict || attempt >= attemptsMax) throw error;
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#background);
    await this.#regions.close();
    await this.#pd.close();
  }

  /** What nobody waits for: whoever meets a lock that is left clears it. */
  #inBackground(work: Promise<unknown>): void {
    const settled = work.catch(() => undefined).finally(() => this.#background.delete(settled));
    this.#background.add(settled);
  }
}
