/** A walk over a cluster reports every extent once, with bounded memory. */
import { expect, test } from 'vitest';
import { findExtents } from '../../src/backends/data/chunked/chunked.ts';
import { memoryChunks } from '../../src/backends/data/memory.ts';
import type { ChunkStore, StoredChunk } from '../../src/ports/chunk-store.ts';
import { chunkBytes, type FoundExtent, unknownSize } from '../../src/ports/object-bytes.ts';
import { faulty } from '../support/faulty.ts';

const cluster = 'a';
const atOnce = 100;

/** A store that lists the given chunks in the given order and holds no bytes. */
function listed(chunks: readonly StoredChunk[], { byName = true } = {}): ChunkStore {
  const byId = new Map(chunks.map((chunk) => [chunk.id, chunk]));
  const { named: _, ...store } = memoryChunks();
  return {
    ...store,
    async *list(...prefixes) {
      for (const chunk of chunks) {
        if (prefixes.length === 0 || prefixes.some((prefix) => chunk.id.startsWith(prefix))) yield chunk;
      }
    },
    ...(byName ? { named: async (ids) => ids.flatMap((id) => byId.get(id) ?? []) } : {}),
  };
}

const ownerOf = (key: string, size: number) => ({ bucketId: 'b', key, size });

/** The chunks of an extent of `count` chunks; the last one has 5 bytes. */
function chunksOf(id: string, count: number): StoredChunk[] {
  const size = (count - 1) * chunkBytes + 5;
  return Array.from({ length: count }, (_, i) => ({
    id: `${id}.${i}`,
    size: i === count - 1 ? 5 : chunkBytes,
    at: '1',
    owner: ownerOf(id, size),
  }));
}

async function found(store: ChunkStore): Promise<FoundExtent[]> {
  const all: FoundExtent[] = [];
  for await (const each of findExtents(store, { cluster, prefixes: [''], atOnce })) all.push(each);
  return all.sort((a, b) => (a.extent.id < b.extent.id ? -1 : 1));
}

/** The same chunks in the order that keeps the most extents incomplete for the longest time. */
const scattered = (extents: readonly (readonly StoredChunk[])[]): StoredChunk[] =>
  Array.from({ length: Math.max(...extents.map(({ length }) => length)) }, (_, at) =>
    extents.flatMap((chunks) => (at < chunks.length ? (chunks[(at * 7 + 3) % chunks.length] ?? []) : [])),
  ).flat();

test('of a hundred times as many extents as it may hold each is found once, and whole', async () => {
  const extents = Array.from({ length: 100 * atOnce }, (_, n) => chunksOf(`e${n}`, 4));
  const all = await found(listed(scattered(extents)));
  expect(all).toHaveLength(extents.length);
  expect(new Set(all.map(({ extent }) => extent.id)).size).toBe(extents.length);
  const size = 3 * chunkBytes + 5;
  for (const { extent, reach } of all)
    expect([extent.size, extent.at, reach]).toEqual([size, '1', undefined]);
});

test('memory stays within its limit, in any order of the list', async () => {
  const extents = Array.from({ length: 20 * atOnce }, (_, n) => chunksOf(`e${n}`, 3));
  const held = new Set<string>();
  let most = 0;
  const store = listed(scattered(extents));
  const counting = faulty(store, {
    list: async function* () {
      for await (const chunk of store.list()) {
        held.add(chunk.id.split('.')[0] ?? '');
        most = Math.max(most, held.size);
        yield chunk;
      }
    },
    // The walk forgets an extent after it has looked it up.
    named: async (ids) => {
      for (const id of ids) held.delete(id.split('.')[0] ?? '');
      return (await store.named?.(ids)) ?? [];
    },
  });
  for await (const { extent } of findExtents(counting, { cluster, prefixes: [''], atOnce }))
    held.delete(extent.id);
  expect(most).toBeLessThanOrEqual(atOnce + 1);
});

test('a look-up by name costs two requests for each chunk at most', async () => {
  const extents = Array.from({ length: 20 * atOnce }, (_, n) =>
    chunksOf(`e${n}`, [1, 2, 3, 5, 20, 39][n % 6] ?? 1),
  );
  const store = listed(scattered(extents));
  let asked = 0;
  const counting = faulty(store, {
    named: async (ids) => {
      asked += ids.length;
      return (await store.named?.(ids)) ?? [];
    },
  });
  expect(await found(counting)).toHaveLength(extents.length);
  expect(asked).toBeLessThan(2 * extents.flat().length);
  expect(asked).toBeGreaterThan(0);
});

test('a complete extent is yielded immediately', async () => {
  const store = listed([...chunksOf('whole', 3), ...chunksOf('torn', 3).slice(1), ...chunksOf('after', 1)]);
  const order: string[] = [];
  for await (const { extent } of findExtents(store, { cluster, prefixes: [''] })) order.push(extent.id);
  expect(order).toEqual(['whole', 'after', 'torn']);
});

/** The chunks of 40 that are left, and the size that they prove. */
const torn = {
  'without its first': { left: (i: number) => i > 0, reach: 39 * chunkBytes + 5 },
  'without its first twenty': { left: (i: number) => i >= 20, reach: 39 * chunkBytes + 5 },
  'with a hole': { left: (i: number) => i !== 7, reach: 39 * chunkBytes + 5 },
  'with a wide hole': { left: (i: number) => i < 3 || i > 30, reach: 39 * chunkBytes + 5 },
  'without its last': { left: (i: number) => i < 39, reach: 39 * chunkBytes },
  'of which the first is left': { left: (i: number) => i === 0, reach: chunkBytes },
};

for (const [name, { left, reach }] of Object.entries(torn)) {
  for (const byName of [true, false]) {
    test(`an extent ${name} is found once, as torn, alone and among many${byName ? '' : ', by lists'}`, async () => {
      const pieces = chunksOf('torn', 40).filter((_, i) => left(i));
      const others = Array.from({ length: 3 * atOnce }, (_, n) => chunksOf(`e${n}`, 3));
      const expected = {
        extent: { cluster, id: 'torn', size: unknownSize },
        owner: ownerOf('torn', 39 * chunkBytes + 5),
        reach,
      };
      expect(await found(listed(pieces, { byName }))).toEqual([expected]);
      const all = await found(listed(scattered([pieces, ...others]), { byName }));
      expect(all.filter(({ extent }) => extent.id === 'torn')).toEqual([expected]);
      expect(all).toHaveLength(others.length + 1);
    });
  }
}
