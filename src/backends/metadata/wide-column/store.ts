/**
 * The metadata port on Cassandra and its kin (design §5, spec items 3 and 5): partitions are shards, a listing is a
 * fan-out with a merge, a commit is a conditional batch in one partition with an intent that finishes what it began.
 */
import type { Clock } from '../../../ports/clock.ts';
import type {
  Abandoned,
  AnyTable,
  At,
  Change,
  CommitOptions,
  Cursor,
  MetadataStore,
  Op,
  Outcome,
  Range,
  RowOf,
  SideChange,
  SortOf,
  Stored,
} from '../../../ports/metadata-store.ts';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { Columns } from '../order.ts';
import { assertClear, assertCommit, assertRow, assertSideChanges, assertUpdate } from '../rules.ts';
import { spanOf } from '../span.ts';
import { Commits } from './commits.ts';
import { sumOf } from './counters.ts';
import { boundsIn, WideColumnCursor } from './cursor.ts';
import { clusterHealth } from './health.ts';
import { Intents } from './intents.ts';
import { isAlive } from './rows.ts';
import { Session, type SessionOptions, type Statement, UnknownOutcome } from './session.ts';
import { Tables } from './tables.ts';

export interface WideColumnOptions extends SessionOptions {
  /** How the keyspace is replicated where it is made, as CQL has it. */
  readonly replication: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How long a process may be silent before its intents count as abandoned. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Judges expiry and leases; the cluster's own clock when absent. */
  readonly storeClock?: () => Promise<number>;
}

export interface WideColumnStore extends MetadataStore {
  /** Renews intents; a timer calls it three times within each intent's life. */
  maintain(): Promise<void>;
}

const defaultIntentTtlMs = 60_000;
const parallel = 8;

/** What became of a change is not known, and the caller can only look and try again. */
async function certain<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof UnknownOutcome ? new StoreUnavailable(cause.message, { cause }) : cause;
  }
}

class WideColumn implements WideColumnStore {
  readonly #session: Session;
  readonly #tables: Tables;
  readonly #commits: Commits;
  readonly #intents: Intents;
  readonly #now: () => Promise<number>;
  readonly #timer: NodeJS.Timeout;
  #closing: Promise<void> | undefined;

  constructor(session: Session, { clock, random, keyspace, ...options }: WideColumnOptions) {
    const { intentTtlMs: ttlMs = defaultIntentTtlMs } = options;
    const now = options.storeClock ?? (() => session.now());
    const tables = new Tables(session, keyspace);
    this.#session = session;
    this.#tables = tables;
    this.#now = now;
    this.#intents = new Intents({ session, keyspace, clock, now, random, ttlMs });
    this.#commits = new Commits({ session, tables, intents: this.#intents, random, now });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    this.#timer = setInterval(() => void this.maintain().catch(() => undefined), ttlMs / 3);
    this.#timer.unref?.();
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    this.#assertOpen();
    const { rows, statements, counter } = await this.#tables.of(at.table);
    const params = [...rows.place(at, rows.shardOf(at, key)), rows.key(at.in, key)];
    if (at.table.kind === 'counter') {
      const [sum] = sumOf(rows, await this.#session.read(counter.get, params));
      return sum && rows.decode(sum, at.in as Columns);
    }
    const [row] = await this.#session.read(statements.get, params);
    // Few rows expire: the others need no clock.
    const now = row?.['row_expires'] ? await this.#now() : 0;
    return isAlive(row, now) ? rows.decode(row, at.in as Columns) : undefined;
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    this.#assertOpen();
    return new WideColumnCursor<T>(
      { session: this.#session, tables: this.#tables, now: this.#now, at },
      range,
    );
  }

  begin(): Promise<Op> {
    return certain(this.#intents.begin());
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    this.#assertOpen();
    assertCommit(at, changes as readonly Change<AnyTable>[], options.then);
    const outcome = this.#commits.commit(at, changes as readonly Change<AnyTable>[], options);
    return (await certain(outcome)) as Outcome<T>;
  }

  async end(op: Op): Promise<void> {
    this.#intents.end(op.id);
  }

  abort(opId: string): Promise<void> {
    return certain(this.#intents.abort(opId));
  }

  abandoned(): Promise<readonly Abandoned[]> {
    return certain(this.#intents.abandoned());
  }

  settle(intent: Abandoned): Promise<void> {
    return certain(this.#intents.settle(intent));
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
    const { rows } = await this.#tables.of(at.table);
    for (;;) {
      const found = await this.get(at, key);
      const next = change(found?.row);
      assertRow(at, next as Columns);
      if (!rows.key(at.in, next as object).equals(rows.key(at.in, key)))
        throw new Error(`an update of a row of ${at.table.name} changes its key`);
      const put = { put: next, expect: found?.revision ?? ('absent' as const) };
      const outcome = await this.commit(at, [put]);
      if (outcome.applied) return next;
    }
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    const { rows, statements } = await this.#tables.of(at.table);
    const span = spanOf(rows.order, at.in as Columns, range);
    const bounds = boundsIn(span, rows.order.partitionKey(at.in as Columns));
    const stamp = await this.#session.stamp();
    await this.#eachShard(rows.ways(at), (shard) =>
      this.#session.write([
        { query: statements.clear, params: [stamp, ...rows.place(at, shard), bounds.low, bounds.high] },
      ]),
    );
  }

  async #eachShard(ways: number, work: (shard: number) => Promise<void>): Promise<void> {
    const shards = Array.from({ length: ways }, (_, shard) => shard);
    for (let first = 0; first < ways; first += parallel)
      await Promise.all(shards.slice(first, first + parallel).map(work));
  }

  async fence<T extends AnyTable>(at: At<T>): Promise<number> {
    this.#assertOpen();
    return this.#fenceOf(at, 0);
  }

  async #fenceOf(at: At<AnyTable>, shard: number): Promise<number> {
    const { rows, statements } = await this.#tables.of(at.table);
    const [row] = await this.#session.read(statements.fence, rows.place(at, shard), { serial: true });
    return Number(row?.['row_fence'] ?? 0);
  }

  async raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    const { rows } = await this.#tables.of(at.table);
    await this.#eachShard(rows.ways(at), (shard) => this.#raise(at, shard, generation));
  }

  async #raise(at: At<AnyTable>, shard: number, generation: number): Promise<void> {
    const { rows, statements } = await this.#tables.of(at.table);
    for (;;) {
      const fence = await this.#fenceOf(at, shard);
      if (fence >= generation) return;
      const believed = fence === 0 ? null : BigInt(fence);
      const raise: Statement = {
        query: statements.fenceIf,
        params: [BigInt(generation), ...rows.place(at, shard), believed],
      };
      await this.#session.decide([raise]).catch((cause: unknown) => {
        // What became of it shows when the fence is read again.
        if (!(cause instanceof UnknownOutcome)) throw cause;
      });
    }
  }

  now(): Promise<number> {
    return this.#now();
  }

  health(): ReturnType<MetadataStore['health']> {
    return clusterHealth(this.#session, this.#tables.keyspace);
  }

  maintain(): Promise<void> {
    return this.#intents.renew();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#intents.close();
    await this.#session.close();
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new Error('the metadata store is closed');
  }
}

/** Connects, and makes the keyspace and the tables of its own where they are missing. */
export async function wideColumnStore(options: WideColumnOptions): Promise<WideColumnStore> {
  const session = new Session(options);
  await session.connect();
  await new Tables(session, options.keyspace).makeOwn(options.replication);
  return new WideColumn(session, options);
}
