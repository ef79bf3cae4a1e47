/** Each metadata backend that runs in this process is a line here; the contract says what it must keep. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { memoryStore } from '../../src/backends/metadata/memory/store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { metadataStoreContract, type Opened } from './metadata-store.ts';

const intentTtlMs = 60_000;

/** A clock that moves when a law lets time pass; the store is maintained meanwhile, as its timer would. */
function opened(
  open: (clock: Clock) => MetadataStore & { maintain(): Promise<void> },
  cleanUp: () => Promise<void>,
): Opened {
  let now = Date.UTC(2026, 0, 1);
  let paused = false;
  const store = open({ now: () => now, elapsed: () => now, sleep: async () => {} });
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
    async close() {
      await store.close();
      await cleanUp();
    },
  };
}

const random = systemRandom();

metadataStoreContract('memory', async () =>
  opened(
    (clock) => memoryStore({ clock, random, intentTtlMs }),
    async () => {},
  ),
);

for (const durable of [true, false]) {
  metadataStoreContract(durable ? 'embedded' : 'embedded, not flushed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'embedded.store-'));
    return opened(
      (clock) => embeddedStore({ directory, clock, random, durable, intentTtlMs }),
      () => rm(directory, { recursive: true, force: true }),
    );
  });
}
