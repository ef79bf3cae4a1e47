/**
 * The record layer of another process, for gateways that reach it by calls: `serveRecords` answers them beside the
 * store, `remoteRecords` is the metadata port over them. A call is one message there and one back, of plain values and
 * bytes.
 *
 * Both sides assert the rules for callers: the remote side reports a mistake as the caller's error, and the serving side protects the rows.
 */
import { StorageFull } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import {
  type Abandoned,
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type CopiedRow,
  type Cursor,
  type MetadataHealth,
  type MetadataStore,
  type Op,
  type Outcome,
  type Range,
  type RowOf,
  type RowPage,
  type SideChange,
  type SortOf,
  type Stored,
  StoreRefused,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { Epochs } from '../epochs.ts';
import { buildOrder, type Columns, compareBytes, computeSpan, type Span, skipTo } from '../key-order.ts';
import {
  assertClear,
  assertCommit,
  assertRow,
  assertSameKey,
  assertSideChanges,
  assertUpdate,
  changedRow,
} from '../rules.ts';
import { fullMessage } from './ordered-store.ts';
import { addsTo, type OutboxEntry } from './outbox.ts';
import type { CopiedEntry, Handover, ShardSplit } from './shard-split.ts';
import type { ReadSpan, RecordStore } from './store.ts';

/** A partition in a message: its table by name. */
export interface SentPartition {
  readonly table: string;
  readonly in: object;
  readonly ways?: number | undefined;
  readonly fence?: number | undefined;
}

const encodePartition = (at: At<AnyTable>): SentPartition => ({
  table: at.table.name,
  in: at.in,
  ...(at.ways === undefined ? {} : { ways: at.ways }),
  ...(at.fence === undefined ? {} : { fence: at.fence }),
});

export type SentSideChange = Omit<SideChange, 'at'> & { readonly at: SentPartition };
interface SentOptions {
  readonly op?: Op | undefined;
  readonly then: readonly SentSideChange[];
  readonly frees: boolean;
}

const encodeSideChanges = (changes: readonly SideChange[] = []): readonly SentSideChange[] =>
  changes.map((change) => ({ ...change, at: encodePartition(change.at as At<AnyTable>) }));

/** A key that cannot be encoded is an error of the caller, and not of the store. */
function assertKey(at: At<AnyTable>, key: object): void {
  buildOrder(at.table).rowKey(at.in as Columns, key as Columns);
}

function assertSideKeys(changes: readonly SideChange[] = []): void {
  for (const change of changes) assertKey(change.at as At<AnyTable>, changedRow(change));
}

/** Rows of one answer. */
const pageMax = 1_000;

/** Finds the tables that calls may name. */
export function tableFinder(tables: readonly AnyTable[]): (name: string) => AnyTable {
  const byName = new Map(tables.map((table) => [table.name, table]));
  return (name) => {
    const table = byName.get(name);
    if (table === undefined) throw new Error(`there is no table ${name}`);
    return table;
  };
}

/** What other stores send, and what was not sent to them yet. */
const serveOutbox = (store: RecordStore, tableOf: (name: string) => AnyTable) => ({
  /** Entries of another store's outbox. It waits only for stores that split off from this one, so no two stores wait for each other. */
  receive: (sender: number, entries: readonly OutboxEntry[]) => store.receive(sender, entries, tableOf),
  pendingAdditions: async (partition: SentPartition) => {
    const table = tableOf(partition.table);
    const key = buildOrder(table).partitionKey(partition.in as Columns);
    return (await store.outbox?.isPending(addsTo(table, key))) ?? false;
  },
  pendingPuts: async (name: string) =>
    (await store.outbox?.isPending(({ table, put }) => put !== undefined && table === name)) ?? false,
});

function serveIntents(store: RecordStore) {
  const { epochRows } = store;
  return {
    /** @param before store time at which a store that keeps no leases refuses: the epoch may have been swept meanwhile */
    openEpoch: async (epoch: string, before?: number) => {
      if (before !== undefined && (await store.now()) >= before)
        throw new StoreUnavailable('the epoch was opened too slowly');
      return epochRows.open(epoch);
    },
    removeEpoch: (epoch: string) => epochRows.remove(epoch),
    /** For a sweep: on its return the commits under the epochs have made their side changes, and no further ones apply. */
    barEpochs: async (epochs: readonly string[]) => {
      for (const epoch of epochs) await epochRows.remove(epoch);
      await store.outbox?.settleAll();
    },
    renewEpochs: (epochs: readonly string[]) => epochRows.renew(epochs),
    abort: async (opId: string) => {
      await store.abort(opId);
      await store.outbox?.settleAll();
    },
    isOpen: (opId: string) => store.isOpen(opId),
    abandoned: async () => {
      const found = await store.abandoned();
      await store.outbox?.settleAll();
      return found;
    },
    settle: (intent: Abandoned) => store.settle(intent),
  };
}

/** What stores call of each other while one splits. */
function serveSplit(store: RecordStore) {
  const shard = (): ShardSplit => {
    if (store.shard === undefined) throw new Error('this store has no others');
    return store.shard;
  };
  return {
    placement: async () => shard().placement(),
    addShard: (from: number) => shard().addShard(from),
    publishShard: (number: number) => shard().publishShard(number),
    acceptEntries: (batch: number, entries: readonly CopiedEntry[]) => shard().acceptEntries(batch, entries),
    takeOver: (handover: Handover) => shard().takeOver(handover),
  };
}

/** The answers to calls, over a store and the tables that they may name. */
function serveRecords(store: RecordStore, tables: readonly AnyTable[]) {
  const findTable = tableFinder(tables);
  const decodePartition = ({ table, ...rest }: SentPartition): At<AnyTable> =>
    ({ table: findTable(table), ...rest }) as At<AnyTable>;
  const decodeSideChanges = (changes: readonly SentSideChange[]): SideChange[] =>
    changes.map((change) => ({ ...change, at: decodePartition(change.at) }) as SideChange);
  return {
    get: (partition: SentPartition, key: object) => store.get(decodePartition(partition), key as never),
    page: async (
      partition: SentPartition,
      span: Span,
      requested: { count: number; columns?: readonly string[] | undefined },
    ) =>
      store.page(decodePartition(partition), span, {
        ...requested,
        count: Math.min(requested.count, pageMax),
      }),
    commit: (
      partition: SentPartition,
      changes: readonly Change<AnyTable>[],
      { op, then, frees }: SentOptions,
    ) =>
      store.commit(decodePartition(partition), changes, {
        then: decodeSideChanges(then),
        frees,
        ...(op === undefined ? {} : { op }),
      }),
    apply: (changes: readonly SentSideChange[]) => store.apply(decodeSideChanges(changes)),
    clear: (partition: SentPartition, range: Range<AnyTable>) =>
      store.clear(decodePartition(partition), range),
    fence: (partition: SentPartition) => store.fence(decodePartition(partition)),
    raiseFence: (partition: SentPartition, generation: number) =>
      store.raiseFence(decodePartition(partition), generation),
    ...serveOutbox(store, findTable),
    ...serveIntents(store),
    ...serveSplit(store),
    everyRow: async (name: string, position?: string): Promise<RowPage | undefined> => {
      for await (const page of store.everyRow(findTable(name), position)) return page;
      return undefined;
    },
    now: () => store.now(),
    health: () => store.health(),
  };
}

/** How a call behaves beside side changes that were not confirmed, and beside a split. */
interface CallRules {
  /** It sees no commit without its side changes in other stores. */
  readonly catchesUp?: true;
  /** A caller with an older placement is refused: it may ask the wrong store, or not all of them. */
  readonly isFenced?: true;
  /** It is refused also where the store handed rows over meanwhile; then the caller repeats it, which changes nothing. */
  readonly isRepeatable?: true;
  /** A new store answers it before its handover. */
  readonly needsNoRows?: true;
}

const read = { catchesUp: true, isFenced: true, isRepeatable: true } as const;
const ofEpochs = { isFenced: true, isRepeatable: true, needsNoRows: true } as const;
const withoutRows = { needsNoRows: true } as const;

const callRules: Readonly<Record<keyof RecordCalls, CallRules>> = {
  get: read,
  page: read,
  everyRow: read,
  clear: read,
  fence: read,
  raiseFence: read,
  commit: { catchesUp: true, isFenced: true },
  apply: { catchesUp: true, isFenced: true },
  pendingAdditions: ofEpochs,
  pendingPuts: ofEpochs,
  openEpoch: ofEpochs,
  removeEpoch: ofEpochs,
  barEpochs: ofEpochs,
  abort: ofEpochs,
  isOpen: ofEpochs,
  abandoned: ofEpochs,
  // Store 0 alone has leases, and it never leaves them to another.
  renewEpochs: withoutRows,
  settle: withoutRows,
  now: withoutRows,
  health: withoutRows,
  receive: {},
  placement: withoutRows,
  addShard: withoutRows,
  publishShard: withoutRows,
  acceptEntries: withoutRows,
  takeOver: withoutRows,
};

/** Answers a call. @param version of the caller's placement */
export type AnswerCall = (name: string, args: readonly unknown[], version?: number) => Promise<unknown>;

/** @param tables those that calls may name */
export function answerCalls(store: RecordStore, tables: readonly AnyTable[]): AnswerCall {
  const calls: Readonly<Record<string, (...args: never[]) => Promise<unknown>>> = serveRecords(store, tables);
  const rules: Readonly<Record<string, CallRules>> = callRules;
  return async (name, args, version = 0) => {
    const serve = Object.hasOwn(calls, name) ? calls[name] : undefined;
    if (serve === undefined) throw new Error(`there is no call ${name}`);
    const { catchesUp, isFenced, isRepeatable, needsNoRows } = rules[name] as CallRules;
    const { shard, outbox } = store;
    do {
      // First, because a half that is being handed over takes no side changes.
      if (isFenced) await shard?.ready();
      if (catchesUp) await outbox?.catchUp();
    } while (isFenced && shard?.isReady === false);
    // From here to the transaction of the call nothing is awaited, so the placement cannot change in between.
    if (isFenced) shard?.assertCurrent(version);
    if (!needsNoRows) shard?.assertActive();
    const answer = await serve(...(args as never[]));
    if (isRepeatable) shard?.assertUnmoved(version);
    return answer;
  };
}

export type RecordCalls = ReturnType<typeof serveRecords>;

/** What gateways call; the others are between stores. */
export type GatewayCalls = Omit<
  RecordCalls,
  'receive' | 'barEpochs' | 'placement' | 'addShard' | 'publishShard' | 'acceptEntries' | 'takeOver'
>;

/** Sends a call, and returns the result or throws. */
export type SendCall<Calls = GatewayCalls> = (
  name: keyof Calls,
  args: readonly unknown[],
) => Promise<unknown>;

/** Calls as functions. The cast is safe: `serveRecords` declares the answer of each name. */
export const callsOver = <Calls extends object>(send: SendCall<Calls>): Calls =>
  new Proxy({} as Calls, {
    get:
      (_, name) =>
      (...args: readonly unknown[]) =>
        send(name as keyof Calls, args),
  });

/** The beginning of the message of a store that is another than the caller takes it for. */
export const misplacedMessage = 'the number of shards differs';

export interface RemoteOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How long intents live without a renewal; the same as where the store is. */
  readonly intentTtlMs: number;
  /** The calls go to several stores (`shardCalls`), so a commit's side changes may be missing for a while. */
  readonly isSharded?: boolean;
}

export interface RemoteRecords extends MetadataStore {
  /** Renews the intents of this process; call it three times within each intent's life. */
  maintain(): Promise<void>;
}

class Remote implements RemoteRecords {
  readonly isDistant = true;
  /** A partition is one ordered range. */
  readonly split = undefined;
  readonly hasPendingPuts: MetadataStore['hasPendingPuts'];
  readonly #own: Epochs;
  readonly #calls: GatewayCalls;
  readonly #isSharded: boolean;

  constructor(send: SendCall, { clock, random, intentTtlMs: ttlMs, isSharded = false }: RemoteOptions) {
    const calls = callsOver<GatewayCalls>(async (name, args) => {
      try {
        return await send(name, args);
      } catch (cause) {
        if (String(cause).includes(fullMessage)) throw new StorageFull(fullMessage, { cause });
        if (String(cause).includes(misplacedMessage)) throw new StoreRefused(String(cause), { cause });
        throw new StoreUnavailable('the metadata store did not answer', { cause });
      }
    });
    this.#calls = calls;
    this.#isSharded = isSharded;
    this.hasPendingPuts = isSharded ? (table) => calls.pendingPuts(table.name) : undefined;
    this.#own = new Epochs({
      clock,
      random,
      ttlMs,
      rows: {
        open: (epoch) => calls.openEpoch(epoch),
        remove: (epoch) => calls.removeEpoch(epoch),
        renew: (epochs) => calls.renewEpochs(epochs),
      },
    });
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    assertKey(at, key);
    return (await this.#calls.get(encodePartition(at), key)) as Stored<RowOf<T>> | undefined;
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    return new RemoteCursor<T>(this.#calls, at, range);
  }

  begin(): Promise<Op> {
    return this.#own.begin();
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    const listed = changes as readonly Change<AnyTable>[];
    assertCommit(at, listed, options);
    const { op, then, frees = false } = options;
    for (const change of listed) assertKey(at, changedRow(change));
    assertSideKeys(then);
    return (await this.#calls.commit(encodePartition(at), listed, {
      op,
      then: encodeSideChanges(then),
      frees,
    })) as Outcome<T>;
  }

  async end(op: Op): Promise<void> {
    this.#own.end(op.id);
  }

  async abort(opId: string): Promise<void> {
    this.#own.abort(opId);
    await this.#calls.abort(opId);
  }

  async isOpen(opId: string): Promise<boolean> {
    return !this.#own.hasEnded(opId) && this.#calls.isOpen(opId);
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const found = await this.#calls.abandoned();
    this.#own.lose(found.map(({ prefix }) => prefix.slice(0, -1)));
    return found;
  }

  settle(intent: Abandoned): Promise<void> {
    return this.#calls.settle(intent);
  }

  /** In one store, side changes are part of their commit's transaction. */
  async hasPendingAdditions<T extends AnyTable>(at: At<T>): Promise<boolean> {
    return this.#isSharded && this.#calls.pendingAdditions(encodePartition(at));
  }

  async apply(changes: readonly SideChange[]): Promise<void> {
    assertSideChanges(changes);
    assertSideKeys(changes);
    await this.#calls.apply(encodeSideChanges(changes));
  }

  /** Retries a compare-and-set until no other writer interferes, because a function cannot be sent. */
  async update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>> {
    assertUpdate(at);
    const order = buildOrder(at.table);
    const encoded = order.rowKey(at.in as Columns, key as Columns);
    let current = await this.get(at, key);
    for (;;) {
      const row = change(current?.row);
      assertRow(at, row as Columns);
      assertSameKey(at, encoded, order.rowKey(at.in as Columns, row as Columns));
      const outcome = await this.commit(at, [{ put: row, expect: current?.revision ?? 'absent' }]);
      if (outcome.applied) return row;
      current = outcome.current;
    }
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    await this.#calls.clear(encodePartition(at), range as Range<AnyTable>);
  }

  fence<T extends AnyTable>(at: At<T>): Promise<number> {
    return this.#calls.fence(encodePartition(at));
  }

  raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    return this.#calls.raiseFence(encodePartition(at), generation);
  }

  async *everyRow(table: AnyTable, position?: string): AsyncGenerator<RowPage> {
    for (let after = position; ; ) {
      const page: { readonly rows: readonly CopiedRow[]; readonly position?: string } | undefined =
        await this.#calls.everyRow(table.name, after);
      if (page === undefined) return;
      yield page;
      after = page.position;
    }
  }

  now(): Promise<number> {
    return this.#calls.now();
  }

  health(): Promise<MetadataHealth> {
    return this.#calls.health();
  }

  maintain(): Promise<void> {
    return this.#own.renew();
  }

  close(): Promise<void> {
    return this.#own.close();
  }
}

export const remoteRecords = (send: SendCall, options: RemoteOptions): RemoteRecords =>
  new Remote(send, options);

class RemoteCursor<T extends AnyTable> implements Cursor<T> {
  readonly #calls: GatewayCalls;
  readonly #at: At<T>;
  readonly #columns: readonly string[] | undefined;
  /** There is only shard 0; the others are empty. */
  readonly #isEmpty: boolean;
  #span: Span;

  constructor(calls: GatewayCalls, at: At<T>, range: Range<T>) {
    this.#calls = calls;
    this.#at = at;
    this.#columns = range.columns;
    this.#isEmpty = (range.shard ?? 0) !== 0;
    this.#span = computeSpan(buildOrder(at.table), at.in as Columns, range);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const found: Stored<RowOf<T>>[] = [];
    if (this.#isEmpty) return found;
    // An answer has no more than a thousand rows.
    while (found.length < count && compareBytes(this.#span.low, this.#span.high) < 0) {
      const requested = { count: count - found.length, columns: this.#columns };
      const page = (await this.#calls.page(encodePartition(this.#at), this.#span, requested)) as ReadSpan<T>;
      for (const row of page.rows) found.push(row);
      this.#span = page.rest;
    }
    return found;
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = buildOrder(this.#at.table).prefix(this.#at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}
