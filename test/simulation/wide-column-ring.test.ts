/** A real ring of three Cassandra nodes: the whole contract of the metadata port, and faults under load. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { wideColumnContract } from '../contract/wide-column.ts';
import { noCassandraOfOurs, type Ring, startOwnRing } from '../support/engines/cassandra.ts';
import { hurtRing } from './register-faults.ts';
import { contradictions, registerRounds, saysEnough } from './register-rounds.ts';
import { reshardFaults } from './reshard-faults.ts';
import { ringRounds } from './ring-rounds.ts';
import { sharedRing } from './shared-store.ts';

/** More for a longer run: `RING_ROUNDS=20 RING_SEED=7`, or `npx node test/simulation/ring-long.ts`. */
const rounds = Number(process.env['RING_ROUNDS'] ?? 1);
const seed = Number(process.env['RING_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

if (noCassandraOfOurs !== undefined) describe('a ring', () => it.skip(`(${noCassandraOfOurs})`, () => {}));
else {
  let ring: Ring;
  beforeAll(async () => {
    ring = await startOwnRing();
  });
  afterAll(() => ring?.[Symbol.asyncDispose]());

  wideColumnContract('wide-column, a ring', {
    hosts: async () => ring.hosts,
    keyspace: `contract_${randomBytes(4).toString('hex')}`,
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
      await using store = sharedRing(ring, `registers_${randomBytes(4).toString('hex')}`);
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
    const { faults, tallies, looks } = await reshardFaults({ ring, seed });
    expect(faults, `seed ${seed}`).toEqual([]);
    for (const { acknowledged } of tallies) expect(acknowledged).toBeGreaterThan(50);
    expect(looks).toBeGreaterThan(20);
  }, 900_000);
}
