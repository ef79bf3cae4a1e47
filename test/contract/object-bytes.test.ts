/** Object bytes against their contract, and properties of `chunked` alone. */
import { describe, expect, test } from 'vitest';
import { chunked } from '../../src/backends/data/chunked/chunked.ts';
import { memoryChunks, noopChunks } from '../../src/backends/data/memory.ts';
import type { ChunkStore } from '../../src/ports/chunk-store.ts';
import { chunkBytes, unknownSize } from '../../src/ports/object-bytes.ts';
import { contentOf, inPieces, listAll, owner, readWhole } from './chunk-store.ts';
import { fileFixture } from './file-fixture.ts';
import { objectBytesContract } from './object-bytes.ts';

objectBytesContract('memory', async () => ({
  bytes: chunked({ default: memoryChunks(), other: memoryChunks() }),
  dispose: async () => {},
}));

objectBytesContract('file', async () => {
  const [one, two] = [await fileFixture(), await fileFixture()];
  return {
    bytes: chunked({ default: one.store, other: two.store }),
    dispose: async () => void (await Promise.all([one.dispose(), two.dispose()])),
  };
});

const cluster = 'default';

/** A memory store that counts its concurrent calls, and fails for the ids that `fails` selects. */
function tap(fails: (id: string) => boolean = () => false) {
  const memory = memoryChunks();
  const seen = { writing: 0, writingMost: 0, flushing: Promise.withResolvers<void>() };
  const store: ChunkStore = {
    ...memory,
    async write(id, source, options) {
      seen.writingMost = Math.max(seen.writingMost, ++seen.writing);
      try {
        const chunk = await memory.write(id, source, options);
        if (fails(id)) throw new Error(`no ${id}`);
        return chunk;
      } finally {
        seen.writing--;
      }
    },
  };
  return { memory, seen, store };
}

describe('chunked', () => {
  test('a store with a place for each class finds every chunk of an extent by the one note', async () => {
    const places: Readonly<Record<string, ChunkStore>> = {
      STANDARD: memoryChunks(),
      GLACIER: memoryChunks(),
    };
    const placeOf = (name: string | undefined): ChunkStore => {
      const place = places[name ?? ''];
      if (!place) throw new Error(`no place for ${name}`);
      return place;
    };
    const store: ChunkStore = {
      ...memoryChunks(),
      write: async (id, source, options) => ({
        ...(await placeOf(options.storageClass).write(id, source, options)),
        at: options.storageClass ?? '',
      }),
      read: (chunk, range, options) => placeOf(chunk.at ?? chunk.lastAt).read(chunk, range, options),
      remove: async (chunks) => {
        for (const chunk of chunks) await placeOf(chunk.at ?? chunk.lastAt).remove([chunk]);
      },
    };
    const bytes = chunked({ default: store });
    for (const size of [1, chunkBytes + 1]) {
      const id = `x${size}`;
      const content = contentOf(id, size);
      const source = inPieces(content, 1 << 20);
      const extent = await bytes.write(source, { cluster, id, owner, storageClass: 'GLACIER' });
      expect(extent).toEqual({ cluster, id, size, at: 'GLACIER' });
      expect(Buffer.compare(await readWhole(bytes.read(extent)), content)).toBe(0);
      await bytes.remove([extent]);
    }
    expect(await listAll(placeOf('GLACIER'))).toEqual([]);
  });

  test('streams the next chunk while the one before is flushed, a few at most', async () => {
    const { memory, seen, store } = tap();
    const slow: ChunkStore = {
      ...store,
      async write(id, source, options) {
        const chunk = await memory.write(id, source, options);
        seen.writingMost = Math.max(seen.writingMost, ++seen.writing);
        await new Promise((resolve) => setTimeout(resolve, 20));
        seen.writing--;
        return chunk;
      },
    };
    const size = 8 * chunkBytes;
    const write = chunked({ default: slow }).write(inPieces(new Uint8Array(size), 1 << 20), {
      cluster,
      id: 'x',
      owner,
    });
    expect(await write).toEqual({ cluster, id: 'x', size });
    expect(seen.writingMost).toBeGreaterThan(1);
    expect(seen.writingMost).toBeLessThanOrEqual(4);
  });

  test.each(['x.0', 'x.1', 'x.3'])(
    'a store that fails at %s fails the write, and the rest is removed',
    async (id) => {
      const { memory, store } = tap((each) => each === id);
      const bytes = chunked({ default: store });
      const write = bytes.write(inPieces(new Uint8Array(4 * chunkBytes), 1 << 20), {
        cluster,
        id: 'x',
        owner,
      });
      await expect(write).rejects.toThrow(`no ${id}`);
      // The chunk of the failed call is still stored; removing the queued extent finds it.
      expect((await listAll(memory)).map((chunk) => chunk.id)).toEqual([id]);
      await bytes.remove([{ cluster, id: 'x', size: unknownSize }]);
      expect(await listAll(memory)).toEqual([]);
    },
  );

  test('a source that never ends is not read ahead of the store', async () => {
    let pulled = 0;
    const source = async function* () {
      for (;;) {
        pulled++;
        yield new Uint8Array(100_000);
      }
    };
    const memory = memoryChunks();
    const held = Promise.withResolvers<void>();
    const store: ChunkStore = {
      ...memory,
      async write(_id, from) {
        await from[Symbol.asyncIterator]().next();
        await held.promise;
        throw new Error('enough');
      },
    };
    const write = chunked({ default: store }).write(source(), { cluster, id: 'x', owner });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(pulled).toBeLessThanOrEqual(2);
    held.resolve();
    await expect(write).rejects.toThrow('enough');
  });

  test('finds a torn extent as one of unknown size, and can remove it', async () => {
    const memory = memoryChunks();
    const bytes = chunked({ default: memory });
    const chunk = (id: string, size: number) =>
      memory.write(id, inPieces(contentOf(id, size), 1 << 20), { owner });
    await chunk('gap.1', chunkBytes);
    await chunk('gap.2', 5);
    await chunk('short.0', chunkBytes);
    await chunk('short.1', 5);
    await chunk('short.2', chunkBytes);
    await chunk('begun.0', chunkBytes);
    const found = new Map<string, number>();
    for await (const { extent } of bytes.find(cluster, '')) {
      found.set(extent.id, extent.size);
      await bytes.remove([extent]);
    }
    expect(Object.fromEntries(found)).toEqual({ gap: unknownSize, short: unknownSize, begun: chunkBytes });
    expect(await listAll(memory)).toEqual([]);
  });

  test('over noop it accepts any bytes and returns zeros', async () => {
    const bytes = chunked({ default: noopChunks() });
    const size = chunkBytes + 17;
    const extent = await bytes.write(inPieces(contentOf('n', size), 1 << 20), {
      cluster,
      id: 'n',
      owner,
      size,
    });
    expect(extent).toEqual({ cluster, id: 'n', size });
    expect(Buffer.compare(await readWhole(bytes.read(extent)), new Uint8Array(size))).toBe(0);
    expect(await readWhole(bytes.read(extent, { start: chunkBytes - 1, end: chunkBytes }))).toHaveLength(2);
  });
});
