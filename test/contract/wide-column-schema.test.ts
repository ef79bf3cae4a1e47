/** The schema of a keyspace at a start: created, updated, and not touched where it is newer. */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cassandra from 'cassandra-driver';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildShape,
  formatDefinition,
  ownShapes,
  schemaState,
  schemaVersion,
} from '../../src/backends/metadata/wide-column/schema.ts';
import { type WideColumnStore, wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { StoreRefused } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { type Engine, noCassandra, replicatedOver, startCassandra } from '../support/engines/cassandra.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { contractTables, tallies, talliesOf } from './metadata-store/tables.ts';
import { changeByTurns, former, later } from './metadata-store/two-releases.ts';

const root = join(import.meta.dirname, '../..');
const fresh = (): string => `schema_${randomBytes(6).toString('hex')}`;

describe.skipIf(noCassandra !== undefined)(`the schema on wide-column${noCassandra ?? ''}`, () => {
  let engine: Engine;
  let cql: cassandra.Client;
  let directory: string;
  const keyspaces: string[] = [];

  beforeAll(async () => {
    engine = await startCassandra();
    cql = new cassandra.Client({
      contactPoints: [...engine.hosts],
      localDataCenter: 'dc1',
      socketOptions: { readTimeout: 120_000 },
    });
    directory = await mkdtemp(join(tmpdir(), 'sluice-schema-'));
    writeFileSync(join(directory, 'master.key'), randomBytes(32).toString('base64'), { mode: 0o600 });
    writeFileSync(join(directory, 'credentials.json'), JSON.stringify(Object.values(testCredentials)), {
      mode: 0o600,
    });
  });
  afterAll(async () => {
    try {
      for (const keyspace of keyspaces) await cql.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`);
      await cql.shutdown();
    } finally {
      await engine[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    }
  });

  const keyspaceOfOurs = (): string => {
    const keyspace = fresh();
    keyspaces.push(keyspace);
    return keyspace;
  };
  const open = (keyspace: string, tables = contractTables): Promise<WideColumnStore> =>
    wideColumnStore({
      hosts: engine.hosts,
      localDc: 'dc1',
      keyspace,
      replication: replicatedOver(engine.hosts),
      tables,
      random: systemRandom(),
      clock: systemClock,
    });
  const versionOf = async (keyspace: string): Promise<unknown> => {
    const query = `SELECT version FROM ${keyspace}.schema_state WHERE id = 'version'`;
    return (await cql.execute(query)).first()?.['version'];
  };
  const settings = (keyspace: string): Record<string, string> => ({
    SVC_META_BACKEND: 'wide-column',
    SVC_DATA_BACKEND: 'memory',
    SVC_WIDECOL_HOSTS: engine.hosts.join(','),
    SVC_WIDECOL_KEYSPACE: keyspace,
    SVC_WIDECOL_REPLICATION: replicatedOver(engine.hosts),
    SVC_MASTER_KEY_FILE: join(directory, 'master.key'),
  });
  /** Makes the keyspace as the first version made it: without a schema version, and without the later columns and tables. */
  const makeFirstVersion = async (keyspace: string): Promise<void> => {
    await cql.execute(`CREATE KEYSPACE ${keyspace} WITH replication = ${replicatedOver(engine.hosts)}`);
    for (const shape of [...ownShapes, buildShape(tallies)]) {
      const { row_folded: _, floor: __, ...columns } = shape.columns;
      await cql.execute(formatDefinition(keyspace, { ...shape, columns }));
    }
  };

  const startedIn = (env: Record<string, string>) =>
    spawnSync(process.execPath, [join(root, 'src/runtime/cli.ts'), 'serve'], {
      env: {
        PATH: process.env['PATH'] ?? '',
        ...env,
        SVC_LISTEN: '127.0.0.1:0',
        SVC_CREDENTIALS_FILE: join(directory, 'credentials.json'),
      },
      encoding: 'utf8',
      timeout: 100_000,
    });

  it('is not created where the default replication cannot reach a quorum, as on one node: the start names the setting', async () => {
    const { hosts } = engine;
    if (hosts.length > 1) return;
    const keyspace = keyspaceOfOurs();
    const { SVC_WIDECOL_REPLICATION: _, ...env } = settings(keyspace);
    const { status, stderr } = startedIn(env);
    expect(stderr).toContain(
      "has too few nodes for a quorum: replicas 3 in dc1, which has 1 nodes; 2 are needed for every write. Add nodes, or use SVC_WIDECOL_REPLICATION = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
    );
    expect(stderr.length).toBeLessThan(2_000);
    expect(status).toBe(2);
    const made = `SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`;
    expect((await cql.execute(made)).rows).toEqual([]);
  });

  it('is created once by two gateways that start together, and serves both', async () => {
    const env = settings(keyspaceOfOurs());
    const servers = await Promise.all(
      [1, 2].map(() => startServer({ dataDir: 'memory', env, startMs: 240_000 })),
    );
    try {
      const [one, two] = servers.map(({ url, credentials }) => loadClient(url, credentials.root));
      await one?.expect({ method: 'PUT', path: pathOf('of-both') });
      await two?.expect({ method: 'PUT', path: pathOf('of-both', 'key'), body: Buffer.from('hello') });
      expect((await two?.expect({ path: pathOf('of-both', 'key') }))?.text).toBe('hello');
      for (const client of [one, two]) client?.close();
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
    expect(await versionOf(env['SVC_WIDECOL_KEYSPACE'] as string)).toBe(schemaVersion);
  });

  it('is refused to a gateway whose chunks belong to another installation, and the message names both', async () => {
    // Two gateways have served from the keyspace, so it holds the metadata of an installation.
    const keyspace = keyspaces.at(-1) ?? '';
    expect(await versionOf(keyspace)).toBe(schemaVersion);
    const foreign = '0'.repeat(32);
    const chunks = join(directory, 'data/chunks/default');
    await mkdir(chunks, { recursive: true });
    await writeFile(join(chunks, 'installation.json'), JSON.stringify({ id: foreign, format: 1 }));
    const env = {
      ...settings(keyspace),
      SVC_DATA_BACKEND: 'file',
      SVC_DATA_DIR: join(directory, 'data'),
      SVC_DISK_RESERVE: '0',
    };
    const { status, stderr } = startedIn(env);
    expect(stderr).toMatch(
      new RegExp(
        `in ${chunks} belong to installation ${foreign}, and the metadata to installation [0-9a-f]{32}:`,
      ),
    );
    expect(status).toBe(2);
    expect(JSON.parse(await readFile(join(chunks, 'installation.json'), 'utf8')).id).toBe(foreign);
  });

  it('is not touched by a second start', async () => {
    const keyspace = keyspaceOfOurs();
    await (await open(keyspace)).close();
    const ids = `SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = '${keyspace}'`;
    const before = JSON.stringify((await cql.execute(ids)).rows);
    await (await open(keyspace)).close();
    expect(JSON.stringify((await cql.execute(ids)).rows)).toBe(before);
  });

  it('of an older version is upgraded with its contents', async () => {
    const keyspace = keyspaceOfOurs();
    await makeFirstVersion(keyspace);
    const store = await open(keyspace);
    try {
      const at = talliesOf('b');
      await store.apply([{ at, add: { className: 'c' }, by: { bytes: 2 } }]);
      expect((await store.scan(at).next(10)).map(({ row }) => row)).toMatchObject([{ bytes: 2 }]);
      expect(await versionOf(keyspace)).toBe(schemaVersion);
    } finally {
      await store.close();
    }
  });

  it('with a column that a later release has appended is read and changed by a former one, which keeps its value', async () => {
    const keyspace = keyspaceOfOurs();
    const laterStore = await open(keyspace, [later]);
    const formerStore = await open(keyspace, [former]);
    try {
      expect(await changeByTurns({ later: laterStore, former: formerStore })).toBe('red');
    } finally {
      await Promise.all([laterStore.close(), formerStore.close()]);
    }
  });

  it('of a newer version is refused, before anything is written', async () => {
    const keyspace = keyspaceOfOurs();
    await (await open(keyspace, [])).close();
    await cql.execute(`UPDATE ${keyspace}.schema_state SET version = 99 WHERE id = 'version' IF EXISTS`);
    await expect(open(keyspace)).rejects.toThrow(StoreRefused);
    expect(await versionOf(keyspace)).toBe(99);
    const tables = `SELECT table_name FROM system_schema.tables WHERE keyspace_name = '${keyspace}'`;
    expect((await cql.execute(tables)).rows.map((row) => row['table_name'])).not.toContain(tallies.name);
    const { status, stderr } = startedIn(settings(keyspace));
    expect(stderr).toContain(`schema version 99, and this sluice knows ${schemaVersion}`);
    expect(status).toBe(2);
  });

  it('waits for another process that migrates it, and continues where that process died', async () => {
    const keyspace = keyspaceOfOurs();
    await cql.execute(`CREATE KEYSPACE ${keyspace} WITH replication = ${replicatedOver(engine.hosts)}`);
    await cql.execute(formatDefinition(keyspace, schemaState));
    const started = performance.now();
    await cql.execute(
      `UPDATE ${keyspace}.schema_state USING TTL 3 SET owner = 'dead' WHERE id = 'lease' IF owner = null`,
    );
    await (await open(keyspace)).close();
    expect(performance.now() - started).toBeGreaterThan(2000);
    expect(await versionOf(keyspace)).toBe(schemaVersion);
  });
});
