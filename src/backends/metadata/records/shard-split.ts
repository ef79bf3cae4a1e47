/**
 * A store that splits while gateways use it (docs/adr/0049): it copies the rows of one half of its slot to a new store,
 * in bounded steps, and removes them when the new one has confirmed them. Every step is a transaction with its note, so
 * a store that ends continues where it was:
 *
 * - `copying`: rows are copied in the order of their keys, and gateways read and write as before. A write of a row that
 *   was copied is noted, and the row is sent again. Callers whose placement is older than this split are refused,
 *   because they would not open epochs in the new store.
 * - `closing`: calls wait. The side changes of earlier commits are sent, so that none of them can arrive after those of the new store.
 * - `handover`: what has changed last, and the epochs, go to the new store in one message, which makes it active. Then store 0
 *   publishes the placement.
 * - `removing`: callers that state an older placement are refused, and the copied rows are removed.
 */
import { type AnyTable, type At, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { type Columns, compareBytes, passed } from '../key-order.ts';
import type { StoredRow } from '../row-codec.ts';
import type { ChangedEntries } from './changed-entries.ts';
import { expiryKey, keyIn, kindSpan, space, textKeyIn } from './codec.ts';
import { isEpochOpen } from './intents.ts';
import { type Batch, type Submit, writeCounters } from './ordered-store.ts';
import { inTime, type Outbox } from './outbox.ts';
import {
  addShard,
  findStore,
  halve,
  hashKey,
  hashRow,
  initialPlacement,
  isIn,
  isSpread,
  type Placement,
  publishShard,
  type Shard,
  type ShardPlace,
  type Slot,
} from './placement.ts';

/** The beginning of the message of a store to callers whose placement is too old. */
export const staleMessage = 'the placement of the stores has changed';

/** An entry as it is copied; without a value it was removed. */
export interface CopiedEntry {
  readonly key: Uint8Array;
  readonly value?: unknown;
}

/** What makes a new store active. */
export interface Handover {
  readonly batch: number;
  readonly entries: readonly CopiedEntry[];
  readonly epochs: readonly CopiedEntry[];
  /** The new store gives its rows later revisions than this one. */
  readonly revision: number;
  readonly slot: Slot;
  readonly placement: Placement;
}

interface Split {
  readonly phase: 'copying' | 'closing' | 'handover' | 'removing';
  readonly to: number;
  /** The number of the last message. The new store takes no message that is not later than the last one it took. */
  readonly batch: number;
  /** The last key that was read to be copied; a change of a key up to it is noted. */
  readonly moving: Uint8Array;
  /** The last key that the new store has confirmed, or while rows are removed the last one that was looked at. */
  readonly moved: Uint8Array;
  /** The size when the split began. */
  readonly bytes: number;
  /** While it is closing: the entries of the outbox before this number are those of the commits before it. */
  readonly closesAt?: number;
}

interface State {
  /** Callers with an older version of the placement are refused. */
  readonly since: number;
  readonly slot: Slot;
  /** The stores that have split off, with their halves. */
  readonly halves: readonly Shard[];
  /** False in a new store until its handover. */
  readonly isActive: boolean;
  /** The number of the last message that this new store took. */
  readonly arrived: number;
  /**
   * The size from which the store splits again, after a split that freed too little: one partition that does not move
   * must not cause a split for each alarm.
   */
  readonly splitBytesMin: number;
  readonly split?: Split | undefined;
}

export interface SplitPorts extends ShardPlace {
  readonly store: ChangedEntries;
  readonly submit: Submit;
  readonly outbox: Outbox;
  readonly tables: readonly AnyTable[];
  usedBytes(): number;
  /** The size from which the store refuses commits. Absent: it has no limit. */
  readonly bytesFull?: number | undefined;
  /** A call of another store, or of this one. */
  call(shard: number, name: string, args: readonly unknown[]): Promise<unknown>;
}

const stateKey = textKeyIn('shard', 'split');
/** In store 0 alone. */
const publishedKey = textKeyIn('shard', 'placement');
/** The placement by which this store sends side changes. */
const adoptedKey = textKeyIn('shard', 'adopted');

/** Keys that one step reads, and entries of one message. */
const stepEntries = 512;
/** The part of a store that a split must free; otherwise the store splits again only when it has grown by as much. */
const freedMin = 0.1;
/** The least growth after a split that freed too little. */
const stepMin = 0.02;
const adoptionsMax = 10;

/** What is copied, in this order. Every new store gets all layouts of tables, fences and marks of whole partitions. */
const firstRow = 0x20;
const spans: readonly (readonly [number, number])[] = [
  [space.catalog, space.fence + 1],
  [space.whole, space.whole + 1],
  [firstRow, 0xff],
];
const nowhere = new Uint8Array(0);
const frees = { frees: true } as const;

/** The table's name in front of a key of a row. */
const nameIn = (key: Uint8Array): string => String.fromCharCode(...key.subarray(0, key.indexOf(0)));

export class ShardSplit implements ShardPlace {
  readonly number: number;
  readonly count: number;
  readonly #ports: SplitPorts;
  readonly #tables: ReadonlyMap<string, AnyTable>;
  #state: State;
  #adopted: Placement;
  #stepping: Promise<boolean> | undefined;
  #adopting: Promise<void> | undefined;

  constructor(ports: SplitPorts) {
    this.number = ports.number;
    this.count = ports.count;
    this.#ports = { ...ports, call: (...sent) => inTime(ports.call(...sent)) };
    this.#tables = new Map(ports.tables.map((table) => [table.name, table]));
    this.#state = this.#load();
    this.#adopted = this.#loadAdopted();
    this.#watch();
  }

  #loadAdopted(): Placement {
    const { store, count } = this.#ports;
    return (store.get(adoptedKey) as Placement | undefined) ?? initialPlacement(count);
  }

  #load(): State {
    const { number, count, store } = this.#ports;
    const stored = store.get(stateKey) as State | undefined;
    const slot = { residue: number % count, modulus: count };
    const initial = { since: 0, slot, halves: [], isActive: number < count, arrived: 0, splitBytesMin: 0 };
    // An absent value was stored as nil.
    return stored === undefined ? initial : { ...initial, ...stored, split: stored.split ?? undefined };
  }

  /** Inside a transaction. */
  #save(changed: Partial<State>): void {
    this.#state = { ...this.#state, ...changed };
    this.#ports.store.put(stateKey, this.#state);
    this.#watch();
  }

  /** Changes of what is copied are noted from the first copy to the handover. */
  #watch(): void {
    const { split, slot } = this.#state;
    const isCopying = split?.phase === 'copying' || split?.phase === 'closing';
    const half = halve(slot)[1];
    this.#ports.store.noted = isCopying
      ? { upTo: split.moving, isCopied: (key) => this.#isCopied(key, half) }
      : undefined;
  }

  /** The memory is as the store is, also inside a transaction. */
  #reload(): void {
    this.#state = this.#load();
    this.#adopted = this.#loadAdopted();
    this.#watch();
  }

  /**
   * A transaction of the split, which needs room on a full store. The engine may undo it and run its work again (`sqlite.ts`), so a work
   * begins with what is stored.
   */
  async #transact<Result>(work: (batch: Batch) => Result): Promise<Result> {
    const { store, submit } = this.#ports;
    const run = (batch: Batch): Result => {
      this.#reload();
      // Those of earlier works of this transaction, while their changes are noted: this work may end that.
      writeCounters(store, batch);
      return work(batch);
    };
    try {
      return await submit(run, frees);
    } catch (cause) {
      this.#reload();
      throw cause;
    }
  }

  // Where rows are.

  /** Of the split that this store does. */
  get phase(): Split['phase'] | undefined {
    return this.#state.split?.phase;
  }

  get isActive(): boolean {
    return this.#state.isActive;
  }

  /** The store to which a side change is sent. It may have split since; then it sends the change on. */
  findTarget(at: At<AnyTable>, row: Columns): number {
    return this.#find(hashRow(at, row));
  }

  findTargetOfKey(table: AnyTable, key: Uint8Array): number {
    return this.#find(hashKey(table, key, this.#isWhole));
  }

  #find(hash: number): number {
    const { slot, halves } = this.#state;
    if (isIn(slot, hash)) return this.number;
    const half = halves.find((each) => isIn(each, hash));
    return half === undefined ? findStore(this.#adopted, hash) : half.number;
  }

  /** A test of the rows of a partition, while those that have left are still stored. */
  filter(at: At<AnyTable>): ((row: Columns) => boolean) | undefined {
    if (!this.#isRemoving || !isSpread(at)) return undefined;
    const { slot } = this.#state;
    return (row) => isIn(slot, hashRow(at, row));
  }

  hasLeft(table: AnyTable, key: Uint8Array): boolean {
    return this.#isRemoving && !isIn(this.#state.slot, hashKey(table, key, this.#isWhole));
  }

  get #isRemoving(): boolean {
    return this.phase === 'removing';
  }

  /** Notes in the transaction of a commit that a partition is not spread, although others of its table are. */
  noteWhole(partition: Uint8Array): void {
    if (!this.#isWhole(partition)) this.#ports.store.put(keyIn('whole', partition), null);
  }

  readonly #isWhole = (partition: Uint8Array): boolean => this.#ports.store.has(keyIn('whole', partition));

  #isCopied(key: Uint8Array, half: Slot): boolean {
    const kind = key[0] as number;
    if (kind < firstRow) return kind === space.catalog || kind === space.fence || kind === space.whole;
    const table = this.#tables.get(nameIn(key));
    return table !== undefined && isIn(half, hashKey(table, key, this.#isWhole));
  }

  // What callers meet.

  /** Resolves when calls may run: not between the last changes of a split and its publication. */
  async ready(): Promise<void> {
    for (;;) {
      if (this.#adopting !== undefined) await this.#adopting.catch(() => undefined);
      else if (this.#isHoldingCalls) await this.#finishHolding();
      else return;
    }
  }

  get isReady(): boolean {
    return this.#adopting === undefined && !this.#isHoldingCalls;
  }

  get #isHoldingCalls(): boolean {
    return this.phase === 'closing' || this.phase === 'handover';
  }

  /** @param version of the caller's placement */
  assertCurrent(version: number): void {
    if (version < this.#state.since)
      throw new StoreUnavailable(`${staleMessage}: it is at ${this.#state.since}, the caller at ${version}`);
  }

  /** After a call that must not have run while rows were handed over. */
  assertUnmoved(version: number): void {
    if (this.phase === 'handover')
      throw new StoreUnavailable(`${staleMessage}: rows were handed over meanwhile`);
    this.assertCurrent(version);
  }

  assertActive(): void {
    if (!this.#state.isActive) throw new StoreUnavailable(`store ${this.number} has no rows yet`);
  }

  /** Ends a handover that has begun, with what comes before it. */
  async #finishHolding(): Promise<void> {
    while (this.#isHoldingCalls) await this.step();
  }

  /** Before side changes of other stores are sent on: a half that is being handed over takes none. */
  async finishHandover(): Promise<void> {
    while (this.phase === 'handover') await this.step();
  }

  /** The stores that have split off. */
  get halves(): readonly Shard[] {
    return this.#state.halves;
  }

  // The steps of a split.

  /**
   * Does a step of a split, and begins one above the limit. One step runs at a time: callers that ask meanwhile wait for its end.
   * @param bytesMax the size from which the store splits; absent: it begins no split
   * @returns whether more steps are to do
   */
  step(bytesMax = Number.POSITIVE_INFINITY): Promise<boolean> {
    this.#stepping ??= this.#advance(bytesMax).finally(() => {
      this.#stepping = undefined;
    });
    return this.#stepping;
  }

  async #advance(bytesMax: number): Promise<boolean> {
    const { split } = this.#state;
    if (split === undefined) return this.#begin(bytesMax);
    switch (split.phase) {
      case 'copying':
        await (compareBytes(split.moved, endKey) < 0 ? this.#copy() : this.#sendChanges());
        return true;
      case 'closing':
        await this.#close(split);
        return true;
      case 'handover':
        await this.#handOver(split);
        return true;
      default:
        return this.#removeCopied(split);
    }
  }

  async #begin(bytesMax: number): Promise<boolean> {
    const { isActive, splitBytesMin } = this.#state;
    const bytes = this.#ports.usedBytes();
    if (!isActive || bytes < Math.max(bytesMax, splitBytesMin)) return false;
    const begun = (await this.#ports.call(0, 'addShard', [this.number])) as
      | { readonly number: number; readonly version: number }
      | undefined;
    if (begun === undefined) return false;
    await this.#transact(() =>
      this.#save({
        // From here on a gateway that opens an epoch opens it in the new store too.
        since: Math.max(this.#state.since, begun.version),
        split: { phase: 'copying', to: begun.number, batch: 0, moving: nowhere, moved: nowhere, bytes },
      }),
    );
    return true;
  }

  #saveSplit(split: Split, changed: Partial<Split>): Split {
    const next = { ...split, ...changed };
    this.#save({ split: next });
    return next;
  }

  async #copy(): Promise<void> {
    const sent = await this.#transact(() => {
      const split = this.#state.split as Split;
      const { entries, last } = this.#readFrom(split.moved);
      const half = halve(this.#state.slot)[1];
      const copied = entries.filter(({ key }) => this.#isCopied(key, half));
      // A message without an answer may have arrived, and reached further than this one if rows were added since.
      const moving = compareBytes(split.moving, last) > 0 ? split.moving : last;
      return { split: this.#saveSplit(split, { batch: split.batch + 1, moving }), copied, last };
    });
    const { split, copied, last } = sent;
    if (copied.length > 0) await this.#ports.call(split.to, 'acceptEntries', [split.batch, copied]);
    await this.#transact(() => this.#saveSplit(this.#state.split as Split, { moved: last }));
  }

  /** The entries behind a key that may have to be copied. */
  #readFrom(after: Uint8Array): { readonly entries: readonly CopiedEntry[]; readonly last: Uint8Array } {
    const [low, high] = spans.find(([, end]) => compareBytes(after, Uint8Array.of(end)) < 0) ?? [0xff, 0xff];
    const begin = Uint8Array.of(low);
    const all = { low: begin, high: Uint8Array.of(high), reverse: false };
    const span = compareBytes(after, begin) < 0 ? all : passed(all, after);
    const entries: CopiedEntry[] = [];
    const isAll = this.#ports.store.read(span, (key, value) => {
      entries.push({ key: new Uint8Array(key), value });
      return entries.length < stepEntries;
    });
    return { entries, last: isAll ? span.high : (entries.at(-1) as CopiedEntry).key };
  }

  /** Sends entries that have changed since they were copied. With few of them, calls wait from now on. */
  async #sendChanges(): Promise<void> {
    const { store } = this.#ports;
    const sent = await this.#transact(() => {
      const split = this.#state.split as Split;
      const changed = store.list(stepEntries);
      // The handover takes what fits into one message.
      if (split.phase === 'copying' && changed.length < stepEntries) {
        this.#saveSplit(split, { phase: 'closing' });
        return undefined;
      }
      const entries = changed.map(({ key }) => this.#readEntry(key));
      return { split: this.#saveSplit(split, { batch: split.batch + 1 }), changed, entries };
    });
    if (sent === undefined) return;
    await this.#ports.call(sent.split.to, 'acceptEntries', [sent.split.batch, sent.entries]);
    await this.#transact(() => {
      for (const each of sent.changed) store.forget(each);
    });
  }

  #readEntry(key: Uint8Array): CopiedEntry {
    const value = this.#ports.store.get(key);
    return value === undefined ? { key } : { key, value };
  }

  /** Entries that other stores send through this one may follow without end; the handover does not wait for them. */
  async #close({ to, closesAt }: Split): Promise<void> {
    const { outbox, store } = this.#ports;
    if (closesAt === undefined) {
      // In a transaction of its own: commits may follow in the one that began to close, but in no later one.
      await this.#transact((batch) =>
        this.#saveSplit(this.#state.split as Split, { closesAt: batch.nextRevision() }),
      );
      return;
    }
    await outbox.settleAll({ except: to, before: closesAt });
    const isClosed = await this.#transact(() => {
      // The handover takes one message.
      if (store.list(stepEntries).length === stepEntries) return false;
      const [slot, half] = halve(this.#state.slot);
      const halves = [...this.#state.halves, { ...half, number: to }];
      this.#save({ slot, halves, split: { ...(this.#state.split as Split), phase: 'handover' } });
      return true;
    });
    if (!isClosed) await this.#sendChanges();
  }

  async #handOver({ to }: Split): Promise<void> {
    const { store, call } = this.#ports;
    const message = await this.#transact((batch): Handover => {
      const split = this.#state.split as Split;
      const epochs: CopiedEntry[] = [];
      // Where an epoch is missing, commits under it are refused, as under one that has ended.
      store.read(kindSpan('epoch'), (key, value) => {
        if (isEpochOpen(value)) epochs.push({ key: new Uint8Array(key), value });
        return true;
      });
      return {
        batch: this.#saveSplit(split, { batch: split.batch + 1 }).batch,
        entries: store.list(stepEntries).map(({ key }) => this.#readEntry(key)),
        epochs,
        revision: batch.nextRevision(),
        slot: this.#state.halves.at(-1) as Slot,
        placement: this.#adopted,
      };
    });
    await call(to, 'takeOver', [message]);
    const version = (await call(0, 'publishShard', [to])) as number;
    await this.#transact(() => {
      for (const each of store.list(stepEntries)) store.forget(each);
      const split = { ...(this.#state.split as Split), phase: 'removing', moved: nowhere } as const;
      this.#save({ since: Math.max(this.#state.since, version), split });
    });
  }

  async #removeCopied({ moved }: Split): Promise<boolean> {
    if (compareBytes(moved, endKey) >= 0) {
      // In a transaction of its own: what an earlier one removed is free now.
      await this.#transact(() => this.#save({ split: undefined, splitBytesMin: this.#nextSplitBytes() }));
      return false;
    }
    await this.#transact(() => {
      const { entries, last } = this.#readFrom(compareBytes(moved, rowsBegin) < 0 ? rowsBegin : moved);
      const rows = entries.map(({ key, value }) => {
        const table = this.#tables.get(nameIn(key));
        return { key, value, isGone: table !== undefined && this.hasLeft(table, key) };
      });
      if (rows.some(({ isGone }) => isGone)) this.#rewriteRows(rows);
      this.#saveSplit(this.#state.split as Split, { moved: last });
    });
    return true;
  }

  /**
   * Removes the rows that have left, and writes the others anew: every second row has left, and SQLite frees no page
   * that is half empty.
   */
  #rewriteRows(rows: readonly (CopiedEntry & { readonly isGone: boolean })[]): void {
    const { store } = this.#ports;
    for (const { key, value, isGone } of rows) {
      store.remove(key);
      const expiresAt = (value as StoredRow)[1];
      if (isGone && typeof expiresAt === 'number') store.remove(expiryKey(expiresAt, key));
    }
    for (const { key, value, isGone } of rows) if (!isGone) store.put(key, value);
  }

  /**
   * The size from which the store splits again. 0: at once. After a split that freed too little: after some growth, and
   * before it is full.
   */
  #nextSplitBytes(): number {
    const { usedBytes, bytesFull = Number.POSITIVE_INFINITY } = this.#ports;
    const bytes = usedBytes();
    if (bytes <= (this.#state.split as Split).bytes * (1 - freedMin)) return 0;
    // Near the limit in half the steps, but not in ever smaller ones: each split in vain adds a store that every listing asks.
    const step = Math.max(Math.min(bytes * freedMin, (bytesFull - bytes) / 2), bytes * stepMin);
    return bytes + step;
  }

  // What a new store gets.

  async acceptEntries(number: number, entries: readonly CopiedEntry[]): Promise<void> {
    await this.#transact(() => {
      const { isActive, arrived } = this.#state;
      // A message that was delayed, of a former life of the sender.
      if (isActive || number <= arrived) return;
      for (const entry of entries) this.#put(entry);
      this.#save({ arrived: number });
    });
  }

  #put({ key, ...rest }: CopiedEntry): void {
    const { store } = this.#ports;
    if (!('value' in rest)) {
      store.remove(key);
      return;
    }
    store.put(key, rest.value);
    const expiresAt = (key[0] as number) >= firstRow ? (rest.value as StoredRow)[1] : undefined;
    if (typeof expiresAt === 'number') store.put(expiryKey(expiresAt, key), null);
  }

  /** Makes this store active. Repeating it changes nothing. */
  async takeOver({ batch: number, entries, epochs, revision, slot, placement }: Handover): Promise<void> {
    await this.#transact((batch) => {
      const { isActive, arrived } = this.#state;
      if (isActive || number <= arrived) return;
      for (const entry of [...entries, ...epochs]) this.#put(entry);
      batch.raiseRevision?.(revision);
      this.#adopted = placement;
      this.#ports.store.put(adoptedKey, placement);
      const { residue, modulus } = slot;
      this.#save({ slot: { residue, modulus }, isActive: true, arrived: number });
    });
  }

  // The placement, in store 0.

  placement(): Placement {
    return (this.#ports.store.get(publishedKey) as Placement | undefined) ?? initialPlacement(this.count);
  }

  addShard(from: number): Promise<{ readonly number: number; readonly version: number } | undefined> {
    return this.#transact(() => {
      const added = addShard(this.placement(), from);
      if (added === undefined) return undefined;
      this.#ports.store.put(publishedKey, added.placement);
      return { number: added.number, version: added.placement.version };
    });
  }

  publishShard(number: number): Promise<number> {
    return this.#transact(() => {
      const placement = publishShard(this.placement(), number);
      this.#ports.store.put(publishedKey, placement);
      return placement.version;
    });
  }

  /**
   * Sends side changes by the latest placement from now on. Until then their receivers send them on. Calls wait while those that are
   * on their way arrive, because a later one of the same row must not overtake them.
   */
  async adopt(): Promise<void> {
    const { outbox, store, call } = this.#ports;
    const latest = (await call(0, 'placement', [])) as Placement;
    if (latest.version <= this.#adopted.version || this.#adopting !== undefined) return;
    const adopting = async (): Promise<void> => {
      for (let turn = 0; turn < adoptionsMax; turn += 1) {
        await outbox.settleAll();
        const isAdopted = await this.#transact(() => {
          if (!outbox.isEmpty()) return false;
          store.put(adoptedKey, latest);
          this.#adopted = latest;
          return true;
        });
        if (isAdopted) return;
      }
    };
    this.#adopting = adopting().finally(() => {
      this.#adopting = undefined;
    });
    await this.#adopting;
  }
}

const rowsBegin = Uint8Array.of(firstRow);
const endKey = Uint8Array.of(0xff);
