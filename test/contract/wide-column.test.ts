/** The metadata contract on Cassandra. */
import { randomBytes } from 'node:crypto';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { metadataStoreContract } from './metadata-store.ts';

const intentTtlMs = 60_000;
const random = systemRandom();

metadataStoreContract(
  'wide-column',
  async () => {
    const keyspace = `t${randomBytes(6).toString('hex')}`;
    let now = Date.UTC(2026, 0, 1);
    let paused = false;
    const store = await wideColumnStore({
      hosts: ['127.0.0.1:9042'],
      localDc: 'dc1',
      keyspace,
      replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
      clock: { now: () => now, elapsed: () => now, sleep: async () => {} },
      random,
      intentTtlMs,
      storeClock: async () => now,
    });
    return {
      store,
      intentTtlMs,
      async pass(ms) {
        const steps = Math.ceil(ms / (intentTtlMs / 4));
        for (let step = 0; step < steps; step++) {
          now += ms / steps;
          if (!paused) await store.maintain();
        }
      },
      pause: () => {
        paused = true;
      },
      resume: () => {
        paused = false;
      },
      close: () => store.close(),
    };
  },
  { runs: 8 },
);
