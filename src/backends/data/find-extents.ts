/** Puts listed chunks together again as the extents that they were cut from. */
import type { ChunkStore, StoredChunk } from '../../ports/chunk-store.ts';
import {
  chunkBytes,
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
} from '../../ports/object-bytes.ts';

/** The chunks of one extent as far as they were listed. */
interface Pieces {
  readonly owner: Owner;
  count: number;
  full: number;
  size: number;
  /** The chunk with the highest index. */
  last: StoredChunk;
  lastIndex: number;
}

/**
 * Lists come in no order, so extents of several chunks are gathered until the end; an extent of one
 * chunk, which most are, is seen by its size and passed on at once.
 */
export async function* findExtents(
  store: ChunkStore,
  { cluster, prefix }: { readonly cluster: string; readonly prefix: string },
): AsyncGenerator<FoundExtent> {
  const gathered = new Map<string, Pieces>();
  for await (const chunk of store.list(prefix)) {
    const dot = chunk.id.lastIndexOf('.');
    const id = chunk.id.slice(0, dot);
    const index = Number(chunk.id.slice(dot + 1));
    if (index === 0 && chunk.size < chunkBytes) {
      yield { extent: extentOf({ cluster, id, size: chunk.size }, chunk), owner: chunk.owner };
    } else {
      add(gathered, { id, index, chunk });
    }
  }
  for (const [id, pieces] of gathered) {
    const size = isWhole(pieces) ? pieces.size : unknownSize;
    yield { extent: extentOf({ cluster, id, size }, pieces.last), owner: pieces.owner };
  }
}

function add(
  gathered: Map<string, Pieces>,
  { id, index, chunk }: { readonly id: string; readonly index: number; readonly chunk: StoredChunk },
): void {
  let pieces = gathered.get(id);
  if (!pieces) {
    pieces = { owner: chunk.owner, count: 0, full: 0, size: 0, last: chunk, lastIndex: index };
    gathered.set(id, pieces);
  }
  pieces.count++;
  pieces.size += chunk.size;
  if (chunk.size === chunkBytes) pieces.full++;
  if (index > pieces.lastIndex) {
    pieces.last = chunk;
    pieces.lastIndex = index;
  }
}

/** No gap, and nothing but the last chunk is shorter than a chunk is. */
function isWhole({ count, full, last, lastIndex }: Pieces): boolean {
  return count === lastIndex + 1 && full === (last.size === chunkBytes ? count : count - 1);
}

function extentOf(extent: Extent, { at }: StoredChunk): Extent {
  return at === undefined || extent.size === unknownSize ? extent : { ...extent, at };
}
