/** Health reports of a real ring of three nodes, also when a node dies and misses a change of the schema. */
import cassandra from 'cassandra-driver';
import { expect, test } from 'vitest';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noCassandraOfOurs, startOwnRing } from '../support/engines/cassandra.ts';

const keyspace = 'health';
/** A ring takes its time to start, and a node to be missed. */
const patience = { timeout: 120_000, interval: 2_000 };

test.skipIf(noCassandraOfOurs !== undefined)(
  `wide-column: the health of a ring ${noCassandraOfOurs ?? ''}`,
  { timeout: 600_000 },
  async () => {
    await using ring = await startOwnRing();
    const { hosts } = ring;
    const store = await wideColumnStore({
      hosts,
      localDc: 'dc1',
      keyspace,
      replication: "{'class': 'NetworkTopologyStrategy', 'dc1': 3}",
      tables: [],
      clock: systemClock,
      random: systemRandom(),
    });
    const client = new cassandra.Client({ contactPoints: [...hosts], localDataCenter: 'dc1' });
    const asked = async () => {
      const { nodes, replicationFactor, warnings } = await store.health();
      const states = nodes.map(({ name, rack, state }) => `${name} ${rack} ${state}`).sort();
      return [states, replicationFactor, warnings.map((warning) => warning.replace(/[0-9a-f-]{36}/g, 'v'))];
    };
    try {
      const well = ['127.0.0.1 rack1 UP', '127.0.0.2 rack2 UP', '127.0.0.3 rack3 UP'];
      await expect.poll(asked, patience).toEqual([well, 3, []]);
      await ring.nodes[2]?.kill9();
      await client.execute(`CREATE TABLE ${keyspace}.later (id text PRIMARY KEY)`, [], {
        readTimeout: 60_000,
      });
      const broken = [...well.slice(0, 2), '127.0.0.3 rack3 DOWN'];
      await expect.poll(asked, patience).toEqual([broken, 3, ['schema versions disagree: v, v']]);
    } finally {
      await client.shutdown();
      await store.close();
    }
  },
);
