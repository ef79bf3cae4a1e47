/** What readers have in memory together: many slow ones get less each. */
import { blockBytes } from '../record.ts';

const pieceBytesMax = 16 * blockBytes;
/** A stream has the array that its reader looks at, the one before it, and what is read ahead. */
const heldBeside = 2;

export class ReadBudget {
  readonly #bytesMax: number;
  readonly #aheadBytes: number;
  #streams = 0;

  /** @param options.aheadBytes the most that one stream reads before it is asked for */
  constructor(options: { readonly bytesMax: number; readonly aheadBytes: number }) {
    this.#bytesMax = options.bytesMax;
    this.#aheadBytes = options.aheadBytes;
  }

  enter(): void {
    this.#streams += 1;
  }

  leave(): void {
    this.#streams -= 1;
  }

  /** What one read of a stream asks for: whole blocks. */
  get pieceBytes(): number {
    const share = this.#bytesMax / Math.max(1, this.#streams) / (heldBeside + 2);
    const wanted = Math.min(share, this.#aheadBytes, pieceBytesMax);
    return Math.max(blockBytes, wanted - (wanted % blockBytes));
  }

  /** Reads of that size under way or waiting to be asked for; without any a stream would stand still. */
  get piecesAhead(): number {
    const share = this.#bytesMax / Math.max(1, this.#streams) / this.pieceBytes - heldBeside;
    return Math.max(1, Math.floor(Math.min(share, this.#aheadBytes / this.pieceBytes)));
  }
}

export { pieceBytesMax };
