/** Two nodes on one keyspace of a real Cassandra. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cassandra from 'cassandra-driver';
import { afterAll, beforeAll, describe, test } from 'vitest';
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
    await cql.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`);
    await cql.shutdown();
    await engine[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  test(
    'another node obeys the rotation and the deletion of a signing key within SVC_CONFIG_CACHE_TTL',
    async () => {
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
    },
    caseMs,
  );
});
