/** Reads the stored bytes of a version or part from a position, as far as a budget allows. */
import type { Context } from '../../../context.ts';
import { ChunkMissing, type Extent } from '../../../ports/storage/object-bytes.ts';
import { type ReadFault, readFault } from '../fsck/compare/extent-faults.ts';
import type { ScrubBudget } from './budget.ts';

/** A multiple of the blocks of every store, so that no block is read twice. */
const stepBytes = 1024 * 1024;
/** For a store whose every request costs money. */
const requestBytes = 16 * 1024 * 1024;

/** `read`: the position that was reached; `next`: the beginning of the chunk after a fault. */
export type ReadOn =
  | { readonly ended: 'whole'; readonly read: number }
  | { readonly ended: 'budget'; readonly read: number }
  | {
      readonly ended: 'fault';
      readonly read: number;
      readonly next: number;
      readonly fault: ReadFault;
      readonly extent: Extent;
    };

export interface ReadOnOptions {
  readonly from: number;
  readonly budget: ScrubBudget;
  readonly signal: AbortSignal;
  /** Gets the bytes in order; an array is valid during the call only. */
  readonly take?: (bytes: Uint8Array) => void;
  /** Called for each chunk that was read to its end. */
  readonly onChunk: () => void;
  readonly onBytes: (count: number) => void;
}

export async function readOn(
  { bytes }: Pick<Context, 'bytes'>,
  extents: AsyncIterable<Extent>,
  { from, budget, signal, take, onChunk, onBytes }: ReadOnOptions,
): Promise<ReadOn> {
  const { pieceBytes } = bytes;
  const step = Number.isFinite(pieceBytes) ? Math.min(stepBytes, pieceBytes) : requestBytes;
  const chunkEnd = (at: number, size: number): number =>
    Number.isFinite(pieceBytes) ? Math.min(size, (Math.floor(at / pieceBytes) + 1) * pieceBytes) : size;
  let begin = 0;
  for await (const extent of extents) {
    for (let at = Math.max(0, from - begin); at < extent.size; ) {
      signal.throwIfAborted();
      if (budget.isSpent) return { ended: 'budget', read: begin + at };
      const endOfChunk = chunkEnd(at, extent.size);
      const end = Math.min(endOfChunk, at + step);
      budget.read(end - at);
      try {
        let got = 0;
        for await (const piece of bytes.read(extent, { start: at, end: end - 1 }, signal)) {
          got += piece.length;
          take?.(piece);
        }
        if (got !== end - at) throw new ChunkMissing(`extent ${extent.id} ends before byte ${end - 1}`);
        onBytes(got);
      } catch (cause) {
        if (signal.aborted) throw cause;
        const fault = readFault(cause);
        return { ended: 'fault', read: begin + at, next: begin + endOfChunk, fault, extent };
      }
      if (end === endOfChunk) onChunk();
      at = end;
    }
    begin += extent.size;
  }
  return { ended: 'whole', read: begin };
}
