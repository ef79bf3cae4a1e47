/**
 * The schema at a start: created where it is missing and upgraded where it is older, by one process at a time, under a lease. Nothing is
 * dropped, and each step is idempotent: after a crash the next process continues.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AnyTable } from '../../../../ports/metadata-store.ts';
import { StoreRefused, StoreUnavailable } from '../../../../ports/metadata-store.ts';
import { Disagreement, type Session, UnknownOutcome } from '../session/session.ts';
import { buildShape, changesTo, formatDefinition, ownShapes, schemaState, schemaVersion } from './schema.ts';
import {
  assertReachable,
  readReplication,
  replicasIn,
  type SerialSetting,
  settleScope,
  TooFewNodes,
} from './serial-scope.ts';

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

export interface Migrated {
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
