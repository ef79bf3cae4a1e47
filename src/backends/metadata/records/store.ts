/**
 * The metadata port over an ordered store: rows under order-preserving keys, epochs, fences and the index of expiries beside them. Every
 * commit is one transaction of the store with its side changes inside. Backends extend it with what their engine has beyond that.
 */
import type { Clock } from '../../../ports/clock.ts';
import type {
  Abandoned,
  AnyTable,
  At,
  Change,
  CommitOptions,
  CopiedRow,
  Cursor,
  MetadataHealth,
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
import type { Random } from '../../../ports/random.ts';
import type { EpochRows } from '../epochs.ts';
import { type Columns, compareBytes, computeSpan, passed, type Span, SpanCursor } from '../key-order.ts';
import {
  copiedRow,
  decodeRowText as decodeText,
  encodePosition,
  isAlive,
  type Projection,
  rowsPerPage,
  type StoredRow,
  tableSpan,
} from '../row-codec.ts';
import { assertClear, assertCommit, assertRow, assertSideChanges, assertUpdate } from '../rules.ts';
import { ChangedEntries } from './changed-entries.ts';
import { type Codec, Codecs, textKeyIn } from './codec.ts';
import { removalsPerTransaction, sweepExpired } from './expiries.ts';
import { Intents } from './intents.ts';
import type { OrderedStore, ReadOptions, Submit } from './ordered-store.ts';
import {
  type EncodedChange,
  inboxKey,
  Outbox,
  type OutboxEntry,
  type OutboxPorts,
  outboxKey,
} from './outbox.ts';
import type { ShardPlace } from './placement.ts';
import { ShardSplit, type SplitPorts } from './shard-split.ts';
import { Transactions, type Write } from './transaction.ts';

/** What a backend of the layer is opened with. */
export interface RecordOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How long an intent's lease lasts without a renewal: a process that is silent for longer has abandoned its intents. Default 60 s. */
  readonly intentTtlMs?: number | undefined;
}

/** What an engine provides. */
export interface RecordPorts extends RecordOptions {
  readonly store: OrderedStore;
  readonly submit: Submit;
  /** @throws StoreUnavailable where commits or reads cannot be served */
  health(): MetadataHealth;
  /** The size of the database; of an engine whose stores can split. */
  usedBytes?(): number;
  /** The size from which it refuses commits. Absent: it has no limit of its own. */
  readonly bytesFull?: number | undefined;
  /** Closes the engine; every commit has ended. */
  release(): Promise<void>;
}

const defaultIntentTtlMs = 60_000;

export class RecordStore implements MetadataStore {
  readonly isDistant: boolean = false;
  /** A partition is one ordered range. */
  readonly split = undefined;
  protected readonly transactions: Transactions;
  protected readonly codecs: Codecs;
  protected readonly intents: Intents;
  protected readonly clock: Clock;
  protected readonly submit: Submit;
  protected readonly intentTtlMs: number;
  readonly #ports: RecordPorts;
  readonly #store: OrderedStore;
  #closing: Promise<void> | undefined;
  #outbox: Outbox | undefined;
  #shard: ShardSplit | undefined;

  constructor(ports: RecordPorts) {
    this.#ports = ports;
    this.#store = ports.store;
    this.submit = ports.submit;
    this.clock = ports.clock;
    this.codecs = new Codecs(ports.store);
    this.intentTtlMs = ports.intentTtlMs ?? defaultIntentTtlMs;
    this.intents = new Intents({ ...ports, ttlMs: this.intentTtlMs });
    this.transactions = new Transactions(ports.store, this.codecs);
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    const codec = this.codecs.of(at.table);
    this.assertOpen();
    this.#store.refresh();
    const stored = this.#store.find(codec.key(at.in, key)) as StoredRow | undefined;
    if (!isAlive(stored, this.clock.now())) return undefined;
    return codec.decode(stored, at.in as Columns, key as Columns);
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    return new RecordCursor<T>(this.scanned(at), range);
  }

  protected scanned<T extends AnyTable>(at: At<T>): Scanned<T> {
    this.assertOpen();
    return { store: this.#store, clock: this.clock, codec: this.codecs.of(at.table), at };
  }

  /** The next rows of a span, for a cursor in another process. @param columns as those of a range */
  page<T extends AnyTable>(
    at: At<T>,
    span: Span,
    { count, columns }: { readonly count: number; readonly columns?: readonly string[] | undefined },
  ): ReadSpan<T> {
    const scanned = { ...this.scanned(at), isHere: this.#shard?.filter(at) };
    return readSpan(scanned, span, { count, projection: scanned.codec.projection(columns) });
  }

  /** The rows of epochs, for a process that reaches the store from elsewhere. */
  get epochRows(): EpochRows {
    return this.intents.rows;
  }

  begin(): Promise<Op> {
    return this.intents.own.begin();
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    assertCommit(at, changes as readonly Change<AnyTable>[], options);
    const shard = this.#shard;
    const outbox = this.#outbox;
    const listed = changes as readonly Change<AnyTable>[];
    const prepared = this.transactions.prepare(at, listed, { ...options, shard });
    const frees = options.frees === true || isAnyRemoval(changes) || isAnyRemoval(options.then ?? []);
    const outcome = await this.submit((batch) => this.transactions.commit(batch, prepared) as Outcome<T>, {
      frees,
    });
    if (outcome.applied && outbox !== undefined)
      await Promise.all(prepared.targets.map((target) => outbox.settle(target, Number(outcome.revision))));
    return outcome;
  }

  /** Present where other stores have some of the partitions. */
  get outbox(): Outbox | undefined {
    return this.#outbox;
  }

  /** The place that the store was given when it was empty. */
  findPlace(): ShardPlace | undefined {
    const [number, count] = (this.#store.find(placeKey) ?? []) as number[];
    return number === undefined || count === undefined ? undefined : { number, count };
  }

  isEmpty(): boolean {
    const all = { low: new Uint8Array(0), high: Uint8Array.of(0xff), reverse: false };
    return this.#store.read(all, () => false);
  }

  /** Gives an empty store its place among others. @returns false where it has rows */
  takePlace({ number, count }: ShardPlace): Promise<boolean> {
    return this.submit(() => {
      if (!this.isEmpty()) return false;
      this.#store.put(placeKey, [number, count]);
      return true;
    });
  }

  /** The slot of this store among others, and the split of it. Present where there may be others. */
  get shard(): ShardSplit | undefined {
    return this.#shard;
  }

  /** From now on the side changes of other stores' partitions go to these, and the store can split. */
  connect({
    send,
    ...ports
  }: Pick<OutboxPorts, 'send'> &
    Omit<SplitPorts, 'store' | 'submit' | 'outbox' | 'usedBytes' | 'bytesFull'>): void {
    if (this.#outbox !== undefined) return;
    const store = this.#store;
    if (!(store instanceof ChangedEntries)) throw new Error('this engine stores all partitions itself');
    this.#outbox = new Outbox({ send, store, submit: this.submit });
    this.#shard = new ShardSplit({
      ...ports,
      store,
      submit: this.submit,
      outbox: this.#outbox,
      usedBytes: () => this.#ports.usedBytes?.() ?? 0,
      bytesFull: this.#ports.bytesFull,
    });
  }

  /**
   * Applies the entries of another store that have not arrived before. Changes of rows that have left this store are sent on, and have
   * arrived when it returns.
   * @param tableOf the table of a name
   */
  async receive(
    sender: number,
    entries: readonly OutboxEntry[],
    tableOf: (name: string) => AnyTable,
  ): Promise<void> {
    const shard = this.#shard;
    const outbox = this.#outbox;
    const key = inboxKey(sender);
    await this.submit(
      (batch) => {
        const last = (this.#store.find(key) as number | undefined) ?? 0;
        const fresh = entries.filter(({ number }) => number > last);
        const newest = fresh.at(-1);
        if (newest === undefined) return;
        // As one commit: every row is loaded before the first is written, so an entry that cannot be applied leaves none of the others.
        this.transactions.write(
          batch,
          fresh.flatMap(({ changes }) => this.#prepareReceived(changes, tableOf)),
        );
        this.#store.put(key, newest.number);
      },
      // Its commit has applied already.
      { frees: true },
    );
    if (shard === undefined || outbox === undefined) return;
    await shard.finishHandover();
    // Also what a former call has sent on without an answer.
    await Promise.all(shard.halves.map(({ number }) => outbox.settleTarget(number)));
  }

  /** The writes of an entry: those of this store's rows, and an entry for each store that has split off with others. */
  #prepareReceived(changes: readonly EncodedChange[], tableOf: (name: string) => AnyTable): readonly Write[] {
    const shard = this.#shard;
    const targets = Map.groupBy(changes, ({ table, key }) => shard?.findTargetOfKey(tableOf(table), key));
    return [...targets].flatMap(([target, group]) => {
      if (target === shard?.number)
        return group.map((change) => this.transactions.prepareEncoded(tableOf(change.table), change));
      const apply: Write['apply'] = (batch) =>
        this.#store.put(outboxKey(target as number, batch.nextRevision()), group);
      return [{ apply }];
    });
  }

  async end(op: Op): Promise<void> {
    this.intents.own.end(op.id);
  }

  abort(opId: string): Promise<void> {
    return this.intents.abort(opId);
  }

  async isOpen(opId: string): Promise<boolean> {
    return this.intents.isOpen(opId);
  }

  /** Side changes are part of their commit's transaction. */
  async hasPendingAdditions(): Promise<boolean> {
    return false;
  }

  abandoned(): Promise<readonly Abandoned[]> {
    return this.intents.abandoned();
  }

  settle(intent: Abandoned): Promise<void> {
    return this.intents.settle(intent);
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    assertSideChanges(changes);
    const writes = changes.map((change) => this.transactions.prepareSide(change));
    const frees = isAnyRemoval(changes);
    await this.submit((batch) => this.transactions.write(batch, writes), { frees });
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
    const requested = { at, key: key as Columns };
    return this.submit((batch) => this.transactions.update(batch, requested, checked));
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    const { low, high } = computeSpan(this.codecs.of(at.table).order, at.in as Columns, range);
    const limit = removalsPerTransaction;
    // In steps, so that a long range does not block the writers.
    for (let removed = limit; removed === limit; ) {
      removed = await this.submit(() => this.#store.removeRange({ low, high, limit }), {
        frees: true,
      });
    }
  }

  async fence<T extends AnyTable>(at: At<T>): Promise<number> {
    this.assertOpen();
    this.#store.refresh();
    return this.transactions.fence(at);
  }

  async raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    await this.submit((batch) => this.transactions.raiseFence(batch, at, generation));
  }

  async *everyRow(table: AnyTable, position?: string): AsyncGenerator<RowPage> {
    const codec = this.codecs.of(table);
    for (let span = tableSpan(table, position); ; ) {
      this.assertOpen();
      // Of a split, whose rows that have left are still stored.
      const removing = this.#shard?.phase === 'removing' ? this.#shard : undefined;
      const keys: Uint8Array[] = [];
      const found: CopiedRow[] = [];
      let last: Uint8Array | undefined;
      const now = this.clock.now();
      this.#store.refresh();
      this.#store.read(span, (key, value) => {
        last = new Uint8Array(key);
        const stored = value as StoredRow;
        if (isAlive(stored, now)) {
          found.push(copiedRow(codec, key, stored));
          if (removing !== undefined) keys.push(last);
        }
        return found.length < rowsPerPage;
      });
      if (last === undefined) return;
      const rows =
        removing === undefined
          ? found
          : found.filter((_, index) => !removing.hasLeft(table, keys[index] as Uint8Array));
      yield { rows, position: encodePosition(last) };
      span = passed(span, last);
    }
  }

  async now(): Promise<number> {
    return this.clock.now();
  }

  /** Renews intents and removes expired rows; called three times within each intent's life. */
  async maintain(): Promise<void> {
    try {
      await this.intents.own.renew();
    } finally {
      // On a full disk renewals are refused, and expired rows are removed.
      await this.sweep(this.clock.now());
    }
  }

  /** Removes the rows that have expired. */
  protected sweep(now: number): Promise<void> {
    return sweepExpired(this.#store, this.submit, now);
  }

  async health(): Promise<MetadataHealth> {
    this.assertOpen();
    return this.#ports.health();
  }

  close(): Promise<void> {
    this.#closing ??= this.intents.own.close().then(() => this.#ports.release());
    return this.#closing;
  }

  protected assertOpen(): void {
    if (this.#closing !== undefined) throw new Error('the metadata store is closed');
  }
}

const placeKey = textKeyIn('shard', '');

const isAnyRemoval = (changes: readonly object[]): boolean => changes.some((change) => 'remove' in change);

// A scan: each page is read from a fresh snapshot, so that no snapshot stays open.

export interface Scanned<T> {
  readonly store: OrderedStore;
  readonly clock: Clock;
  readonly codec: Codec;
  readonly at: At<T>;
  /** Present while rows that another store has are still stored here. */
  readonly isHere?: ((row: Columns) => boolean) | undefined;
}

export interface ReadSpan<T> {
  readonly rows: Stored<RowOf<T>>[];
  readonly rest: Span;
}

interface PageOptions<T> extends Pick<ReadOptions, 'isBehindDamage'> {
  readonly count: number;
  readonly projection: Projection;
  readonly partitionBytes?: number;
  /** Gets the rows, so that a caller has those ahead of an error too. */
  readonly rows?: Stored<RowOf<T>>[];
}

function readSpan<T extends AnyTable>(
  { store, clock, codec, at, isHere }: Scanned<T>,
  span: Span,
  {
    count,
    projection,
    partitionBytes = codec.order.partitionKey(at.in as Columns).length,
    rows = [],
    isBehindDamage,
  }: PageOptions<T>,
): ReadSpan<T> {
  if (count <= 0 || compareBytes(span.low, span.high) >= 0) return { rows, rest: span };
  const partition = at.in as Columns;
  const { columns, requested } = projection;
  const now = clock.now();
  // Empty, unless the read stops before the end of the range.
  let rest: Span = { ...span, low: span.high };
  store.refresh();
  store.read(
    span,
    (key, value) => {
      const stored = value as StoredRow;
      if (!isAlive(stored, now)) return true;
      const row = codec.order.sortOf(key, partitionBytes, decodeText);
      if (isHere?.(row) === false) return true;
      rows.push(codec.complete(row, { stored, partition, columns }));
      if (rows.length < count) return true;
      rest = passed(span, key);
      return false;
    },
    { requested, isBehindDamage },
  );
  return { rows, rest };
}

export class RecordCursor<T extends AnyTable> extends SpanCursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #projection: Projection;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    super(scanned.codec.order, scanned.at, range);
    this.#scanned = scanned;
    this.#projection = scanned.codec.projection(range.columns);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    return this.isDone() ? [] : this.read({ count });
  }

  /** Reads the next rows, and moves the span behind them. */
  protected read(
    options: Omit<PageOptions<T>, 'projection' | 'partitionBytes'>,
  ): readonly Stored<RowOf<T>>[] {
    const how = { ...options, projection: this.#projection, partitionBytes: this.partitionBytes };
    const { rows, rest } = readSpan(this.#scanned, this.span, how);
    this.span = rest;
    return rows;
  }
}
