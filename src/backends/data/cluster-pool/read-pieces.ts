/** One stream over the pieces of several chunks, with reads under way for what comes next. */

import type { ChunkPiece } from '../../../ports/chunk-store.ts';
import { ChunkDamaged, ChunkMissing } from '../../../ports/object-bytes.ts';
import { blockBytes, type Header } from '../record.ts';
import { Buffers, freshBytes } from './buffers.ts';
import { decodeRecord, verifyBlocks } from './chunk-record.ts';
import { type Crc32c, errno, isMissing, RadosFailure, type RadosPool, type RadosRead } from './driver.ts';
import { pieceBytesMax, type ReadBudget } from './read-budget.ts';

const lent = new Buffers(pieceBytesMax);

export interface ReadParts {
  readonly budget: ReadBudget;
  readonly crc32c: Crc32c;
  readonly poolOf: (piece: ChunkPiece) => Promise<RadosPool>;
  /** What a failure means to those who read. */
  readonly explained: (error: unknown) => unknown;
}

/** The record of a chunk, known once its first blocks have come. */
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
  /** Lent, where it is not the reader's to keep. */
  readonly buffer: Uint8Array<ArrayBuffer> | undefined;
  readonly read: RadosRead;
}

export async function* readPieces(
  parts: ReadParts,
  pieces: readonly ChunkPiece[],
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { budget } = parts;
  const ahead: Reading[] = [];
  const plan = plannedReads(parts, pieces);
  const given: (Uint8Array<ArrayBuffer> | undefined)[] = [];
  const cancel = (): void => {
    for (const { read } of ahead) read.cancel();
  };
  budget.enter();
  signal?.addEventListener('abort', cancel, { once: true });
  try {
    while (true) {
      signal?.throwIfAborted();
      while (ahead.length < budget.piecesAhead) {
        const { value, done } = await plan.next();
        if (done === true) break;
        ahead.push(value);
      }
      const reading = ahead[0];
      if (reading === undefined) return;
      const bytes = await arrived(parts, reading, signal);
      ahead.shift();
      yield bytes;
      // The next array is asked for, so the one before this one is nobody's any more.
      given.push(reading.buffer);
      const free = given.length > 1 ? given.shift() : undefined;
      if (free !== undefined) lent.giveBack(free);
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    budget.leave();
    cancel();
    for (const { read, buffer } of ahead) void giveBackAfter(read, buffer);
  }
}

/** librados writes into the buffer until the read is over, however that ends. */
async function giveBackAfter(read: RadosRead, buffer: Uint8Array<ArrayBuffer> | undefined): Promise<void> {
  await read.done.catch(() => {});
  if (buffer !== undefined) lent.giveBack(buffer);
}

async function* plannedReads(parts: ReadParts, pieces: readonly ChunkPiece[]): AsyncGenerator<Reading> {
  for (const piece of pieces) {
    const chunk: ChunkInHand = { piece, pool: await parts.poolOf(piece), isAsked: false };
    const end = Math.min(piece.range.end + 1, piece.chunk.size);
    const alignedEnd = Math.min(Math.ceil(end / blockBytes) * blockBytes, piece.chunk.size);
    let start = piece.range.start - (piece.range.start % blockBytes);
    while (start < end) {
      const length = Math.min(parts.budget.pieceBytes, alignedEnd - start);
      // One that holds all that is asked for is the reader's to keep.
      const isOnly = pieces.length === 1 && start + length >= end && !chunk.isAsked;
      const buffer = isOnly ? undefined : lent.borrow();
      const bytes = buffer === undefined ? freshBytes(length) : buffer.subarray(0, length);
      const read = chunk.pool.read(piece.chunk.id, bytes, { offset: start, wantsAttribute: !chunk.isAsked });
      // Awaited in its turn.
      read.done.catch(() => {});
      chunk.isAsked = true;
      yield { chunk, start, bytes, buffer, read };
      start += length;
    }
  }
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
