/** Commits and side changes inside a transaction: check everything, then write. */
import {
  type AnyTable,
  type At,
  type Change,
  MetadataDamaged,
  type Outcome,
  type Revision,
  type SideChange,
} from '../../../ports/metadata-store.ts';
import { type Columns, keyText } from '../key-order.ts';
import { isAlive, type RowCodec, readRevision, type StoredRow } from '../row-codec.ts';
import { assertSameKey, changedRow } from '../rules.ts';
import { type Codec, type Codecs, expiryKey, keyIn } from './codec.ts';
import { isBarred } from './intents.ts';
import type { Batch, Counter, OrderedStore } from './ordered-store.ts';
import { type EncodedChange, outboxKey } from './outbox.ts';
import { canSpread, isSpread } from './placement.ts';
import type { ShardSplit } from './shard-split.ts';

/** A write whose key and row are encoded; it runs inside a transaction and cannot be refused. */
export interface Write {
  /**
   * Reads what the write changes, and throws where it must not be written, ahead of all writes, because a damaged row
   * must not leave half of a commit.
   */
  load?(batch: Batch): void;
  apply(batch: Batch, revision: number): void;
}

interface Check {
  readonly key: Uint8Array;
  readonly expect: 'absent' | Revision;
  readonly sort: Columns;
}

export interface PreparedCommit {
  readonly at: At<AnyTable>;
  readonly opId: string | undefined;
  readonly checks: readonly Check[];
  readonly writes: readonly Write[];
  /** The other stores that have some of its side changes. */
  readonly targets: readonly number[];
}

export type Refused = Exclude<Outcome<AnyTable>, { applied: true }>;

interface Expected {
  readonly codec: RowCodec;
  readonly at: At<AnyTable>;
  readonly expect: 'absent' | Revision;
  /** The columns of the row's key. */
  readonly sort: Columns;
  readonly now: number;
}

/** Why the stored row refuses a commit that expects another; undefined where it is as expected. */
export function findConflict(
  stored: StoredRow | undefined,
  { codec, at, expect, sort, now }: Expected,
): Refused | undefined {
  const isThere = isAlive(stored, now);
  if ((isThere ? readRevision(stored) : 'absent') === expect) return undefined;
  if (!isThere) return { applied: false, because: 'conflict' };
  return {
    applied: false,
    because: 'conflict',
    current: codec.decode<never>(stored, at.in as Columns, sort),
  };
}

export class Transactions {
  readonly #store: OrderedStore;
  readonly #codecs: Codecs;

  constructor(store: OrderedStore, codecs: Codecs) {
    this.#store = store;
    this.#codecs = codecs;
  }

  prepare(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    options: {
      readonly op?: { readonly id: string };
      readonly then?: readonly SideChange[];
      /** Present where other stores have some of the partitions. */
      readonly shard?: Pick<ShardSplit, 'number' | 'findTarget' | 'noteWhole'> | undefined;
    },
  ): PreparedCommit {
    const codec = this.#codecs.of(at.table);
    const keys = changes.map((change) => codec.key(at.in, changedRow(change)));
    assertDistinct(at, keys);
    const checks: Check[] = [];
    const writes: Write[] = [];
    const { then = [], shard } = options;
    if (shard !== undefined && canSpread(at.table) && !isSpread(at)) {
      const partition = codec.order.partitionKey(at.in as Columns);
      writes.push({ apply: () => shard.noteWhole(partition) });
    }
    changes.forEach((change, index) => {
      const key = keys[index] as Uint8Array;
      if (change.expect !== 'any')
        checks.push({ key, expect: change.expect, sort: changedRow(change) as Columns });
      if ('put' in change) writes.push(this.#put(codec, key, change));
      else if ('remove' in change) writes.push(this.#remove(key));
    });
    const opId = options.op?.id;
    if (shard === undefined) {
      for (const change of then) writes.push(this.prepareSide(change));
      return { at, opId, checks, writes, targets: [] };
    }
    const others = new Map<number, EncodedChange[]>();
    for (const change of then) {
      const target = shard.findTarget(change.at, changedRow(change) as Columns);
      if (target === shard.number) writes.push(this.prepareSide(change));
      else others.set(target, [...(others.get(target) ?? []), this.encodeSide(change)]);
    }
    for (const [target, encoded] of others)
      writes.push({ apply: (_, revision) => this.#store.put(outboxKey(target, revision), encoded) });
    return { at, opId, checks, writes, targets: [...others.keys()] };
  }

  /** As it stands in an outbox. */
  encodeSide(change: SideChange): EncodedChange {
    const { table } = change.at as At<AnyTable>;
    const codec = this.#codecs.of(table);
    const sent = { table: table.name, key: codec.key(change.at.in, changedRow(change)) };
    if ('add' in change) return { ...sent, by: change.by };
    if ('remove' in change) return sent;
    const put = codec.encode(change.put as Columns);
    put[1] = change.expiresAt;
    return { ...sent, put };
  }

  /** A side change of a commit, of this store or another. */
  prepareEncoded(table: AnyTable, { key, put, by }: EncodedChange): Write {
    const codec = this.#codecs.of(table);
    if (by !== undefined) return this.#add(codec, key, by);
    if (put === undefined) return this.#remove(key);
    return this.#putStored(codec, {
      key,
      stored: put,
      expiresAt: (put[1] ?? undefined) as number | undefined,
    });
  }

  prepareSide(change: SideChange): Write {
    return this.prepareEncoded(change.at.table, this.encodeSide(change));
  }

  #put(codec: Codec, key: Uint8Array, change: { readonly put: unknown; readonly expiresAt?: number }): Write {
    const { expiresAt } = change;
    return this.#putStored(codec, { key, stored: codec.encode(change.put as Columns), expiresAt });
  }

  #putStored(
    codec: Codec,
    {
      key,
      stored,
      expiresAt,
    }: {
      readonly key: Uint8Array;
      readonly stored: StoredRow;
      readonly expiresAt: number | undefined;
    },
  ): Write {
    const entry = expiresAt === undefined ? undefined : expiryKey(expiresAt, key);
    // A page is not written for an entry that is there already.
    let isIndexed = false;
    stored[1] = expiresAt;
    const apply = (batch: Batch, revision: number): void => {
      this.#note(batch, codec);
      stored[0] = revision;
      this.#store.put(key, stored);
      if (entry !== undefined && !isIndexed) this.#store.put(entry, null);
    };
    const load = (): void => {
      this.#store.assertWritable?.(key);
      if (entry === undefined) return;
      this.#store.assertWritable?.(entry);
      isIndexed = this.#store.has(entry);
    };
    return { load, apply };
  }

  #remove(key: Uint8Array): Write {
    const load = (): void => this.#store.assertRemovable?.(key);
    const apply = (batch: Batch): void => {
      batch.counters.delete(keyText(key));
      this.#store.remove(key);
    };
    return { load, apply };
  }

  #add(codec: Codec, key: Uint8Array, by: Readonly<Record<string, number>>): Write {
    const name = keyText(key);
    const load = (batch: Batch): Counter => {
      let counter = batch.counters.get(name);
      if (counter === undefined) {
        const stored = (this.#store.find(key) as StoredRow | undefined) ?? codec.encode({});
        counter = { key, stored, isChanged: false };
        batch.counters.set(name, counter);
      }
      return counter;
    };
    const apply = (batch: Batch, revision: number): void => {
      const counter = load(batch);
      if (!counter.isChanged) this.#note(batch, codec);
      counter.isChanged = true;
      counter.stored[0] = revision;
      codec.add(counter.stored as StoredRow, by);
    };
    return { load, apply };
  }

  #note(batch: Batch, codec: Codec): void {
    if (codec.unnoted === undefined) return;
    this.#store.put(codec.unnoted.key, codec.unnoted.value);
    batch.committed.push(() => {
      codec.unnoted = undefined;
    });
  }

  /** Applies the writes of one commit. */
  write(batch: Batch, writes: readonly Write[]): number {
    for (const write of writes) write.load?.(batch);
    const revision = batch.nextRevision();
    for (const write of writes) write.apply(batch, revision);
    return revision;
  }

  commit(batch: Batch, prepared: PreparedCommit): Outcome<AnyTable> {
    const refused = this.#refusal(batch, prepared);
    if (refused !== undefined) return refused;
    const revision = this.write(batch, prepared.writes);
    return { applied: true, revision: String(revision) as Revision };
  }

  #refusal(batch: Batch, { at, opId, checks }: PreparedCommit): Refused | undefined {
    if (opId !== undefined && isBarred(this.#store, batch, opId)) {
      return { applied: false, because: 'abandoned' };
    }
    if (at.fence !== undefined) {
      const fence = this.#fenceIn(batch, at);
      if (fence !== at.fence) return { applied: false, because: 'fenced', fence };
    }
    for (const { key, expect, sort } of checks) {
      const stored = this.#store.find(key) as StoredRow | undefined;
      const refused = findConflict(stored, {
        codec: this.#codecs.of(at.table),
        at,
        expect,
        sort,
        now: batch.now,
      });
      if (refused !== undefined) return refused;
    }
    return undefined;
  }

  update<Row>(
    batch: Batch,
    requested: { readonly at: At<AnyTable>; readonly key: Columns },
    change: (row: Row | undefined) => Row,
  ): Row {
    const { at, key } = requested;
    const codec = this.#codecs.of(at.table);
    const encoded = codec.key(at.in, key);
    const found = this.#store.find(encoded) as StoredRow | undefined;
    const stored = isAlive(found, batch.now) ? found : undefined;
    const row = change(stored && codec.decode<Row>(stored, at.in as Columns, key).row);
    assertSameKey(at, encoded, codec.key(at.in, row as object));
    this.#put(codec, encoded, { put: row }).apply(batch, batch.nextRevision());
    return row;
  }

  replaceDamaged(
    batch: Batch,
    at: At<AnyTable>,
    { row, expiresAt }: { readonly row: Columns; readonly expiresAt: number | undefined },
  ): boolean {
    const codec = this.#codecs.of(at.table);
    const key = codec.key(at.in, row);
    try {
      this.#store.find(key);
      return false;
    } catch (cause) {
      if (!(cause instanceof MetadataDamaged)) throw cause;
    }
    const put = this.#put(codec, key, { put: row, ...(expiresAt === undefined ? {} : { expiresAt }) });
    this.write(batch, [put]);
    return true;
  }

  fence(at: At<AnyTable>): number {
    return (this.#store.find(this.#fenceKey(at)) as number | undefined) ?? 0;
  }

  /**
   * Read once for all commits of a batch. The first one of a partition stores a fence of 0, because an engine that verifies its data
   * reads the rows on either side of one that it does not find.
   */
  #fenceIn(batch: Batch, at: At<AnyTable>): number {
    const key = this.#fenceKey(at);
    const name = keyText(key);
    let fence = batch.fences.get(name);
    if (fence === undefined) {
      fence = this.#store.find(key) as number | undefined;
      if (fence === undefined) {
        fence = 0;
        this.#store.assertWritable?.(key);
        this.#store.put(key, fence);
      }
      batch.fences.set(name, fence);
    }
    return fence;
  }

  raiseFence(batch: Batch, at: At<AnyTable>, generation: number): void {
    if (generation <= this.#fenceIn(batch, at)) return;
    const key = this.#fenceKey(at);
    batch.fences.set(keyText(key), generation);
    this.#store.put(key, generation);
  }

  #fenceKey(at: At<AnyTable>): Uint8Array {
    return keyIn('fence', this.#codecs.of(at.table).order.partitionKey(at.in as Columns));
  }
}

export function assertDistinct(at: At<AnyTable>, keys: readonly Uint8Array[]): void {
  if (keys.length < 2 || new Set(keys.map(keyText)).size === keys.length) return;
  throw new Error(`a commit changes a row of ${at.table.name} twice`);
}
