/**
 * Large arrays that are lent again and again. Fresh ones cost more than what is copied into them: their pages have to be provided, and the
 * runtime collects its whole heap for every few dozen MiB of them.
 */

/** The length of the shortest. */
const shortestBytes = 64 * 1024;
const idleMs = 5000;

interface Runtime {
  readonly Buffer?: { allocUnsafeSlow(length: number): Uint8Array<ArrayBuffer> };
  readonly navigator?: { readonly userAgent?: string };
}
const { Buffer: runtimeBuffers, navigator } = globalThis as Runtime;
/** Workerd ends a timer with the request that has set it, so that spares would never be freed. */
const endsTimers = navigator?.userAgent === 'Cloudflare-Workers';

export class Buffers {
  readonly bytes: number;
  readonly #sparesMax: number;
  readonly #spares: Uint8Array<ArrayBuffer>[] = [];
  /** So many were not needed since the timer was set. */
  #unused = 0;
  #timer: unknown;

  /** @param sparesBytesMax memory that is kept while no stream uses it */
  constructor(bytes: number, sparesBytesMax: number) {
    this.bytes = bytes;
    this.#sparesMax = endsTimers ? 0 : Math.floor(sparesBytesMax / bytes);
  }

  /** Holds what was in it before. */
  borrow(): Uint8Array<ArrayBuffer> {
    const spare = this.#spares.pop();
    this.#unused = Math.min(this.#unused, this.#spares.length);
    return spare ?? freshBytes(this.bytes);
  }

  giveBack(buffer: Uint8Array<ArrayBuffer>): void {
    if (this.#spares.length >= this.#sparesMax) {
      free(buffer);
      return;
    }
    this.#spares.push(buffer);
    this.#timer ??= this.#rest();
  }

  /** Frees buffers that were not needed for a while. */
  #letGo(): void {
    for (const buffer of this.#spares.splice(0, this.#unused)) free(buffer);
    this.#unused = this.#spares.length;
    this.#timer = this.#spares.length === 0 ? undefined : this.#rest();
  }

  /** The timer of a runtime that would stay alive for it is an object, and lets the process end; others are numbers. */
  #rest(): unknown {
    const timer = setTimeout(() => this.#letGo(), idleMs) as unknown;
    if (typeof timer === 'object') (timer as { unref(): void }).unref();
    return timer;
  }
}

/** Not zeroed where the runtime has such arrays, and outside of its own heap, where the collector does not move it. */
export function freshBytes(length: number): Uint8Array<ArrayBuffer> {
  if (runtimeBuffers === undefined) return new Uint8Array(length);
  const { buffer, byteOffset } = runtimeBuffers.allocUnsafeSlow(length);
  return new Uint8Array(buffer, byteOffset, length);
}

/** Frees the memory immediately: the garbage collector does not see its size, and may run late. */
function free({ buffer }: Uint8Array<ArrayBuffer>): void {
  buffer.transfer(0);
}

/** By length, each twice the one before it: a buffer takes what it holds, as memory that was used once stays resident. */
export function buffersByLength(bytesMax: number, sparesBytesMax: number): (length: number) => Buffers {
  const loaned = Array.from(
    { length: Math.ceil(Math.log2(bytesMax / shortestBytes)) + 1 },
    (_, power) => new Buffers(shortestBytes * 2 ** power, sparesBytesMax),
  );
  return (length) => {
    const buffers = loaned.find(({ bytes }) => bytes >= length);
    if (buffers === undefined) throw new Error(`no buffer has ${length} bytes`);
    return buffers;
  };
}

const ringBytesMax = 4 * shortestBytes;
/** Enough for most rings in use at a time: readers share a number of blocks (`file/read-blocks.ts`), and few bodies are joined. */
const ringSparesBytesMax = 16 * 1024 * 1024;
const ringBuffers = buffersByLength(ringBytesMax, ringSparesBytesMax);

/** The buffers of one stream, which go back to the pool when the stream ends. */
export interface LoanedRing {
  next(length: number): Uint8Array<ArrayBuffer>;
  /** The longest array. */
  readonly pieceBytes: number;
  /**
   * The last array of the stream. A consumer may still read it when it requests the end, so it is yielded as a view without its end, and a
   * copy of that, which stays the consumer's. The copy is short because the garbage collector frees it late, and would collect the whole
   * heap after some 30 MiB of such arrays.
   */
  last(bytes: Uint8Array): Iterable<Uint8Array>;
  /** Where nothing reads the arrays any more. */
  release(): void;
  /** Where the stream ends, also early: the array of the last `next` stays the consumer's, unless `last` has copied its end. */
  releaseButLast(): void;
}

const tailBytes = 4096;

/** @param count how many are valid at a time, the one that is being filled included */
export function loanedRing(count: number): LoanedRing {
  const ring: (Uint8Array<ArrayBuffer> | undefined)[] = [];
  let turn = 0;
  let isCopied = false;
  const giveBack = (buffer: Uint8Array<ArrayBuffer> | undefined): void => {
    if (buffer !== undefined) ringBuffers(buffer.length).giveBack(buffer);
  };
  const release = (): void => ring.splice(0).forEach(giveBack);
  return {
    pieceBytes: ringBytesMax,
    next(length) {
      const from = ringBuffers(length);
      let buffer = ring[turn];
      if (buffer?.length !== from.bytes) {
        giveBack(buffer);
        buffer = from.borrow();
        ring[turn] = buffer;
      }
      turn = (turn + 1) % count;
      return from.bytes === length ? buffer : buffer.subarray(0, length);
    },
    *last(bytes) {
      if (bytes.length > tailBytes) yield bytes.subarray(0, -tailBytes);
      isCopied = true;
      yield new Uint8Array(bytes.subarray(-tailBytes));
    },
    release,
    releaseButLast() {
      if (!isCopied) ring[(turn + count - 1) % count] = undefined;
      release();
    },
  };
}
