/** Values of lmdb: the checksum of key and value, then msgpack. The checksum is verified whenever a value is read. */
import { Packr } from 'msgpackr';
import { decodeRowText as decodeText, type Requested, readSome } from '../row-codec.ts';

// The checksum before every value in lmdb: XXH32 of the value, seeded with XXH32 of its key, so that a row that is found under the key of
// another row fails as well. XXH32 in JavaScript takes a third of the time of CRC32C for rows of some hundred bytes, because a table
// look-up per byte is slower than a multiplication per word, and a call into native code takes longer than the row. A change within one
// aligned word of 32 bits is always detected.

export const checksumBytes = 4;

const prime1 = 0x9e3779b1 | 0;
const prime2 = 0x85ebca77 | 0;
const prime3 = 0xc2b2ae3d | 0;
const prime4 = 0x27d4eb2f | 0;
const prime5 = 0x165667b1 | 0;

const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by));
const round = (lane: number, word: number): number =>
  Math.imul(rotate((lane + Math.imul(word, prime2)) | 0, 13), prime1);

function finish(start: number): number {
  let hash = start;
  hash = Math.imul(hash ^ (hash >>> 15), prime2);
  hash = Math.imul(hash ^ (hash >>> 13), prime3);
  return (hash ^ (hash >>> 16)) >>> 0;
}

// Values are in a few long-lived buffers of lmdb and msgpackr, so the view of the last one can nearly always be reused.
let words: Int32Array = new Int32Array(0);

function viewWords(bytes: Uint8Array): Int32Array {
  if (words.buffer !== bytes.buffer) words = new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >>> 2);
  return words;
}

const wordAt = (bytes: Uint8Array, at: number): number =>
  (bytes[at] as number) |
  ((bytes[at + 1] as number) << 8) |
  ((bytes[at + 2] as number) << 16) |
  ((bytes[at + 3] as number) << 24);

/** XXH32 of the bytes from `from` up to `to`. */
function xxh32(bytes: Uint8Array, range: { from: number; to: number }, seed: number): number {
  const { from, to } = range;
  return ((bytes.byteOffset + from) & 3) === 0 && littleEndian
    ? hashAligned(bytes, from, to, seed)
    : hashAny(bytes, from, to, seed);
}

const littleEndian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

function hashAligned(bytes: Uint8Array, from: number, to: number, seed: number): number {
  const view = viewWords(bytes);
  let at = (bytes.byteOffset + from) >>> 2;
  const length = to - from;
  let hash = (seed + prime5) | 0;
  if (length >= 16) {
    let a = (seed + prime1 + prime2) | 0;
    let b = (seed + prime2) | 0;
    let c = seed | 0;
    let d = (seed - prime1) | 0;
    for (const end = at + ((length >>> 4) << 2); at < end; at += 4) {
      a = round(a, view[at] as number);
      b = round(b, view[at + 1] as number);
      c = round(c, view[at + 2] as number);
      d = round(d, view[at + 3] as number);
    }
    hash = (rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)) | 0;
  }
  hash = (hash + length) | 0;
  for (let left = (length & 15) >>> 2; left > 0; left--)
    hash = Math.imul(rotate((hash + Math.imul(view[at++] as number, prime3)) | 0, 17), prime4);
  return finish(hashRest(hash, bytes, to - (length & 3), to));
}

function hashAny(bytes: Uint8Array, from: number, to: number, seed: number): number {
  const length = to - from;
  let at = from;
  let hash = (seed + prime5) | 0;
  if (length >= 16) {
    let a = (seed + prime1 + prime2) | 0;
    let b = (seed + prime2) | 0;
    let c = seed | 0;
    let d = (seed - prime1) | 0;
    for (const end = from + (length & ~15); at < end; at += 16) {
      a = round(a, wordAt(bytes, at));
      b = round(b, wordAt(bytes, at + 4));
      c = round(c, wordAt(bytes, at + 8));
      d = round(d, wordAt(bytes, at + 12));
    }
    hash = (rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)) | 0;
  }
  hash = (hash + length) | 0;
  for (; at + 4 <= to; at += 4)
    hash = Math.imul(rotate((hash + Math.imul(wordAt(bytes, at), prime3)) | 0, 17), prime4);
  return finish(hashRest(hash, bytes, at, to));
}

function hashRest(start: number, bytes: Uint8Array, from: number, to: number): number {
  let hash = start;
  for (let at = from; at < to; at++)
    hash = Math.imul(rotate((hash + Math.imul(bytes[at] as number, prime5)) | 0, 11), prime1);
  return hash;
}

/** The checksum of the value between `from` and `to`, for the row under `key`. */
export const rowChecksum = (
  key: Uint8Array,
  bytes: Uint8Array,
  range: { from: number; to: number },
): number => xxh32(bytes, range, hashAny(key, 0, key.length, 0));

export const readChecksum = (bytes: Uint8Array, at: number): number => wordAt(bytes, at) >>> 0;

function writeChecksum(bytes: Uint8Array, at: number, checksum: number): void {
  bytes[at] = checksum;
  bytes[at + 1] = checksum >>> 8;
  bytes[at + 2] = checksum >>> 16;
  bytes[at + 3] = checksum >>> 24;
}

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
  /** The requested values of the row that a scan is at: it makes an object of them before it reads the next row. */
  readonly #some: unknown[] = [];
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
      return readSome(bytes, {
        requested: this.requested,
        decode: decodeText,
        from: checksumBytes,
        into: this.#some,
      });
    return super.decode(bytes, { start: checksumBytes, end } as never);
  }

  #checksum(bytes: Uint8Array, end: number): number {
    return rowChecksum(this.key, bytes, { from: checksumBytes, to: end });
  }
}

/** Values are decoded after their key was read: the key is half of what their checksum is of. */
export const keysFor = (values: Values) => ({
  writeKey(key: Uint8Array, target: Buffer, start: number): number {
    target.set(key, start);
    return start + key.length;
  },
  /** From Node's pool, because allocating each buffer separately takes longer than reading it. */
  readKey(source: Buffer, start: number, end: number): Uint8Array {
    const key = Buffer.allocUnsafe(end - start);
    source.copy(key, 0, start, end);
    values.key = key;
    return key;
  },
});
