/**
 * Joins the arrays of a large body to fewer, longer ones: hashing, the layers of a stream and the store cost a call for each array, and a
 * store that wants long pieces would copy them anyway.
 */
import type { PieceRing } from '../protocol/wire.ts';

/** Whether a body is joined. One of less than a quarter of a piece mostly arrives as one array, which is passed on as it is. */
export const isJoined = ({ pieceBytes }: PieceRing, length: number): boolean => length > pieceBytes / 4;

const nothing = new Uint8Array();

/** The piece that is being filled. Pieces are full, but for the last one. */
export class Joiner {
  readonly #ring: PieceRing;
  /** Bytes of the body after the present piece. */
  #left: number;
  /** Lent when its first byte arrives, because until then the reader may use the array that becomes free. */
  #piece: Uint8Array | undefined;
  #length = 0;
  #filled = 0;
  /** Where the bytes begin that `takeAdded` has not returned. */
  #taken = 0;

  /** @param length bytes of the body */
  constructor(ring: PieceRing, length: number) {
    this.#ring = ring;
    this.#left = length;
    this.#begin();
  }

  /** Bytes that the present piece still takes; 0 when it is complete. */
  get free(): number {
    return this.#length - this.#filled;
  }

  /** @param arrived at most `free` bytes */
  add(arrived: Uint8Array): void {
    this.#piece ??= this.#ring.next(this.#length);
    this.#piece.set(arrived, this.#filled);
    this.#filled += arrived.length;
  }

  /** What was added to the present piece since the last call. */
  takeAdded(): Uint8Array {
    const from = this.#taken;
    this.#taken = this.#filled;
    return this.#piece?.subarray(from, this.#filled) ?? nothing;
  }

  /** The complete piece, valid until the piece after the next one is begun. */
  take(): Uint8Array {
    const piece = this.#piece ?? nothing;
    this.#begin();
    return piece;
  }

  #begin(): void {
    this.#length = Math.min(this.#left, this.#ring.pieceBytes);
    this.#left -= this.#length;
    this.#piece = undefined;
    this.#filled = 0;
    this.#taken = 0;
  }
}

/** @param length bytes of the body, which `body` does not exceed */
export async function* joinPieces(
  body: AsyncIterable<Uint8Array>,
  ring: PieceRing,
  length: number,
): AsyncGenerator<Uint8Array> {
  const joiner = new Joiner(ring, length);
  for await (const arrived of body) {
    for (let at = 0; at < arrived.length; ) {
      const part = arrived.subarray(at, at + joiner.free);
      joiner.add(part);
      at += part.length;
      if (joiner.free === 0) yield joiner.take();
    }
  }
}
