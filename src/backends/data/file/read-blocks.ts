/** Reads the blocks that a range touches, verifies each, and yields them in pieces of at most 256 KiB. */
import type { BufferRing } from '../../../ports/chunk-store.ts';
import { type ByteRange, ChunkDamaged } from '../../../ports/object-bytes.ts';
import { crc32c } from '../../hashing/node.ts';
import type { Disk } from './disk.ts';
import { blockBytes } from './record.ts';

const blocksAtOnce = 4;

export interface Blocks {
  readonly id: string;
  readonly fd: number;
  /** Where the chunk's first byte lies in the file. */
  readonly base: number;
  readonly size: number;
  readonly crcs: Uint32Array;
}

export interface ReadParts {
  readonly disk: Disk;
  readonly buffers: BufferRing;
  readonly signal: AbortSignal | undefined;
}

export async function* readBlocks(
  { id, fd, base, size, crcs }: Blocks,
  range: ByteRange,
  { disk, buffers, signal }: ReadParts,
): AsyncGenerator<Uint8Array> {
  const last = Math.floor(Math.min(range.end, size - 1) / blockBytes);
  for (let block = Math.floor(range.start / blockBytes); block <= last; block += blocksAtOnce) {
    signal?.throwIfAborted();
    const start = block * blockBytes;
    const end = Math.min(Math.min(block + blocksAtOnce, last + 1) * blockBytes, size);
    const bytes = buffers.next(end - start);
    const reading = disk.read(fd, bytes, base + start);
    const count = typeof reading === 'number' ? reading : await reading;
    if (count !== bytes.length)
      throw new ChunkDamaged(`chunk ${id} is cut off at ${start + count} of ${size}`);
    for (let at = 0, each = block; at < bytes.length; at += blockBytes, each++) {
      if (crc32c(bytes.subarray(at, at + blockBytes)) !== crcs[each]) {
        throw new ChunkDamaged(`block ${each} of chunk ${id} does not match its checksum`);
      }
    }
    const from = Math.max(range.start - start, 0);
    const to = Math.min(range.end + 1 - start, bytes.length);
    yield from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
  }
}

/** Two in turn: a yielded array is overwritten when the next but one is asked for. */
export function twoBuffers(): BufferRing {
  const buffers: (Uint8Array<ArrayBuffer> | undefined)[] = [undefined, undefined];
  let turn = 0;
  return {
    next(length) {
      turn = 1 - turn;
      let buffer = buffers[turn];
      if (!buffer || buffer.length < length) {
        buffer = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
        buffers[turn] = buffer;
      }
      return buffer.length === length ? buffer : buffer.subarray(0, length);
    },
  };
}
