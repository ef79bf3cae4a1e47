/**
 * Cuts a source into chunks without copying: each chunk's write pulls its own part of the source, and
 * while the store flushes one chunk the next one is already streaming.
 */
import type { ChunkRef, ChunkStore } from '../../../ports/chunk-store.ts';
import { chunkBytes, type Extent, type WriteOptions } from '../../../ports/object-bytes.ts';
import type { Share, WriteBudget } from '../write-budget.ts';

/** Chunks of one source that are being flushed while another one streams. */
const flushingMax = 3;

interface Target {
  readonly store: ChunkStore;
  readonly budget: WriteBudget | undefined;
}

export async function writeChunks(
  target: Target,
  source: AsyncIterable<Uint8Array>,
  options: WriteOptions,
): Promise<Extent> {
  const input = new Cutter(source[Symbol.asyncIterator]());
  const only = await input.only();
  return only === undefined ? writeMany(target, input, options) : writeOnly(target, only, options);
}

/** Most contents are one array, which is in memory already: they go the straight way. */
async function writeOnly(
  { store, budget }: Target,
  bytes: Uint8Array,
  { cluster, id, owner, storageClass, size, signal }: WriteOptions,
): Promise<Extent> {
  signal?.throwIfAborted();
  const { length } = bytes;
  if (size !== undefined && length !== size) throw new Error(`a source of ${size} bytes gave ${length}`);
  const reserved = budget?.pass(length);
  try {
    const { small } = store;
    const { at } = await (small !== undefined && length <= small.bytesMax
      ? small.write(`${id}.0`, bytes, owner)
      : store.write(`${id}.0`, new OneArray(bytes), {
          owner,
          storageClass,
          size: length,
          ...(signal && { signal }),
        }));
    return at === undefined ? { cluster, id, size: length } : { cluster, id, size: length, at };
  } finally {
    if (reserved !== undefined) budget?.give(reserved);
  }
}

class OneArray implements AsyncIterableIterator<Uint8Array> {
  #bytes: Uint8Array | undefined;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const value = this.#bytes;
    this.#bytes = undefined;
    return Promise.resolve(value === undefined ? over : { done: false, value });
  }
}

const over: IteratorReturnResult<undefined> = { done: true, value: undefined };

async function writeMany(
  { store, budget }: Target,
  input: Cutter,
  { account, cluster, id, owner, storageClass, size, signal }: WriteOptions,
): Promise<Extent> {
  const written: ChunkRef[] = [];
  const flushing = new Set<Promise<void>>();
  const outcome: { failure?: { readonly cause: unknown } } = {};

  const write = async (index: number): Promise<void> => {
    const { isWhole } = input;
    const expected = isWhole
      ? input.bufferedBytes
      : size === undefined
        ? undefined
        : Math.min(chunkBytes, size - index * chunkBytes);
    const options = {
      owner,
      storageClass,
      ...(expected === undefined ? {} : { size: expected }),
      ...(signal && { signal }),
    };
    const share = budget?.open(expected, { bufferedMax: store.bufferedBytesMax, account });
    const cut = input.cut(share, signal);
    try {
      if (isWhole) share?.pass();
      else await share?.take(signal);
      written[index] = await store.write(`${id}.${index}`, cut, {
        ...options,
        ...(share && { memory: share }),
      });
    } catch (cause) {
      outcome.failure ??= { cause };
      input.fail(cause);
    } finally {
      share?.close();
    }
  };

  try {
    for (let index = 0; await input.hasMore(); index++) {
      signal?.throwIfAborted();
      if (size !== undefined && index * chunkBytes >= size) {
        throw new Error(`a source of ${size} bytes gave more`);
      }
      const writing = write(index).finally(() => flushing.delete(writing));
      flushing.add(writing);
      await input.cutEnded;
      if (outcome.failure) break;
      if (flushing.size > flushingMax) await Promise.race(flushing);
    }
  } catch (cause) {
    outcome.failure ??= { cause };
  }
  await Promise.all(flushing);

  const total = written.reduce((sum, chunk) => sum + chunk.size, 0);
  if (!outcome.failure && size !== undefined && total !== size) {
    outcome.failure = { cause: new Error(`a source of ${size} bytes gave ${total}`) };
  }
  if (outcome.failure) {
    await input.close();
    // The caller queues the extent, which removes what this leaves; report the first error.
    await store.remove(Object.values(written)).catch(() => {});
    throw outcome.failure.cause;
  }
  const at = written.at(-1)?.at;
  return at === undefined ? { cluster, id, size: total } : { cluster, id, size: total, at };
}

const ended = Promise.resolve();

/** Deals a source out as one cut after another, each an async iterable of at most `chunkBytes`. */
class Cutter {
  /** Settles when the current chunk's source has been read to its end or was abandoned. */
  cutEnded: Promise<void> = ended;
  readonly #source: AsyncIterator<Uint8Array>;
  /** Arrays that were pulled and not yet dealt: one, or two after the look-ahead. */
  readonly #reserved: Uint8Array[] = [];
  #ended = false;
  #failure: { readonly cause: unknown } | undefined;
  #endCut: () => void = () => {};

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source;
  }

  /** Everything that is left of the source is held here. */
  get isWhole(): boolean {
    return this.#ended && this.bufferedBytes <= chunkBytes;
  }

  get bufferedBytes(): number {
    return this.#reserved.reduce((sum, bytes) => sum + bytes.length, 0);
  }

  /** Call it first: returns the only array of a source of at most one chunk. It reads two arrays ahead. */
  async only(): Promise<Uint8Array | undefined> {
    while (!this.#ended && this.#reserved.length < 2) this.#keep(await this.#source.next());
    return this.#reserved.length === 1 && this.isWhole ? this.#reserved[0] : undefined;
  }

  /** Whether there is another byte. */
  async hasMore(): Promise<boolean> {
    if (this.#reserved.length === 0) await this.#pull();
    return this.#reserved.length > 0;
  }

  async #pull(): Promise<void> {
    for (const before = this.#reserved.length; !this.#ended && this.#reserved.length === before; ) {
      this.#keep(await this.#source.next());
    }
  }

  #keep({ done, value }: IteratorResult<Uint8Array>): void {
    if (done === true) this.#ended = true;
    else if (value.length > 0) this.#reserved.push(value);
  }

  /** @param share lent while the source is waited for */
  cut(share?: Share, signal?: AbortSignal): AsyncIterable<Uint8Array> {
    let left = chunkBytes;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.cutEnded = promise;
    this.#endCut = resolve;
    const end = async (): Promise<IteratorResult<Uint8Array>> => {
      resolve();
      return { done: true, value: undefined };
    };
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      this.#check();
      if (left === 0) return end();
      if (this.#reserved.length === 0 && !this.#ended) {
        share?.park();
        await this.#pull();
        await share?.resume(this.bufferedBytes, signal);
      }
      this.#check();
      const bytes = this.#reserved.shift();
      if (!bytes) return end();
      const dealt = bytes.length <= left ? bytes : bytes.subarray(0, left);
      if (dealt !== bytes) this.#reserved.unshift(bytes.subarray(left));
      left -= dealt.length;
      return { done: false, value: dealt };
    };
    // A store that stops early has failed, and `fail` is about to say so: the cut does not end here.
    const stop = async (): Promise<IteratorResult<Uint8Array>> => ({ done: true, value: undefined });
    return { [Symbol.asyncIterator]: () => ({ next, return: stop }) };
  }

  #check(): void {
    if (this.#failure) throw this.#failure.cause;
  }

  /** The store refused a chunk: nothing more is dealt. */
  fail(cause: unknown): void {
    this.#failure ??= { cause };
    this.#endCut();
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    try {
      await this.#source.return?.();
    } catch {
      // The write has failed already, for a reason nearer to the cause.
    }
  }
}

/**
 * Frees large arrays as soon as their readers must have finished with them. Left to the garbage collector they cause a collection of
 * the whole heap for every 30 MiB of body, and each new array is cold memory.
 */
const returnedBytesMin = 16 * 1024;

export class LoanedArrays {
  readonly #max: number;
  readonly #loaned: ArrayBuffer[] = [];

  /** @param max how many of them readers may use */
  constructor(max: number) {
    this.#max = max;
  }

  lend({ buffer, byteLength }: Uint8Array): void {
    // Free only memory that no other array shares, because decrypted TLS data arrives in slices.
    if (byteLength < returnedBytesMin || buffer.byteLength !== byteLength) return;
    this.#loaned.push(buffer as ArrayBuffer);
    // Detaching frees its memory immediately.
    if (this.#loaned.length > this.#max) this.#loaned.shift()?.transfer(0);
  }

  /** Frees the last ones too. Nothing reads them any more. */
  free(): void {
    for (const buffer of this.#loaned.splice(0)) buffer.transfer(0);
  }
}
