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
import type {
  Abandoned,
  AnyTable,
  At,
  Change,
  CommitOptions,
  CopiedRow,
  Cursor,
  MetadataDamaged,
  MetadataFault,
  MetadataStore,
  Op,
  Outcome,
  Range,
  RowOf,
  RowPage,
  SideChange,
  SortOf,
  Stored,
} from '../../../ports/metadata-store.ts';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { DiskRoom } from '../../disk-room/disk-room.ts';
import { copiedRow, positionOf, rowsPerPage, tableSpan } from '../rows/every-row.ts';
import type { Columns } from '../rows/order.ts';
import { computeSpan, passed } from '../rows/span.ts';
import { assertClear, assertCommit, assertRow, assertSideChanges, assertUpdate } from '../rules.ts';
import { EmbeddedCursor } from './cursor.ts';
import { Expiries } from './expiries.ts';
import { type Database, openEnvironment } from './file/environment.ts';
import { Intents } from './intents.ts';
import { Journal } from './journal.ts';
import { LoopTurn } from './loop-turn.ts';
import { Codecs, isAlive, type StoredRow } from './rows/codec.ts';
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
