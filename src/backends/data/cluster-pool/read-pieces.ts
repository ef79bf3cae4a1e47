/** One stream over the pieces of several chunks, with read-ahead. */

import { buffersByLength, freshBytes } from '../../../base/loaned-buffers.ts';
import type { ChunkPiece } from '../../../ports/chunk-store.ts';
import { ChunkDamaged, ChunkMissing } from '../../../ports/object-bytes.ts';
import type { Header } from '../chunked/record.ts';
import { blockBytes } from '../chunked/record.ts';
import { decodeRecord, verifyBlocks } from './chunk-record.ts';
import { type Crc32c, errno, isMissing, RadosFailure, type RadosPool, type RadosRead } from './driver.ts';
import { pieceBytesMax, type ReadBudget, type StreamMemory } from './read-budget.ts';

/** The memory of idle buffers that are kept for reuse, for each length. */
const sparesBytesMax = 4 * pieceBytesMax;
const loanedFor = buffersByLength(pieceBytesMax, sparesBytesMax);

interface ReadParts {
  readonly budget: ReadBudget;
  readonly crc32c: Crc32c;
  readonly openPool: (piece: ChunkPiece) => Promise<RadosPool>;
  /** Translates a failure for the readers. */
  readonly explained: (error: unknown) => unknown;
}

/** A chunk whose record is known, because its first blocks have arrived. */
interface ChunkInHand {
  readonly piece: ChunkPiece;
  readonly pool: RadosPool;
  record?: Header;
  isAsked: boolean;
}

interface Reading {
  readonly chunk: ChunkInHand;
  /** Block-aligned, in the chunk. */
  readonly start: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly read: RadosRead;
  /** Returns its memory, which no reader uses any more. */
  readonly giveBack: () => void;
}

export async function* readPieces(
  parts: ReadParts,
  pieces: readonly ChunkPiece[],
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const ahead: Reading[] = [];
  const aheadBytes = (): number => ahead.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const memory = parts.budget.enter();
  const plan = plannedReads(parts, pieces, { memory, aheadBytes });
  const input: Reading[] = [];
  const cancel = (): void => {
    for (const { read } of ahead) read.cancel();
  };
  signal?.addEventListener('abort', cancel, { once: true });
  try {
    while (true) {
      signal?.throwIfAborted();
      while (memory.nextBytes(aheadBytes()) > 0) {
        const { value, done } = await plan.next();
        if (done === true) break;
        ahead.push(value);
      }
      const reading = ahead[0];
      if (reading === undefined) return;
      const bytes = await arrived(parts, reading, signal);
      ahead.shift();
      yield bytes;
      // The reader requests the next array, so it is done with the one before this one.
      input.push(reading);
      if (input.length > 1) input.shift()?.giveBack();
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
    void leaveAfter(ahead, memory);
  }
}

/** librados writes into the buffers until the reads are over, however those end. */
async function leaveAfter(ahead: readonly Reading[], memory: StreamMemory): Promise<void> {
  await Promise.allSettled(ahead.map(({ read }) => read.done));
  for (const { giveBack } of ahead) giveBack();
  memory.leave();
}

interface Sizing {
  readonly memory: StreamMemory;
  readonly aheadBytes: () => number;
}

async function* plannedReads(
  parts: ReadParts,
  pieces: readonly ChunkPiece[],
  { memory, aheadBytes }: Sizing,
): AsyncGenerator<Reading> {
  for (const piece of pieces) {
    const chunk: ChunkInHand = { piece, pool: await openPool(parts, piece), isAsked: false };
    const end = Math.min(piece.range.end + 1, piece.chunk.size);
    const alignedEnd = Math.min(Math.ceil(end / blockBytes) * blockBytes, piece.chunk.size);
    let start = piece.range.start - (piece.range.start % blockBytes);
    while (start < end) {
      const length = Math.min(Math.max(blockBytes, memory.nextBytes(aheadBytes())), alignedEnd - start);
      // The reader may keep an array that holds the whole range.
      const isOnly = pieces.length === 1 && start + length >= end && !chunk.isAsked;
      const { bytes, giveBack } = isOnly ? owned(length, memory) : borrowed(length, memory);
      const read = chunk.pool.read(piece.chunk.id, bytes, { offset: start, wantsAttribute: !chunk.isAsked });
      // Awaited in its turn.
      read.done.catch(() => {});
      chunk.isAsked = true;
      yield { chunk, start, bytes, read, giveBack };
      start += length;
    }
  }
}

/** librados asks for the latest map of the cluster before it says that a pool does not exist. */
function openPool(parts: ReadParts, piece: ChunkPiece): Promise<RadosPool> {
  return parts.openPool(piece).catch((error: unknown) => {
    throw isMissing(error)
      ? new ChunkMissing(`the pool of chunk ${piece.chunk.id} does not exist`, { cause: error })
      : parts.explained(error);
  });
}

type Memory = Pick<Reading, 'bytes' | 'giveBack'>;

function owned(length: number, memory: StreamMemory): Memory {
  memory.take(length);
  return { bytes: freshBytes(length), giveBack: () => memory.give(length) };
}

function borrowed(length: number, memory: StreamMemory): Memory {
  const buffers = loanedFor(Math.max(length, blockBytes));
  if (buffers === undefined) throw new Error(`a read of ${length} bytes`);
  const buffer = buffers.borrow();
  memory.take(buffer.length);
  const giveBack = (): void => {
    memory.give(buffer.length);
    buffers.giveBack(buffer);
  };
  return { bytes: buffer.subarray(0, length), giveBack };
}

async function arrived(parts: ReadParts, reading: Reading, signal?: AbortSignal): Promise<Uint8Array> {
  const { chunk, start, bytes, read } = reading;
  const { id, size } = chunk.piece.chunk;
  const got = await read.done.catch((error: unknown) => {
    signal?.throwIfAborted();
    throw isMissing(error)
      ? new ChunkMissing(`chunk ${id} is not in its pool`, { cause: error })
      : isUnreadable(error)
        ? new ChunkDamaged(`chunk ${id} cannot be read by its cluster`, { cause: error })
        : parts.explained(error);
  });
  if (got.attribute !== undefined) {
    const record = decodeRecord(id, got.attribute);
    if (record?.size !== size) throw new ChunkDamaged(`chunk ${id} has no sound record of ${size} bytes`);
    chunk.record = record;
  }
  if (got.length !== bytes.length) {
    throw new ChunkDamaged(`chunk ${id} is cut off at ${start + got.length} of ${size}`);
  }
  verifyBlocks(chunk.record as Header, bytes, { first: start / blockBytes, crc32c: parts.crc32c });
  const { range } = chunk.piece;
  const from = Math.max(range.start - start, 0);
  const to = Math.min(range.end + 1 - start, bytes.length);
  return from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
}

/** The cluster's own checksums do not match either. */
const isUnreadable = (error: unknown): boolean => error instanceof RadosFailure && error.code === errno.io;

interface Patience {
  readonly signal?: AbortSignal | undefined;
  readonly waitMsMax?: number | undefined;
}

interface Waiting {
  readonly amount: number;
  readonly admit: () => void;
}

/** A counting semaphore, first come, first served. */
export class Lane {
  readonly #max: number;
  #taken = 0;
  readonly #waiting: Waiting[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** An amount above the total takes the total. @returns the amount to give back @throws RadosFailure after `waitMsMax` */
  async take(amount: number, patience: Patience = {}): Promise<number> {
    const requested = Math.min(amount, this.#max);
    if (this.#waiting.length === 0 && this.#taken + requested <= this.#max) this.#taken += requested;
    else await this.#wait(requested, patience);
    return requested;
  }

  async #wait(amount: number, { signal, waitMsMax }: Patience): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { amount, admit: resolve };
    const leave = (cause: unknown): void => {
      const at = this.#waiting.indexOf(waiting);
      // It was admitted.
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      this.#admit();
      reject(cause);
    };
    const abort = (): void => leave(signal?.reason);
    const expire = (): void => leave(new RadosFailure('waiting for earlier operations', errno.timedOut));
    signal?.addEventListener('abort', abort, { once: true });
    const timer = waitMsMax === undefined ? undefined : setTimeout(expire, waitMsMax);
    this.#waiting.push(waiting);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  give(amount: number): void {
    this.#taken -= amount;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#taken + next.amount > this.#max) return;
      this.#waiting.shift();
      this.#taken += next.amount;
      next.admit();
    }
  }
}
