/**
 * The texts of storage health, from the reports of clusters.
 *
 * Tests with real engines produce most of these reports: Cassandra with a killed node, with schema versions that disagree and with a
 * dropped keyspace (test/simulation/wide-column-ring.test.ts, test/contract/engine-health.ts); Ceph with health checks, muted checks and
 * unavailable pools (test/ceph/health.test.ts); the placement driver with stores in every state, with a store without leaders, and
 * without an answer (test/tikv/store-health.test.ts). Stubs produce the reports that the installed engines cannot: the placement
 * driver of the tests returns neither an HTTP error nor a garbled reply, and its one region always has a leader; only Cassandra itself
 * creates keyspaces of LocalStrategy. A stub hangs like a stopped process: the kernel accepts the connection, and no reply comes.
 */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { storeHealth } from '../../src/backends/metadata/ordered-kv/health.ts';
import { summarizeHealth } from '../../src/backends/metadata/wide-column/store.ts';
import {
  dataReport,
  type MetadataReport,
  statusText,
  storageHealth,
} from '../../src/domain/storage/storage-health.ts';
import type { NodeHealth } from '../../src/ports/metadata-store.ts';
import type { ClusterHealth } from '../../src/ports/object-bytes.ts';

const pool = (name: string, more = {}) =>
  ({ pool: name, namespace: '', state: 'ok', bytesUsed: 2048, chunkCount: 2, ...more }) as const;
const ceph = (more: Partial<ClusterHealth> = {}): ClusterHealth => ({
  cluster: 'a',
  status: 'HEALTH_OK',
  problems: [],
  pools: [pool('hot')],
  ...more,
});
const node = (name: string, more: Partial<NodeHealth> = {}): NodeHealth => ({
  name,
  dataCenter: 'dc1',
  rack: 'rack1',
  releaseVersion: '4.1',
  schemaVersion: 'v1',
  state: 'UP',
  ...more,
});

describe('a cluster of data', () => {
  test('that is healthy has no warning, whatever is muted', () => {
    expect(dataReport('cluster-pool', [ceph()]).warnings).toEqual([]);
    expect(statusText({ status: 'HEALTH_OK', problems: ['muted'] })).toBe('HEALTH_OK');
  });

  test('that is not shows its problems in order, five of them at most', () => {
    const problems = ['f', 'b', 'e', 'a', 'd', 'c'];
    expect(statusText({ status: 'HEALTH_ERR', problems })).toBe('HEALTH_ERR: a; b; c; d; e');
    expect(statusText({ status: 'HEALTH_WARN', problems: ['noout flag(s) set'] })).toBe(
      'HEALTH_WARN: noout flag(s) set',
    );
    expect(statusText({ status: 'HEALTH_WARN', problems: [] })).toBe('HEALTH_WARN');
  });

  test('that is unreachable is one warning, whatever its pools or bucket report', () => {
    const bucket = pool('upstream', { state: 'error', error: 'ECONNREFUSED', bytesUsed: 0, chunkCount: 0 });
    const away = ceph({ status: 'unreachable', problems: ['ECONNREFUSED'], pools: [bucket] });
    const report = dataReport('upstream-store', [away]);
    expect(report.warnings).toEqual(['unreachable: ECONNREFUSED (cluster a)']);
    expect(report.pools).toMatchObject([{ pool: 'upstream', state: 'error' }]);
  });

  test('with an unreachable pool still reports the others', () => {
    const broken = pool('cold', { state: 'error', error: 'ENOENT', bytesUsed: 0, chunkCount: 0 });
    const report = dataReport('cluster-pool', [ceph({ pools: [broken, pool('hot')] })]);
    expect(report.warnings).toEqual(['pool stats failed for cold: ENOENT (cluster a)']);
    expect(report.pools.map(({ pool: name, state, bytesUsed }) => [name, state, bytesUsed])).toEqual([
      ['cold', 'error', 0],
      ['hot', 'ok', 2048],
    ]);
  });
});

describe('the whole', () => {
  const metadata = (more: Partial<MetadataReport> = {}): MetadataReport => ({
    backend: 'wide-column',
    nodes: [node('10.0.0.1')],
    warnings: [],
    ...more,
  });
  const well = dataReport('cluster-pool', [ceph()]);

  test('is ok when both probes are', () => {
    expect(storageHealth(metadata(), well)).toEqual({ ok: true, warnings: [], source: '' });
  });

  test('is not ok when either warns, and names the source', () => {
    const warned = dataReport('cluster-pool', [ceph({ status: 'HEALTH_WARN', problems: ['x'] })]);
    expect(storageHealth(metadata(), warned)).toEqual({
      ok: false,
      warnings: ['HEALTH_WARN: x (cluster a)'],
      source: 'cluster-pool',
    });
    const both = storageHealth(metadata({ warnings: ['replication factor unknown'] }), warned);
    expect(both).toMatchObject({ ok: false, source: 'wide-column,cluster-pool' });
    expect(both.warnings).toHaveLength(2);
  });

  test('is not ok when a node is not, also without a warning', () => {
    const nodes = [node('10.0.0.1'), node('10.0.0.2', { state: 'DOWN' })];
    expect(storageHealth(metadata({ nodes }), well)).toEqual({
      ok: false,
      warnings: ['node 10.0.0.2 is DOWN'],
      source: 'wide-column',
    });
  });
});

describe('wide-column', () => {
  const keyspace = { keyspace: 'sluice', localDc: 'dc1' };
  const replication = { class: 'org.apache.cassandra.locator.NetworkTopologyStrategy', dc1: '3', dc2: '2' };

  test('reports how many nodes of the local data center keep a row', () => {
    expect(summarizeHealth([node('a')], replication, keyspace)).toMatchObject({
      replicationFactor: 3,
      warnings: [],
    });
    const simple = { class: 'SimpleStrategy', replication_factor: '1' };
    expect(summarizeHealth([node('a')], simple, keyspace).replicationFactor).toBe(1);
  });

  test('warns of schema versions that disagree', () => {
    const nodes = [node('a', { schemaVersion: 'v2' }), node('b'), node('c')];
    expect(summarizeHealth(nodes, replication, keyspace).warnings).toEqual([
      'schema versions disagree: v1, v2',
    ]);
  });

  test('warns of a keyspace that is not there, and of one that does not say its replication', () => {
    expect(summarizeHealth([node('a')], undefined, keyspace).warnings).toEqual([
      'keyspace not found: sluice',
      'replication factor unknown',
    ]);
    expect(summarizeHealth([node('a')], { class: 'LocalStrategy' }, keyspace).warnings).toEqual([
      'replication factor unknown',
    ]);
  });
});

describe('ordered-kv', () => {
  /** A stub of a placement driver; `asked` counts its requests. */
  async function pd(listener: RequestListener) {
    let asked = 0;
    const server = createServer((request, response) => {
      asked += 1;
      listener(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
      endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`,
      asked: () => asked,
      async [Symbol.asyncDispose]() {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  }
  const store = (id: number, leaders: number, state = 'Up') => ({
    store: { id, address: `kv${id}:20160`, version: '8.1.0', state_name: state },
    status: { leader_count: leaders, region_count: 10 },
  });
  const listing = (...stores: readonly object[]): RequestListener => {
    return (_request, response) => response.end(JSON.stringify({ count: stores.length, stores }));
  };

  test('asks the endpoints in order, and only as far as one answers', async () => {
    await using failing = await pd((_request, response) => response.writeHead(500).end());
    await using first = await pd(listing(store(1, 5)));
    await using second = await pd(listing());
    const endpoints = [failing.endpoint, first.endpoint, second.endpoint];
    const { nodes, warnings } = await storeHealth(endpoints);
    expect(nodes.map(({ name, releaseVersion, state }) => [name, releaseVersion, state])).toEqual([
      ['kv1:20160', '8.1.0', 'UP'],
    ]);
    expect(warnings).toEqual([]);
    expect([failing.asked(), first.asked(), second.asked()]).toEqual([1, 1, 0]);
  });

  test('waits two seconds for one that hangs', async () => {
    await using hanging = await pd(() => {});
    await using other = await pd(listing(store(1, 5)));
    const startedAt = performance.now();
    expect((await storeHealth([hanging.endpoint, other.endpoint])).nodes).toHaveLength(1);
    expect(performance.now() - startedAt).toBeGreaterThan(1_900);
  });

  test('warns of a live store without leaders while others lead', async () => {
    await using imbalanced = await pd(listing(store(1, 9), store(4, 0), store(5, 0, 'Down')));
    const { nodes, warnings } = await storeHealth([imbalanced.endpoint]);
    expect(warnings).toEqual(['raft leader imbalance: store 4 has 0 leaders']);
    expect(nodes.map(({ state }) => state)).toEqual(['UP', 'UP', 'DOWN']);
    await using empty = await pd(listing(store(1, 0), store(2, 0)));
    expect((await storeHealth([empty.endpoint])).warnings).toEqual([]);
  });

  test('reads the sizes of stores in the units of PD, and has none where a store reports none', async () => {
    const sized = (status: object) => ({ store: { id: 1, address: 'kv:1' }, status });
    const stores = [
      sized({ capacity: '2TiB', used_size: '1.95TiB', available: '97.87GiB' }),
      sized({ capacity: '1GiB', used_size: '0B', available: '1023MiB' }),
      sized({ capacity: '0B', used_size: '0B', available: '0B' }),
      sized({}),
    ];
    await using answering = await pd((_request, response) => response.end(JSON.stringify({ stores })));
    const { nodes } = await storeHealth([answering.endpoint]);
    expect(nodes.map(({ usedBytes, freeBytes }) => [usedBytes, freeBytes])).toEqual([
      [Math.round(1.95 * 1024 ** 4), Math.round(97.87 * 1024 ** 3)],
      [0, 1023 * 1024 ** 2],
      [undefined, undefined],
      [undefined, undefined],
    ]);
  });

  test('says which endpoints did not answer when none did', async () => {
    await using failing = await pd((_request, response) => response.writeHead(503).end());
    await using garbled = await pd((_request, response) => response.end('<html>'));
    const { nodes, warnings } = await storeHealth([failing.endpoint, garbled.endpoint]);
    expect(nodes).toEqual([]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/^pd endpoints unreachable: \S+ \(HTTP 503\), \S+ \(.+\)$/);
  });
});
