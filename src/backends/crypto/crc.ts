/**
 * The three CRCs of the protocol in plain JavaScript, eight bytes a step ("slice-by-8"): used where a runtime has no native one, and
 * always for CRC64NVME (1.3 GB/s), which no runtime has.
 */
import type { Hash } from '../../ports/cryptography.ts';

const castagnoli = 0x82f63b78;
const ethernet = 0xedb88320;
const nvme = 0x9a6c9329ac4bc9b5n;

/** Eight tables of 256 entries in one array: entry `256 * n + byte` is that byte followed by n zeros. */
function tables32(polynomial: number): Uint32Array {
  const table = new Uint32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    table[byte] = crc;
  }
  for (let at = 256; at < table.length; at++) {
    const before = table[at - 256] as number;
    table[at] = (before >>> 8) ^ (table[before & 0xff] as number);
  }
  return table;
}

/** The same for 64 bits, low and high halves apart: 32-bit integers are fast, BigInts are not. */
function tables64(polynomial: bigint): { low: Uint32Array; high: Uint32Array } {
  const whole = new BigUint64Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ polynomial : crc >> 1n;
    whole[byte] = crc;
  }
  for (let at = 256; at < whole.length; at++) {
    const before = whole[at - 256] as bigint;
    whole[at] = (before >> 8n) ^ (whole[Number(before & 0xffn)] as bigint);
  }
  return {
    low: Uint32Array.from(whole, (value) => Number(value & 0xffffffffn)),
    high: Uint32Array.from(whole, (value) => Number(value >> 32n)),
  };
}

/** Continues a 32-bit CRC (0 to begin with), as zlib's and @node-rs/crc32's functions do. */
export type Crc32 = (bytes: Uint8Array, before?: number) => number;

function crc32By(polynomial: number): Crc32 {
  let table: Uint32Array | undefined;
  return (bytes, before = 0) => {
    table ??= tables32(polynomial);
    return update32(table, ~before, bytes);
  };
}

function update32(t: Uint32Array, start: number, bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const even = bytes.length & ~7;
  let crc = start;
  let at = 0;
  for (; at < even; at += 8) {
    const low = crc ^ view.getInt32(at, true);
    const high = view.getInt32(at + 4, true);
    crc =
      (t[1792 + (low & 0xff)] as number) ^
      (t[1536 + ((low >>> 8) & 0xff)] as number) ^
      (t[1280 + ((low >>> 16) & 0xff)] as number) ^
      (t[1024 + (low >>> 24)] as number) ^
      (t[768 + (high & 0xff)] as number) ^
      (t[512 + ((high >>> 8) & 0xff)] as number) ^
      (t[256 + ((high >>> 16) & 0xff)] as number) ^
      (t[high >>> 24] as number);
  }
  for (; at < bytes.length; at++) {
    crc = (crc >>> 8) ^ (t[(crc ^ (bytes[at] as number)) & 0xff] as number);
  }
  return ~crc >>> 0;
}

export const crc32: Crc32 = crc32By(ethernet);
export const crc32c: Crc32 = crc32By(castagnoli);

let nvmeTables: ReturnType<typeof tables64> | undefined;

/** Continues a CRC64NVME held as `[low, high]`, in place; `[0, 0]` to begin with. */
function updateCrc64(state: Uint32Array, bytes: Uint8Array): void {
  nvmeTables ??= tables64(nvme);
  const { low: l, high: h } = nvmeTables;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const even = bytes.length & ~7;
  let low = ~(state[0] as number);
  let high = ~(state[1] as number);
  let at = 0;
  for (; at < even; at += 8) {
    const a = low ^ view.getInt32(at, true);
    const b = high ^ view.getInt32(at + 4, true);
    const i7 = 1792 + (a & 0xff);
    const i6 = 1536 + ((a >>> 8) & 0xff);
    const i5 = 1280 + ((a >>> 16) & 0xff);
    const i4 = 1024 + (a >>> 24);
    const i3 = 768 + (b & 0xff);
    const i2 = 512 + ((b >>> 8) & 0xff);
    const i1 = 256 + ((b >>> 16) & 0xff);
    const i0 = b >>> 24;
    low =
      (l[i7] as number) ^
      (l[i6] as number) ^
      (l[i5] as number) ^
      (l[i4] as number) ^
      (l[i3] as number) ^
      (l[i2] as number) ^
      (l[i1] as number) ^
      (l[i0] as number);
    high =
      (h[i7] as number) ^
      (h[i6] as number) ^
      (h[i5] as number) ^
      (h[i4] as number) ^
      (h[i3] as number) ^
      (h[i2] as number) ^
      (h[i1] as number) ^
      (h[i0] as number);
  }
  for (; at < bytes.length; at++) {
    const index = (low ^ (bytes[at] as number)) & 0xff;
    low = ((low >>> 8) | (high << 24)) ^ (l[index] as number);
    high = (high >>> 8) ^ (h[index] as number);
  }
  state[0] = ~low;
  state[1] = ~high;
}

/** An incremental 32-bit CRC over a given implementation. */
export function hash32(crc: Crc32): Hash {
  let state = 0;
  return {
    update: (bytes) => {
      state = crc(bytes, state);
    },
    digest: () => bigEndian(state),
  };
}

export function hashCrc64(): Hash {
  const state = new Uint32Array(2);
  return {
    update: (bytes) => updateCrc64(state, bytes),
    digest: () => bigEndian(state[1] as number, state[0] as number),
  };
}

export function bigEndian(...words: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(words.length * 4);
  const view = new DataView(bytes.buffer);
  for (const [at, word] of words.entries()) view.setUint32(at * 4, word);
  return bytes;
}
