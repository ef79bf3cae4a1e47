/** Every chunk store against the contract of chunk stores. */
import { memoryChunks } from '../../src/backends/data/memory.ts';
import { chunkStoreContract } from './chunk-store.ts';
import { fileFixture } from './file-fixture.ts';

chunkStoreContract('memory', async () => ({ store: memoryChunks(), dispose: async () => {} }));
chunkStoreContract('file', () => fileFixture({ durable: false }));
chunkStoreContract('file, flushing', () => fileFixture({ durable: true }));
chunkStoreContract('file, in small segments', () =>
  fileFixture({ durable: false, segmentBytesMax: 100_000 }),
);
