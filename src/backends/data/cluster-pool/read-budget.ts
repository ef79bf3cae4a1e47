/**
 * Limits the memory of all readers together: with many slow ones each gets less. Every array counts from before it is read until no
 * reader uses it any more, so that slow streams that came first do not hold more than the budget.
 */
import { blockBytes } from '../chunked/record.ts';

const pieceBytesMax = 16 * blockBytes;
/** A stream has the array that its reader uses, the one before it, and what is read ahead. */
const arraysPerStream = 4;

export class ReadBudget {
  readonly #bytesMax: number;
  readonly #aheadBytes: number;
  #streams = 0;
  #taken = 0;

  /** @param options.aheadBytes the most that one stream reads before its reader requests it */
  constructor(options: { readonly bytesMax: number; readonly aheadBytes: number }) {
    this.#bytesMax = options.bytesMax;
    this.#aheadBytes = options.aheadBytes;
  }

  /** Bytes that are held now. */
  get taken(): number {
    return this.#taken;
  }

  enter(): StreamMemory {
    this.#streams += 1;
    let reserved = 0;
    return {
      nextBytes: (aheadBytes) => this.#nextBytes({ reserved, aheadBytes }),
      take: (bytes) => {
        reserved += bytes;
        this.#taken += bytes;
      },
      give: (bytes) => {
        reserved -= bytes;
        this.#taken -= bytes;
      },
      leave: () => {
        this.#streams -= 1;
        this.#taken -= reserved;
        reserved = 0;
      },
    };
  }

  #nextBytes({ reserved, aheadBytes }: { readonly reserved: number; readonly aheadBytes: number }): number {
    const free = Math.max(0, this.#bytesMax - this.#taken);
    const share = this.#bytesMax / Math.max(1, this.#streams);
    const requested = powerOfBlocks(
      Math.min(share / arraysPerStream, free / arraysPerStream, this.#aheadBytes),
    );
    // A stream without any read under way would not progress: it gets a block in any case.
    if (aheadBytes === 0) return requested;
    return requested <= free && reserved + requested <= share && aheadBytes + requested <= this.#aheadBytes
      ? requested
      : 0;
  }
}

/** The memory of one stream. */
export interface StreamMemory {
  /**
   * How much the stream may read next: a block or more; 0 where it has enough.
   * @param aheadBytes bytes that were read, or are being read, and were not requested yet
   */
  nextBytes(aheadBytes: number): number;
  take(bytes: number): void;
  give(bytes: number): void;
  /** Releases everything that the stream still holds. */
  leave(): void;
}

/** The largest buffer of `readBuffers` that is no larger; a block at least. */
function powerOfBlocks(bytes: number): number {
  let size = blockBytes;
  while (size * 2 <= Math.min(bytes, pieceBytesMax)) size *= 2;
  return size;
}

export { pieceBytesMax };
