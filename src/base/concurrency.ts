/**
 * Bounded parallelism. After a failure no further item begins, and the failure is thrown once those that run have ended: nothing goes on
 * after the request is answered, or while the caller repeats it.
 */
export async function inParallel<T, R>(
  limit: number,
  items: readonly T[],
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  const failures: unknown[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const index = next++;
      try {
        results[index] = await work(items[index] as T, index);
      } catch (cause) {
        failures.push(cause);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return results;
}

/** Runs `work` for every item. Unlike `inParallel`, a failure stops no other item: the first one is thrown when all have ended. */
export async function attemptEach<T>(
  limit: number,
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = [];
  await inParallel(limit, items, async (item) => {
    try {
      await work(item);
    } catch (cause) {
      failures.push(cause);
    }
  });
  if (failures.length > 0) throw failures[0];
}

/** The results of `work`, each as soon as it has ended, at most `limit` at a time. `work` does not throw. */
export async function* asTheyEnd<T, R>(
  limit: number,
  items: readonly T[],
  work: (item: T, index: number) => Promise<R>,
): AsyncIterable<R> {
  const running = new Map<number, Promise<{ readonly index: number; readonly result: R }>>();
  let next = 0;
  try {
    while (next < items.length || running.size > 0) {
      while (next < items.length && running.size < limit) {
        const index = next++;
        running.set(
          index,
          work(items[index] as T, index).then((result) => ({ index, result })),
        );
      }
      const { index, result } = await Promise.race(running.values());
      running.delete(index);
      yield result;
    }
  } finally {
    await Promise.allSettled(running.values());
  }
}

interface GatherOptions {
  /** The length that the stream must have. */
  readonly size?: number | undefined;
  /** The length that it may have, and the error for a longer one. */
  readonly max?: number;
  readonly tooLong?: () => Error;
  readonly signal?: AbortSignal | undefined;
}

/** Reads a whole stream of bytes into a new array. @throws what `tooLong` returns; Error for a stream whose length is not `size` */
export async function gather(
  source: AsyncIterable<Uint8Array>,
  {
    size,
    max = size,
    tooLong = () => new Error(`a source of ${size} bytes gave more`),
    signal,
  }: GatherOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  let bytes = new Uint8Array(size ?? 0);
  let length = 0;
  for await (const piece of source) {
    signal?.throwIfAborted();
    if (max !== undefined && length + piece.length > max) throw tooLong();
    if (length + piece.length > bytes.length) bytes = grown(bytes, length + piece.length);
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
