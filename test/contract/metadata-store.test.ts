/** Every metadata backend that runs in this process against the contract of the metadata port. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { shardedMemory } from '../support/sharded-memory.ts';
import { metadataStoreContract, timed } from './metadata-store.ts';

const random = systemRandom();
const intentTtlMs = 60_000;

metadataStoreContract('memory', () => timed(intentTtlMs, async (time) => memoryStore({ random, ...time })), {
  alone: true,
});

metadataStoreContract(
  'memory, sharded',
  () =>
    timed(intentTtlMs, async (time) => {
      const inner = memoryStore({ random, ...time });
      // The sharded store delegates intents to its inner store.
      return shardedMemory(inner, time) as typeof inner;
    }),
  { alone: true },
);

for (const durable of [true, false]) {
  metadataStoreContract(durable ? 'embedded' : 'embedded, not flushed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'embedded.store-'));
    const opened = await timed(intentTtlMs, async (time) =>
      embeddedStore({ directory, random, durable, ...time }),
    );
    return {
      ...opened,
      async close() {
        await opened.close();
        await rm(directory, { recursive: true, force: true });
      },
    };
  });
}

metadataStoreContract('sqlite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sqlite.store-'));
  const path = join(directory, 'metadata.sqlite');
  const opened = await timed(intentTtlMs, async (time) =>
    sqliteStore(openNodeSqlite({ path, durable: false }), { random, ...time }),
  );
  return {
    ...opened,
    async close() {
      await opened.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
});
