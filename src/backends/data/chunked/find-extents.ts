/** Puts listed chunks together again as the extents that they were cut from. */
import type { ChunkStore, StoredChunk } from '../../../ports/storage/chunk-store.ts';
import {
  chunkBytes,
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
} from '../../../ports/storage/object-bytes.ts';
import { chunksLeft, indexOf, isAnyBefore } from './extent-chunks.ts';

/** The chunks of one extent as far as they were listed. */
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

/** Extents of several chunks that are put together at once, of which not all has come yet: a KiB or two each. */
const gatheredMax = 10_000;
/** Where there are too many, so many are processed together. */
const looksAtOnce = 16;

interface Wanted {
  readonly cluster: string;
  readonly prefixes: readonly string[];
  /** For tests. */
  readonly atOnce?: number;
}

/**
 * Lists come in no order, so an extent is passed on when all of it has come; one of a single chunk, which most are, is
 * seen by its size. What is not whole is passed on at the end. Where more are begun than may be held, all that are
 * begun are let go: each is looked up by the names of its chunks, and passed on with its first chunk, so only once.
 */
export async function* findExtents(
  store: ChunkStore,
  { cluster, prefixes, atOnce = gatheredMax }: Wanted,
): AsyncGenerator<FoundExtent> {
  // To a chunk store no prefix means everything.
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
  const index = indexOf(chunk.id);
  const all = pieces ?? {
    owner,
    count: 0,
    full: 0,
    size: 0,
    firstIndex: index,
    last: chunk,
    lastIndex: index,
  };
  // One of its chunks that can be read is enough to know whose it is.
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

/** Nothing of it is still to come: its owner says so, or its only chunk, which is a shorter one. */
const isComplete = (pieces: Pieces): boolean =>
  isWhole(pieces) && (pieces.owner.size !== undefined || pieces.size < chunkBytes);

/** No gap, nothing but the last chunk is shorter than a chunk is, and as much as was to come. */
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

/** Those whose first chunk is among what was gathered, with whatever else there is of them. */
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
