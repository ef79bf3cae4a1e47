/** The metadata contract on a real Cassandra. */
import { afterAll, beforeAll, describe, it } from 'vitest';
import { wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { emptyKeyspace, noCassandra, startCassandra } from '../support/engines/cassandra.ts';
import { metadataStoreContract, type Opened } from './metadata-store.ts';

const intentTtlMs = 60_000;
const random = systemRandom();
const keyspace = 'contract';

/** Time is the test's. */
async function opened(hosts: readonly string[]): Promise<Opened> {
  await emptyKeyspace(hosts, keyspace);
  let now = Date.UTC(2026, 0, 1);
  let paused = false;
  const store = await wideColumnStore({
    hosts,
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
}

if (noCassandra !== undefined)
  describe('metadata store: wide-column', () => it.skip(`(${noCassandra})`, () => {}));
else {
  const engine = startCassandra();
  beforeAll(() => engine);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());
  metadataStoreContract('wide-column', async () => opened((await engine).hosts), { runs: 2, patience: 10 });
}
