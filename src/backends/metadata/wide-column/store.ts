/**
 * The metadata port on Cassandra and its kin: partitions are shards, a listing is a
 * fan-out with a merge, a commit is a conditional batch in one partition with an intent that finishes what it began.
 */
import { attemptEach } from '../../../base/concurrency.ts';
import type { Clock } from '../../../ports/clock.ts';
import {
  type Abandoned,
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type Cursor,
  type MetadataHealth,
  type MetadataStore,
  type NodeHealth,
  type Op,
  type Outcome,
  type Range,
  type RowOf,
  type RowPage,
  type SideChange,
  type SortOf,
  type SplitStep,
  type Stored,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { stamp } from '../epochs.ts';
import { type Columns, computeSpan } from '../key-order.ts';
import {
  assertClear,
  assertCommit,
  assertRow,
  assertSameKey,
  assertSideChanges,
  assertUpdate,
} from '../rules.ts';
import { describeWrongClocks } from './cluster-clock.ts';
import { Commits, readFence } from './commits.ts';
import { Folds, hasPendingAdditions, hasPendingPuts, sumByName } from './counters.ts';
import { boundsIn, everyRow, WideColumnCursor } from './cursor.ts';
import { Intents } from './intents.ts';
import { defaultLeaseMs, followed, Layouts } from './layouts.ts';
import { Mover, placed } from './mover.ts';
import { isAlive, type RawRow } from './rows.ts';
import { migrate, type SerialSetting } from './schema.ts';
import {
  describeError,
  responseCode,
  responseErrorCodes,
  Session,
  type SessionOptions,
  type Statement,
  UnknownOutcome,
} from './session.ts';
import { type RowInShard, WideColumnShards } from './shards.ts';
import { Tables } from './statements.ts';

interface WideColumnOptions extends SessionOptions {
  /** The replication of a new keyspace, in CQL. */
  readonly replication: string;
  /** Among which replicas commits are decided. Default `auto`. */
  readonly serial?: SerialSetting;
  /** Every table that callers will use. */
  readonly tables: readonly AnyTable[];
  readonly clock: Clock;
  readonly random: Random;
  /** How long a process may be silent before its intents count as abandoned. Default 60 s. */
  readonly intentTtlMs?: number;
  /** Judges expiry and leases; the cluster's own clock when absent. */
  readonly storeClock?: () => Promise<number>;
  /** Receives what failed in the background, which is tried again: renewals, the settling of failed commits, folds, a part of a sweep. */
  readonly onFailure?: (cause: unknown) => void;
  /** How long this process caches a partition's layout; a split waits for twice as long. */
  readonly layoutLeaseMs?: number;
}

export interface WideColumnStore extends MetadataStore {
  /** Renews intents, finishes what failed and folds counters; a timer calls it three times within each intent's life. */
  maintain(): Promise<void>;
}

const defaultIntentTtlMs = 60_000;
const parallel = 8;

/** The outcome of a change is unknown; the caller can only read and try again. */
async function certain<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw cause instanceof UnknownOutcome ? new StoreUnavailable(cause.message, { cause }) : cause;
  }
}

class WideColumn implements WideColumnStore {
  readonly isDistant = true;
  readonly #session: Session;
  readonly #tables: Tables;
  readonly #commits: Commits;
  readonly #intents: Intents;
  readonly #layouts: Layouts;
  readonly #mover: Mover<RowInShard>;
  readonly #folds: Folds;
  readonly #now: () => Promise<number>;
  readonly #timer: NodeJS.Timeout;
  #closing: Promise<void> | undefined;

  constructor(session: Session, { clock, random, keyspace, ...options }: WideColumnOptions) {
    const { intentTtlMs: ttlMs = defaultIntentTtlMs, onFailure = () => {} } = options;
    const now = options.storeClock ?? (() => session.clock.now());
    const tables = new Tables(keyspace);
    this.#session = session;
    this.#tables = tables;
    this.#now = now;
    this.#intents = new Intents({ session, keyspace, clock, now, random, ttlMs, onFailure });
    const { layoutLeaseMs: leaseMs = defaultLeaseMs } = options;
    const shards = new WideColumnShards({ session, tables, random });
    const mover = new Mover({ shards, clock, leaseMs });
    this.#mover = mover;
    this.#layouts = new Layouts({ clock, leaseMs, read: (at) => shards.note({ at, shard: 0 }, 'layout') });
    this.#folds = new Folds({ session, tables, intents: this.#intents });
    this.#commits = new Commits({
      session,
      tables,
      intents: this.#intents,
      folds: this.#folds,
      random,
      now,
      placed: (at, text) => placed({ shards, mover, clock }, at, text),
    });
    // A renewal that fails is tried again by the next; if none succeeds, the lease runs out as it must.
    let last: unknown;
    const report = (cause: unknown): void => {
      // Calls that waited for the same work fail with the same error.
      if (cause !== last && this.#closing === undefined) onFailure(cause);
      last = cause;
    };
    this.#timer = setInterval(() => void this.maintain().catch(report), ttlMs / 3);
    this.#timer.unref?.();
  }

  async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
    this.#assertOpen();
    const { rows, statements, counter } = this.#tables.of(at.table);
    const inShard = (shard: number): unknown[] => [...rows.place(at, shard), rows.key(at.in, key)];
    const own = rows.shardOf(at, key);
    if (at.table.kind === 'counter') {
      const [sum] = sumByName(rows, await this.#session.readAll(counter.get, inShard(own)));
      return sum && rows.decode(sum, at.in as Columns);
    }
    const read = async (shard: number): Promise<RawRow | undefined> =>
      (await this.#session.read(statements.get, inShard(shard)))[0];
    let row = await read(own);
    if (row === undefined && rows.isSpread(at))
      row = await followed(this.#layouts, { at, text: rows.textOf(key) }, read);
    // Few rows expire: the others need no clock.
    const now = row?.['row_expires'] ? await this.#now() : 0;
    return isAlive(row, now) ? rows.decode(row, at.in as Columns) : undefined;
  }

  everyRow(table: AnyTable, position?: string): AsyncGenerator<RowPage> {
    this.#assertOpen();
    return everyRow({ session: this.#session, tables: this.#tables, now: this.#now }, table, position);
  }

  scan<T extends AnyTable>(at: At<T>, range: Range<T> = {}): Cursor<T> {
    this.#assertOpen();
    return new WideColumnCursor<T>(
      {
        session: this.#session,
        tables: this.#tables,
        layouts: this.#layouts,
        folds: this.#folds,
        now: this.#now,
        at,
      },
      range,
    );
  }

  begin(): Promise<Op> {
    return certain(this.#intents.own.begin());
  }

  async commit<T extends AnyTable>(
    at: At<T>,
    changes: readonly Change<T>[],
    options: CommitOptions = {},
  ): Promise<Outcome<T>> {
    this.#assertOpen();
    assertCommit(at, changes as readonly Change<AnyTable>[], options);
    const outcome = this.#commits.commit(at, changes as readonly Change<AnyTable>[], options);
    return (await certain(outcome)) as Outcome<T>;
  }

  async end(op: Op): Promise<void> {
    this.#intents.own.end(op.id);
  }

  abort(opId: string): Promise<void> {
    return certain(this.#intents.abort(opId));
  }

  isOpen(opId: string): Promise<boolean> {
    return certain(this.#intents.isOpen(opId));
  }

  hasPendingAdditions<T extends AnyTable>(at: At<T>): Promise<boolean> {
    const ports = { session: this.#session, tables: this.#tables, intents: this.#intents };
    return certain(hasPendingAdditions(ports, at));
  }

  hasPendingPuts(table: AnyTable): Promise<boolean> {
    const ports = { session: this.#session, tables: this.#tables, intents: this.#intents };
    return certain(hasPendingPuts(ports, table));
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
    await certain(this.#commits.apply(changes));
  }

  async update<T extends AnyTable>(
    at: At<T>,
    key: SortOf<T>,
    change: (row: RowOf<T> | undefined) => RowOf<T>,
  ): Promise<RowOf<T>> {
    assertUpdate(at);
    const { rows } = this.#tables.of(at.table);
    for (;;) {
      const found = await this.get(at, key);
      const next = change(found?.row);
      assertRow(at, next as Columns);
      assertSameKey(at, rows.key(at.in, key), rows.key(at.in, next as object));
      const put = { put: next, expect: found?.revision ?? ('absent' as const) };
      const outcome = await this.commit(at, [put]);
      if (outcome.applied) return next;
    }
  }

  async clear<T extends AnyTable>(at: At<T>, range: Range<T>): Promise<void> {
    assertClear(at);
    const { rows, statements } = this.#tables.of(at.table);
    const span = computeSpan(rows.order, at.in as Columns, range);
    const bounds = boundsIn(span, rows.order.partitionKey(at.in as Columns));
    const { clock } = this.#session;
    const stamp = await clock.stamp();
    await this.#eachShard(rows.ways(at), (shard) =>
      this.#session.write([
        { query: statements.clear, params: [stamp, ...rows.place(at, shard), bounds.low, bounds.high] },
      ]),
    );
    await clock.passed(stamp);
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
    const table = this.#tables.of(at.table);
    return readFence(this.#session, { table, place: table.rows.place(at, shard) });
  }

  async raiseFence<T extends AnyTable>(at: At<T>, generation: number): Promise<void> {
    const { rows } = this.#tables.of(at.table);
    await this.#eachShard(rows.ways(at), (shard) => this.#raise(at, shard, generation));
  }

  async #raise(at: At<AnyTable>, shard: number, generation: number): Promise<void> {
    const { rows, statements } = this.#tables.of(at.table);
    for (;;) {
      const fence = await this.#fenceOf(at, shard);
      if (fence >= generation) return;
      const expectedFence = fence === 0 ? null : BigInt(fence);
      const raise: Statement = {
        query: statements.fenceIf,
        params: [BigInt(generation), ...rows.place(at, shard), expectedFence],
      };
      await this.#session.decide([raise]).catch((cause: unknown) => {
        // The next read of the fence shows the outcome.
        if (!(cause instanceof UnknownOutcome)) throw cause;
      });
    }
  }

  async split<T extends AnyTable>(at: At<T>, shard: number): Promise<SplitStep> {
    this.#assertOpen();
    return certain(this.#mover.step(at, shard));
  }

  now(): Promise<number> {
    return this.#now();
  }

  health(): ReturnType<MetadataStore['health']> {
    return clusterHealth(this.#session, this.#tables.keyspace);
  }

  async maintain(): Promise<void> {
    // One partition that does not answer stops only the work that needs it.
    const others = [() => this.#commits.settleOwn(), () => this.#folds.run()];
    await attemptEach(
      1,
      [() => this.#intents.own.renew(), () => attemptEach(2, others, (work) => work())],
      (work) => work(),
    );
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#intents.own.close();
    await this.#session.close();
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new Error('the metadata store is closed');
  }
}

/** Connects, and brings the schema up to date. */
export async function wideColumnStore(options: WideColumnOptions): Promise<WideColumnStore> {
  const session = new Session(options);
  try {
    await session.connect();
    await certain(migrate(session, { serial: 'auto', ...options, owner: stamp(options) }));
  } catch (cause) {
    await session.close();
    throw cause;
  }
  return new WideColumn(session, options);
}

// The cluster's own report: two queries to one host, and one to each for the size of the keyspace there, cached for ten seconds.

const cacheMs = 10_000;
const cachedBy = new WeakMap<Session, { readonly health: Promise<MetadataHealth>; readonly at: number }>();

function clusterHealth(session: Session, keyspace: string): Promise<MetadataHealth> {
  const cached = cachedBy.get(session);
  if (cached !== undefined && performance.now() - cached.at < cacheMs) return cached.health;
  const health = probe(session, keyspace);
  cachedBy.set(session, { health, at: performance.now() });
  health.catch(() => cachedBy.delete(session));
  return health;
}

async function probe(session: Session, keyspace: string): Promise<MetadataHealth> {
  const columns = 'data_center, rack, release_version, schema_version';
  const [{ local, peers, down }, usages] = await Promise.all([
    session.probe(
      `SELECT broadcast_address, ${columns} FROM system.local`,
      `SELECT peer, ${columns} FROM system.peers_v2`,
    ),
    session.askEach(`SELECT keyspace_name, mebibytes FROM ${usageTable}`),
  ]);
  const toNode = (address: string) => (row: RawRow) => {
    const node = toNodeHealth(row, address, down);
    return { ...node, ...readSize(usages.get(node.name), { keyspace, role: session.role }) };
  };
  const nodes = [...local.map(toNode('broadcast_address')), ...peers.map(toNode('peer'))];
  const [found] = await session.run(
    `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`,
  );
  const health = summarizeHealth(nodes, found?.['replication'], { keyspace, localDc: session.localDc });
  return { ...health, warnings: [...health.warnings, ...describeWrongClocks(session.clock.wrongClocks())] };
}

/** Of Cassandra 4 and later: the size of each table on the node that answers, in MiB. */
const usageTable = 'system_views.disk_usage';
const mebibyte = 1024 * 1024;

/**
 * The bytes that the tables of the keyspace have on a node. No table of Cassandra has the free bytes of its disks.
 * @param usage absent: this process has no connection to the node, as to those of other data centers
 */
function readSize(
  usage: readonly RawRow[] | Error | undefined,
  { keyspace, role }: { readonly keyspace: string; readonly role: string | undefined },
): Pick<NodeHealth, 'usedBytes' | 'sizeUnknown'> {
  if (usage === undefined) return {};
  if (responseCode(usage) === responseErrorCodes.unauthorized)
    return {
      sizeUnknown: `the role ${role ?? 'of the gateway'} may not read ${usageTable}: GRANT SELECT ON KEYSPACE system_views TO ${role ?? '<role>'}`,
    };
  if (usage instanceof Error) return { sizeUnknown: `${usageTable} cannot be read: ${describeError(usage)}` };
  const sizes = usage
    .filter((row) => row['keyspace_name'] === keyspace)
    .map((row) => Number(row['mebibytes']));
  return { usedBytes: sizes.reduce((sum, size) => sum + size, 0) * mebibyte };
}

const text = (row: RawRow, column: string): string => String(row[column] ?? 'unknown');

function toNodeHealth(row: RawRow, address: string, down: ReadonlySet<string>): NodeHealth {
  const name = text(row, address);
  return {
    name,
    dataCenter: text(row, 'data_center'),
    rack: text(row, 'rack'),
    releaseVersion: text(row, 'release_version'),
    schemaVersion: text(row, 'schema_version'),
    state: down.has(name) ? 'DOWN' : 'UP',
  };
}

/** @param replication the map of the keyspace's row; absent where there is no row */
export function summarizeHealth(
  nodes: readonly NodeHealth[],
  replication: unknown,
  { keyspace, localDc }: { readonly keyspace: string; readonly localDc: string },
): MetadataHealth {
  const versions = [...new Set(nodes.map(({ schemaVersion }) => schemaVersion))].sort();
  const factor = readReplicationFactor(replication, localDc);
  const warnings = [
    ...(versions.length > 1 ? [`schema versions disagree: ${versions.join(', ')}`] : []),
    ...(replication ? [] : [`keyspace not found: ${keyspace}`]),
    ...(factor === undefined ? ['replication factor unknown'] : []),
  ];
  return { nodes, ...(factor === undefined ? {} : { replicationFactor: factor }), warnings };
}

/** How many nodes of the local data center have a copy of a row; NetworkTopologyStrategy has a factor for each data center. */
function readReplicationFactor(replication: unknown, localDc: string): number | undefined {
  if (typeof replication !== 'object' || replication === null) return undefined;
  const said = replication as Readonly<Record<string, unknown>>;
  const factor = Number.parseInt(String(said[localDc] ?? said['replication_factor']), 10);
  return Number.isInteger(factor) ? factor : undefined;
}
