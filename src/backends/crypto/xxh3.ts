/** XXH3 with 64 and 128 bits, in plain JavaScript. */
import type { Hash } from '../../ports/cryptography.ts';

// Numbers of 64 bits as two words of 32, low word first: integers of 32 bits are fast, BigInts are not.

/** The upper word of the product of two unsigned words. */
export function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const other = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) | 0;
}

export function writeLanes(values: readonly bigint[]): Int32Array {
  const words = new Int32Array(2 * values.length);
  for (const [i, value] of values.entries()) {
    words[2 * i] = Number(value & 0xffffffffn);
    words[2 * i + 1] = Number((value >> 32n) & 0xffffffffn);
  }
  return words;
}

export function readLanes(words: Int32Array): bigint[] {
  const unsigned = new Uint32Array(words.buffer, words.byteOffset, words.length);
  return Array.from({ length: words.length / 2 }, (_, i) => {
    const low = BigInt(unsigned[2 * i] as number);
    return low | (BigInt(unsigned[2 * i + 1] as number) << 32n);
  });
}

export const wrap64 = (value: bigint): bigint => BigInt.asUintN(64, value);

export const rotate64 = (value: bigint, by: bigint): bigint => wrap64((value << by) | (value >> (64n - by)));

/** Big-endian, the canonical form of xxHash. */
export function packLanes(...values: readonly bigint[]): Uint8Array {
  const out = new DataView(new ArrayBuffer(8 * values.length));
  for (const [i, value] of values.entries()) out.setBigUint64(8 * i, value);
  return new Uint8Array(out.buffer);
}

// The parts of XXH3 that run once for each digest: inputs of at most 240 bytes, and the end of longer ones.

const p32 = [0n, 0x9e3779b1n, 0x85ebca77n, 0xc2b2ae3dn] as const;
const p1 = 0x9e3779b185ebca87n;
const p2 = 0xc2b2ae3d27d4eb4fn;
const p3 = 0x165667b19e3779f9n;
const p4 = 0x85ebca77c2b2ae63n;
const mixer = 0x9fb21c651e98df25n;
const secretHex =
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
  'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
  'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
  '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e';
const secret = new DataView(
  Uint8Array.from(secretHex.match(/../g) ?? [], (each) => Number.parseInt(each, 16)).buffer,
);

/** The secret from a byte on, as little-endian words. */
const secretWords = (from: number): Int32Array =>
  Int32Array.from({ length: (secret.byteLength - from) >>> 2 }, (_, i) =>
    secret.getInt32(from + 4 * i, true),
  );

const s64 = (at: number): bigint => secret.getBigUint64(at, true);
const s32 = (at: number): number => secret.getUint32(at, true);

function fold(a: bigint, b: bigint): bigint {
  const product = a * b;
  return wrap64(product) ^ (product >> 64n);
}

function swap64(value: bigint): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, value);
  return view.getBigUint64(0, true);
}

export function avalanche64(value: bigint): bigint {
  let h = value ^ (value >> 33n);
  h = wrap64(h * p2);
  h = wrap64((h ^ (h >> 29n)) * p3);
  return h ^ (h >> 32n);
}

function avalanche3(value: bigint): bigint {
  const h = wrap64((value ^ (value >> 37n)) * 0x165667919e3779f9n);
  return h ^ (h >> 32n);
}

const mix16 = (v: DataView, at: number, key: number): bigint =>
  fold(v.getBigUint64(at, true) ^ s64(key), v.getBigUint64(at + 8, true) ^ s64(key + 8));

/** One to three bytes as one word. */
const combined = (v: DataView): number => {
  const n = v.byteLength;
  return ((v.getUint8(0) << 16) | (v.getUint8(n >> 1) << 24) | v.getUint8(n - 1) | (n << 8)) >>> 0;
};

/** XXH3_64bits of at most 240 bytes. */
const shortDigest64 = (v: DataView): Uint8Array => packLanes(short64(v));

function short64(v: DataView): bigint {
  const n = v.byteLength;
  const size = BigInt(n);
  if (n === 0) return avalanche64(s64(56) ^ s64(64));
  if (n <= 3) return avalanche64(BigInt((combined(v) ^ s32(0) ^ s32(4)) >>> 0));
  if (n <= 8) {
    const joined = BigInt(v.getUint32(n - 4, true)) + (BigInt(v.getUint32(0, true)) << 32n);
    let h = joined ^ s64(8) ^ s64(16);
    h ^= rotate64(h, 49n) ^ rotate64(h, 24n);
    h = wrap64(h * mixer);
    h = wrap64((h ^ ((h >> 35n) + size)) * mixer);
    return h ^ (h >> 28n);
  }
  if (n <= 16) {
    const low = v.getBigUint64(0, true) ^ s64(24) ^ s64(32);
    const high = v.getBigUint64(n - 8, true) ^ s64(40) ^ s64(48);
    return avalanche3(wrap64(size + swap64(low) + high + fold(low, high)));
  }
  let acc = size * p1;
  if (n <= 128) {
    for (let i = (n - 1) >> 5; i >= 0; i--)
      acc += mix16(v, 16 * i, 32 * i) + mix16(v, n - 16 * (i + 1), 32 * i + 16);
    return avalanche3(wrap64(acc));
  }
  for (let i = 0; i < 8; i++) acc += mix16(v, 16 * i, 16 * i);
  acc = avalanche3(wrap64(acc));
  for (let i = 8; i < n >> 4; i++) acc += mix16(v, 16 * i, 16 * (i - 8) + 3);
  return avalanche3(wrap64(acc + mix16(v, n - 16, 119)));
}

/** XXH3_128bits of at most 240 bytes. */
function shortDigest128(v: DataView): Uint8Array {
  const n = v.byteLength;
  const size = BigInt(n);
  if (n === 0) return packLanes(avalanche64(s64(80) ^ s64(88)), avalanche64(s64(64) ^ s64(72)));
  if (n <= 3) {
    const one = combined(v);
    const swapped = Number(swap64(BigInt(one)) >> 32n);
    const turned = (swapped << 13) | (swapped >>> 19);
    return packLanes(
      avalanche64(BigInt((turned ^ s32(8) ^ s32(12)) >>> 0)),
      avalanche64(BigInt((one ^ s32(0) ^ s32(4)) >>> 0)),
    );
  }
  if (n <= 8) {
    const joined = BigInt(v.getUint32(0, true)) + (BigInt(v.getUint32(n - 4, true)) << 32n);
    const product = (joined ^ s64(16) ^ s64(24)) * wrap64(p1 + (size << 2n));
    let low = wrap64(product);
    const high = wrap64((product >> 64n) + (low << 1n));
    low ^= high >> 3n;
    low = wrap64((low ^ (low >> 35n)) * mixer);
    return packLanes(avalanche3(high), low ^ (low >> 28n));
  }
  if (n <= 16) {
    let end = v.getBigUint64(n - 8, true);
    const product = (v.getBigUint64(0, true) ^ end ^ s64(32) ^ s64(40)) * p1;
    end ^= s64(48) ^ s64(56);
    const high = wrap64((product >> 64n) + end + (end & 0xffffffffn) * (p32[2] - 1n));
    const low = wrap64(product + ((size - 1n) << 54n)) ^ swap64(high);
    const last = low * p2;
    return packLanes(avalanche3(wrap64((last >> 64n) + high * p2)), avalanche3(wrap64(last)));
  }
  return middle128(v);
}

/** XXH3_128bits of 17 to 240 bytes. */
function middle128(v: DataView): Uint8Array {
  const n = v.byteLength;
  const size = BigInt(n);
  let low = wrap64(size * p1);
  let high = 0n;
  const sum = (at: number): bigint => wrap64(v.getBigUint64(at, true) + v.getBigUint64(at + 8, true));
  const mix32 = (a: number, b: number, key: number): void => {
    low = wrap64(low + mix16(v, a, key)) ^ sum(b);
    high = wrap64(high + mix16(v, b, key + 16)) ^ sum(a);
  };
  if (n <= 128) for (let i = (n - 1) >> 5; i >= 0; i--) mix32(16 * i, n - 16 * (i + 1), 32 * i);
  else {
    for (let i = 32; i < 160; i += 32) mix32(i - 32, i - 16, i - 32);
    low = avalanche3(low);
    high = avalanche3(high);
    for (let i = 160; i <= n; i += 32) mix32(i - 32, i - 16, i - 157);
    mix32(n - 16, n - 32, 103);
  }
  return packLanes(
    wrap64(-avalanche3(wrap64(low * p1 + high * p4 + size * p2))),
    avalanche3(wrap64(low + high)),
  );
}

/** The digest of more than 240 bytes from the lanes of the accumulator. */
function longDigest(
  acc: readonly bigint[],
  { size, bits }: { readonly size: number; readonly bits: 64 | 128 },
): Uint8Array {
  const merge = (key: number, start: bigint): bigint => {
    let sum = start;
    for (let i = 0; i < 8; i += 2)
      sum += fold((acc[i] as bigint) ^ s64(key + 8 * i), (acc[i + 1] as bigint) ^ s64(key + 8 * i + 8));
    return avalanche3(wrap64(sum));
  };
  const length = BigInt(size);
  const low = merge(11, wrap64(length * p1));
  return bits === 64 ? packLanes(low) : packLanes(merge(117, wrap64(~(length * p2))), low);
}

// XXH3 (64 and 128 bits, seed 0, default secret) after the public specification of xxHash, in JavaScript for
// every runtime. The loop over long inputs uses 32-bit integers, because 64-bit BigInts run 40 times slower.

const stripeLength = 64;
const stripesPerBlock = 16;
/** Inputs up to this length take the short functions, so that their bytes must all be kept. */
const shortMax = 240;
const bufferLength = 256;

/** What a stripe, the last stripe and the end of a block are keyed with. */
const stripeKey = secretWords(0);
const lastKey = secretWords(121);
const blockKey = secretWords(128);
/** 0x9E3779B1, the prime of 32 bits that ends a block. */
const blockPrime = 0x9e3779b1 | 0;

/** Adds one stripe of 64 bytes to the eight lanes of the accumulator: each low word first. */
function accumulate(acc: Int32Array, input: DataView, at: number, key: Int32Array, keyAt: number): void {
  for (let i = 0; i < 16; i += 2) {
    const low = input.getInt32(at + 4 * i, true);
    const high = input.getInt32(at + 4 * i + 4, true);
    const a = low ^ (key[keyAt + i] as number);
    const b = high ^ (key[keyAt + i + 1] as number);
    const product = Math.imul(a, b);
    const own = acc[i] as number;
    const sum = (own + product) | 0;
    acc[i] = sum;
    acc[i + 1] =
      (acc[i + 1] as number) + multiplyHigh(a, b) + (((own & product) | ((own | product) & ~sum)) >>> 31);
    const other = acc[i ^ 2] as number;
    const shifted = (other + low) | 0;
    acc[i ^ 2] = shifted;
    acc[(i ^ 2) + 1] =
      (acc[(i ^ 2) + 1] as number) + high + (((other & low) | ((other | low) & ~shifted)) >>> 31);
  }
}

/** Mixes the accumulator after each block of 1,024 bytes. */
function scramble(acc: Int32Array): void {
  for (let i = 0; i < 16; i += 2) {
    const low = (acc[i] as number) ^ ((acc[i + 1] as number) >>> 15) ^ (blockKey[i] as number);
    const high = (acc[i + 1] as number) ^ (blockKey[i + 1] as number);
    acc[i] = Math.imul(low, blockPrime);
    acc[i + 1] = multiplyHigh(low, blockPrime) + Math.imul(high, blockPrime);
  }
}

const start = [
  0xc2b2ae3dn,
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x85ebca77n,
  0x27d4eb2f165667c5n,
  0x9e3779b1n,
];

/** The state of an XXH3 hash. The last bytes stay in a buffer, because the last stripe is keyed differently. */
class Xxh3 implements Hash {
  readonly #bits: 64 | 128;
  readonly #acc = writeLanes(start);
  /** The last stripe that was consumed, then the bytes that were not. */
  readonly #buffered = new Uint8Array(stripeLength + bufferLength);
  readonly #view = new DataView(this.#buffered.buffer);
  #filled = 0;
  #size = 0;
  #stripe = 0;

  constructor(bits: 64 | 128) {
    this.#bits = bits;
  }

  update(bytes: Uint8Array): void {
    this.#size += bytes.length;
    if (this.#filled + bytes.length <= bufferLength) {
      this.#keep(bytes);
      return;
    }
    let at = 0;
    if (this.#filled > 0) {
      at = -this.#filled & (stripeLength - 1);
      this.#keep(bytes.subarray(0, at));
      this.#consume(this.#view, { at: stripeLength, count: this.#filled / stripeLength });
      this.#buffered.copyWithin(0, this.#filled, this.#filled + stripeLength);
      this.#filled = 0;
    }
    const count = (bytes.length - at - 1) >>> 6;
    if (count > 0) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.#consume(view, { at, count });
      at += count * stripeLength;
      this.#buffered.set(bytes.subarray(at - stripeLength, at));
    }
    this.#keep(bytes.subarray(at));
  }

  digest(): Uint8Array {
    if (this.#size <= shortMax) {
      const input = new DataView(this.#buffered.buffer, stripeLength, this.#filled);
      return this.#bits === 64 ? shortDigest64(input) : shortDigest128(input);
    }
    this.#consume(this.#view, { at: stripeLength, count: (this.#filled - 1) >>> 6 });
    accumulate(this.#acc, this.#view, this.#filled, lastKey, 0);
    return longDigest(readLanes(this.#acc), { size: this.#size, bits: this.#bits });
  }

  #keep(bytes: Uint8Array): void {
    this.#buffered.set(bytes, stripeLength + this.#filled);
    this.#filled += bytes.length;
  }

  #consume(input: DataView, { at, count }: { readonly at: number; readonly count: number }): void {
    const acc = this.#acc;
    let stripe = this.#stripe;
    for (let n = 0; n < count; n++) {
      accumulate(acc, input, at + n * stripeLength, stripeKey, 2 * stripe);
      if (++stripe < stripesPerBlock) continue;
      stripe = 0;
      scramble(acc);
    }
    this.#stripe = stripe;
  }
}

export const hashXxh3 = (bits: 64 | 128): Hash => new Xxh3(bits);
