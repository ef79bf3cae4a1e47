/**
 * XXH3 (64 and 128 bits, seed 0, default secret) after the public specification of xxHash, in JavaScript for
 * every runtime. The loop over long inputs uses 32-bit integers, because 64-bit BigInts run 40 times slower.
 */
import type { Hash } from '../../ports/crypto/hasher.ts';
import { multiplyHigh, readLanes, writeLanes } from './lanes.ts';
import { longDigest, secretWords, shortDigest64, shortDigest128 } from './xxh3-digest.ts';

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
  readonly #kept = new Uint8Array(stripeLength + bufferLength);
  readonly #view = new DataView(this.#kept.buffer);
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
      this.#kept.copyWithin(0, this.#filled, this.#filled + stripeLength);
      this.#filled = 0;
    }
    const count = (bytes.length - at - 1) >>> 6;
    if (count > 0) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.#consume(view, { at, count });
      at += count * stripeLength;
      this.#kept.set(bytes.subarray(at - stripeLength, at));
    }
    this.#keep(bytes.subarray(at));
  }

  digest(): Uint8Array {
    if (this.#size <= shortMax) {
      const input = new DataView(this.#kept.buffer, stripeLength, this.#filled);
      return this.#bits === 64 ? shortDigest64(input) : shortDigest128(input);
    }
    this.#consume(this.#view, { at: stripeLength, count: (this.#filled - 1) >>> 6 });
    accumulate(this.#acc, this.#view, this.#filled, lastKey, 0);
    return longDigest(readLanes(this.#acc), { size: this.#size, bits: this.#bits });
  }

  #keep(bytes: Uint8Array): void {
    this.#kept.set(bytes, stripeLength + this.#filled);
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
