/**
 * The metadata port on SQLite, through its synchronous interface: `node:sqlite`, or the storage of a Durable Object. One table holds all
 * entries in the order of their keys.
 */
import { StorageFull } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { localHealth, StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { Span } from '../key-order.ts';
import { pack, unpack, unpackSome } from '../row-codec.ts';
import { ChangedEntries } from './changed-entries.ts';
import {
  type Batch,
  fullMessage,
  newBatch,
  type OrderedStore,
  type ReadOptions,
  type Submit,
  type Visit,
  type Work,
  writeCounters,
} from './ordered-store.ts';
import { type RecordOptions, RecordStore } from './store.ts';

export type SqlValue = Uint8Array | number;
export type SqlRow = Readonly<Record<string, unknown>>;

/** A connection that the store owns exclusively. Blobs in results are an ArrayBuffer or a Uint8Array. */
export interface Sql {
  readonly version: string;
  exec(statement: string, ...params: readonly SqlValue[]): Iterable<SqlRow>;
  /** Runs `work` in a transaction that excludes all other writers; rolls it back where `work` throws. */
  transact<Result>(work: () => Result): Result;
  /** The size of the database without its free pages. */
  usedBytes(): number;
  close(): void;
}

export interface SqliteOptions extends RecordOptions {
  /** Above this size the store refuses every commit except deletions. Absent: the engine's own limit. */
  readonly bytesMax?: number;
}

export function sqliteStore(sql: Sql, { bytesMax, ...options }: SqliteOptions): RecordStore {
  const store = new Entries(sql, options.clock);
  const submit: Submit = async (work, { frees = false } = {}) => {
    // Deletions write rows too, so the space above the limit is reserved for them.
    if (!frees && bytesMax !== undefined && sql.usedBytes() >= bytesMax)
      throw new StorageFull(`${fullMessage}: it has ${sql.usedBytes()} of ${bytesMax} bytes`);
    return store.submit(work);
  };
  const health = () =>
    localHealth('sqlite', { releaseVersion: `SQLite ${sql.version}`, usedBytes: sql.usedBytes() });
  const release = async () => sql.close();
  return new RecordStore({
    ...options,
    store: store.changed,
    submit,
    health,
    usedBytes: () => sql.usedBytes(),
    bytesFull: bytesMax,
    release,
  });
}

const toBytes = (value: unknown): Uint8Array =>
  value instanceof Uint8Array ? value : new Uint8Array(value as ArrayBuffer);

/** A transaction runs on the event loop's thread: this bounds how long it blocks the loop. */
const batchLimit = 512;
/** Revisions are reserved in blocks, so that a commit does not write their count. 2^32 blocks stay below 2^53. */
const revisionsPerBlock = 2 ** 21;
/** The key of the number of blocks that were reserved. It sorts before the keys of every kind in codec.ts. */
const revisionKey = Uint8Array.of(0);

/** The engine failed, for example on a full disk: its transaction must be rolled back. */
class EngineFailed extends Error {}

interface Submitted {
  /** @returns what to call once the transaction is durable */
  run(batch: Batch): () => void;
  reject(cause: unknown): void;
}

/**
 * The entries, and their transactions. Works that are submitted in one turn of the event loop share a transaction, so many writers share a
 * flush.
 */
class Entries implements OrderedStore {
  /** These entries for writers, so that a split knows of each write. */
  readonly changed = new ChangedEntries(this);
  readonly #sql: Sql;
  readonly #clock: Clock;
  #waiting: Submitted[] = [];
  #revision = 0;
  #revisionEnd = 0;

  constructor(sql: Sql, clock: Clock) {
    this.#sql = sql;
    this.#clock = clock;
    const table = 'entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID';
    sql.transact(() => this.#all(`CREATE TABLE IF NOT EXISTS ${table}`));
  }

  get(key: Uint8Array): unknown {
    const [entry] = this.#all('SELECT value FROM entries WHERE key = ?', key);
    return entry && unpack(toBytes(entry['value']));
  }

  /** SQLite has no checksums that could prove an absence. */
  find(key: Uint8Array): unknown {
    return this.get(key);
  }

  has(key: Uint8Array): boolean {
    return this.get(key) !== undefined;
  }

  read({ low, high, reverse }: Span, visit: Visit, { requested }: ReadOptions = {}): boolean {
    const range = `SELECT key, value FROM entries WHERE key >= ? AND key < ? ORDER BY key ${reverse ? 'DESC' : 'ASC'}`;
    for (const entry of this.#each(range, low, high)) {
      const value = unpackSome(toBytes(entry['value']), requested);
      if (!visit(toBytes(entry['key']), value)) return false;
    }
    return true;
  }

  /** Every statement outside of a transaction sees the latest commit. */
  refresh(): void {}

  put(key: Uint8Array, value: unknown): void {
    this.#all('INSERT OR REPLACE INTO entries (key, value) VALUES (?, ?)', key, pack(value));
  }

  remove(key: Uint8Array): void {
    this.#all('DELETE FROM entries WHERE key = ?', key);
  }

  removeRange({ low, high, limit }: Parameters<OrderedStore['removeRange']>[0]): number {
    const first = 'SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?';
    return this.#all(`DELETE FROM entries WHERE key IN (${first}) RETURNING 1`, low, high, limit).length;
  }

  #all(statement: string, ...params: readonly SqlValue[]): readonly SqlRow[] {
    return [...this.#each(statement, ...params)];
  }

  *#each(statement: string, ...params: readonly SqlValue[]): Generator<SqlRow> {
    try {
      yield* this.#sql.exec(statement, ...params);
    } catch (cause) {
      throw new EngineFailed(`SQLite: ${String(cause)}`, { cause });
    }
  }

  submit<Result>(work: Work<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const run = (batch: Batch): (() => void) => {
        try {
          const result = work(batch);
          return () => resolve(result);
        } catch (cause) {
          // A work checks before it writes, so it has written nothing where it refuses itself.
          if (cause instanceof EngineFailed) throw cause;
          return () => reject(cause);
        }
      };
      // Not a timer: in a Durable Object nothing may run between a request and its transaction.
      if (this.#waiting.push({ run, reject }) === 1) queueMicrotask(() => this.#transactAll());
    });
  }

  #transactAll(): void {
    while (this.#waiting.length > 0) this.#transact(this.#waiting.splice(0, batchLimit));
  }

  #transact(submitted: readonly Submitted[]): void {
    const before = this.#revisionEnd;
    try {
      const settles = this.#sql.transact(() => {
        const batch: Batch = {
          ...newBatch(this.#clock.now(), () => this.#nextRevision()),
          raiseRevision: (revision) => this.#raiseRevision(revision),
        };
        const settles = submitted.map(({ run }) => run(batch));
        writeCounters(this.changed, batch);
        return [...batch.committed, ...settles];
      });
      for (const settle of settles) settle();
    } catch (cause) {
      // The rollback has released the block that this transaction reserved.
      if (this.#revisionEnd !== before) [this.#revision, this.#revisionEnd] = [0, 0];
      const failure = new StoreUnavailable('the metadata store refused a transaction', { cause });
      // A work that is too large for the free space must not make a deletion fail: run each one alone.
      if (submitted.length > 1) for (const each of submitted) this.#transact([each]);
      else for (const { reject } of submitted) reject(failure);
    }
  }

  #raiseRevision(revision: number): void {
    if (revision < this.#revision) return;
    const block = Math.floor(revision / revisionsPerBlock);
    // What is left of the block in memory is not used, also where another one is stored already.
    if (((this.get(revisionKey) as number | undefined) ?? 0) < block) this.put(revisionKey, block);
    [this.#revision, this.#revisionEnd] = [0, 0];
  }

  #nextRevision(): number {
    if (this.#revision === this.#revisionEnd) {
      const block = ((this.get(revisionKey) as number | undefined) ?? 0) + 1;
      this.put(revisionKey, block);
      this.#revision = block * revisionsPerBlock;
      this.#revisionEnd = this.#revision + revisionsPerBlock;
    }
    return this.#revision++;
  }
}
