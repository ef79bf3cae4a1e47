/**
 * Cassandra, one node or a ring, started for the tests of one file, or the one that `SVC_WIDECOL_HOSTS` names. If neither is possible,
 * the suites are skipped with the reason; on CI they must run.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import cassandra from 'cassandra-driver';
import { freePorts } from './ports.ts';
import { missingEngine } from './wanted.ts';

const root = join(import.meta.dirname, '../../..');
const jars = join(root, '.cache/engines/cassandra');
const scripts = join(root, 'engines/cassandra');
const given = process.env['SVC_WIDECOL_HOSTS'];
/** Set by `test/run.ts`: the node that the files of one run share, for suites of their own. */
export const sharedNodeVariable = 'SLUICE_TEST_CASSANDRA';
const canInstall = spawnSync('mvn', ['-version']).status === 0 && existsSync('/usr/lib/jvm');
const readySeconds = 240;
const ringNodes = 3;

/** The reason why Cassandra cannot run here; undefined if it can. */
export const noCassandra: string | undefined = missingEngine(
  given !== undefined || canInstall,
  'needs Java 17 and Maven, or SVC_WIDECOL_HOSTS',
);

/** The reason why no node can be started by a test, which may stop and pause it, unlike those of `SVC_WIDECOL_HOSTS`. */
export const noCassandraOfOurs: string | undefined = missingEngine(canInstall, 'needs Java 17 and Maven');

export interface Engine extends AsyncDisposable {
  readonly hosts: readonly string[];
}

/** A node that a test has started. */
export interface CassandraNode extends Engine {
  readonly pid: number;
  /** Kills the process; unlike a power cut, this keeps unflushed writes. */
  kill9(): Promise<void>;
  /** Pauses the node until `resume`. */
  pause(): void;
  resume(): void;
  /** Starts the node again on its data, and waits until it accepts clients. */
  restart(): Promise<void>;
}

export interface Ring extends Engine {
  readonly nodes: readonly CassandraNode[];
}

export interface NodeOptions {
  /** Lines of cassandra.yaml. */
  readonly set?: readonly string[];
  readonly heap?: string;
}

/** Large enough for many keyspaces of some twenty tables each. */
const sharedHeap = '2g';
/** The shared node is never killed, so writes need not wait for the disk. */
const unsynced = ['commitlog_sync: periodic', 'commitlog_sync_period: 10s'];

export async function startCassandra(): Promise<Engine> {
  const hosts = given ?? process.env[sharedNodeVariable];
  if (hosts !== undefined) return { hosts: hosts.split(','), async [Symbol.asyncDispose]() {} };
  return startNode({ heap: sharedHeap, set: unsynced });
}

/** Starts one node with its own settings. */
export async function startNode({ set = [], heap = '512m' }: NodeOptions = {}): Promise<CassandraNode> {
  const [native, storage, jmx] = (await freePorts(3)) as [number, number, number];
  const ports = ['--native', native, '--storage', storage, '--jmx', jmx].map(String);
  const args = [...ports, '--heap', heap, ...set.flatMap((line) => ['--set', line])];
  return nodeAt('127.0.0.1', { native, args });
}

/** Three nodes on 127.0.0.1 to 127.0.0.3, started together, or those that `SVC_WIDECOL_HOSTS` names. */
export async function startRing(): Promise<Engine> {
  if (given !== undefined) return { hosts: given.split(','), async [Symbol.asyncDispose]() {} };
  return startOwnRing();
}

export async function startOwnRing(centers = ['dc1', 'dc1', 'dc1']): Promise<Ring> {
  const count = centers.length;
  const [native, storage, ...jmx] = (await freePorts(2 + count)) as [number, number, ...number[]];
  const addresses = centers.map((_, i) => `127.0.0.${i + 1}`);
  const seeds = addresses.map((address) => `${address}:${storage}`).join(',');
  const starting = addresses.map((address, i) => {
    const token = -(2n ** 63n) + (2n ** 64n / BigInt(count)) * BigInt(i);
    const ports = ['--native', native, '--storage', storage, '--jmx', jmx[i]].map(String);
    const place = ['--dc', centers[i] ?? '', '--rack', `rack${i + 1}`, '--token', `${token}`];
    const args = [...ports, '--seeds', seeds, ...place, '--heap', '768m'];
    return nodeAt(address, { native, args });
  });
  const settled = await Promise.allSettled(starting);
  const nodes = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
  };
  const failed = settled.find((each) => each.status === 'rejected');
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  await Promise.all(
    nodes.map(({ hosts }, i) => untilKnown(hosts, { count, center: centers[i] ?? '' })),
  ).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { nodes, hosts: nodes.flatMap(({ hosts }) => hosts), [Symbol.asyncDispose]: stop };
}

/** Waits until one node knows all others, because nodes accept clients before that. */
async function untilKnown(
  hosts: readonly string[],
  { count, center }: { readonly count: number; readonly center: string },
): Promise<void> {
  for (const until = Date.now() + readySeconds * 1000; Date.now() < until; await sleep(200)) {
    // Use a new client each time, because a client reads the list of nodes when it connects.
    const client = new cassandra.Client({ contactPoints: [...hosts], localDataCenter: center });
    try {
      await client.connect();
      if (client.hosts.length === count) return;
    } catch {
      // Some nodes do not answer yet.
    } finally {
      await client.shutdown();
    }
  }
  throw new Error(`${hosts} has not heard of ${count} nodes`);
}

async function nodeAt(
  address: string,
  { native, args }: { readonly native: number; readonly args: readonly string[] },
): Promise<CassandraNode> {
  await promisify(execFile)(join(scripts, 'install.sh'), [jars]);
  const data = await mkdtemp(join(tmpdir(), 'sluice-cassandra-'));
  let engine: ChildProcess;
  let ended: Promise<void>;
  const start = async (): Promise<void> => {
    const log = openSync(join(data, 'out.log'), 'a');
    const command = [jars, data, '--address', address, ...args];
    engine = spawn(join(scripts, 'start.sh'), command, { stdio: ['ignore', log, log] });
    ended = new Promise((resolve) => engine.once('exit', () => resolve()));
    const ready = promisify(execFile)(join(scripts, 'ready.sh'), [address, `${native}`, `${readySeconds}`]);
    const isReady = await Promise.race([ready.then(() => true), ended.then(() => false)]);
    if (!isReady) throw new Error(`Cassandra on ${address} ended before it was ready: ${data}/out.log`);
  };
  const kill9 = async (): Promise<void> => {
    engine.kill('SIGKILL');
    await ended;
  };
  const stop = async (): Promise<void> => {
    await kill9();
    await rm(data, { recursive: true, force: true });
  };
  const onExit = (): void => void engine?.kill('SIGKILL');
  process.once('exit', onExit);
  await start().catch(async (error: unknown) => {
    await kill9();
    throw error;
  });
  return {
    hosts: [`${address}:${native}`],
    get pid() {
      return engine.pid ?? 0;
    },
    kill9,
    pause: () => void engine.kill('SIGSTOP'),
    resume: () => void engine.kill('SIGCONT'),
    restart: start,
    async [Symbol.asyncDispose]() {
      process.off('exit', onExit);
      await stop();
    },
  };
}

/** Replication on all nodes, at most three, so that one of three may be down. */
export const replicatedOver = (hosts: readonly string[]): string =>
  `{'class': 'SimpleStrategy', 'replication_factor': ${Math.min(hosts.length, ringNodes)}}`;

/** Empties every table of a keyspace, which may be absent. This is faster than a new keyspace for each test. */
export const emptyKeyspace = (hosts: readonly string[], keyspace: string): Promise<void> =>
  emptyTables(hosts, { keyspace });

/** Empties some tables of a keyspace, or all except the schema's version. */
export async function emptyTables(
  hosts: readonly string[],
  { keyspace, tables }: { readonly keyspace: string; readonly tables?: readonly string[] },
): Promise<void> {
  const queryOptions = { consistency: cassandra.types.consistencies.all, prepare: true, fetchSize: 1000 };
  const client = new cassandra.Client({
    contactPoints: [...hosts],
    localDataCenter: 'dc1',
    queryOptions,
    socketOptions: { readTimeout: 60_000 },
  });
  try {
    const query = 'SELECT table_name, column_name, kind FROM system_schema.columns WHERE keyspace_name = ?';
    const { rows } = await client.execute(query, [keyspace]);
    const keys = rows.filter(
      (row) => row['kind'] === 'partition_key' && row['table_name'] !== 'schema_state',
    );
    const byTable = Map.groupBy(keys, (row) => String(row['table_name']));
    const emptied = [...byTable].filter(([name]) => tables?.includes(name) ?? true);
    await Promise.all(
      emptied.map(([name, columns]) => {
        const key = columns.map((row) => String(row['column_name']));
        return emptyTable(client, { table: `${keyspace}.${name}`, key });
      }),
    );
  } finally {
    await client.shutdown();
  }
}

/** Most tables have few partitions, whose deletion takes milliseconds; a TRUNCATE takes hundreds. */
const partitionsMax = 500;
const triesMax = 20;

async function emptyTable(
  client: cassandra.Client,
  { table, key }: { readonly table: string; readonly key: readonly string[] },
): Promise<void> {
  const find = `SELECT DISTINCT ${key.join(', ')} FROM ${table} LIMIT ${partitionsMax}`;
  const remove = `DELETE FROM ${table} WHERE ${key.map((column) => `${column} = ?`).join(' AND ')}`;
  // Repeat, because rows with a later timestamp than the deletion survive it.
  for (let tries = 0; tries < triesMax; tries += 1) {
    const { rows } = await client.execute(find);
    if (rows.length === 0) return;
    if (rows.length === partitionsMax) break;
    const partitions = rows.map((row) => key.map((column) => row[column] as unknown));
    await Promise.all(partitions.map((partition) => client.execute(remove, partition)));
  }
  await client.execute(`TRUNCATE ${table}`, [], { prepare: false });
}
