/** Puts listed chunks together again as the extents that they were cut from. */
import type { ChunkStore, StoredChunk } from '../../../ports/storage/chunk-store.ts';
import {
  chunkBytes,
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
} from '../../../ports/storage/object-bytes.ts';
import { chunksLeft, isAnyBefore, parseIndex } from './extent-chunks.ts';

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

interface Wanted {
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
  { cluster, prefixes, atOnce = gatheredMax }: Wanted,
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
