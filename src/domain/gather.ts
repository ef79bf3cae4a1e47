/** A stream of bytes read whole, up to a bound. */

/** @param tooLong what is thrown once more than `max` bytes have come */
export async function gather(
  source: AsyncIterable<Uint8Array>,
  { max, tooLong }: { readonly max: number; readonly tooLong: () => Error },
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of source) {
    size += piece.length;
    if (size > max) throw tooLong();
    // A stream may use its arrays again; `slice` gives a view where they are Buffers.
    pieces.push(new Uint8Array(piece));
  }
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
