/**
 * Commits and side changes inside a transaction: lock and read everything that they depend on in one round trip, check, then write.
 */
import { MultiKeyMutex } from '../../../base/mutex.ts';
import type { Clock } from '../../../ports/clock.ts';
import type {
  Abandoned,
  AnyTable,
  At,
  Change,
  CommitOptions,
  Outcome,
  Revision,
  SideChange,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { Transaction } from '../../tikv/transaction.ts';
import {
  type EpochRows,
  Epochs,
  epochState,
  isOpId,
  parseCounter,
  parseEpoch,
  secondLookMs,
} from '../epochs.ts';
import type { Columns } from '../key-order.ts';
import { assertDistinct, findConflict, type Refused } from '../records/transaction.ts';
import { isAlive, pack, type RowCodec, unpack, unpackRow } from '../row-codec.ts';
import { assertSameKey, changedRow } from '../rules.ts';
import type { Cluster } from './health.ts';
import { type Codecs, hashToFenceLane, type Keys, lanes } from './keys.ts';

/** The key of a lock, and what happens once its value is known. */
interface Locked {
  readonly key: Uint8Array;
  /** The commits that lock it: those of its row, of its bucket, or all of a process. */
  readonly sharing: 'row' | 'bucket' | 'process';
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
    const keys = changes.map((change) => codec.key(at.in, changedRow(change)));
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
      const values = await lockAll(transaction, merged);
      for (const each of merged) {
        const refused = each.check?.(values.get(each));
        if (refused === undefined) continue;
        // Nothing was written: release the locks, and end the transaction like one that only read.
        await transaction.rollback();
        return refused;
      }
      const revision = revisionIn(transaction);
      for (const each of merged) each.write?.(transaction, values.get(each), revision);
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
      sharing: 'row',
      check: (value) =>
        findConflict(unpackRow(value), { codec, at, expect, sort: changedRow(change) as Columns, now }),
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
      const spread =
        isSpread(at) && first !== undefined ? (changedRow(first) as Columns)[at.table.spreadBy] : '';
      const lane = isSpread(at) ? hashToFenceLane(Buffer.from(String(spread))) : 0;
      locked.unshift({
        key: this.#fenceKey(codec, at, lane),
        sharing: 'bucket',
        check: (value) => {
          const fence = value === undefined ? 0 : (unpack(value) as number);
          return fence === expectedFence ? undefined : { applied: false, because: 'fenced', fence };
        },
      });
    }
    if (opId === undefined) return;
    locked.unshift({
      key: laneKeyAt(this.#keys, opId),
      sharing: 'process',
      check: (value) => (isBarred(value, opId) ? { applied: false, because: 'abandoned' } : undefined),
    });
  }

  async #prepareSide({ locked, writes }: Prepared, change: SideChange): Promise<void> {
    const codec = await this.#codecs.of(change.at.table);
    const key = codec.key(change.at.in, changedRow(change));
    if ('put' in change) writes.push(this.#put(codec, key, change));
    else if ('remove' in change) writes.push(this.#remove(key));
    else {
      const { by } = change;
      locked.push({
        key: this.#keys.row(key),
        sharing: 'bucket',
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

/** How long a commit waits for one row while it may hold others that more commits lock. */
const patienceMs = 1_000;

/**
 * All in one round trip. A commit that waits for a region that is away would hold its other rows until it gives up, and so hold up
 * commits to every region. So it gives up early, and runs again: then, and for a while, commits lock last what most others lock.
 */
async function lockAll(
  transaction: Transaction,
  all: readonly Locked[],
): Promise<ReadonlyMap<Locked, Uint8Array | undefined>> {
  const values = new Map<Locked, Uint8Array | undefined>();
  const stages = (['row', 'bucket', 'process'] as const)
    .map((sharing) => all.filter((each) => each.sharing === sharing))
    .filter(({ length }) => length > 0);
  for (const some of transaction.isCareful ? stages : [all]) {
    const keys = some.map(({ key }) => key);
    const found = await transaction.lock(keys, stages.length > 1 ? { patienceMs } : {});
    for (const [i, each] of some.entries()) values.set(each, found[i]);
  }
  return values;
}

const isSpread = (at: At<AnyTable>): boolean => at.table.spreadBy !== undefined;

const revisionIn = (transaction: Transaction): string => transaction.start.toString(36);

/**
 * Several changes may concern one key, such as two additions to a counter: it is locked once, and each change sees the
 * result of the last.
 */
function mergeSame(same: readonly Locked[]): Locked {
  const first = same[0] as Locked;
  if (same.length === 1) return first;
  return {
    key: first.key,
    sharing: first.sharing,
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

// Epochs in TiKV. A commit must not apply under an epoch that a sweep has marked, so it locks the epoch's row. With one row all commits
// of a process would wait for each other. So an epoch has a lease row, which the process renews, and `lanes.epoch` rows beside it, of
// which a commit locks the one of its op. Marking an epoch locks and writes all of them.

/** Leases that a sweep reads, page by page. */
const pageRows = 1024;
const pagesMax = 10_000;

/** `[until, state]` of a lease; `[state, ...numbers of the ops that were aborted]` of a lane. */
type Row = readonly number[];
const { open, marked, settled, markedAgain } = epochState;

interface IntentPorts {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly clock: Clock;
  /** The store's clock: leases are judged by it. */
  readonly now: () => Promise<number>;
  readonly random: Random;
  readonly ttlMs: number;
}

const decodeRow = (value: Uint8Array | undefined): Row | undefined =>
  value === undefined ? undefined : (unpack(value) as Row);

/** The row that a commit under an op locks, and whether what it finds there bars the op. */
const laneKeyAt = (keys: Keys, opId: string): Uint8Array =>
  keys.epochLane(parseEpoch(opId), parseCounter(opId) % lanes.epoch);
function isBarred(value: Uint8Array | undefined, opId: string): boolean {
  const row = decodeRow(value);
  return row === undefined || row[0] !== open || row.indexOf(parseCounter(opId), 1) >= 0;
}

export class Intents {
  readonly #ports: IntentPorts;
  /** The epochs of this process. */
  readonly own: Epochs;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
    this.own = new Epochs({ ...ports, rows: this.#rows() });
  }

  #rows(): EpochRows {
    const { client, keys } = this.#ports;
    return {
      open: async (epoch) => {
        const until = await this.#until();
        await client.transact(async (transaction) => {
          transaction.put(keys.epoch(epoch), pack([until, open]));
          for (let lane = 0; lane < lanes.epoch; lane += 1)
            transaction.put(keys.epochLane(epoch, lane), pack([open]));
        });
        return epoch;
      },
      remove: (epoch) => client.transact(async (transaction) => this.#forget(transaction, epoch)),
      renew: async (epochs) => {
        const until = await this.#until();
        const rows = epochs.map(keys.epoch);
        return client.transact(async (transaction) => {
          const values = await transaction.lock(rows);
          const isLost = values.map((value) => decodeRow(value)?.[1] !== open);
          for (const [i, row] of rows.entries()) if (!isLost[i]) transaction.put(row, pack([until, open]));
          return epochs.filter((_, i) => isLost[i]);
        });
      },
    };
  }

  async #until(): Promise<number> {
    return (await this.#ports.now()) + this.#ports.ttlMs;
  }

  #forget(transaction: Transaction, epoch: string): void {
    const { keys } = this.#ports;
    transaction.remove(keys.epoch(epoch));
    for (let lane = 0; lane < lanes.epoch; lane += 1) transaction.remove(keys.epochLane(epoch, lane));
  }

  async abort(opId: string): Promise<void> {
    this.own.abort(opId);
    const { client, keys } = this.#ports;
    const key = laneKeyAt(keys, opId);
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([key]);
      const row = decodeRow(value);
      if (row !== undefined && !isBarred(value, opId))
        transaction.put(key, pack([...row, parseCounter(opId)]));
    });
  }

  async isOpen(opId: string): Promise<boolean> {
    const { client, keys } = this.#ports;
    if (!isOpId(opId) || this.own.hasEnded(opId)) return false;
    return !isBarred(await client.get(laneKeyAt(keys, opId)), opId);
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const found: string[] = [];
    for (const epoch of await this.#lapsed()) if (await this.#mark(epoch)) found.push(epoch);
    this.own.lose(found);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  /** On its return no commit under any op of the epoch can apply. */
  #mark(epoch: string): Promise<boolean> {
    const { client, keys } = this.#ports;
    const lease = keys.epoch(epoch);
    const rows = Array.from({ length: lanes.epoch }, (_, lane) => keys.epochLane(epoch, lane));
    return client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease, ...rows]);
      const row = decodeRow(value);
      // Renewed since it was read, or settled by another process.
      if (row === undefined || !this.#isLapsed(row, await this.#ports.now())) return false;
      const state = row[1] === settled || row[1] === markedAgain ? markedAgain : marked;
      transaction.put(lease, pack([row[0], state]));
      for (const key of rows) transaction.put(key, pack([state]));
      return true;
    });
  }

  #isLapsed([until = 0, state]: Row, now: number): boolean {
    return state === marked || state === markedAgain || until <= now;
  }

  /** The epochs of any process that are marked, or whose lease has run out, or that are due for the second look. */
  async #lapsed(): Promise<readonly string[]> {
    const { client, keys } = this.#ports;
    const now = await this.#ports.now();
    const found: string[] = [];
    let { low } = keys.epochs();
    const { high } = keys.epochs();
    for (let page = 0; page < pagesMax; page += 1) {
      const entries = await client.scan({ low, high, limit: pageRows, reverse: false });
      for (const { key, value } of entries) {
        const epoch = keys.epochOf(key);
        if (epoch !== undefined && this.#isLapsed(unpack(value) as Row, now)) found.push(epoch);
      }
      const last = entries.at(-1);
      if (last === undefined || entries.length < pageRows) break;
      low = Buffer.concat([last.key, Buffer.of(0)]);
    }
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { client, keys } = this.#ports;
    const epoch = parseEpoch(intent.prefix);
    const lease = keys.epoch(epoch);
    const again = (await this.#ports.now()) + secondLookMs;
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease]);
      const state = decodeRow(value)?.[1];
      if (state === markedAgain) this.#forget(transaction, epoch);
      else if (state === marked) transaction.put(lease, pack([again, settled]));
    });
  }
}
