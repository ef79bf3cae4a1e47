/** Health reports of real engines, with and without faults. */
import cassandra from 'cassandra-driver';
import { describe, expect, test } from 'vitest';
import { storeHealth } from '../../src/backends/metadata/ordered-kv/health.ts';
import { orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';

const ports = { clock: systemClock, random: systemRandom() };

/** @param hosts of one node */
export function wideColumnHealth(hosts: () => Promise<readonly string[]>): void {
  describe('wide-column: health', () => {
    const keyspace = 'health';
    const opened = async () =>
      wideColumnStore({
        hosts: await hosts(),
        localDc: 'dc1',
        keyspace,
        replication: "{'class': 'NetworkTopologyStrategy', 'dc1': 1}",
        tables: [],
        ...ports,
      });

    test('tells its node and how the keyspace is replicated, and believes it for ten seconds', async () => {
      const store = await opened();
      try {
        const health = await store.health();
        expect(health).toMatchObject({ replicationFactor: 1, warnings: [] });
        expect(health.nodes).toMatchObject([{ dataCenter: 'dc1', rack: 'rack1', state: 'UP' }]);
        expect(health.nodes[0]?.name).toMatch(/^[\d.]+$/);
        expect(health.nodes[0]?.releaseVersion).toMatch(/^\d+\.\d+/);
        expect(health.nodes[0]?.schemaVersion).toMatch(/^[0-9a-f-]{36}$/);
        expect(health.nodes[0]).toMatchObject({ usedBytes: expect.any(Number) });
        expect(health.nodes[0]).not.toHaveProperty('sizeUnknown');
        expect(await store.health()).toBe(health);
      } finally {
        await store.close();
      }
    });

    test('reports a keyspace that was dropped', async () => {
      const store = await opened();
      const client = new cassandra.Client({ contactPoints: [...(await hosts())], localDataCenter: 'dc1' });
      try {
        await client.execute(`DROP KEYSPACE ${keyspace}`, [], { readTimeout: 60_000 });
        const { nodes, warnings } = await store.health();
        expect(warnings).toEqual([`keyspace not found: ${keyspace}`, 'replication factor unknown']);
        expect(nodes).toHaveLength(1);
      } finally {
        await client.shutdown();
        await store.close();
      }
    });
  });
}

export function orderedKvHealth(endpoints: () => Promise<readonly string[]>): void {
  test('ordered-kv: health tells the stores, by the first placement driver that answers', async () => {
    const alive = await endpoints();
    const store = orderedKvStore({ endpoints: alive, prefix: 'health/', ...ports });
    try {
      const { nodes, warnings } = await store.health();
      expect(warnings).toEqual([]);
      expect(nodes).toHaveLength(1);
      expect(nodes[0]?.name).toMatch(/^[\w.-]+:\d+$/);
    } finally {
      await store.close();
    }
    expect((await storeHealth(['127.0.0.1:1', ...alive])).nodes).toHaveLength(1);
  });
}
