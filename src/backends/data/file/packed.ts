/**
 * A packed segment: its live records moved together, and a table from the offsets that locators name to
 * the offsets where the records are now. `head · records · table`, under the segment's old name.
 */
import { crc32c } from '../../crypto/node.ts';

const magic = 0x31504c53; // "SLP1"
export const packedHeadBytes = 32;
const entryBytes = 8;

export interface PackedTable {
  /** Ascending, both: packing keeps the order. */
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  /** The position after the last record. */
  readonly recordsEnd: number;
}

export interface PackedHead {
  readonly count: number;
  readonly recordsEnd: number;
  readonly tableCrc: number;
}

export function encodePackedHead({ count, recordsEnd, tableCrc }: PackedHead): Buffer {
  const head = Buffer.alloc(packedHeadBytes);
  head.writeUInt32LE(magic, 0);
  head.writeUInt32LE(count, 8);
  head.writeUInt32LE(recordsEnd, 12);
  head.writeUInt32LE(tableCrc, 16);
  head.writeUInt32LE(crc32c(head.subarray(0, 28)), 28);
  return head;
}

export const isPacked = (head: Buffer): boolean => head.length >= 4 && head.readUInt32LE(0) === magic;

export function decodePackedHead(head: Buffer): PackedHead | undefined {
  if (head.length < packedHeadBytes || head.readUInt32LE(28) !== crc32c(head.subarray(0, 28)))
    return undefined;
  return {
    count: head.readUInt32LE(8),
    recordsEnd: head.readUInt32LE(12),
    tableCrc: head.readUInt32LE(16),
  };
}

export const packedTableBytes = (count: number): number => count * entryBytes;

export function encodePackedTable(moves: readonly { readonly from: number; readonly to: number }[]): Buffer {
  const table = Buffer.alloc(packedTableBytes(moves.length));
  for (const [at, { from, to }] of moves.entries()) {
    table.writeUInt32LE(from, at * entryBytes);
    table.writeUInt32LE(to, at * entryBytes + 4);
  }
  return table;
}

export function decodePackedTable(head: PackedHead, table: Buffer): PackedTable | undefined {
  if (table.length !== packedTableBytes(head.count) || crc32c(table) !== head.tableCrc) return undefined;
  const from = new Uint32Array(head.count);
  const to = new Uint32Array(head.count);
  for (let at = 0; at < head.count; at++) {
    from[at] = table.readUInt32LE(at * entryBytes);
    to[at] = table.readUInt32LE(at * entryBytes + 4);
  }
  return { from, to, recordsEnd: head.recordsEnd };
}

/** Where the record that was written at `offset` is now; undefined when it was removed before the compaction. */
export function locate({ from, to }: PackedTable, offset: number): number | undefined {
  let low = 0;
  let high = from.length - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const here = from[middle] as number;
    if (here === offset) return to[middle];
    if (here < offset) low = middle + 1;
    else high = middle - 1;
  }
  return undefined;
}

/** The offset that locators name for the record that is at `offset` now. */
export const unlocate = ({ from, to }: PackedTable, offset: number): number | undefined =>
  locate({ from: to, to: from, recordsEnd: 0 }, offset);
