/** The metadata contract on PD and TiKV, addressed by `SVC_KV_PD_ENDPOINTS`. */
import { describe, it } from 'vitest';
import { orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { metadataStoreContract } from './metadata-store.ts';

const endpoints = process.env['SVC_KV_PD_ENDPOINTS'];
const intentTtlMs = 60_000;
const random = systemRandom();

if (endpoints === undefined) describe('metadata store: ordered-kv', () => it.skip('no engine'));
else
  metadataStoreContract(
    'ordered-kv',
    async () => {
      let now = Date.UTC(2026, 0, 1);
      let paused = false;
      const clock = { now: () => now, elapsed: () => now, sleep: async () => {} };
      const store = orderedKvStore({
        endpoints: endpoints.split(','),
        prefix: `t${Buffer.from(random.bytes(6)).toString('hex')}/`,
        clock,
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
