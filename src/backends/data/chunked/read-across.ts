/** One stream over the pieces of several chunks; the first block of the next chunk is read ahead. */
import type { BufferRing, ChunkPiece, ChunkStore } from '../../../ports/storage/chunk-store.ts';
import { ChunkDamaged } from '../../../ports/storage/object-bytes.ts';
import { lentRing } from './buffers.ts';

/**
 * Three: the array that the consumer has, the one before it, which is still valid, and the next one, which
 * is fetched ahead when a chunk ends.
 */
const buffersOfStream = 3;

export async function* readAcross(
  store: ChunkStore,
  pieces: readonly ChunkPiece[],
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const buffers = lentRing(buffersOfStream);
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
          yield step.value;
          if (left === 0) break;
          step = await iterator.next();
        }
        if (left !== 0) throw new ChunkDamaged(`chunk ${piece.chunk.id} ended ${left} bytes early`);
      } finally {
        await iterator.return?.();
      }
    }
  } finally {
    await abandon(ahead);
    buffers.release();
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

async function abandon(ahead: Begun | undefined): Promise<void> {
  if (!ahead) return;
  await ahead.first.catch(() => {});
  await ahead.iterator.return?.();
}
