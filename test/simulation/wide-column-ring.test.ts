/**
 * A real ring of three Cassandra nodes: the laws of the metadata port that depend on several replicas, faults under
 * load, and health reports.
 * `contract/wide-column.test.ts` runs all laws on one node.
 */
import { randomBytes } from 'node:crypto';
import cassandra from 'cassandra-driver';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { wideColumnContract } from '../contract/wide-column.ts';
import { noCassandraOfOurs, type Ring, startOwnRing } from '../support/engines/cassandra.ts';
import { hurtRing } from './register-faults.ts';
import { contradictions, registerRounds, saysEnough } from './register-rounds.ts';
import { reshardFaults } from './reshard-faults.ts';
import { ringRounds } from './ring-rounds.ts';
import { type SharedStore, sharedRing } from './shared-store.ts';

/** More for a longer run: `RING_ROUNDS=20 RING_SEED=7`, or `npx node test/simulation/ring-long.ts`. */
const rounds = Number(process.env['RING_ROUNDS'] ?? 1);
const seed = Number(process.env['RING_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** The time limit until the other nodes report a node as down. */
const healthPatience = { timeout: 120_000, interval: 2_000 };

if (noCassandraOfOurs !== undefined) describe('a ring', () => it.skip(`(${noCassandraOfOurs})`, () => {}));
else {
  let ring: Ring;
  /** Two tests share it, because a ring takes 15 s to create the tables of a keyspace. */
  let store: SharedStore;
  beforeAll(async () => {
    ring = await startOwnRing();
    store = sharedRing(ring, 'shared');
  });
  afterAll(async () => {
    await store?.[Symbol.asyncDispose]();
    await ring?.[Symbol.asyncDispose]();
  });

  wideColumnContract('wide-column, a ring', {
    hosts: async () => ring.hosts,
    keyspace: `contract_${randomBytes(4).toString('hex')}`,
    only: [
      'commits',
      'shards',
      'fences',
      'intents',
      'splits',
      'several processes',
      'splits by several processes',
    ],
  });

  test(
    'what was acknowledged survives nodes that die or stand still, one or all, and the gateway goes on by itself',
    async () => {
      expect(await ringRounds({ ring, rounds, seed }), `seed ${seed}`).toEqual([]);
    },
    900_000 * rounds,
  );

  test(
    'what clients see of a key could have happened one step at a time while nodes die and stand still, one after the other',
    async () => {
      const clients = await registerRounds({
        store,
        gateways: 2,
        rounds,
        seed,
        hurt: hurtRing(ring),
      });
      expect(contradictions(clients), `seed ${seed}`).toEqual([]);
      expect(saysEnough(clients.tally), JSON.stringify(clients.tally)).toBe(true);
    },
    600_000 * rounds,
  );

  test('a bucket gets more shards while a node of the ring dies, and while the process that moves its rows does', async () => {
    const { faults, tallies, looks } = await reshardFaults({ ring, store, seed });
    expect(faults, `seed ${seed}`).toEqual([]);
    for (const { acknowledged } of tallies) expect(acknowledged).toBeGreaterThan(50);
    expect(looks).toBeGreaterThan(20);
  }, 900_000);

  // The last test, because it leaves a node dead.
  test('health reports name a node that is down, and that the schema versions of the nodes disagree', async () => {
    const { hosts } = ring;
    const store = await wideColumnStore({
      hosts,
      localDc: 'dc1',
      keyspace: 'health',
      replication: "{'class': 'NetworkTopologyStrategy', 'dc1': 3}",
      tables: [],
      clock: systemClock,
      random: systemRandom(),
    });
    const client = new cassandra.Client({ contactPoints: [...hosts], localDataCenter: 'dc1' });
    const report = async () => {
      const { nodes, replicationFactor, warnings } = await store.health();
      const states = nodes.map(({ name, rack, state }) => `${name} ${rack} ${state}`).sort();
      return [states, replicationFactor, warnings.map((warning) => warning.replace(/[0-9a-f-]{36}/g, 'v'))];
    };
    try {
      const well = ['127.0.0.1 rack1 UP', '127.0.0.2 rack2 UP', '127.0.0.3 rack3 UP'];
      await expect.poll(report, healthPatience).toEqual([well, 3, []]);
      await ring.nodes[2]?.kill9();
      await client.execute('CREATE TABLE health.later (id text PRIMARY KEY)', [], { readTimeout: 60_000 });
      const broken = [...well.slice(0, 2), '127.0.0.3 rack3 DOWN'];
      await expect.poll(report, healthPatience).toEqual([broken, 3, ['schema versions disagree: v, v']]);
    } finally {
      await client.shutdown();
      await store.close();
    }
  });
}
