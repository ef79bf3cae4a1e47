/** Values of lmdb: the checksum of key and value, then msgpack. The checksum is verified whenever a value is read. */
import { Packr } from 'msgpackr';
import { decodeRowText as decodeText, type Requested, readSome } from '../../row-codec.ts';
import { checksumBytes, readChecksum, rowChecksum, writeChecksum } from './row-checksum.ts';

/** msgpackr's RESERVE_START_SPACE: the low byte of the mode is the number of bytes to leave free before the value. */
const reserveStart = 2048;

interface Target extends Uint8Array {
  readonly start: number;
  readonly end: number;
}

/** The first byte of a packed array. The row at which a scan ends may be none, but a value of another space. */
const isRow = (tag: number): boolean => (tag & 0xf0) === 0x90 || tag === 0xdc || tag === 0xdd;

/** A value whose checksum does not match its key and bytes. */
export class ChecksumMismatch extends Error {}

/**
 * lmdb encodes and decodes values without passing their keys, so `CheckedDatabase` sets `key` before each read and write. Rows are
 * arrays without msgpackr structures, because another process may not know those.
 */
export class Values extends Packr {
  /** The key of the value that is read or written next. */
  key: Uint8Array = new Uint8Array(0);
  /** The columns that the caller needs; undefined for all. */
  requested: Requested | undefined;
  /** Verifies values without decoding them. */
  verifiesOnly = false;

  constructor() {
    super({ useRecords: false, encodeUndefinedAsNil: true, copyBuffers: true } as object);
    // The packer makes its methods in its constructor. lmdb always asks for the whole buffer, with `start` and `end` on it.
    const pack = this.encode.bind(this) as (value: unknown, mode: number) => unknown;
    this.encode = (value: unknown, mode = 0) => {
      const target = pack(value, mode | reserveStart | checksumBytes) as Target;
      const { start, end } = target;
      const checksum = rowChecksum(this.key, target, { from: start + checksumBytes, to: end });
      writeChecksum(target, start, checksum);
      return target as unknown as Buffer;
    };
  }

  override decode(bytes: Uint8Array, size?: unknown): unknown {
    // For a scan lmdb passes the size; for a look-up it sets the buffer's length.
    const end = typeof size === 'number' ? size : bytes.length;
    if (end <= checksumBytes || readChecksum(bytes, 0) !== this.#checksum(bytes, end))
      throw new ChecksumMismatch('the checksum of key and value does not match');
    if (this.verifiesOnly) return undefined;
    if (this.requested !== undefined && isRow(bytes[checksumBytes] as number))
      return readSome(bytes, { requested: this.requested, decode: decodeText, from: checksumBytes });
    return super.decode(bytes, { start: checksumBytes, end } as never);
  }

  #checksum(bytes: Uint8Array, end: number): number {
    return rowChecksum(this.key, bytes, { from: checksumBytes, to: end });
  }
}
