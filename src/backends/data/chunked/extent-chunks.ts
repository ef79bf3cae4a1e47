/** The remaining chunks of one extent: by their names where the store can look names up, else by its list. */
import type { ChunkStore, StoredChunk } from '../../../ports/storage/chunk-store.ts';
import { chunkBytes } from '../../../ports/storage/object-bytes.ts';

/** Names that are looked up together. An interrupted write leaves no larger gap, because it has fewer chunks under way. */
const namesAtOnce = 16;

/** The number of chunks for this many bytes. */
export const chunksIn = (bytes: number): number => Math.ceil(bytes / chunkBytes);

export const parseIndex = (chunkId: string): number => Number(chunkId.slice(chunkId.lastIndexOf('.') + 1));

export interface Known {
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
export async function isAnyBefore(store: ChunkStore, extentId: string, index: number): Promise<boolean> {
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
