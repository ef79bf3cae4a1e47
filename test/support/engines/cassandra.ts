/**
 * A Cassandra node, started for the tests of one file, or the one that `SVC_WIDECOL_HOSTS` names. Where it can be
 * neither, the suites say why they are skipped; on CI they must run.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import cassandra from 'cassandra-driver';
import { freePorts } from './ports.ts';

const root = join(import.meta.dirname, '../../..');
const jars = join(root, '.cache/engines/cassandra');
const given = process.env['SVC_WIDECOL_HOSTS'];
const canInstall = spawnSync('mvn', ['-version']).status === 0 && existsSync('/usr/lib/jvm');
const readyMs = 180_000;

/** Why there is no engine here; undefined where there is one, or could be. */
export const noCassandra: string | undefined =
  given !== undefined || canInstall || process.env['CI'] !== undefined
    ? undefined
    : 'needs Java 17 and Maven, or SVC_WIDECOL_HOSTS';

export interface Engine extends AsyncDisposable {
  readonly hosts: readonly string[];
}

export async function startCassandra(): Promise<Engine> {
  if (given !== undefined) return { hosts: given.split(','), async [Symbol.asyncDispose]() {} };
  const scripts = join(root, 'engines/cassandra');
  await promisify(execFile)(join(scripts, 'install.sh'), [jars]);
  const data = await mkdtemp(join(tmpdir(), 'sluice-cassandra-'));
  const [native, storage, jmx] = (await freePorts(3)) as [number, number, number];
  const log = openSync(join(data, 'out.log'), 'w');
  const args = [jars, data, '127.0.0.1', ...[native, storage, jmx].map(String)];
  const engine = spawn(join(scripts, 'start.sh'), args, { stdio: ['ignore', log, log] });
  let isOver = false;
  const ended = new Promise<void>((resolve) => engine.once('exit', () => resolve())).then(() => {
    isOver = true;
  });
  const stop = async (): Promise<void> => {
    engine.kill('SIGKILL');
    await ended;
    await rm(data, { recursive: true, force: true });
  };
  for (const until = performance.now() + readyMs; !(await answers(native)); await sleep(200)) {
    if (!isOver && performance.now() < until) continue;
    await stop();
    throw new Error('Cassandra did not get ready');
  }
  return { hosts: [`127.0.0.1:${native}`], [Symbol.asyncDispose]: stop };
}

/** Empties every table of a keyspace, which need not be there: cheaper than a keyspace of its own for each test. */
export async function emptyKeyspace(hosts: readonly string[], keyspace: string): Promise<void> {
  const client = new cassandra.Client({ contactPoints: [...hosts], localDataCenter: 'dc1' });
  try {
    const query = 'SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?';
    const { rows } = await client.execute(query, [keyspace]);
    for (const row of rows) await client.execute(`TRUNCATE ${keyspace}.${row['table_name']}`);
  } finally {
    await client.shutdown();
  }
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
