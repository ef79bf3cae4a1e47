/**
 * The metadata port on lmdb: durable, shared by the processes of one machine, without a server. Reads are synchronous look-ups in a
 * memory map; writes go through the journal.
 *
 * Every read starts from the latest commit of any process: lmdb keeps a read transaction for the rest of an event-loop turn, which would
 * not see later commits. A process that is stopped inside a write transaction blocks the writers of all others; one that dies there
 * does not.
 */
import { statSync } from 'node:fs';
import {
  type AnyTable,
  type At,
  type Cursor,
  localHealth,
  MetadataDamaged,
  type MetadataFault,
  type MetadataHealth,
  type MetadataStore,
  type Range,
  type RowOf,
  type Stored,
} from '../../../ports/metadata-store.ts';
import type { DiskSpace } from '../../disk-space.ts';
import { type Columns, compareBytes, passed } from '../key-order.ts';
import { RecordCursor, type RecordOptions, RecordStore, type Scanned } from '../records/store.ts';
import { assertRow, assertUpdate } from '../rules.ts';
import { PageDamaged, passedPage } from './damaged-pages.ts';
import { Expiries, verifyFile } from './damaged-reads.ts';
import { type Database, openEnvironment } from './environment.ts';
import { Journal, LoopTurn } from './journal.ts';
import { dataFile } from './meta-page.ts';

export interface EmbeddedOptions extends RecordOptions {
  readonly directory: string;
  /** False acknowledges before the disk has it: a power cut may lose the latest commits, in order. */
  readonly durable: boolean;
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

class Embedded extends RecordStore implements EmbeddedStore {
  readonly #directory: string;
  readonly #database: Database;
  readonly #turn: LoopTurn;
  readonly #expiries: Expiries;

  constructor(options: EmbeddedOptions) {
    const { directory } = options;
    const database = openEnvironment(directory, options.durable);
    const journal = new Journal(database, options);
    let timer: NodeJS.Timeout | undefined;
    super({
      ...options,
      store: database,
      submit: (work, how) => journal.submit(work, how),
      health: () => readHealth(database, directory),
      release: async () => {
        clearInterval(timer);
        await journal.close();
        await database.close();
      },
    });
    this.#directory = directory;
    database.onRefused = options.onRefused;
    this.#database = database;
    this.#turn = new LoopTurn(options.clock, () => this.assertOpen());
    this.#expiries = new Expiries({ database, journal, onDamage: options.onDamage });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    timer = setInterval(() => void this.maintain().catch(() => undefined), this.intentTtlMs / 3);
    // Deno's timers are numbers.
    timer.unref?.();
  }

  override scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    return new EmbeddedCursor<T>(this.scanned(at), range, this.#turn);
  }

  replaceDamaged<T extends AnyTable>(at: At<T>, row: RowOf<T>, expiresAt?: number): Promise<boolean> {
    assertUpdate(at);
    assertRow(at, row as Columns);
    const put = { row: row as Columns, expiresAt };
    return this.submit((batch) => this.transactions.replaceDamaged(batch, at, put));
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

  override async maintain(): Promise<void> {
    await super.maintain();
    // A process that was killed while it read would else keep old pages from being used again.
    this.#database.readerCheck();
  }

  protected override sweep(now: number): Promise<void> {
    return this.#expiries.sweep(now);
  }
}

export function embeddedStore(options: EmbeddedOptions): EmbeddedStore {
  return new Embedded(options);
}

/** @throws StoreUnavailable where the file is no longer at its path */
function readHealth(database: Database, directory: string): MetadataHealth {
  database.assertInPlace();
  return localHealth('embedded', {
    releaseVersion: 'lmdb',
    usedBytes: statSync(dataFile(directory)).size,
  });
}

/** A scan, which continues after damaged rows and pages. */
class EmbeddedCursor<T extends AnyTable> extends RecordCursor<T> {
  readonly #turn: LoopTurn;
  /** Read ahead of a damaged row, and handed out after the error. */
  #buffered: Stored<RowOf<T>>[] = [];
  #isBehindDamage = false;

  constructor(scanned: Scanned<T>, range: Range<T>, turn: LoopTurn) {
    super(scanned, range);
    this.#turn = turn;
  }

  override async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    if (this.#turn.isOver()) await this.#turn.next();
    const rows = this.#buffered.splice(0);
    if (rows.length > 0 || count <= 0 || this.isDone()) return rows;
    try {
      this.read({ count, rows, isBehindDamage: this.#isBehindDamage });
      this.#isBehindDamage = false;
      return rows;
    } catch (cause) {
      if (cause instanceof MetadataDamaged) this.#passOver(cause, rows);
      throw cause;
    }
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
