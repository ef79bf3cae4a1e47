/**
 * The metadata port on SQLite, through its synchronous interface: `node:sqlite`, or the storage of a Durable Object. One table holds all
 * entries in the order of their keys.
 */
import { Packr } from 'msgpackr';
import { StorageFull } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { type MetadataHealth, StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { Span } from '../key-order.ts';
import { decodeRowText, type Requested, readSome } from '../row-codec.ts';
import { sweepExpired } from './expiries.ts';
import {
  fullMessage,
  newBatch,
  type OrderedStore,
  type Submit,
  type Visit,
  type Work,
  writeCounters,
} from './ordered-store.ts';
import { RecordStore } from './store.ts';

export type SqlValue = Uint8Array | number;

/** A connection that the store owns exclusively. Blobs in results are an ArrayBuffer or a Uint8Array. */
export interface Sql {
  readonly version: string;
  exec(statement: string, ...params: readonly SqlValue[]): Iterable<Readonly<Record<string, unknown>>>;
  /** Runs `work` in a transaction that excludes all other writers; rolls it back where `work` throws. */
  transact<Result>(work: () => Result): Result;
  /** The size of the database without its free pages. */
  usedBytes(): number;
  close(): void;
}

export interface SqliteOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How long an intent's lease lasts without a renewal. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Above this size the store refuses every commit except deletions. Absent: the engine's own limit. */
  readonly bytesMax?: number;
}

export type SqliteStore = RecordStore;

const defaultIntentTtlMs = 60_000;
const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true, copyBuffers: true });
const toBytes = (value: unknown): Uint8Array =>
  value instanceof Uint8Array ? value : new Uint8Array(value as ArrayBuffer);

class SqliteEntries implements OrderedStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    sql.transact(() =>
      this.#run(
        'CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID',
      ),
    );
  }

  get(key: Uint8Array): unknown {
    for (const { value } of this.#each('SELECT value FROM entries WHERE key = ?', key))
      return packr.unpack(toBytes(value));
    return undefined;
  }

  /** SQLite has no checksums that could prove an absence. */
  find(key: Uint8Array): unknown {
    return this.get(key);
  }

  has(key: Uint8Array): boolean {
    for (const _ of this.#each('SELECT 1 FROM entries WHERE key = ?', key)) return true;
    return false;
  }

  read(
    { low, high, reverse }: Span,
    visit: Visit,
    options: { readonly requested?: Requested | undefined } = {},
  ): boolean {
    const { requested } = options;
    const range = `SELECT key, value FROM entries WHERE key >= ? AND key < ? ORDER BY key ${reverse ? 'DESC' : 'ASC'}`;
    for (const entry of this.#each(range, low, high)) {
      const packed = toBytes(entry['value']);
      const value =
        requested === undefined
          ? packr.unpack(packed)
          : readSome(packed, { requested, decode: decodeRowText });
      if (!visit(toBytes(entry['key']), value)) return false;
    }
    return true;
  }

  /** Every statement outside of a transaction sees the latest commit. */
  refresh(): void {}

  put(key: Uint8Array, value: unknown): void {
    this.#run('INSERT OR REPLACE INTO entries (key, value) VALUES (?, ?)', key, packr.pack(value));
  }

  remove(key: Uint8Array): void {
    this.#run('DELETE FROM entries WHERE key = ?', key);
  }

  removeRange({
    low,
    high,
    limit,
  }: {
    readonly low: Uint8Array;
    readonly high: Uint8Array;
    readonly limit: number;
  }): number {
    const first = 'SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?';
    const removed = `DELETE FROM entries WHERE key IN (${first}) RETURNING 1`;
    return [...this.#each(removed, low, high, limit)].length;
  }

  #run(statement: string, ...params: readonly SqlValue[]): void {
    for (const _ of this.#each(statement, ...params));
  }

  *#each(statement: string, ...params: readonly SqlValue[]): Generator<Readonly<Record<string, unknown>>> {
    try {
      yield* this.#sql.exec(statement, ...params);
    } catch (cause) {
      throw new EngineFailed(`SQLite: ${String(cause)}`, { cause });
    }
  }
}

class Sqlite extends RecordStore {
  readonly #sql: Sql;
  readonly #entries: SqliteEntries;

  constructor(
    sql: Sql,
    {
      clock,
      random,
      intentTtlMs: ttlMs = defaultIntentTtlMs,
      bytesMax = Number.POSITIVE_INFINITY,
    }: SqliteOptions,
  ) {
    const entries = new SqliteEntries(sql);
    const journal = new SyncJournal({ store: entries, clock, transact: (work) => sql.transact(work) });
    const submit: Submit = async (work, { frees = false } = {}) => {
      // Deletions write rows too, so the space above the limit is reserved for them.
      if (!frees && Number.isFinite(bytesMax) && sql.usedBytes() >= bytesMax)
        throw new StorageFull(`${fullMessage}: it has ${sql.usedBytes()} of ${bytesMax} bytes`);
      return journal.submit(work);
    };
    super({ store: entries, submit, clock, random, ttlMs });
    this.#sql = sql;
    this.#entries = entries;
  }

  override async health(): Promise<MetadataHealth> {
    this.assertOpen();
    const local = { dataCenter: 'local', rack: 'local', schemaVersion: '1', state: 'UP' };
    const releaseVersion = `SQLite ${this.#sql.version}`;
    return {
      nodes: [{ name: 'sqlite', ...local, releaseVersion, usedBytes: this.#sql.usedBytes() }],
      warnings: [],
    };
  }

  override async maintain(): Promise<void> {
    try {
      await this.intents.own.renew();
    } finally {
      await sweepExpired(this.#entries, this.submit, this.clock.now());
    }
  }

  protected override async release(): Promise<void> {
    this.#sql.close();
  }
}

export const sqliteStore = (sql: Sql, options: SqliteOptions): SqliteStore => new Sqlite(sql, options);

// Group commit over an engine whose transactions are synchronous: works that are submitted in one turn of the event loop share a
// transaction, so many writers share a flush. (lmdb flushes in the background, and has a journal of its own.)

/** A transaction runs on the event loop's thread: this bounds how long it blocks the loop. */
const batchLimit = 512;
/** Revisions are reserved in blocks, so that a commit does not write their count. 2^32 blocks stay below 2^53. */
const revisionsPerBlock = 2 ** 21;
/** The key of the number of blocks that were reserved. It sorts before the keys of every kind in codec.ts. */
const revisionKey = Uint8Array.of(0);

/** The engine failed, for example on a full disk: its transaction must be rolled back. */
class EngineFailed extends Error {}

interface JournalPorts {
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

class SyncJournal {
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
