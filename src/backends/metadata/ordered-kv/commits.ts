/**
 * Commits and side changes inside a transaction: lock and read everything that they depend on in one round trip, check, then write.
 */

import { MultiKeyMutex } from '../../../base/mutex.ts';
import type {
  AnyTable,
  At,
  Change,
  CommitOptions,
  Outcome,
  Revision,
  SideChange,
} from '../../../ports/metadata-store.ts';
import type { Transaction } from '../../tikv/transaction.ts';
import type { Columns } from '../key-order.ts';
import { assertDistinct, findConflict, type Refused } from '../records/transaction.ts';
import { isAlive, type RowCodec } from '../row-codec.ts';
import { assertSameKey, keyOf } from '../rules.ts';
import type { Cluster } from './health.ts';
import { isBarred, laneKeyAt } from './intents.ts';
import { type Codecs, type Keys, laneOf, lanes, pack, unpack, unpackRow } from './keys.ts';

/** The key of a lock, and what happens once its value is known. */
interface Locked {
  readonly key: Uint8Array;
  /** Returns why the commit is refused, or undefined. */
  check?(value: Uint8Array | undefined): Refused | undefined;
  write?(transaction: Transaction, value: Uint8Array | undefined, revision: string): void;
}
/** A write that depends on nothing. */
type Write = (transaction: Transaction, revision: string) => void;

interface Prepared {
  readonly locked: Locked[];
  readonly writes: Write[];
}

export class Commits {
  readonly #client: Cluster;
  readonly #keys: Keys;
  readonly #codecs: Codecs;
  readonly #now: () => Promise<number>;
  readonly #inTurn = new MultiKeyMutex();

  constructor(parts: { client: Cluster; keys: Keys; codecs: Codecs; now: () => Promise<number> }) {
    this.#client = parts.client;
    this.#keys = parts.keys;
    this.#codecs = parts.codecs;
    this.#now = parts.now;
  }

  async commit(
    at: At<AnyTable>,
    changes: readonly Change<AnyTable>[],
    { op, then = [] }: CommitOptions,
  ): Promise<Outcome<AnyTable>> {
    const now = await this.#now();
    const codec = await this.#codecs.of(at.table);
    const prepared: Prepared = { locked: [], writes: [] };
    const keys = changes.map((change) => codec.key(at.in, keyOf(change)));
    assertDistinct(at, keys);
    changes.forEach((change, i) => {
      this.#prepareChange(prepared, { change, codec, key: keys[i] as Uint8Array, at, now });
    });
    this.#prepareBars(prepared, { at, codec, changes, opId: op?.id });
    for (const change of then) await this.#prepareSide(prepared, change);
    return this.#run(prepared);
  }

  /** Side changes alone, all of them or none. */
  async apply(changes: readonly SideChange[]): Promise<void> {
    const prepared: Prepared = { locked: [], writes: [] };
    for (const change of changes) await this.#prepareSide(prepared, change);
    await this.#run(prepared);
  }

  async update<Row>(at: At<AnyTable>, key: Columns, change: (row: Row | undefined) => Row): Promise<Row> {
    const codec = await this.#codecs.of(at.table);
    const encoded = codec.key(at.in, key);
    const now = await this.#now();
    return this.#client.transact(async (transaction) => {
      const [value] = await transaction.lock([this.#keys.row(encoded)]);
      const stored = unpackRow(value);
      const former = isAlive(stored, now) ? codec.decode<Row>(stored, at.in as Columns, key).row : undefined;
      const row = change(former);
      assertSameKey(at, encoded, codec.key(at.in, row as object));
      const next = codec.encode(row as Columns);
      next[0] = revisionIn(transaction);
      transaction.put(this.#keys.row(encoded), pack(next));
      return row;
    });
  }

  async fence(at: At<AnyTable>): Promise<number> {
    const value = await this.#client.get(this.#fenceKey(this.#codecs.plain(at.table), at, 0));
    return value === undefined ? 0 : (unpack(value) as number);
  }

  async raiseFence(at: At<AnyTable>, generation: number): Promise<void> {
    const codec = this.#codecs.plain(at.table);
    const count = isSpread(at) ? lanes.fence : 1;
    const keys = Array.from({ length: count }, (_, lane) => this.#fenceKey(codec, at, lane));
    if (await this.#stands(keys, generation)) return;
    await this.#client.transact(async (transaction) => {
      const values = await transaction.lock(keys);
      keys.forEach((key, i) => {
        const value = values[i];
        if (value === undefined || (unpack(value) as number) < generation)
          transaction.put(key, pack(generation));
      });
    });
  }

  /** Whether all lanes of a fence, which are neighbours, are raised already; a fenced commit checks this. */
  async #stands(lanesOfOne: readonly Buffer[], generation: number): Promise<boolean> {
    const [low] = lanesOfOne;
    const last = lanesOfOne.at(-1);
    if (low === undefined || last === undefined) return true;
    const limit = lanesOfOne.length;
    const high = Buffer.concat([last, Buffer.of(0)]);
    const found = await this.#client.scan({ low, high, limit, reverse: false });
    return found.length === limit && found.every(({ value }) => (unpack(value) as number) >= generation);
  }

  #run({ locked, writes }: Prepared): Promise<Outcome<AnyTable>> {
    const byName = Map.groupBy(locked, ({ key }) => Buffer.from(key).toString('latin1'));
    const merged = [...byName.values()].map(mergeSame);
    const work = async (transaction: Transaction): Promise<Outcome<AnyTable>> => {
      const values = await transaction.lock(merged.map(({ key }) => key));
      for (const [i, { check }] of merged.entries()) {
        const refused = check?.(values[i]);
        if (refused === undefined) continue;
        // Nothing was written: release the locks, and end the transaction like one that only read.
        await transaction.rollback();
        return refused;
      }
      const revision = revisionIn(transaction);
      for (const [i, { write }] of merged.entries()) write?.(transaction, values[i], revision);
      for (const write of writes) write(transaction, revision);
      return { applied: true, revision: revision as Revision };
    };
    return this.#inTurn.run([...byName.keys()], () => this.#client.transact(work));
  }

  #prepareChange(
    { locked, writes }: Prepared,
    {
      change,
      codec,
      key,
      at,
      now,
    }: {
      change: Change<AnyTable>;
      codec: RowCodec;
      key: Uint8Array;
      at: At<AnyTable>;
      now: number;
    },
  ): void {
    const write =
      'put' in change ? this.#put(codec, key, change) : 'remove' in change ? this.#remove(key) : undefined;
    const { expect } = change;
    if (expect === 'any') {
      if (write !== undefined) writes.push(write);
      return;
    }
    locked.push({
      key: this.#keys.row(key),
      check: (value) =>
        findConflict(unpackRow(value), { codec, at, expect, sort: keyOf(change) as Columns, now }),
      write: (transaction, _value, revision) => write?.(transaction, revision),
    });
  }

  /** The checks for a barred op and a fence with another generation, which come before those of rows. */
  #prepareBars(
    { locked }: Prepared,
    {
      at,
      codec,
      changes,
      opId,
    }: {
      at: At<AnyTable>;
      codec: RowCodec;
      changes: readonly Change<AnyTable>[];
      opId: string | undefined;
    },
  ): void {
    const { fence: expectedFence } = at;
    const [first] = changes;
    if (expectedFence !== undefined) {
      const spread = isSpread(at) && first !== undefined ? (keyOf(first) as Columns)[at.table.spreadBy] : '';
      const lane = isSpread(at) ? laneOf(Buffer.from(String(spread))) : 0;
      locked.unshift({
        key: this.#fenceKey(codec, at, lane),
        check: (value) => {
          const fence = value === undefined ? 0 : (unpack(value) as number);
          return fence === expectedFence ? undefined : { applied: false, because: 'fenced', fence };
        },
      });
    }
    if (opId === undefined) return;
    locked.unshift({
      key: laneKeyAt(this.#keys, opId),
      check: (value) => (isBarred(value, opId) ? { applied: false, because: 'abandoned' } : undefined),
    });
  }

  async #prepareSide({ locked, writes }: Prepared, change: SideChange): Promise<void> {
    const codec = await this.#codecs.of(change.at.table);
    const key = codec.key(change.at.in, keyOf(change));
    if ('put' in change) writes.push(this.#put(codec, key, change));
    else if ('remove' in change) writes.push(this.#remove(key));
    else {
      const { by } = change;
      locked.push({
        key: this.#keys.row(key),
        write: (transaction, value, revision) => {
          const stored = unpackRow(value) ?? codec.encode({});
          stored[0] = revision;
          codec.add(stored, by);
          transaction.put(this.#keys.row(key), pack(stored));
        },
      });
    }
  }

  #put(
    codec: RowCodec,
    key: Uint8Array,
    change: { readonly put: unknown; readonly expiresAt?: number },
  ): Write {
    const stored = codec.encode(change.put as Columns);
    const { expiresAt } = change;
    stored[1] = expiresAt;
    return (transaction, revision) => {
      stored[0] = revision;
      transaction.put(this.#keys.row(key), pack(stored));
      if (expiresAt !== undefined) transaction.put(this.#keys.expiry(expiresAt, key), pack(true));
    };
  }

  #remove(key: Uint8Array): Write {
    return (transaction) => transaction.remove(this.#keys.row(key));
  }

  #fenceKey(codec: RowCodec, at: At<AnyTable>, lane: number): Buffer {
    return this.#keys.fence(codec.order.partitionKey(at.in as Columns), lane);
  }
}

const isSpread = (at: At<AnyTable>): boolean => at.table.spreadBy !== undefined;

const revisionIn = (transaction: Transaction): string => transaction.start.toString(36);

/** Several changes may concern one key, such as two additions to a counter: it is locked once, and each change sees the result of the last. */
function mergeSame(same: readonly Locked[]): Locked {
  const first = same[0] as Locked;
  if (same.length === 1) return first;
  return {
    key: first.key,
    check: (value) =>
      same.reduce<Refused | undefined>((refused, each) => refused ?? each.check?.(value), undefined),
    write: (transaction, value, revision) => {
      let current = value;
      for (const each of same) {
        each.write?.(transaction, current, revision);
        current = transaction.written(first.key) ?? current;
      }
    },
  };
}
