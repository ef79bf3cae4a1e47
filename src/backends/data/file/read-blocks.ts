/** Reads the blocks that a range touches, verifies each, and yields them in pieces of at most 256 KiB. */

import { freshBytes, loanedRing } from '../../../base/loaned-buffers.ts';
import type { BufferRing } from '../../../ports/chunk-store.ts';
import { type ByteRange, ChunkDamaged } from '../../../ports/object-bytes.ts';
import { crc32c } from '../../crypto/node.ts';
import { blockBytes } from '../chunked/record.ts';
import type { Disk } from './disk.ts';

/** Blocks that one reader gets at once, and those of all readers together: with many slow readers each gets less. */
const blocksAtOnceMax = 4;
const blocksOfAllMax = 128;
let readers = 0;
/** A yielded array is overwritten when the array after the next is requested. */
const buffersOfRange = 2;
const blocksAtOnce = (): number =>
  Math.max(1, Math.min(blocksAtOnceMax, Math.floor(blocksOfAllMax / readers)));

export interface Blocks {
  readonly id: string;
  readonly fd: number;
  /** The position of the chunk's first byte in the file. */
  readonly base: number;
  readonly size: number;
  readonly crcs: Uint32Array;
}

export interface ReadParts {
  readonly disk: Disk;
  /** Those of a longer stream; absent: the stream is this range. */
  readonly buffers: BufferRing | undefined;
  readonly signal: AbortSignal | undefined;
}

export async function* readBlocks(
  blocks: Blocks,
  range: ByteRange,
  { disk, buffers, signal }: ReadParts,
): AsyncGenerator<Uint8Array> {
  const { id, fd, base, size } = blocks;
  const last = Math.floor(Math.min(range.end, size - 1) / blockBytes);
  const isAlone = buffers === undefined;
  const own = loanedRing(buffersOfRange);
  const { next } = buffers ?? own;
  readers += 1;
  try {
    for (let block = Math.floor(range.start / blockBytes), count = 0; block <= last; block += count) {
      signal?.throwIfAborted();
      count = Math.min(last + 1 - block, blocksAtOnce());
      const start = block * blockBytes;
      const end = Math.min((block + count) * blockBytes, size);
      const isLast = block + count > last;
      // The only block of a range that is read alone belongs to the consumer.
      const isWhole = isAlone && isLast && count === 1 && start <= range.start;
      const bytes = isWhole ? freshBytes(end - start) : next(end - start);
      const got = await disk.read(fd, bytes, base + start);
      if (got !== bytes.length) throw new ChunkDamaged(`chunk ${id} is cut off at ${start + got} of ${size}`);
      verify(blocks, block, bytes);
      const from = Math.max(range.start - start, 0);
      const to = Math.min(range.end + 1 - start, bytes.length);
      const requested = from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
      if (isAlone && isLast && !isWhole) yield* own.last(requested);
      else yield requested;
    }
  } finally {
    readers -= 1;
    own.releaseButLast();
  }
}

function verify({ id, crcs }: Blocks, first: number, bytes: Uint8Array): void {
  for (let at = 0, block = first; at < bytes.length; at += blockBytes, block++) {
    if (crc32c(bytes.subarray(at, at + blockBytes)) !== crcs[block]) {
      throw new ChunkDamaged(`block ${block} of chunk ${id} does not match its checksum`);
    }
  }
}
