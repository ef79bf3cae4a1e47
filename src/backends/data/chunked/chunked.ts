/** Object bytes as chunks of 4 MiB in chunk stores, one store a cluster. */

import { loanedRing } from '../../../base/loaned-buffers.ts';
import { describeError } from '../../../base/text/describe-error.ts';
import type {
  BufferRing,
  ChunkPiece,
  ChunkRef,
  ChunkStore,
  StoredChunk,
} from '../../../ports/chunk-store.ts';
import {
  type ByteRange,
  ChunkDamaged,
  ChunkMissing,
  type ClusterHealth,
  chunkBytes,
  DataUnavailable,
  type Extent,
  type FoundExtent,
  type ObjectBytes,
  type Owner,
  unknownSize,
  unreachable,
} from '../../../ports/object-bytes.ts';
import type { WriteBudget } from '../write-budget.ts';
import { writeChunks } from './write-chunks.ts';

/** References handed to a store in one call. */
const removeMax = 1000;

/** @param budget bounds what all writes hold in memory together; without it only each one is bounded */
export function chunked(stores: Readonly<Record<string, ChunkStore>>, budget?: WriteBudget): ObjectBytes {
  const clusters = Object.keys(stores);

  function requireStore(cluster: string): ChunkStore {
    const store = Object.hasOwn(stores, cluster) ? stores[cluster] : undefined;
    if (!store)
      throw new DataUnavailable(`cluster ${cluster} is not configured; there are: ${clusters.join(', ')}`);
    return store;
  }

  return {
    clusters,
    pieceBytes: chunkBytes,
    marks: openMarks(stores),

    write: (source, options) =>
      writeChunks({ store: requireStore(options.cluster), budget }, source, options),

    read(extent, range = { start: 0, end: extent.size - 1 }, signal) {
      const store = requireStore(extent.cluster);
      if (extent.size < 0) throw new ChunkMissing(`extent ${extent.id} was never completed`);
      const pieces = cutPieces(extent, range);
      const only = pieces.length === 1 ? pieces[0] : undefined;
      if (only) return store.read(only.chunk, only.range, { signal });
      return store.readAcross?.(pieces, signal) ?? readAcross(store, pieces, signal);
    },

    async remove(extents) {
      for (const [cluster, group] of Map.groupBy(extents, (extent) => extent.cluster)) {
        const store = requireStore(cluster);
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
        extent.size > 0 &&
        ((await requireStore(extent.cluster).removals?.isMarked(locateLastChunk(extent))) ?? false),
      unmark: async (extent) => requireStore(extent.cluster).removals?.unmark(locateLastChunk(extent)),
    },

    find: (cluster, ...prefixes) => findExtents(requireStore(cluster), { cluster, prefixes }),

    async holdsAnything(cluster) {
      for await (const _ of requireStore(cluster).list()) return true;
      return false;
    },

    async isStored({ cluster, id, size }) {
      for await (const _ of chunksLeft(requireStore(cluster), id, { count: chunksIn(size) })) return true;
      return false;
    },

    compact: (signal) => compactAll(Object.values(stores), signal),

    health: (only) => reportHealth(stores, only),

    async close() {
      await Promise.all(Object.values(stores).map((store) => store.close()));
    },
  };
}

function openMarks(stores: Readonly<Record<string, ChunkStore>>): ObjectBytes['marks'] {
  const marks = Object.values(stores).flatMap((store) => store.marks ?? []);
  return marks.length === 0 ? undefined : marks;
}

/** A cluster that is away is left out: its health says so, and the others are compacted. */
async function compactAll(stores: readonly ChunkStore[], signal: AbortSignal): Promise<boolean> {
  let more = false;
  for (const store of stores) {
    if (signal.aborted) return true;
    try {
      if (await store.compact?.(signal)) more = true;
    } catch (cause) {
      if (!(cause instanceof DataUnavailable)) throw cause;
    }
  }
  return more;
}

function reportHealth(
  stores: Readonly<Record<string, ChunkStore>>,
  only: string | undefined,
): Promise<readonly ClusterHealth[]> {
  const reported = Object.entries(stores).filter(([cluster]) => only === undefined || cluster === only);
  return Promise.all(reported.map(checkHealth));
}

async function checkHealth([cluster, store]: readonly [string, ChunkStore]): Promise<ClusterHealth> {
  try {
    return { cluster, ...(await store.health()) };
  } catch (cause) {
    const error = describeError(cause);
    const unknown = { state: 'error', bytesUsed: 0, chunkCount: 0, error } as const;
    const pools = (store.pools ?? []).map((pool) => ({ ...pool, ...unknown }));
    return { cluster, status: unreachable, problems: [error], pools };
  }
}

function locateChunk(extent: Extent, index: number): ChunkRef {
  const id = `${extent.id}.${index}`;
  const { at } = extent;
  if (index < chunksIn(extent.size) - 1)
    return at === undefined ? { id, size: chunkBytes } : { id, size: chunkBytes, lastAt: at };
  const size = extent.size - index * chunkBytes;
  return at === undefined ? { id, size } : { id, size, at };
}

const locateLastChunk = (extent: Extent): ChunkRef => locateChunk(extent, chunksIn(extent.size) - 1);

function cutPieces(extent: Extent, { start, end }: ByteRange): ChunkPiece[] {
  const pieces: ChunkPiece[] = [];
  const last = Math.min(end, extent.size - 1);
  for (let at = start; at <= last; ) {
    const index = Math.floor(at / chunkBytes);
    const base = index * chunkBytes;
    const range = { start: at - base, end: Math.min(last - base, chunkBytes - 1) };
    pieces.push({ chunk: locateChunk(extent, index), range });
    at = base + chunkBytes;
  }
  return pieces;
}

/** The chunks of an interrupted write are looked up, because their number is unknown. */
async function* scanChunks(store: ChunkStore, extents: readonly Extent[]): AsyncGenerator<ChunkRef> {
  for (const extent of extents) {
    if (extent.size === unknownSize) yield* chunksLeft(store, extent.id);
    else for (let index = 0; index < chunksIn(extent.size); index++) yield locateChunk(extent, index);
  }
}

// Puts listed chunks together again as the extents that they were cut from.

/** The chunks of one extent that were listed so far. */
interface Pieces {
  owner: Owner;
  count: number;
  full: number;
  size: number;
  firstIndex: number;
  /** The chunk with the highest index. */
  last: StoredChunk;
  lastIndex: number;
}

/** The limit for incomplete extents of several chunks in memory: one or two KiB each. */
const gatheredMax = 10_000;
/** Beyond the limit, this many are looked up concurrently. */
const looksAtOnce = 16;

interface Requested {
  readonly cluster: string;
  readonly prefixes: readonly string[];
  /** For tests. */
  readonly atOnce?: number;
}

/**
 * Lists have no order, so an extent is yielded once all of its chunks were listed; a single chunk, the most common case, is recognised
 * by its size. Incomplete extents are yielded at the end. When the limit is exceeded, all incomplete extents are dropped from
 * memory: each is looked up by the names of its chunks, and yielded with its first chunk, so only once.
 */
export async function* findExtents(
  store: ChunkStore,
  { cluster, prefixes, atOnce = gatheredMax }: Requested,
): AsyncGenerator<FoundExtent> {
  // To a chunk store, no prefix means everything.
  if (prefixes.length === 0) return;
  const gathered = new Map<string, Pieces>();
  let hasLetGo = false;
  for await (const chunk of store.list(...prefixes)) {
    const id = chunk.id.slice(0, chunk.id.lastIndexOf('.'));
    const pieces = withChunk(gathered.get(id), chunk);
    if (isComplete(pieces)) {
      gathered.delete(id);
      yield foundAs(cluster, id, pieces);
    } else gathered.set(id, pieces);
    if (gathered.size <= atOnce) continue;
    hasLetGo = true;
    yield* lookedUp(store, cluster, gathered);
    gathered.clear();
  }
  if (hasLetGo) yield* lookedUp(store, cluster, gathered);
  else for (const [id, pieces] of gathered) yield foundAs(cluster, id, pieces);
}

function withChunk(pieces: Pieces | undefined, chunk: StoredChunk): Pieces {
  const { owner, size } = chunk;
  const index = parseIndex(chunk.id);
  const all = pieces ?? {
    owner,
    count: 0,
    full: 0,
    size: 0,
    firstIndex: index,
    last: chunk,
    lastIndex: index,
  };
  // The owner record of any one readable chunk is enough.
  if (all.owner.unreadable) all.owner = owner;
  all.count += 1;
  all.size += size;
  if (size === chunkBytes) all.full += 1;
  all.firstIndex = Math.min(all.firstIndex, index);
  if (index > all.lastIndex) {
    all.last = chunk;
    all.lastIndex = index;
  }
  return all;
}

/** Whether all of its chunks were listed: its owner record gives the number, or its only chunk is a short one. */
const isComplete = (pieces: Pieces): boolean =>
  isWhole(pieces) && (pieces.owner.size !== undefined || pieces.size < chunkBytes);

/** Whether there is no gap, only the last chunk is short, and the size is the expected one. */
function isWhole({ owner, size, count, full, last, lastIndex }: Pieces): boolean {
  if (owner.size !== undefined && owner.size !== size) return false;
  if (last.size === unknownSize) return false;
  return count === lastIndex + 1 && full === (last.size === chunkBytes ? count : count - 1);
}

function foundAs(cluster: string, id: string, pieces: Pieces): FoundExtent {
  const { owner, last, lastIndex } = pieces;
  if (!isWhole(pieces)) {
    const reach = lastIndex * chunkBytes + Math.max(1, last.size);
    return { extent: { cluster, id, size: unknownSize }, owner, reach };
  }
  const extent: Extent = { cluster, id, size: pieces.size };
  return { extent: last.at === undefined ? extent : { ...extent, at: last.at }, owner };
}

/** Extents whose first chunk is in memory, with their other chunks looked up. */
async function* lookedUp(
  store: ChunkStore,
  cluster: string,
  gathered: ReadonlyMap<string, Pieces>,
): AsyncGenerator<FoundExtent> {
  const all = [...gathered];
  for (let at = 0; at < all.length; at += looksAtOnce) {
    const some = all.slice(at, at + looksAtOnce);
    const later = await Promise.all(some.map(([id, { firstIndex }]) => isAnyBefore(store, id, firstIndex)));
    for (const [i, [id, { lastIndex, owner }]] of some.entries()) {
      if (later[i]) continue;
      const known = { count: lastIndex + 1, size: owner.size };
      let pieces: Pieces | undefined;
      for await (const chunk of chunksLeft(store, id, known)) pieces = withChunk(pieces, chunk);
      if (pieces !== undefined) yield foundAs(cluster, id, pieces);
    }
  }
}

// One stream over the pieces of several chunks; the first block of the next chunk is read ahead.

/**
 * Three: the array that the consumer has, the one before it, which is still valid, and the next one, which
 * is fetched ahead when a chunk ends.
 */
const buffersOfStream = 3;

async function* readAcross(
  store: ChunkStore,
  pieces: readonly ChunkPiece[],
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const buffers = loanedRing(buffersOfStream);
  let ahead: Begun | undefined;
  try {
    for (const [at, piece] of pieces.entries()) {
      const { iterator, first } = ahead ?? begin(store, piece, { signal, buffers });
      ahead = undefined;
      let left = piece.range.end - piece.range.start + 1;
      try {
        let step = await first;
        while (!step.done) {
          left -= step.value.length;
          const following = left === 0 ? pieces[at + 1] : undefined;
          if (following) ahead = begin(store, following, { signal, buffers });
          yield* left === 0 && !following ? buffers.last(step.value) : [step.value];
          if (left === 0) break;
          step = await iterator.next();
        }
        if (left !== 0) throw new ChunkDamaged(`chunk ${piece.chunk.id} ended ${left} bytes early`);
      } finally {
        await iterator.return?.();
      }
    }
  } finally {
    await ahead?.first.catch(() => {});
    await ahead?.iterator.return?.();
    buffers.releaseButLast();
  }
}

interface Begun {
  readonly iterator: AsyncIterator<Uint8Array>;
  readonly first: Promise<IteratorResult<Uint8Array>>;
}

function begin(
  store: ChunkStore,
  { chunk, range }: ChunkPiece,
  options: { readonly signal: AbortSignal | undefined; readonly buffers: BufferRing },
): Begun {
  const iterator = store.read(chunk, range, options)[Symbol.asyncIterator]();
  const first = iterator.next();
  // Awaited in its turn; a consumer that is slow to ask must not make a failure an unhandled one.
  first.catch(() => {});
  return { iterator, first };
}

// The remaining chunks of one extent: by their names where the store can look names up, else by its list.

/** Names that are looked up together. An interrupted write leaves no larger gap, because it has fewer chunks under way. */
const namesAtOnce = 16;

/** The number of chunks for this many bytes. */
const chunksIn = (bytes: number): number => Math.ceil(bytes / chunkBytes);

const parseIndex = (chunkId: string): number => Number(chunkId.slice(chunkId.lastIndexOf('.') + 1));

interface Known {
  /** The largest possible number; chunks in between may be missing. */
  readonly count?: number;
  /** The size that the extent was to have: no chunk is beyond it. */
  readonly size?: number | undefined;
}

/**
 * The last chunks first, so that an interrupted removal leaves the beginning. Where their number is unknown, and no owner record that
 * is read tells it, chunks are searched until a gap of `namesAtOnce`.
 */
export async function* chunksLeft(
  store: ChunkStore,
  extentId: string,
  { count = 0, size }: Known = {},
): AsyncGenerator<StoredChunk> {
  if (store.named === undefined) {
    for await (const chunk of store.list(`${extentId}.`)) {
      if (chunk.id.lastIndexOf('.') === extentId.length) yield chunk;
    }
    return;
  }
  const chunks: StoredChunk[] = [];
  let whole = size;
  let isOver = false;
  for (let from = 0; !isOver; from += namesAtOnce) {
    const end = Math.max(count, chunksIn(whole ?? 0));
    const names = Math.min(namesAtOnce, whole === undefined ? namesAtOnce : end - from);
    const found = await store.named(Array.from({ length: names }, (_, i) => `${extentId}.${from + i}`));
    chunks.push(...found);
    whole ??= found.find(({ owner }) => owner.size !== undefined)?.owner.size;
    const isPast = from + namesAtOnce >= Math.max(count, chunksIn(whole ?? 0));
    isOver = isPast && (whole !== undefined || found.length === 0);
  }
  yield* chunks.reverse();
}

/** Whether there is a chunk of the extent before this one. */
async function isAnyBefore(store: ChunkStore, extentId: string, index: number): Promise<boolean> {
  if (store.named === undefined) {
    for await (const { id } of chunksLeft(store, extentId)) if (parseIndex(id) < index) return true;
    return false;
  }
  // For a complete extent the first look-up succeeds.
  for (let before = index - 1; before >= 0; before -= 1) {
    if ((await store.named([`${extentId}.${before}`])).length > 0) return true;
  }
  return false;
}
