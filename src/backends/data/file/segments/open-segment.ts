/** Opens a segment for reading, packed or not. */
import fs from 'node:fs';
import { ChunkDamaged } from '../../../../ports/storage/object-bytes.ts';
import {
  decodePackedHead,
  decodePackedTable,
  isPacked,
  type PackedTable,
  packedHeadBytes,
  packedTableBytes,
} from '../compaction/packed.ts';
import { isMissing, type Layout, segmentPath } from '../layout.ts';

export interface OpenSegment {
  readonly fd: number;
  readonly inode: number;
  readonly table: PackedTable | undefined;
}

/** Undefined when there is no such segment (any more). The caller closes the descriptor. */
export function openSegment(layout: Layout, segment: string): OpenSegment | undefined {
  let fd: number;
  try {
    fd = fs.openSync(segmentPath(layout, segment, 'seg'), 'r');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    return { fd, inode: fs.fstatSync(fd).ino, table: readTable(fd, segment) };
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

function readTable(fd: number, segment: string): PackedTable | undefined {
  const head = Buffer.alloc(packedHeadBytes);
  const count = fs.readSync(fd, head, 0, head.length, 0);
  if (!isPacked(head.subarray(0, count))) return undefined;
  const decoded = decodePackedHead(head.subarray(0, count));
  const size = fs.fstatSync(fd).size;
  if (decoded && size === decoded.recordsEnd + packedTableBytes(decoded.count)) {
    const bytes = Buffer.alloc(packedTableBytes(decoded.count));
    fs.readSync(fd, bytes, 0, bytes.length, decoded.recordsEnd);
    const table = decodePackedTable(decoded, bytes);
    if (table) return table;
  }
  throw new ChunkDamaged(`the table of packed segment ${segment} is damaged`);
}
