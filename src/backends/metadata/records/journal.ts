/**
 * Group commit over an engine whose transactions are synchronous: works that are submitted in one turn of the event loop share a
 * transaction, so many writers share a flush. (lmdb flushes in the background, and has a journal of its own.)
 */
import type { Clock } from '../../../ports/clock.ts';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import { newBatch, type OrderedStore, type Work, writeCounters } from './ordered-store.ts';

/** A transaction runs on the event loop's thread: this bounds how long it blocks the loop. */
const batchLimit = 512;
/** Revisions are reserved in blocks, so that a commit does not write their count. 2^32 blocks stay below 2^53. */
const revisionsPerBlock = 2 ** 21;
/** The key of the number of blocks that were reserved. It sorts before the keys of every kind in key-spaces.ts. */
const revisionKey = Uint8Array.of(0);

/** The engine failed, for example on a full disk: its transaction must be rolled back. */
export class EngineFailed extends Error {}

export interface JournalPorts {
  readonly store: OrderedStore;
  readonly clock: Pick<Clock, 'now'>;
  /** Runs `work` in a transaction that excludes all other writers; rolls it back where `work` throws. */
  transact<Result>(work: () => Result): Result;
}

interface Entry {
  run(batch: ReturnType<typeof newBatch>): void;
  resolve(): void;
  reject(cause: unknown): void;
}

export class SyncJournal {
  readonly #ports: JournalPorts;
  #waiting: Entry[] = [];
  #revision = 0;
  #revisionEnd = 0;

  constructor(ports: JournalPorts) {
    this.#ports = ports;
  }

  submit<Result>(work: Work<Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      let settle = (): void => {};
      this.#waiting.push({
        run: (batch) => {
          try {
            const result = work(batch);
            settle = () => resolve(result);
          } catch (cause) {
            // A work checks before it writes, so it has written nothing where it refuses itself.
            if (cause instanceof EngineFailed) throw cause;
            settle = () => reject(cause);
          }
        },
        resolve: () => settle(),
        reject,
      });
      // Not a timer: in a Durable Object nothing may run between a request and its transaction.
      if (this.#waiting.length === 1) queueMicrotask(() => this.#transactAll());
    });
  }

  #transactAll(): void {
    while (this.#waiting.length > 0) this.#transact(this.#waiting.splice(0, batchLimit));
  }

  #transact(entries: readonly Entry[]): void {
    const before = this.#revisionEnd;
    try {
      const committed = this.#ports.transact(() => {
        const batch = newBatch(this.#ports.clock.now(), () => this.#nextRevision());
        for (const entry of entries) entry.run(batch);
        writeCounters(this.#ports.store, batch);
        return batch.committed;
      });
      for (const each of committed) each();
      for (const entry of entries) entry.resolve();
    } catch (cause) {
      // The rollback has released the block that this transaction reserved.
      if (this.#revisionEnd !== before) [this.#revision, this.#revisionEnd] = [0, 0];
      // A work that is too large for the free space must not make a deletion fail: run each one alone.
      if (entries.length > 1) {
        for (const entry of entries) this.#transact([entry]);
        return;
      }
      const failure = new StoreUnavailable('the metadata store refused a transaction', { cause });
      for (const entry of entries) entry.reject(failure);
    }
  }

  #nextRevision(): number {
    if (this.#revision === this.#revisionEnd) {
      const block = ((this.#ports.store.get(revisionKey) as number | undefined) ?? 0) + 1;
      this.#ports.store.put(revisionKey, block);
      this.#revision = block * revisionsPerBlock;
      this.#revisionEnd = this.#revision + revisionsPerBlock;
    }
    return this.#revision++;
  }
}
