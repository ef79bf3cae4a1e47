/** Reads the beginning of a source of unknown length, to tell whether it is a small chunk or a large one. */
import { borrowPiece, pieceBytes, returnPiece } from './large-writer.ts';

/** The buffer that a large write needs anyway: up to here, to hold a chunk in memory costs nothing more. */
export const smallBytesMax = pieceBytes;

export type Beginning =
  | { readonly small: Uint8Array }
  /** The whole source again, its beginning included. */
  | { readonly large: AsyncIterator<Uint8Array> };

/**
 * @param use gets the beginning; what is small is valid only until `use` first awaits anything.
 */
export async function tellApart<T>(
  source: AsyncIterator<Uint8Array>,
  use: (beginning: Beginning) => Promise<T>,
): Promise<T> {
  const first = await source.next();
  if (first.done) return use({ small: new Uint8Array(0) });
  const second = await source.next();
  if (second.done && first.value.length <= smallBytesMax) return use({ small: first.value });
  if (second.done) return use({ large: again([first.value], source) });
  if (first.value.length + second.value.length > smallBytesMax) {
    return use({ large: again([first.value, second.value], source) });
  }
  const piece = borrowPiece();
  try {
    piece.set(first.value);
    piece.set(second.value, first.value.length);
    let filled = first.value.length + second.value.length;
    for (let step = await source.next(); !step.done; step = await source.next()) {
      if (filled + step.value.length > pieceBytes) {
        return await use({ large: again([piece.subarray(0, filled), step.value], source) });
      }
      piece.set(step.value, filled);
      filled += step.value.length;
    }
    return await use({ small: piece.subarray(0, filled) });
  } finally {
    returnPiece(piece);
  }
}

function again(
  beginning: readonly Uint8Array[],
  source: AsyncIterator<Uint8Array>,
): AsyncIterator<Uint8Array> {
  let turn = 0;
  return {
    async next() {
      const value = beginning[turn++];
      return value ? { done: false, value } : source.next();
    },
  };
}
