/** Login and TLS of Cassandra: the clients that a node accepts, and the nodes that a gateway accepts. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cassandra from 'cassandra-driver';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import type { SettingName } from '../../src/config.ts';
import { tables } from '../../src/metadata/tables.ts';
import { StoreRefused } from '../../src/ports/metadata-store.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import { type Composed, compose } from '../../src/runtime/compose/compose.ts';
import {
  type CassandraNode,
  noCassandraOfOurs,
  replicatedOver,
  startNode,
} from '../support/engines/cassandra.ts';
import { alice } from '../support/gateway.ts';
import { one, two } from '../support/server-tls.ts';

const root = join(import.meta.dirname, '../..');

describe.skipIf(noCassandraOfOurs !== undefined)(
  `logging in to wide-column${noCassandraOfOurs ?? ''}`,
  () => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
    const file = (name: string, text: string): string => {
      const path = join(directory, name);
      writeFileSync(path, text, { mode: 0o600 });
      return path;
    };
    let node: CassandraNode;

    beforeAll(async () => {
      const encryption = [
        'enabled: true, optional: false, require_client_auth: true',
        `keystore: ${file('node.pem', one.key + one.cert)}`,
        `truststore: ${file('gateways.pem', two.cert)}`,
        'ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}',
      ];
      node = await startNode({
        set: [
          'authenticator: PasswordAuthenticator',
          'authorizer: CassandraAuthorizer',
          // For ranges of tombstones that it refuses to read.
          'tombstone_warn_threshold: 500',
          'tombstone_failure_threshold: 1000',
          `client_encryption_options: {${encryption.join(', ')}}`,
        ],
      });
    });
    afterAll(async () => {
      await node[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true, force: true });
    });

    /** As the administrator of the node. */
    const define = async (...statements: readonly string[]): Promise<void> => {
      const [host = ''] = node.hosts;
      const client = new cassandra.Client({
        contactPoints: [...node.hosts],
        localDataCenter: 'dc1',
        protocolOptions: { port: Number(host.split(':')[1] ?? 9042) },
        credentials: { username: 'cassandra', password: 'cassandra' },
        sslOptions: { ca: one.cert, cert: two.cert, key: two.key, rejectUnauthorized: false },
      });
      try {
        for (const statement of statements) await client.execute(statement, [], { readTimeout: 60_000 });
      } finally {
        await client.shutdown();
      }
    };

    type Settings = Partial<Record<SettingName, string>>;
    const known: Settings = {
      SVC_WIDECOL_USERNAME: 'cassandra',
      SVC_WIDECOL_PASSWORD: 'cassandra',
      SVC_WIDECOL_CA_FILE: file('ca.pem', one.cert),
      SVC_WIDECOL_CERT_FILE: file('gateway.pem', two.cert),
      SVC_WIDECOL_KEY_FILE: file('gateway.key', two.key),
    };
    const settings = (changed: Settings): Settings => ({
      SVC_META_BACKEND: 'wide-column',
      SVC_WIDECOL_HOSTS: node.hosts.join(','),
      SVC_WIDECOL_REPLICATION: replicatedOver(node.hosts),
      SVC_CREDENTIALS: JSON.stringify([alice]),
      SVC_MASTER_KEY_FILE: file('master.key', Buffer.alloc(32, 7).toString('base64')),
      ...known,
      ...changed,
    });
    const opened = (changed: Settings = {}, telemetry = silentTelemetry): Promise<Composed> =>
      compose(configWith(settings(changed)), { credentials: [alice], telemetry });
    const refusalOf = (changed: Settings): Promise<unknown> =>
      opened(changed).then(
        ({ close }) => close(),
        (error: unknown) => error,
      );

    it('accepts a gateway with the password and a certificate', async () => {
      const { context, close } = await opened();
      try {
        expect((await context.metadata.health()).nodes).toHaveLength(1);
      } finally {
        await close();
      }
    });

    it('knows the size of its keyspace where its role may read it, and otherwise says what to grant', async () => {
      const first = await opened();
      try {
        const [node] = (await first.context.metadata.health()).nodes;
        expect(node).toMatchObject({ usedBytes: expect.any(Number) });
      } finally {
        await first.close();
      }
      await define(
        "CREATE ROLE gateway WITH PASSWORD = 'hush-hush' AND LOGIN = true",
        'GRANT ALL PERMISSIONS ON KEYSPACE sluice TO gateway',
      );
      const asGateway = { SVC_WIDECOL_USERNAME: 'gateway', SVC_WIDECOL_PASSWORD: 'hush-hush' };
      const second = await opened(asGateway);
      try {
        const { nodes, warnings } = await second.context.metadata.health();
        expect(warnings).toEqual([]);
        expect(nodes).toHaveLength(1);
        expect(nodes[0]).not.toHaveProperty('usedBytes');
        expect(nodes[0]?.sizeUnknown).toBe(
          'the role gateway may not read system_views.disk_usage: GRANT SELECT ON KEYSPACE system_views TO gateway',
        );
        await define('GRANT SELECT ON KEYSPACE system_views TO gateway');
        // The node caches permissions for some seconds, and this process the report.
        const nodeNow = async () => (await second.context.metadata.health()).nodes[0];
        const patience = { timeout: 60_000, interval: 1_000 };
        await expect.poll(nodeNow, patience).toMatchObject({ usedBytes: expect.any(Number) });
      } finally {
        await second.close();
      }
    });

    it('accepts a node with the configured server name', async () => {
      await (await opened({ SVC_WIDECOL_SERVER_NAME: 'localhost' })).close();
    });

    const strangers: readonly (readonly [string, Settings])[] = [
      ['with a wrong password', { SVC_WIDECOL_PASSWORD: 'wrong' }],
      [
        'to a node with a certificate of an unknown authority',
        { SVC_WIDECOL_CA_FILE: file('other.pem', two.cert) },
      ],
      ['to a node of another name', { SVC_WIDECOL_SERVER_NAME: 'elsewhere.example' }],
    ];
    it.each(strangers)('does not connect %s', async (_, changed) => {
      const refusal = await refusalOf(changed);
      expect(refusal).toBeInstanceOf(StoreRefused);
      expect(String(refusal)).not.toContain('wrong');
    });

    it('does not connect without a certificate, without TLS, or without a login', async () => {
      const { SVC_WIDECOL_CERT_FILE: _, SVC_WIDECOL_KEY_FILE: __, ...anonymous } = settings({});
      for (const lacking of [
        anonymous,
        { ...settings({}), SVC_WIDECOL_USERNAME: '', SVC_WIDECOL_PASSWORD: '' },
        {
          ...anonymous,
          SVC_WIDECOL_CA_FILE: '',
        },
      ])
        await expect(compose(configWith(lacking), { credentials: [alice] })).rejects.toThrow();
    });

    it('lists rows after, before and between ranges of tombstones that the cluster refuses to read', async () => {
      const { context, close } = await opened();
      try {
        const { metadata } = context;
        const at = { table: tables.uploadIndex, in: { bucketId: 'b' }, ways: 1 };
        const name = (i: number): string => `a rather long beginning/${String(i).padStart(6, '0')}`;
        const keys = Array.from({ length: 2000 }, (_, i) => name(i));
        const rowOf = (key: string) => ({ at, put: { bucketId: 'b', key, uploadId: 'u', initiated: 1 } });
        const left = [0, 1, 999, 1000, 1999].map(name);
        for (let first = 0; first < keys.length; first += 50)
          await metadata.apply(keys.slice(first, first + 50).map(rowOf) as never);
        const gone = keys.filter((key) => !left.includes(key));
        for (let first = 0; first < gone.length; first += 50)
          await metadata.apply(
            gone.slice(first, first + 50).map((key) => ({ at, remove: { key, uploadId: 'u' } })),
          );
        for (const reverse of [false, true]) {
          const found: string[] = [];
          const cursor = metadata.scan(at, { reverse });
          for (let page = await cursor.next(2); page.length > 0; page = await cursor.next(2))
            found.push(...page.map(({ row }) => row.key));
          expect(reverse ? found.reverse() : found).toEqual(left);
        }
      } finally {
        await close();
      }
    });

    it('finds and raises the fence of a partition in which more has expired than the cluster reads past', async () => {
      const { context, close } = await opened();
      try {
        const { metadata } = context;
        const shard = "bucket_id = 'quiet' AND row_shard = 0";
        const outcome = (i: number): string =>
          `UPDATE sluice.objects USING TTL 1 SET row_outcome = 'applied' WHERE ${shard} AND row_k = 0x00${i.toString(16).padStart(8, '0')};`;
        for (let first = 0; first < 2000; first += 500) {
          const outcomes = Array.from({ length: 500 }, (_, i) => outcome(first + i));
          await define(`BEGIN UNLOGGED BATCH ${outcomes.join(' ')} APPLY BATCH`);
        }
        const read = () => define(`SELECT row_fence FROM sluice.objects WHERE ${shard} LIMIT 1`);
        const refusal = () => read().then(() => undefined, String);
        await expect.poll(refusal, { timeout: 60_000, interval: 500 }).toContain('failure during read');
        const at = { table: tables.objects, in: { bucketId: 'quiet' }, ways: 1 };
        expect(await metadata.fence(at)).toBe(0);
        await metadata.raiseFence(at, 3);
        expect(await metadata.fence(at)).toBe(3);
        const check = { check: { space: 0, key: 'k', slot: 's' }, expect: 'absent' as const };
        const late = await metadata.commit({ ...at, fence: 2 }, [check]);
        expect(late).toEqual({ applied: false, because: 'fenced', fence: 3 });
      } finally {
        await close();
      }
    });

    it('logs slow statements without their values', async () => {
      const told: unknown[] = [];
      const telemetry: Telemetry = {
        ...silentTelemetry,
        log: (level, message, fields) => void told.push({ level, message, ...fields }),
      };
      const { context, close } = await opened({ SVC_WIDECOL_SLOW_MS: '1' }, telemetry);
      try {
        const at = { table: tables.uploadIndex, in: { bucketId: 'b' }, ways: 1 };
        const put = { bucketId: 'b', key: 'hush-hush', uploadId: 'u', initiated: 1 };
        const written = async (): Promise<unknown[]> => {
          await context.metadata.apply([{ at, put }]);
          return told;
        };
        await expect.poll(written, { timeout: 120_000 }).toContainEqual({
          level: 'WARN',
          message: 'a statement was slow',
          query: expect.stringContaining('upload_index'),
          ms: expect.any(Number),
        });
        expect(JSON.stringify(told)).not.toContain('hush-hush');
      } finally {
        await close();
      }
    });

    it('shows no password in the configuration', () => {
      const { stdout } = spawnSync(process.execPath, [join(root, 'src/runtime/cli.ts'), 'config'], {
        env: { PATH: process.env['PATH'] ?? '', ...settings({ SVC_WIDECOL_PASSWORD: 'hush-hush' }) },
        encoding: 'utf8',
      });
      expect(stdout).toContain('SVC_WIDECOL_USERNAME');
      expect(stdout).not.toContain('hush-hush');
    });
  },
);
