/**
 * The metadata port on lmdb: durable, shared by the processes of one machine, without a server. Reads are synchronous look-ups in a
 * memory map; writes go through the journal.
 *
 * Every read starts from the latest commit of any process: lmdb keeps a read transaction for the rest of an event-loop turn, which would
 * not see later commits. A process that is stopped inside a write transaction blocks the writers of all others; one that dies there
 * does not.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../ports/clock.ts';
import {
  type Abandoned,
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type CopiedRow,
  type Cursor,
  MetadataDamaged,
  type MetadataFault,
  type MetadataStore,
  type Op,
  type Outcome,
  type Range,
  type RowOf,
  type RowPage,
  type SideChange,
  type SortOf,
  type Stored,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { DiskRoom } from '../../disk-room.ts';
import { copiedRow, positionOf, rowsPerPage, tableSpan } from '../every-row.ts';
import { type Columns, compareBytes, computeSpan, passed, type Span, skipTo } from '../key-order.ts';
import { decodeNodeText as decodeText, type Projection } from '../row-codec.ts';
import { assertClear, assertCommit, assertRow, assertSideChanges, assertUpdate } from '../rules.ts';
import { Expiries } from './expiries.ts';
import { PageDamaged, passedPage } from './file/damaged-pages.ts';
import { type Database, openEnvironment } from './file/environment.ts';
import { Intents } from './intents.ts';
import { Journal, LoopTurn } from './journal.ts';
import { type Codec, Codecs, isAlive, type StoredRow } from './rows/codec.ts';
import { verifyFile } from './rows/verify.ts';
import { Transactions } from './transaction.ts';

export interface EmbeddedOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  /** False acknowledges before the disk has it: a power cut may lose the latest commits, in order. */
  readonly durable: boolean;
  /** How long a process may be silent before its intents count as abandoned. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Frees disk space for commits that meet a full disk. */
  readonly room?: DiskRoom | undefined;
  /** Called once, when the store will not commit again: the process should be replaced. */
  readonly onBroken?: (cause: unknown) => void;
  /** Called when lmdb refuses a transaction that was sound when it began; the store begins it again once. */
  readonly onRefused?: (cause: unknown) => void;
  /** Called for damage that the sweep of expired rows finds, because no caller gets that error. */
  readonly onDamage?: (damage: MetadataDamaged) => void;
}

export interface EmbeddedStore extends MetadataStore {
  /** Renews intents and removes expired rows; a timer calls it three times within each intent's life. */
  maintain(): Promise<void>;
}

const defaultIntentTtlMs = 60_000;
/** Rows removed by one transaction, where many have to go. */
const removalsPerTransaction = 256;

const dataFile = (directory: string): string => join(directory, 'data.mdb');
const inodeOf = (directory: string): number | undefined =>
  statSync(dataFile(directory), { throwIfNoEntry: false })?.ino;

class Embedded implements EmbeddedStore {
  readonly isDistant = false;
  /** A partition is one ordered range. */
  readonly split = undefined;
  readonly #directory: string;
  /** Of the file that is open. */
  readonly #inode: number | undefined;
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #turn: LoopTurn;
  readonly #codecs: Codecs;
  readonly #journal: Journal;
  readonly #intents: Intents;
  readonly #transactions: Transactions;
  readonly #expiries: Expiries;
  readonly #timer: NodeJS.Timeout;
  #closing: Promise<void> | undefined;

  constructor(options: EmbeddedOptions) {
    const { clock, random, intentTtlMs: ttlMs = defaultIntentTtlMs } = options;
    const database = openEnvironment(options.directory, options.durable);
    this.#directory = options.directory;
    this.#inode = inodeOf(options.directory);
    database.onRefused = options.onRefused;
    this.#database = database;
    this.#clock = clock;
    this.#turn = new LoopTurn(clock, () => this.#assertOpen());
    this.#codecs = new Codecs(database);
    this.#journal = new Journal(database, options);
    this.#intents = new Intents({ database, journal: this.#journal, clock, random, ttlMs });
    this.#transactions = new Transactions(database, this.#codecs);
    this.#expiries = new Expiries({ database, journal: this.#journal, onDamage: options.onDamage });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    this.#timer = setInterval(() => void this.maintain().catch(() => undefined), ttlMs / 3);
    // Deno's timers are numbers.
    this.#timer.unref?.();
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    const codec = this.#codecs.of(at.table);
    this.#assertOpen();
    this.#database.refresh();
    const stored = this.#database.find(codec.key(at.in, key)) as StoredRow | undefined;
    if (!isAlive(stored, this.#clock.now())) return undefined;
    return codec.decode(stored, at.in as Columns, key as Columns);
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    this.#assertOpen();
    const codec = this.#codecs.of(at.table);
    const scanned = { database: this.#database, clock: this.#clock, codec, at, turn: this.#turn };
    return new EmbeddedCursor<T>(scanned, range);
  }

  begin(): Promise<Op> {
    return this.#intents.own.begin();
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    assertCommit(at, changes as readonly Change<AnyTable>[], options);
    const prepared = this.#transactions.prepare(at, changes as readonly Change<AnyTable>[], options);
    const frees = options.frees === true || isAnyRemoval([...changes, ...(options.then ?? [])]);
    return this.#journal.submit((batch) => this.#transactions.commit(batch, prepared) as Outcome<T>, {
      frees,
    });
  }

  async end(op: Op): Promise<void> {
    this.#intents.own.end(op.id);
  }

  abort(opId: string): Promise<void> {
    return this.#intents.abort(opId);
  }

  async isOpen(opId: string): Promise<boolean> {
    return this.#intents.isOpen(opId);
  }

  /** Side changes are part of their commit's transaction. */
  async hasPendingAdditions(): Promise<boolean> {
    return false;
  }

  abandoned(): Promise<readonly Abandoned[]> {
    return this.#intents.abandoned();
  }

  settle(intent: Abandoned): Promise<void> {
    return this.#intents.settle(intent);
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    assertSideChanges(changes);
    const writes = changes.map((change) => this.#transactions.prepareSide(change));
    const frees = isAnyRemoval(changes);
    await this.#journal.submit((batch) => this.#transactions.write(batch, writes), { frees });
  }

  async update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>> {
    assertUpdate(at);
    const checked = (row: RowOf<T> | undefined): RowOf<T> => {
      const changed = change(row);
      assertRow(at, changed as Columns);
      return changed;
    };
    const wanted = { at, key: key as Columns };
    return this.#journal.submit((batch) => this.#transactions.update(batch, wanted, checked));
  }

  replaceDamaged<T extends AnyTable>(at: At<T>, row: RowOf<T>): Promise<boolean> {
    assertUpdate(at);
    assertRow(at, row as Columns);
    return this.#journal.submit((batch) => this.#transactions.replaceDamaged(batch, at, row as Columns));
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    const { low, high } = computeSpan(this.#codecs.of(at.table).order, at.in as Columns, range);
    const limit = removalsPerTransaction;
    // In steps, so that a long range does not hold the writers up.
    for (let removed = limit; removed === limit; ) {
      removed = await this.#journal.submit(() => this.#database.removeRange({ low, high, limit }), {
        frees: true,
      });
    }
  }

  async fence<T extends AnyTable>(at: At<T>): Promise<number> {
    this.#assertOpen();
    this.#database.refresh();
    return this.#transactions.fence(at);
  }

  async raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    await this.#journal.submit((batch) => this.#transactions.raiseFence(batch, at, generation));
  }

  verify(tables: readonly AnyTable[]): AsyncGenerator<readonly MetadataFault[]> {
    this.#assertOpen();
    return verifyFile({ directory: this.#directory, database: this.#database }, tables);
  }

  async *everyRow(table: AnyTable, position?: string): AsyncGenerator<RowPage> {
    const codec = this.#codecs.of(table);
    for (let span = tableSpan(table, position); ; ) {
      this.#assertOpen();
      const rows: CopiedRow[] = [];
      let last: Uint8Array | undefined;
      const now = this.#clock.now();
      this.#database.refresh();
      this.#database.read(span, (key, value) => {
        last = new Uint8Array(key);
        const stored = value as StoredRow;
        if (isAlive(stored, now)) rows.push(copiedRow(codec, key, stored));
        return rows.length < rowsPerPage;
      });
      if (last === undefined) return;
      yield { rows, position: positionOf(last) };
      span = passed(span, last);
    }
  }

  async copyTo(directory: string): Promise<void> {
    this.#assertOpen();
    await this.#database.copyTo(directory);
  }

  watchCommits(): () => boolean {
    this.#assertOpen();
    return this.#database.watchCommits();
  }

  async now(): Promise<number> {
    return this.#clock.now();
  }

  /** @throws StoreUnavailable where the file is no longer at its path: commits go to a file that no later start would find */
  async health(): ReturnType<MetadataStore['health']> {
    this.#assertOpen();
    if (inodeOf(this.#directory) !== this.#inode)
      throw new StoreUnavailable(`${dataFile(this.#directory)} was moved or replaced while it is in use`);
    const node = {
      name: 'embedded',
      dataCenter: 'local',
      rack: 'local',
      releaseVersion: 'lmdb',
      schemaVersion: '1',
      state: 'UP',
      usedBytes: statSync(dataFile(this.#directory)).size,
    };
    return { nodes: [node], warnings: [] };
  }

  async maintain(): Promise<void> {
    try {
      await this.#intents.own.renew();
    } finally {
      // On a full disk renewals are refused, and expired rows are removed.
      await this.#expiries.sweep(this.#clock.now());
    }
    // A process that was killed while it read would else keep old pages from being used again.
    this.#database.readerCheck();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#intents.own.close();
    await this.#journal.close();
    await this.#database.close();
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new Error('the metadata store is closed');
  }
}

const isAnyRemoval = (changes: readonly object[]): boolean => changes.some((change) => 'remove' in change);

export function embeddedStore(options: EmbeddedOptions): EmbeddedStore {
  return new Embedded(options);
}

// A scan of the embedded backend: each page is read from a fresh snapshot, so that no snapshot stays open.

interface Scanned<T> {
  readonly database: Database;
  readonly clock: Clock;
  readonly codec: Codec;
  readonly at: At<T>;
  readonly turn: LoopTurn;
}

export class EmbeddedCursor<T extends AnyTable> implements Cursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #partitionBytes: number;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;
  readonly #projection: Projection;
  #span: Span;
  /** Read ahead of a damaged row, and handed out after the error. */
  #held: Stored<RowOf<T>>[] = [];
  #isBehindDamage = false;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    const { codec, at } = scanned;
    this.#scanned = scanned;
    this.#partitionBytes = codec.order.partitionKey(at.in as Columns).length;
    this.#isEmpty = (range.shard ?? 0) !== 0;
    this.#projection = codec.projection(range.columns);
    this.#span = computeSpan(codec.order, at.in as Columns, range);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { database, clock, codec, at, turn } = this.#scanned;
    if (turn.isOver()) await turn.next();
    const partition = at.in as Columns;
    const { columns, wanted } = this.#projection;
    const rows = this.#held.splice(0);
    if (rows.length > 0) return rows;
    if (this.#isEmpty || count <= 0 || compareBytes(this.#span.low, this.#span.high) >= 0) return rows;
    const now = clock.now();
    database.refresh();
    const visit = (key: Uint8Array, value: unknown): boolean => {
      const stored = value as StoredRow;
      if (!isAlive(stored, now)) return true;
      const row = codec.order.sortOf(key, this.#partitionBytes, decodeText);
      rows.push(codec.complete(row, { stored, partition, columns }));
      if (rows.length < count) return true;
      this.#span = passed(this.#span, key);
      return false;
    };
    try {
      const isEnd = database.read(this.#span, visit, { wanted, isBehindDamage: this.#isBehindDamage });
      this.#isBehindDamage = false;
      // The range was read to its end: nothing is left of it.
      if (isEnd) this.#span = { ...this.#span, low: this.#span.high };
    } catch (cause) {
      if (cause instanceof MetadataDamaged) this.#passOver(cause, rows);
      throw cause;
    }
    return rows;
  }

  /** A caller that continues after the error gets all other rows of the range, as far as they can be found. */
  #passOver(cause: MetadataDamaged, rows: Stored<RowOf<T>>[]): void {
    const wasBehindDamage = this.#isBehindDamage;
    this.#held = rows;
    this.#isBehindDamage = true;
    const { low, high, reverse } = this.#span;
    if (cause instanceof PageDamaged) {
      this.#span = passedPage(this.#span, cause.range);
      return;
    }
    const { key } = cause;
    // The row ahead of the span may be what is damaged: the span is whole then.
    const isAhead = compareBytes(key, reverse ? high : low) < 0 !== reverse;
    const isInside = compareBytes(key, low) >= 0 && compareBytes(key, high) < 0;
    if (isInside) this.#span = passed(this.#span, key);
    else if (!isAhead || wasBehindDamage) this.#span = { ...this.#span, low: high };
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const { codec, at } = this.#scanned;
    const prefix = codec.order.prefix(at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}
