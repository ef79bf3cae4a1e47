/** Turns a source into one array of its own, refusing a length other than the one announced. */

export async function gather(
  source: AsyncIterable<Uint8Array>,
  { size, signal }: { readonly size?: number | undefined; readonly signal?: AbortSignal | undefined },
): Promise<Uint8Array<ArrayBuffer>> {
  let bytes = new Uint8Array(size ?? 0);
  let length = 0;
  for await (const piece of source) {
    signal?.throwIfAborted();
    if (length + piece.length > bytes.length) {
      if (size !== undefined) throw new Error(`a source of ${size} bytes gave more`);
      bytes = grown(bytes, length + piece.length);
    }
    bytes.set(piece, length);
    length += piece.length;
  }
  signal?.throwIfAborted();
  if (size !== undefined && length !== size) throw new Error(`a source of ${size} bytes gave ${length}`);
  return length === bytes.length ? bytes : bytes.slice(0, length);
}

function grown(bytes: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.max(length, 2 * bytes.length));
  larger.set(bytes);
  return larger;
}
