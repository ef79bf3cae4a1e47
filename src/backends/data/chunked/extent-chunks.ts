/** The chunks of one extent, however few are left of it: by their names where the store knows those, else by its list. */
import type { ChunkStore, StoredChunk } from '../../../ports/storage/chunk-store.ts';
import { chunkBytes } from '../../../ports/storage/object-bytes.ts';

/** Names that are read together. A torn write leaves no gap wider than what is written at once, which is less. */
const namesAtOnce = 16;

/** How many chunks hold so many bytes. */
export const chunksIn = (bytes: number): number => Math.ceil(bytes / chunkBytes);

export const indexOf = (chunkId: string): number => Number(chunkId.slice(chunkId.lastIndexOf('.') + 1));

export interface Known {
  /** There may be so many, whatever is missing between them. */
  readonly count?: number;
  /** What the extent was to hold: there is nothing beyond. */
  readonly size?: number | undefined;
}

/**
 * The last ones first, so that a removal which is cut short leaves a beginning. Where their number is unknown, and no
 * owner that is met says it, they are found up to a gap of `namesAtOnce`.
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
    for await (const { id } of chunksLeft(store, extentId)) if (indexOf(id) < index) return true;
    return false;
  }
  // Of an extent that is whole the first look finds one.
  for (let before = index - 1; before >= 0; before -= 1) {
    if ((await store.named([`${extentId}.${before}`])).length > 0) return true;
  }
  return false;
}
