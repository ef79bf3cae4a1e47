/** Two nodes on one keyspace of a real Cassandra. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cassandra from 'cassandra-driver';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { sender } from '../runtimes/client.ts';
import { writeKeyFile } from '../support/encryption.ts';
import { type Engine, noCassandra, replicatedOver, startCassandra } from '../support/engines/cassandra.ts';
import { loadClient } from '../support/load-client.ts';
import { obeysRotationsElsewhere } from '../support/rotated-elsewhere.ts';
import { startServer, testCredentials } from '../support/server.ts';

const caseMs = 240_000;

describe.skipIf(noCassandra !== undefined)(`two nodes on Cassandra${noCassandra ?? ''}`, () => {
  let engine: Engine;
  let directory: string;
  const keyspace = `gateways_${randomBytes(6).toString('hex')}`;

  beforeAll(async () => {
    engine = await startCassandra();
    directory = await mkdtemp(join(tmpdir(), 'sluice-gateways-'));
  });
  afterAll(async () => {
    const cql = new cassandra.Client({
      contactPoints: [...engine.hosts],
      localDataCenter: 'dc1',
      socketOptions: { readTimeout: 120_000 },
    });
    for (const each of [keyspace, `${keyspace}_traces`]) await cql.execute(`DROP KEYSPACE IF EXISTS ${each}`);
    await cql.shutdown();
    await engine[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  test('another node obeys the rotation and the deletion of a signing key within SVC_CONFIG_CACHE_TTL', async () => {
    const masterKey = join(directory, 'master.key');
    await writeFile(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
    const env = {
      SVC_META_BACKEND: 'wide-column',
      SVC_DATA_BACKEND: 'memory',
      SVC_WIDECOL_HOSTS: engine.hosts.join(','),
      SVC_WIDECOL_KEYSPACE: keyspace,
      SVC_WIDECOL_REPLICATION: replicatedOver(engine.hosts),
      SVC_MASTER_KEY_FILE: masterKey,
      SVC_KEY_PROVIDER: 'local-hsm',
      SVC_HSM_KEYS_FILE: await writeKeyFile(),
      SVC_KMS_DEFAULT_KEY_ID: 'first',
      SVC_PROCESSES: '1',
    };
    const start = (cached: string) =>
      startServer({ env: { ...env, SVC_CONFIG_CACHE_TTL: cached }, startMs: caseMs });
    const server = await start('1m');
    try {
      const other = await start('2s');
      const owner = loadClient(server.url, testCredentials.root, 1);
      try {
        await obeysRotationsElsewhere({ owner, otherUrl: other.url, cachedMs: 2_000 });
      } finally {
        owner.close();
        await other.stop();
      }
    } finally {
      await server.stop();
    }
  });

  test('a trace of a request to one node is found and listed at the other, and a row of its audit log is followed there', async () => {
    const masterKey = join(directory, 'traces.key');
    await writeFile(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
    const start = () =>
      startServer({
        env: {
          SVC_META_BACKEND: 'wide-column',
          SVC_DATA_BACKEND: 'memory',
          SVC_WIDECOL_HOSTS: engine.hosts.join(','),
          SVC_WIDECOL_KEYSPACE: `${keyspace}_traces`,
          SVC_WIDECOL_REPLICATION: replicatedOver(engine.hosts),
          SVC_MASTER_KEY_FILE: masterKey,
          SVC_PROCESSES: '1',
        },
        startMs: caseMs,
      });
    const server = await start();
    try {
      const other = await start();
      try {
        const ask = sender({ url: other.url, ...testCredentials.root });
        const json = async (path: string) => JSON.parse((await ask('GET', path)).text);
        const begun = await json('/admin/v1/audit/follow?bucket=absent-bucket');
        const refused = await fetch(`${server.url}/absent-bucket/key`, { method: 'PUT', body: 'x' });
        const id = refused.headers.get('x-amz-request-id') ?? '';
        // A gateway asks those whose heartbeats it sees; the first one comes soon after the start.
        await vi.waitFor(
          async () => {
            const { traces } = await json(`/admin/v1/traces/${id}`);
            expect(traces[0]).toMatchObject({ requestId: id, bucket: 'absent-bucket' });
          },
          { timeout: 60_000, interval: 500 },
        );
        const listed = await json('/admin/v1/traces?status=4xx');
        expect(listed).toMatchObject({ processes: 2, silent: 0 });
        expect(listed.traces).toContainEqual(expect.objectContaining({ requestId: id }));
        const followed = await json(
          `/admin/v1/audit/follow?bucket=absent-bucket&after=${encodeURIComponent(begun.next)}`,
        );
        expect(followed.rows).toEqual([expect.objectContaining({ requestId: id })]);
      } finally {
        await other.stop();
      }
    } finally {
      await server.stop();
    }
  });
});
