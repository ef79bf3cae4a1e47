/** The metadata contract on a real PD with a TiKV-protocol store. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { orderedKvStore } from '../../src/backends/metadata/ordered-kv/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { noTikv, startTikv } from '../support/engines/tikv.ts';
import { metadataStoreContract, type Opened } from './metadata-store.ts';

const intentTtlMs = 60_000;
const random = systemRandom();

/** A store under a prefix of its own, which is as good as a fresh one; time is the test's. */
function opened(endpoints: readonly string[]): Opened {
  let now = Date.UTC(2026, 0, 1);
  let paused = false;
  const store = orderedKvStore({
    endpoints,
    prefix: `${Buffer.from(random.bytes(8)).toString('hex')}/`,
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
}

if (noTikv !== undefined) describe('metadata store: ordered-kv', () => it.skip(`(${noTikv})`, () => {}));
else {
  const engine = startTikv();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract('ordered-kv', async () => opened((await engine).endpoints), {
    runs: 10,
    patience: 5,
  });
}
