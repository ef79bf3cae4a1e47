/** Object bytes as chunks of 4 MiB in chunk stores, one store a cluster. */
import type { ChunkPiece, ChunkRef, ChunkStore } from '../../../ports/storage/chunk-store.ts';
import {
  type ByteRange,
  ChunkMissing,
  type ClusterHealth,
  chunkBytes,
  DataUnavailable,
  type Extent,
  type ObjectBytes,
  unknownSize,
  unreachable,
} from '../../../ports/storage/object-bytes.ts';
import { chunksIn, chunksLeft } from './extent-chunks.ts';
import { findExtents } from './find-extents.ts';
import { readAcross } from './read-across.ts';
import type { WriteBudget } from './write-budget.ts';
import { writeChunks } from './write-chunks.ts';

/** References handed to a store in one call. */
const removeMax = 1000;

/** @param budget bounds what all writes hold in memory together; without it only each one is bounded */
export function chunked(stores: Readonly<Record<string, ChunkStore>>, budget?: WriteBudget): ObjectBytes {
  const clusters = Object.keys(stores);

  function storeOf(cluster: string): ChunkStore {
    const store = Object.hasOwn(stores, cluster) ? stores[cluster] : undefined;
    if (!store)
      throw new DataUnavailable(`cluster ${cluster} is not configured; there are: ${clusters.join(', ')}`);
    return store;
  }

  return {
    clusters,
    pieceBytes: chunkBytes,
    marks: openMarks(stores),

    write: (source, options) => writeChunks({ store: storeOf(options.cluster), budget }, source, options),

    read(extent, range = { start: 0, end: extent.size - 1 }, signal) {
      const store = storeOf(extent.cluster);
      if (extent.size < 0) throw new ChunkMissing(`extent ${extent.id} was never completed`);
      const pieces = cutPieces(extent, range);
      const only = pieces.length === 1 ? pieces[0] : undefined;
      if (only) return store.read(only.chunk, only.range, { signal });
      return store.readAcross?.(pieces, signal) ?? readAcross(store, pieces, signal);
    },

    async remove(extents) {
      for (const [cluster, group] of Map.groupBy(extents, (extent) => extent.cluster)) {
        const store = storeOf(cluster);
        let batch: ChunkRef[] = [];
        for await (const chunk of scanChunks(store, group)) {
          batch.push(chunk);
          if (batch.length < removeMax) continue;
          await store.remove(batch);
          batch = [];
        }
        if (batch.length > 0) await store.remove(batch);
      }
    },

    // Only the last chunk of an extent may be small.
    removals: {
      isMarked: async (extent) =>
        extent.size > 0 && ((await storeOf(extent.cluster).removals?.isMarked(lastChunkOf(extent))) ?? false),
      unmark: async (extent) => storeOf(extent.cluster).removals?.unmark(lastChunkOf(extent)),
    },

    find: (cluster, ...prefixes) => findExtents(storeOf(cluster), { cluster, prefixes }),

    async holdsAnything(cluster) {
      for await (const _ of storeOf(cluster).list()) return true;
      return false;
    },

    async isStored({ cluster, id, size }) {
      for await (const _ of chunksLeft(storeOf(cluster), id, { count: chunksIn(size) })) return true;
      return false;
    },

    compact: (signal) => compactAll(Object.values(stores), signal),

    health: () => Promise.all(Object.entries(stores).map(checkHealth)),

    async close() {
      await Promise.all(Object.values(stores).map((store) => store.close()));
    },
  };
}

function openMarks(stores: Readonly<Record<string, ChunkStore>>): ObjectBytes['marks'] {
  const marks = Object.values(stores).flatMap((store) => store.marks ?? []);
  return marks.length === 0 ? undefined : marks;
}

async function compactAll(stores: readonly ChunkStore[], signal: AbortSignal): Promise<boolean> {
  let more = false;
  for (const store of stores) {
    if (signal.aborted) return true;
    if (await store.compact?.(signal)) more = true;
  }
  return more;
}

async function checkHealth([cluster, store]: readonly [string, ChunkStore]): Promise<ClusterHealth> {
  try {
    return { cluster, ...(await store.health()) };
  } catch (cause) {
    const error = cause instanceof Error ? cause.message : String(cause);
    const unknown = { state: 'error', bytesUsed: 0, chunkCount: 0, error } as const;
    const pools = (store.pools ?? []).map((pool) => ({ ...pool, ...unknown }));
    return { cluster, status: unreachable, complaints: [error], pools };
  }
}

function chunkOf(extent: Extent, index: number): ChunkRef {
  const id = `${extent.id}.${index}`;
  const { at } = extent;
  if (index < chunksIn(extent.size) - 1)
    return at === undefined ? { id, size: chunkBytes } : { id, size: chunkBytes, lastAt: at };
  const size = extent.size - index * chunkBytes;
  return at === undefined ? { id, size } : { id, size, at };
}

const lastChunkOf = (extent: Extent): ChunkRef => chunkOf(extent, chunksIn(extent.size) - 1);

function cutPieces(extent: Extent, { start, end }: ByteRange): ChunkPiece[] {
  const pieces: ChunkPiece[] = [];
  const last = Math.min(end, extent.size - 1);
  for (let at = start; at <= last; ) {
    const index = Math.floor(at / chunkBytes);
    const base = index * chunkBytes;
    const range = { start: at - base, end: Math.min(last - base, chunkBytes - 1) };
    pieces.push({ chunk: chunkOf(extent, index), range });
    at = base + chunkBytes;
  }
  return pieces;
}

/** The chunks of an interrupted write are looked up, because their number is unknown. */
async function* scanChunks(store: ChunkStore, extents: readonly Extent[]): AsyncGenerator<ChunkRef> {
  for (const extent of extents) {
    if (extent.size === unknownSize) yield* chunksLeft(store, extent.id);
    else for (let index = 0; index < chunksIn(extent.size); index++) yield chunkOf(extent, index);
  }
}
