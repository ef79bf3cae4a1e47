/**
 * The metadata port on TiKV: rows under order-preserving keys, a listing as one range scan,
 * every commit one pessimistic transaction with its side changes inside.
 */
import { attemptEach, inParallel } from '../../../base/concurrency.ts';
import type { Clock } from '../../../ports/clock.ts';
import {
  type Abandoned,
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type Cursor,
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
import type { Tls } from '../../tikv/channel.ts';
import { type Entry, TikvClient } from '../../tikv/client.ts';
import { type Columns, computeSpan, passed, SpanCursor } from '../key-order.ts';
import {
  copiedRow,
  decodeRowText as decodeText,
  encodePosition,
  isAlive,
  type RowCodec,
  rowsPerPage,
  tableSpan,
  unpackRow,
  unpackSome,
} from '../row-codec.ts';
import { assertClear, assertCommit, assertRow, assertSideChanges, assertUpdate } from '../rules.ts';
import { Commits, Intents } from './commits.ts';
import { type Cluster, reaching, storeHealth } from './health.ts';
import { Codecs, Keys } from './keys.ts';

export interface OrderedKvOptions {
  /** PD's endpoints, `host:port`. */
  readonly endpoints: readonly string[];
  readonly tls?: Tls | undefined;
  /** How long TiKV is tried before it counts as unavailable. */
  readonly timeoutMs?: number;
  /** The age from which old versions of rows are removed; 0, the default, leaves that to TiDB. */
  readonly gcAgeMs?: number;
  /** The prefix of every key, so that a cluster can be shared. */
  readonly prefix: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How long a process may be silent before its intents count as abandoned. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Judges expiry and leases; the cluster's own clock when absent. */
  readonly storeClock?: () => Promise<number>;
}

interface OrderedKvStore extends MetadataStore {
  /** Renews intents, removes expired rows and old versions; a timer calls it three times within each intent's life. */
  maintain(): Promise<void>;
}

const defaultIntentTtlMs = 60_000;
/** Rows removed by one transaction, where many have to go. */
const removalsPerTransaction = 256;

class OrderedKv implements OrderedKvStore {
  readonly isDistant = true;
  /** A partition is one ordered range. */
  readonly split = undefined;
  readonly #client: Cluster;
  readonly #endpoints: readonly string[];
  readonly #tls: Tls | undefined;
  readonly #keys: Keys;
  readonly #codecs: Codecs;
  readonly #commits: Commits;
  readonly #intents: Intents;
  readonly #now: () => Promise<number>;
  readonly #timer: NodeJS.Timeout;
  readonly #collecting: { readonly gcAgeMs: number; readonly clock: Clock };
  #collectAt = 0;
  #isCleaning = false;
  /** Why each kind of cleaning failed when it was last tried. */
  readonly #faults = new Map<string, string>();
  #closing: Promise<void> | undefined;

  constructor({ endpoints, tls, prefix, clock, random, ...options }: OrderedKvOptions) {
    const { intentTtlMs: ttlMs = defaultIntentTtlMs } = options;
    this.#collecting = { gcAgeMs: options.gcAgeMs ?? 0, clock };
    const client = reaching(new TikvClient({ endpoints, tls, timeoutMs: options.timeoutMs }));
    const now = options.storeClock ?? (() => client.now());
    const keys = new Keys(prefix);
    const codecs = new Codecs(client, keys);
    this.#client = client;
    this.#endpoints = endpoints;
    this.#tls = tls;
    this.#keys = keys;
    this.#codecs = codecs;
    this.#now = now;
    this.#commits = new Commits({ client, keys, codecs, now });
    this.#intents = new Intents({ client, keys, clock, now, random, ttlMs });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    this.#timer = setInterval(() => void this.#beat().catch(() => undefined), ttlMs / 3);
    this.#timer.unref?.();
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    this.#assertOpen();
    const codec = await this.#codecs.of(at.table);
    const stored = unpackRow(await this.#client.get(this.#keys.row(codec.key(at.in, key))));
    if (stored === undefined) return undefined;
    // Few rows expire: the others need no clock.
    if (typeof stored[1] === 'number' && !isAlive(stored, await this.#now())) return undefined;
    return codec.decode(stored, at.in as Columns, key as Columns);
  }

  async *everyRow(table: AnyTable, position?: string): AsyncGenerator<RowPage> {
    const codec = await this.#codecs.of(table);
    for (let span = tableSpan(table, position); ; ) {
      this.#assertOpen();
      const now = await this.#now();
      const [low, high] = [this.#keys.row(span.low), this.#keys.row(span.high)];
      const entries = await this.#client.scan({ low, high, limit: rowsPerPage, reverse: false });
      const last = entries.at(-1);
      if (last === undefined) return;
      const rows = entries.flatMap(({ key, value }) => {
        const stored = unpackRow(value);
        return isAlive(stored, now) ? [copiedRow(codec, this.#keys.rowOf(key), stored)] : [];
      });
      yield { rows, position: encodePosition(this.#keys.rowOf(last.key)) };
      span = passed(span, this.#keys.rowOf(last.key));
    }
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    this.#assertOpen();
    const { table } = at;
    return new OrderedKvCursor<T>(
      {
        client: this.#client,
        keys: this.#keys,
        codec: this.#codecs.of(table),
        plain: this.#codecs.plain(table),
        now: this.#now,
        at,
      },
      range,
    );
  }

  begin(): Promise<Op> {
    return this.#intents.own.begin();
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    this.#assertOpen();
    assertCommit(at, changes as readonly Change<AnyTable>[], options);
    return (await this.#commits.commit(at, changes as readonly Change<AnyTable>[], options)) as Outcome<T>;
  }

  async end(op: Op): Promise<void> {
    this.#intents.own.end(op.id);
  }

  abort(opId: string): Promise<void> {
    return this.#intents.abort(opId);
  }

  isOpen(opId: string): Promise<boolean> {
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
    this.#assertOpen();
    assertSideChanges(changes);
    await this.#commits.apply(changes);
  }

  async update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>> {
    assertUpdate(at);
    return this.#commits.update(at, key as Columns, (row: RowOf<T> | undefined) => {
      const changed = change(row);
      assertRow(at, changed as Columns);
      return changed;
    });
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    const { low, high } = computeSpan(this.#codecs.plain(at.table).order, at.in as Columns, range);
    await this.#removeAll({ low: this.#keys.row(low), high: this.#keys.row(high) });
  }

  /** In steps, so that no transaction grows with the range. */
  async #removeAll({ low, high }: { readonly low: Uint8Array; readonly high: Uint8Array }): Promise<void> {
    for (let removed = removalsPerTransaction; removed === removalsPerTransaction; ) {
      const entries = await this.#client.scan({ low, high, limit: removalsPerTransaction, reverse: false });
      removed = entries.length;
      if (removed === 0) return;
      await this.#client.transact(async (transaction) => {
        for (const { key } of entries) transaction.remove(key);
      });
    }
  }

  fence<T extends AnyTable>(at: At<T>): Promise<number> {
    this.#assertOpen();
    return this.#commits.fence(at);
  }

  raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    return this.#commits.raiseFence(at, generation);
  }

  now(): Promise<number> {
    return this.#now();
  }

  async health(): ReturnType<MetadataStore['health']> {
    const health = await storeHealth(this.#endpoints, this.#tls);
    const faults = [...this.#faults].map(([what, why]) => `removal of ${what} from TiKV fails: ${why}`);
    return { ...health, warnings: [...health.warnings, ...faults] };
  }

  /** Cleaning may last longer than the interval of the timer: the lease is renewed all the same. */
  #beat(): Promise<void> {
    return this.#isCleaning ? this.#intents.own.renew() : this.maintain();
  }

  async maintain(): Promise<void> {
    await attemptEach(1, [() => this.#intents.own.renew(), () => this.#clean()], (step) => step());
  }

  async #clean(): Promise<void> {
    this.#isCleaning = true;
    try {
      const steps = [() => this.#report('expired rows', this.#sweepExpired()), () => this.#collect()];
      await attemptEach(1, steps, (step) => step());
    } finally {
      this.#isCleaning = false;
    }
  }

  async #report(what: string, work: Promise<void>): Promise<void> {
    try {
      await work;
      this.#faults.delete(what);
    } catch (cause) {
      this.#faults.set(what, cause instanceof Error ? cause.message : String(cause));
      throw cause;
    }
  }

  /** One gateway moves the safe point; the others find it moved. */
  async #collect(): Promise<void> {
    const { gcAgeMs: ageMs, clock } = this.#collecting;
    const everyMs = Math.ceil(ageMs / 6);
    if (ageMs === 0 || clock.elapsed() < this.#collectAt) return;
    this.#collectAt = clock.elapsed() + everyMs;
    await this.#report('old versions', this.#client.collect({ ageMs, everyMs }));
  }

  async #sweepExpired(): Promise<void> {
    await sweepExpired({ client: this.#client, keys: this.#keys, now: await this.#now() });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#intents.own.close();
    await this.#client.close();
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new Error('the metadata store is closed');
  }
}

export function orderedKvStore(options: OrderedKvOptions): OrderedKvStore {
  return new OrderedKv(options);
}

// The sweep of expired rows, many in one transaction. Where that fails, each region has its own: a region that does not serve keeps its
// rows, and those of the others go.

/** Regions that are tried at a time: each that does not serve takes a whole time budget. */
const regionsAtOnce = 16;

interface Sweep {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly now: number;
}

/** @throws StoreUnavailable when rows had to stay */
async function sweepExpired(sweep: Sweep): Promise<void> {
  const { client, keys, now } = sweep;
  const away = new Map<bigint, StoreUnavailable>();
  let failure: StoreUnavailable | undefined;
  let { low, high } = keys.expired(now);
  for (let count = removalsPerTransaction; count === removalsPerTransaction; ) {
    const entries = await client.scan({ low, high, limit: removalsPerTransaction, reverse: false });
    const last = entries.at(-1);
    if (last === undefined) break;
    count = entries.length;
    low = Buffer.concat([last.key, Buffer.of(0)]);
    // Of the regions that are known to be away, no further rows are tried.
    if (failure === undefined) failure = await attempt(sweep, entries);
    if (failure !== undefined) await removeByRegion(sweep, entries, away);
  }
  const [first] = away.values();
  if (first !== undefined) throw first;
}

async function removeByRegion(
  sweep: Sweep,
  entries: readonly Entry[],
  away: Map<bigint, StoreUnavailable>,
): Promise<void> {
  const { client, keys } = sweep;
  const rows = entries.map(({ key }) => keys.row(keys.expiringRow(key)));
  const regions = await client.regionsOf(rows);
  const groups = Map.groupBy(entries, (_, i) => regions[i] as bigint);
  await inParallel(regionsAtOnce, [...groups], async ([region, some]) => {
    const failure = away.has(region) ? undefined : await attempt(sweep, some);
    if (failure !== undefined) away.set(region, failure);
  });
}

/** @returns why nothing was removed, or why that is unknown */
async function attempt(sweep: Sweep, entries: readonly Entry[]): Promise<StoreUnavailable | undefined> {
  try {
    await remove(sweep, entries);
    return undefined;
  } catch (cause) {
    if (!(cause instanceof StoreUnavailable)) throw cause;
    return cause;
  }
}

function remove({ client, keys, now }: Sweep, entries: readonly Entry[]): Promise<void> {
  return client.transact(async (transaction) => {
    const rows = entries.map(({ key }) => keys.row(keys.expiringRow(key)));
    const values = await transaction.lock(rows);
    entries.forEach(({ key }, i) => {
      transaction.remove(key);
      const stored = unpackRow(values[i]);
      // A row that was written again since has another entry, or does not expire.
      if (stored !== undefined && !isAlive(stored, now)) transaction.remove(rows[i] as Uint8Array);
    });
  });
}

// A scan of the ordered-kv backend: each page is one range read at a new timestamp, so that no snapshot stays open.

interface Scanned<T> {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly codec: Promise<RowCodec>;
  readonly plain: RowCodec;
  readonly now: () => Promise<number>;
  readonly at: At<T>;
}

/** Expired rows are skipped in reads that double up to this many, until one is alive. */
const stretchMax = 1024;

class OrderedKvCursor<T extends AnyTable> extends SpanCursor<T> {
  readonly #scanned: Scanned<T>;
  readonly #columns: readonly string[] | undefined;

  constructor(scanned: Scanned<T>, range: Range<T>) {
    super(scanned.plain.order, scanned.at, range);
    this.#scanned = scanned;
    this.#columns = range.columns;
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { client, keys, at } = this.#scanned;
    const rows: Stored<RowOf<T>>[] = [];
    if (count <= 0 || this.isDone()) return rows;
    const codec = await this.#scanned.codec;
    const partition = at.in as Columns;
    const { columns, requested } = codec.projection(this.#columns);
    const now = await this.#scanned.now();
    let skipped = 0;
    while (rows.length < count && !this.isDone()) {
      const missing = count - rows.length;
      const limit = Math.min(Math.max(missing, 2 * skipped), stretchMax);
      const { low, high, reverse } = this.span;
      const entries = await client.scan({ low: keys.row(low), high: keys.row(high), limit, reverse });
      let last: Entry | undefined;
      for (const entry of entries) {
        if (rows.length === count) break;
        last = entry;
        const stored = unpackSome(entry.value, requested);
        if (!isAlive(stored, now)) continue;
        const row = codec.order.sortOf(keys.rowOf(entry.key), this.partitionBytes, decodeText);
        rows.push(codec.complete(row, { stored, partition, columns }));
      }
      const isWhole = entries.length < limit && last === entries.at(-1);
      this.span =
        last === undefined || isWhole
          ? { ...this.span, low: this.span.high }
          : passed(this.span, keys.rowOf(last.key));
      skipped = rows.length > count - missing ? 0 : limit;
    }
    return rows;
  }
}
