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
  type AnyTable,
  type At,
  type Cursor,
  MetadataDamaged,
  type MetadataFault,
  type MetadataStore,
  type Range,
  type RowOf,
  type Stored,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { DiskSpace } from '../../disk-space.ts';
import { type Columns, compareBytes, passed, type Span, SpanCursor } from '../key-order.ts';
import { type Codec, expiryKey, expiryTime, rowKeyOf, space } from '../records/codec.ts';
import { removalsPerTransaction, removeExpired } from '../records/expiries.ts';
import { RecordStore } from '../records/store.ts';
import { decodeRowText as decodeText, isAlive, type Projection, type StoredRow } from '../row-codec.ts';
import { assertRow, assertUpdate } from '../rules.ts';
import { PageDamaged, passedPage } from './damaged-pages.ts';
import { type Database, openEnvironment } from './environment.ts';
import { Journal, LoopTurn } from './journal.ts';
import { verifyFile } from './verify.ts';

export interface EmbeddedOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  /** False acknowledges before the disk has it: a power cut may lose the latest commits, in order. */
  readonly durable: boolean;
  /** How long a process may be silent before its intents count as abandoned. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Frees disk space for commits that meet a full disk. */
  readonly space?: DiskSpace | undefined;
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

const dataFile = (directory: string): string => join(directory, 'data.mdb');
const inodeOf = (directory: string): number | undefined =>
  statSync(dataFile(directory), { throwIfNoEntry: false })?.ino;

class Embedded extends RecordStore implements EmbeddedStore {
  readonly #directory: string;
  /** Of the file that is open. */
  readonly #inode: number | undefined;
  readonly #database: Database;
  readonly #turn: LoopTurn;
  readonly #journal: Journal;
  readonly #expiries: Expiries;
  readonly #timer: NodeJS.Timeout;

  constructor(options: EmbeddedOptions) {
    const { clock, random, intentTtlMs: ttlMs = defaultIntentTtlMs } = options;
    const database = openEnvironment(options.directory, options.durable);
    const journal = new Journal(database, options);
    super({ store: database, submit: (work, how) => journal.submit(work, how), clock, random, ttlMs });
    this.#directory = options.directory;
    this.#inode = inodeOf(options.directory);
    database.onRefused = options.onRefused;
    this.#database = database;
    this.#turn = new LoopTurn(clock, () => this.assertOpen());
    this.#journal = journal;
    this.#expiries = new Expiries({ database, journal, onDamage: options.onDamage });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    this.#timer = setInterval(() => void this.maintain().catch(() => undefined), ttlMs / 3);
    // Deno's timers are numbers.
    this.#timer.unref?.();
  }

  override scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    this.assertOpen();
    const codec = this.codecs.of(at.table);
    const scanned = { database: this.#database, clock: this.clock, codec, at, turn: this.#turn };
    return new EmbeddedCursor<T>(scanned, range);
  }

  replaceDamaged<T extends AnyTable>(at: At<T>, row: RowOf<T>): Promise<boolean> {
    assertUpdate(at);
    assertRow(at, row as Columns);
    return this.submit((batch) => this.transactions.replaceDamaged(batch, at, row as Columns));
  }

  verify(tables: readonly AnyTable[]): AsyncGenerator<readonly MetadataFault[]> {
    this.assertOpen();
    return verifyFile({ directory: this.#directory, database: this.#database }, tables);
  }

  async copyTo(directory: string): Promise<void> {
    this.assertOpen();
    await this.#database.copyTo(directory);
  }

  watchCommits(): () => boolean {
    this.assertOpen();
    return this.#database.watchCommits();
  }

  /** @throws StoreUnavailable where the file is no longer at its path: commits go to a file that no later start would find */
  override async health(): ReturnType<MetadataStore['health']> {
    this.assertOpen();
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

  override async maintain(): Promise<void> {
    try {
      await this.intents.own.renew();
    } finally {
      // On a full disk renewals are refused, and expired rows are removed.
      await this.#expiries.sweep(this.clock.now());
    }
    // A process that was killed while it read would else keep old pages from being used again.
    this.#database.readerCheck();
  }

  protected override async release(): Promise<void> {
    clearInterval(this.#timer);
    await this.#journal.close();
    await this.#database.close();
  }
}

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

class EmbeddedCursor<T extends AnyTable> extends SpanCursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #projection: Projection;
  /** Read ahead of a damaged row, and handed out after the error. */
  #buffered: Stored<RowOf<T>>[] = [];
  #isBehindDamage = false;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    super(scanned.codec.order, scanned.at, range);
    this.#scanned = scanned;
    this.#projection = scanned.codec.projection(range.columns);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { database, clock, codec, at, turn } = this.#scanned;
    if (turn.isOver()) await turn.next();
    const partition = at.in as Columns;
    const { columns, requested } = this.#projection;
    const rows = this.#buffered.splice(0);
    if (rows.length > 0) return rows;
    if (count <= 0 || this.isDone()) return rows;
    const now = clock.now();
    database.refresh();
    const visit = (key: Uint8Array, value: unknown): boolean => {
      const stored = value as StoredRow;
      if (!isAlive(stored, now)) return true;
      const row = codec.order.sortOf(key, this.partitionBytes, decodeText);
      rows.push(codec.complete(row, { stored, partition, columns }));
      if (rows.length < count) return true;
      this.span = passed(this.span, key);
      return false;
    };
    try {
      const isEnd = database.read(this.span, visit, { requested, isBehindDamage: this.#isBehindDamage });
      this.#isBehindDamage = false;
      // The range was read to its end: nothing is left of it.
      if (isEnd) this.span = { ...this.span, low: this.span.high };
    } catch (cause) {
      if (cause instanceof MetadataDamaged) this.#passOver(cause, rows);
      throw cause;
    }
    return rows;
  }

  /** A caller that continues after the error gets all other rows of the range, as far as they can be found. */
  #passOver(cause: MetadataDamaged, rows: Stored<RowOf<T>>[]): void {
    const wasBehindDamage = this.#isBehindDamage;
    this.#buffered = rows;
    this.#isBehindDamage = true;
    const { low, high, reverse } = this.span;
    if (cause instanceof PageDamaged) {
      this.span = passedPage(this.span, cause.range);
      return;
    }
    const { key } = cause;
    // The row ahead of the span may be what is damaged: the span is whole then.
    const isAhead = compareBytes(key, reverse ? high : low) < 0 !== reverse;
    const isInside = compareBytes(key, low) >= 0 && compareBytes(key, high) < 0;
    if (isInside) this.span = passed(this.span, key);
    else if (!isAhead || wasBehindDamage) this.span = { ...this.span, low: high };
  }
}

// Rows that expire: an index entry for each, sorted by time, and the sweep that removes both when they are due.

interface ExpiryPorts {
  readonly database: Database;
  readonly journal: Journal;
  /** Called once for each damaged row, up to `reportsMax` of them. */
  readonly onDamage?: ((damage: MetadataDamaged) => void) | undefined;
}

const reportsMax = 100;

/** Entries that are due, and the position of the next page; undefined after the last one. */
interface Due {
  readonly entries: readonly Uint8Array[];
  readonly left: Span | undefined;
}

class Expiries {
  readonly #ports: ExpiryPorts;
  readonly #reported = new Set<string>();
  /** Until something is committed, no row expires before this time. */
  #quietUntil = Number.NEGATIVE_INFINITY;
  #hasChanged = (): boolean => true;

  constructor(ports: ExpiryPorts) {
    this.#ports = ports;
  }

  /** Removes the rows that are due. A damaged row stays, with its entry, and the sweep continues after it. */
  async sweep(now: number): Promise<void> {
    if (now < this.#quietUntil && !this.#hasChanged()) return;
    this.#hasChanged = this.#ports.database.watchCommits();
    this.#quietUntil = Number.NEGATIVE_INFINITY;
    const { database } = this.#ports;
    let span: Span | undefined = {
      low: Uint8Array.of(space.expiry),
      high: expiryKey(now + 1),
      reverse: false,
    };
    while (span !== undefined) {
      const { entries, left }: Due = this.#due(span);
      // Read ahead of the transaction, because lmdb refuses everything else in one that has met a damaged page.
      const sound = entries.filter((entry) => this.#hasSoundRow(entry));
      if (sound.length > 0)
        await this.#ports.journal.submit(() => removeExpired(database, sound, now), { frees: true });
      span = left;
    }
    this.#quietUntil = this.#firstAfter(now);
  }

  /** When the next row expires. */
  #firstAfter(now: number): number {
    const { database } = this.#ports;
    // From the same key each time, so that an idle process notes nothing new of where it reads. Only damaged rows are still due.
    const span = { low: Uint8Array.of(space.expiry), high: Uint8Array.of(space.expiry + 1), reverse: false };
    let first = Number.NEGATIVE_INFINITY;
    database.refresh();
    try {
      database.read(span, (entry) => {
        first = expiryTime(entry);
        return first <= now;
      });
      return first > now ? first : Number.POSITIVE_INFINITY;
    } catch (cause) {
      this.#report(cause);
      return Number.NEGATIVE_INFINITY;
    }
  }

  #due(span: Span): Due {
    const entries: Uint8Array[] = [];
    const { database } = this.#ports;
    database.refresh();
    try {
      const visit = (key: Uint8Array): boolean => entries.push(key) < removalsPerTransaction;
      const isEnd = database.read(span, visit, { isBehindDamage: true });
      return { entries, left: isEnd ? undefined : passed(span, entries.at(-1) as Uint8Array) };
    } catch (cause) {
      const damage = this.#report(cause);
      if (damage instanceof PageDamaged) return { entries, left: leftOf(passedPage(span, damage.range)) };
      const { key } = damage;
      // The place of a key that is out of order says nothing about the keys after it.
      const isInside = compareBytes(key, entries.at(-1) ?? span.low) > 0 && compareBytes(key, span.high) < 0;
      return { entries, left: isInside ? passed(span, key) : undefined };
    }
  }

  #hasSoundRow(entry: Uint8Array): boolean {
    try {
      const key = rowKeyOf(entry);
      this.#ports.database.find(key);
      this.#ports.database.assertRemovable(key);
      this.#ports.database.assertRemovable(entry);
      return true;
    } catch (cause) {
      this.#report(cause);
      return false;
    }
  }

  /** @throws what is no damage */
  #report(cause: unknown): MetadataDamaged {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    const name = `${cause.table} ${cause.row}`;
    if (!this.#reported.has(name) && this.#reported.size < reportsMax) {
      this.#reported.add(name);
      this.#ports.onDamage?.(cause);
    }
    return cause;
  }
}

const leftOf = (span: Span): Span | undefined => (compareBytes(span.low, span.high) < 0 ? span : undefined);
