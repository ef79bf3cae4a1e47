/**
 * The schema at a start: created where it is missing and upgraded where it is older, by one process at a time, under a lease. Nothing is
 * dropped, and each step is idempotent: after a crash the next process continues. Below: the tables of the keyspace,
 * and the data centers among which commits are decided.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type AnyTable, StoreRefused, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { nameColumns } from './rows.ts';
import { Disagreement, type SerialScope, type Session, UnknownOutcome } from './session.ts';

/** A lease that is not renewed expires: its holder is dead, or stopped. */
const leaseSeconds = 60;
const renewMs = 20_000;
const pollMs = 300;
/** Others may be at it: a new keyspace takes a large ring a minute or two. */
const waitMs = 5 * 60_000;
/** A cluster that fails for this long is unavailable, or refuses this gateway. */
const failingMs = 20_000;
/** Nodes that start together know of each other after so long, on a busy machine too. */
const joiningMs = 20_000;

interface Migrated {
  readonly keyspace: string;
  /** The replication of a new keyspace, in CQL. */
  readonly replication: string;
  readonly tables: readonly AnyTable[];
  readonly serial: SerialSetting;
  /** Identifies this process among those that start concurrently. */
  readonly owner: string;
}

export async function migrate(session: Session, options: Migrated): Promise<void> {
  const schema = new Schema(session, options);
  const until = performance.now() + waitMs;
  for (let wellAt = performance.now(); performance.now() < until; await sleep(pollMs)) {
    try {
      if (await schema.step()) return;
      wellAt = performance.now();
    } catch (cause) {
      // A cluster that answers but has not agreed on its schema yet is available.
      if (cause instanceof Disagreement) wellAt = performance.now();
      else if (cause instanceof TooFewNodes && performance.now() - wellAt < joiningMs) continue;
      // While definitions change, a node may not answer for a moment, or not know of them yet.
      else if (cause instanceof StoreRefused || performance.now() - wellAt > failingMs) throw cause;
    }
  }
  throw new StoreUnavailable(`the schema of keyspace ${options.keyspace} has been changing for too long`);
}

class Schema {
  readonly #session: Session;
  readonly #options: Migrated;
  readonly #state: string;
  #isScopeSettled = false;

  constructor(session: Session, options: Migrated) {
    this.#session = session;
    this.#options = options;
    this.#state = `${options.keyspace}.${schemaState.name}`;
  }

  /** @returns whether the schema is as it should be; if not, as much was done as is this process's to do now */
  async step(): Promise<boolean> {
    await this.#makeKeyspace();
    if (!(await this.#session.isAgreed())) return false;
    await this.#settleScope();
    if (await this.#isDone()) return true;
    if (!(await this.#lease(null))) return false;
    try {
      await this.#bringUpToDate();
    } finally {
      await this.#release();
    }
    return false;
  }

  /** A user without the right to create keyspaces needs one that exists. */
  async #makeKeyspace(): Promise<void> {
    const { keyspace, replication, serial } = this.#options;
    const columns = await this.#columns();
    if (columns.has(schemaState.name)) return;
    const node = this.#session.pickNode();
    if (!(await this.#hasKeyspace())) {
      const { localDc } = this.#session;
      const nodes = await this.#session.nodes();
      const replicas = replicasIn(readReplication(replication), nodes);
      // Check before the keyspace is created, because the setting has no effect afterwards.
      assertReachable(replicas, {
        nodes,
        localDc,
        keyspace,
        scope: serial === 'local' && replicas.has(localDc) ? 'local' : 'global',
        remedy: 'SVC_WIDECOL_REPLICATION =',
      });
      await this.#session.define(
        `CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = ${replication}`,
        node,
      );
    }
    await this.#session.define(formatDefinition(keyspace, schemaState), node);
    await this.#session.awaitAgreement();
  }

  /** Before anything is decided. */
  async #settleScope(): Promise<void> {
    if (this.#isScopeSettled) return;
    const { keyspace, serial } = this.#options;
    this.#session.scope = await settleScope(this.#session, { keyspace, serial, table: this.#state });
    this.#isScopeSettled = true;
  }

  async #hasKeyspace(): Promise<boolean> {
    const query = `SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '${this.#options.keyspace}'`;
    return (await this.#session.run(query)).length > 0;
  }

  async #columns(): Promise<Map<string, Set<string>>> {
    const query = `SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = '${this.#options.keyspace}'`;
    const columns = new Map<string, Set<string>>();
    for (const row of await this.#session.run(query)) {
      const name = String(row['table_name']);
      columns.set(name, (columns.get(name) ?? new Set()).add(String(row['column_name'])));
    }
    return columns;
  }

  async #missing(): Promise<string[]> {
    const { keyspace, tables } = this.#options;
    const shapes = [...ownShapes, ...tables.map(buildShape)];
    return changesTo(keyspace, { found: await this.#columns(), shapes });
  }

  /**
   * Whether the schema is current and no migration runs.
   * @throws StoreRefused where a newer gateway has upgraded the schema
   */
  async #isDone(): Promise<boolean> {
    const version = await this.#version();
    if (version === undefined || version < schemaVersion || (await this.#owner()) !== undefined) return false;
    return (await this.#missing()).length === 0;
  }

  async #version(): Promise<number | undefined> {
    const [row] = await this.#read('version');
    const version = row?.['version'];
    if (typeof version !== 'number') return undefined;
    if (version <= schemaVersion) return version;
    throw new StoreRefused(
      `keyspace ${this.#options.keyspace} has schema version ${version}, and this sluice knows ${schemaVersion}: start the newer one that made it`,
    );
  }

  async #owner(): Promise<string | undefined> {
    const [row] = await this.#read('lease');
    return (row?.['owner'] as string | null) ?? undefined;
  }

  #read(id: string): ReturnType<Session['read']> {
    return this.#session.read(`SELECT version, owner FROM ${this.#state} WHERE id = ?`, [id], {
      serial: true,
    });
  }

  /** Takes a free lease (null), or keeps that of this process. */
  async #lease(from: string | null): Promise<boolean> {
    const { owner } = this.#options;
    const query = `UPDATE ${this.#state} USING TTL ${leaseSeconds} SET owner = ? WHERE id = 'lease' IF owner = ?`;
    return this.#session.decide([{ query, params: [owner, from] }]).catch(async (cause: unknown) => {
      if (!(cause instanceof UnknownOutcome)) throw cause;
      return (await this.#owner()) === owner;
    });
  }

  /** A lease that cannot be released expires. */
  async #release(): Promise<void> {
    const query = `UPDATE ${this.#state} SET owner = null WHERE id = 'lease' IF owner = ?`;
    await this.#session.decide([{ query, params: [this.#options.owner] }]).catch(() => undefined);
  }

  /** Stops where the lease is lost: its next holder continues from there. */
  async #bringUpToDate(): Promise<void> {
    const { owner } = this.#options;
    let renewed = performance.now();
    const version = await this.#version();
    const node = this.#session.pickNode();
    for (const statement of await this.#missing()) {
      if (performance.now() - renewed > renewMs) {
        if (!(await this.#lease(owner))) return;
        renewed = performance.now();
      }
      await this.#session.define(statement, node);
    }
    await this.#session.awaitAgreement();
    if (version === schemaVersion) return;
    const query = `UPDATE ${this.#state} SET version = ? WHERE id = 'version' IF version = ?`;
    // Another process may have been first, or the outcome is unknown: the next read shows it.
    await this.#session
      .decide([{ query, params: [schemaVersion, version ?? null] }])
      .catch((cause: unknown) => {
        if (!(cause instanceof UnknownOutcome)) throw cause;
      });
  }
}

// The tables of the keyspace, derived from the record tables. A partition is a shard of a record partition. Its rows are clustered by
// `row_k`, the order-preserving encoding of the sort columns, so that every range of the port is one slice, whatever the directions of its
// columns, and listings come by key ascending and version descending.
//
// The first byte of a `row_k` is its kind: 0 the outcome of a commit, 1 a row, 2 a note of a shard that splits.

/**
 * The version of the row format. It is raised when a gateway of the former version would misread rows; new tables and columns alone need
 * no new version. 1: before versions were recorded; 2: counters have a base.
 */
export const schemaVersion = 2;

interface TableShape {
  readonly name: string;
  /** CQL types, with `static` after them where applicable. */
  readonly columns: Readonly<Record<string, string>>;
  readonly primaryKey: string;
  /** `gc_grace_seconds`. A node that was away for longer restores rows that were deleted meanwhile. */
  readonly graceSeconds: number;
}

const hour = 60 * 60;
/**
 * A deleted object must stay deleted: its table, like all conditional ones, has Cassandra's default. A row that reappears in a plain table
 * is processed or looked up once more without effect; one that reappears in an intent is swept.
 */
const graceSeconds = { conditional: 10 * 24 * hour, counter: 10 * 24 * hour, plain: 24 * hour, own: hour };

export function buildShape(table: AnyTable): TableShape {
  const { partition, values } = nameColumns(table);
  const declared = [...partition, ...values].map(({ cqlName, cqlType }) => [cqlName, cqlType]);
  const key = `(${[...partition.map(({ cqlName }) => cqlName), 'row_shard'].join(', ')})`;
  const isCounter = table.kind === 'counter';
  return {
    name: table.name,
    columns: {
      ...Object.fromEntries(declared),
      row_shard: 'int',
      row_k: 'blob',
      // A counter row is the sum of a base and of what was added since, a row for each commit.
      ...(isCounter
        ? { row_op: 'text', row_folded: 'text' }
        : { row_rev: 'text', row_expires: 'bigint', row_outcome: 'text', row_fence: 'bigint static' }),
    },
    primaryKey: `${key}, row_k${isCounter ? ', row_op' : ''}`,
    graceSeconds: graceSeconds[table.kind],
  };
}

/** The tables of intents: the leases of epochs, and the attempts under way in each of their lanes. */
export const ownShapes: readonly TableShape[] = [
  {
    name: 'epochs',
    columns: { slot: 'int', id: 'text', until: 'bigint', state: 'int', floor: 'text static' },
    primaryKey: 'slot, id',
    graceSeconds: graceSeconds.own,
  },
  {
    name: 'epoch_lanes',
    columns: {
      epoch: 'text',
      lane: 'int',
      attempt: 'text',
      state: 'int static',
      place: 'text',
      side: 'text',
    },
    primaryKey: '(epoch, lane), attempt',
    graceSeconds: graceSeconds.own,
  },
];

/** The version, and the process that is changing the schema: the first table to exist. */
export const schemaState: TableShape = {
  name: 'schema_state',
  columns: { id: 'text', version: 'int', owner: 'text' },
  primaryKey: 'id',
  graceSeconds: graceSeconds.own,
};

export function formatDefinition(
  keyspace: string,
  { name, columns, primaryKey, ...shape }: TableShape,
): string {
  const all = [...Object.entries(columns).map((column) => column.join(' ')), `PRIMARY KEY (${primaryKey})`];
  const options = `compaction = {'class': 'UnifiedCompactionStrategy'} AND gc_grace_seconds = ${shape.graceSeconds}`;
  return `CREATE TABLE IF NOT EXISTS ${keyspace}.${name} (${all.join(', ')}) WITH ${options}`;
}

/** The statements that extend a keyspace with the columns `found` to the shapes; nothing is ever removed. */
function changesTo(
  keyspace: string,
  {
    found,
    shapes,
  }: { readonly found: ReadonlyMap<string, ReadonlySet<string>>; readonly shapes: readonly TableShape[] },
): string[] {
  return shapes.flatMap((shape) => {
    const known = found.get(shape.name);
    if (known === undefined) return [formatDefinition(keyspace, shape)];
    const missing = Object.entries(shape.columns).filter(
      ([column]) => !known.has(column.replaceAll('"', '')),
    );
    return missing.map(
      ([column, type]) => `ALTER TABLE ${keyspace}.${shape.name} ADD IF NOT EXISTS ${column} ${type}`,
    );
  });
}

// Among which replicas commits are decided. `local`: a quorum of one data center, which must be the same for every gateway,
// because two commits that are decided in two data centers do not exclude each other. `global`: a quorum of all replicas.
//
// The first gateway records the scope in the keyspace; every later one takes what is recorded, or refuses to start.

/** `auto`: the recorded scope; else `local` where the keyspace is in one data center, and `global` where it is in several. */
const serialSettings = ['auto', 'local', 'global'] as const;
export type SerialSetting = (typeof serialSettings)[number];

interface Scoped {
  readonly keyspace: string;
  readonly serial: SerialSetting;
  /** The table that records it, with a row named `serial`. */
  readonly table: string;
}

const decideTriesMax = 5;

/** @throws StoreRefused where the setting contradicts what the gateways of this keyspace go by */
async function settleScope(session: Session, scoped: Scoped): Promise<SerialScope> {
  const { keyspace, serial } = scoped;
  const nodes = await session.nodes();
  const replicas = replicasIn(await fetchReplication(session, keyspace), nodes);
  const holdsReplicas = replicas.has(session.localDc);
  // Read in the local data center, so that a gateway starts while another one is unavailable.
  const near = holdsReplicas ? 'local' : 'global';
  const remedy = `ALTER KEYSPACE ${keyspace} WITH replication =`;
  const asked = { nodes, localDc: session.localDc, keyspace, remedy };
  assertReachable(replicas, { ...asked, scope: near });
  const known = await recorded(session, { ...scoped, scope: near });
  const isSpread = replicas.size > 1 || replicas.has(everywhere);
  const scope = serial === 'auto' ? (scopeIn(known) ?? (isSpread ? 'global' : 'local')) : serial;
  if (scope === 'local' && !holdsReplicas)
    throw new StoreRefused(
      `data center ${session.localDc} holds no replicas of keyspace ${keyspace} (replicas by data center: ${formatReplicas(replicas)}): set SVC_WIDECOL_LOCAL_DC, or replicate by NetworkTopologyStrategy`,
    );
  assertReachable(replicas, { ...asked, scope });
  const mark = scope === 'local' ? `local ${session.localDc}` : 'global';
  const stands = known ?? (await record(session, { ...scoped, mark }));
  if (stands !== mark)
    throw new StoreRefused(
      `the gateways of keyspace ${keyspace} decide commits in scope "${stands}", this one would in "${mark}": they would not exclude each other. Set SVC_WIDECOL_SERIAL and SVC_WIDECOL_LOCAL_DC as theirs are, or change the scope as docs/wide-column.md says`,
    );
  return scope;
}

const scopeIn = (mark: string | undefined): SerialScope | undefined =>
  mark === undefined ? undefined : mark === 'global' ? 'global' : 'local';

/** Without a record the scope is global. */
async function recorded(
  session: Session,
  { table, scope }: Scoped & { readonly scope: SerialScope },
): Promise<string | undefined> {
  const query = `SELECT owner FROM ${table} WHERE id = 'serial'`;
  const [row] = await session.read(query, [], { scope });
  return (row?.['owner'] as string | null | undefined) ?? undefined;
}

/** @returns what is recorded, which may be another gateway's */
async function record(
  session: Session,
  { table, mark }: Scoped & { readonly mark: string },
): Promise<string> {
  const query = `UPDATE ${table} SET owner = ? WHERE id = 'serial' IF owner = null`;
  const read = `SELECT owner FROM ${table} WHERE id = 'serial'`;
  for (let tries = 0; tries < decideTriesMax; tries += 1) {
    await session.decide([{ query, params: [mark] }], { scope: 'global' }).catch((cause: unknown) => {
      if (!(cause instanceof UnknownOutcome)) throw cause;
    });
    const [row] = await session.read(read, [], { serial: true, scope: 'global' });
    if (typeof row?.['owner'] === 'string') return row['owner'];
  }
  throw new UnknownOutcome('the cluster does not say in which scope commits are decided');
}

type Replication = Readonly<Record<string, unknown>>;

async function fetchReplication(session: Session, keyspace: string): Promise<Replication> {
  const query = `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`;
  const [row] = await session.run(query);
  return (row?.['replication'] as Replication | undefined) ?? {};
}

/** Stands for replicas that are spread over the ring regardless of data centers. */
const everywhere = '*';

/** How many replicas are in each data center; `nodes` has the number of nodes of each. */
export function replicasIn(
  replication: Replication,
  nodes: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> {
  const { class: strategy, replication_factor: factor, ...byCenter } = replication;
  const count = (value: unknown): number => Number.parseInt(String(value), 10);
  // It names no data center, and a node that joins may be in another one.
  if (!String(strategy).endsWith('NetworkTopologyStrategy')) return new Map([[everywhere, count(factor)]]);
  const named = Object.entries(byCenter).map(([center, value]) => [center, count(value)] as const);
  // As CREATE KEYSPACE takes it: this many in every data center that exists and is not named.
  const others =
    factor === undefined ? [] : [...nodes.keys()].map((center) => [center, count(factor)] as const);
  return new Map([...others, ...named].filter(([, replicas]) => replicas > 0));
}

/** A map of CQL, as `SVC_WIDECOL_REPLICATION` holds it. */
export const readReplication = (text: string): Replication =>
  Object.fromEntries(
    [...text.matchAll(/'([^']*)'\s*:\s*'?([^',}]*)'?/g)].map(([, key, value]) => [key, value]),
  );

const formatReplicas = (replicas: ReadonlyMap<string, number>): string =>
  [...replicas].map(([center, count]) => `${center} ${count}`).join(', ');

const quorumSize = (replicas: number): number => Math.floor(replicas / 2) + 1;

interface Reached {
  /** The number of nodes in each data center. */
  readonly nodes: ReadonlyMap<string, number>;
  readonly localDc: string;
  readonly keyspace: string;
  readonly scope: SerialScope;
  /** What the operator can do. */
  readonly remedy: string;
}

/** May be temporary: a node that has just started does not know the others yet. */
class TooFewNodes extends StoreRefused {}

/** @throws TooFewNodes where there are too few nodes for a quorum, so that nothing could ever be written */
export function assertReachable(replicas: ReadonlyMap<string, number>, reached: Reached): void {
  const { nodes, localDc, keyspace, scope, remedy } = reached;
  const counted = [...replicas].filter(([center]) => scope === 'global' || center === localDc);
  const nodesIn = (center: string): number =>
    center === everywhere ? sum([...nodes.values()]) : (nodes.get(center) ?? 0);
  const quorum = quorumSize(sum(counted.map(([, count]) => count)));
  if (sum(counted.map(([center, count]) => Math.min(count, nodesIn(center)))) >= quorum) return;
  const said = counted.map(([center, count]) => `${count} in ${center}, which has ${nodesIn(center)} nodes`);
  const example = [...nodes].map(([center, count]) => `'${center}': ${Math.min(count, 3)}`).join(', ');
  throw new TooFewNodes(
    `keyspace ${keyspace} has too few nodes for a quorum: replicas ${said.join('; ')}; ${quorum} are needed for every write. Add nodes, or use ${remedy} {'class': 'NetworkTopologyStrategy', ${example}}`,
  );
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
