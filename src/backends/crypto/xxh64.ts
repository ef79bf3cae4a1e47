/** XXH64 (seed 0) after the public specification of xxHash, in JavaScript for every runtime. */
import type { Hash } from '../../ports/cryptography.ts';
import { avalanche64, multiplyHigh, packLanes, readLanes, rotate64, wrap64, writeLanes } from './xxh3.ts';

const p1 = 0x9e3779b185ebca87n;
const p2 = 0xc2b2ae3d27d4eb4fn;
const p3 = 0x165667b19e3779f9n;
const p4 = 0x85ebca77c2b2ae63n;
const p5 = 0x27d4eb2f165667c5n;
const p1Low = 0x85ebca87 | 0;
const p1High = 0x9e3779b1 | 0;
const p2Low = 0x27d4eb4f | 0;
const p2High = 0xc2b2ae3d | 0;
const stripeLength = 32;

/** One stripe of 32 bytes: in each of the four lanes `rotate(lane + word * p2, 31) * p1`. */
function consumeStripe(acc: Int32Array, input: DataView, at: number): void {
  for (let i = 0; i < 8; i += 2) {
    const low = input.getInt32(at + 4 * i, true);
    const high = input.getInt32(at + 4 * i + 4, true);
    const added = Math.imul(low, p2Low);
    const own = acc[i] as number;
    const sum = (own + added) | 0;
    const carry = ((own & added) | ((own | added) & ~sum)) >>> 31;
    const upper =
      ((acc[i + 1] as number) +
        multiplyHigh(low, p2Low) +
        Math.imul(low, p2High) +
        Math.imul(high, p2Low) +
        carry) |
      0;
    const turned = (sum << 31) | (upper >>> 1);
    const turnedUpper = (upper << 31) | (sum >>> 1);
    acc[i] = Math.imul(turned, p1Low);
    acc[i + 1] = multiplyHigh(turned, p1Low) + Math.imul(turned, p1High) + Math.imul(turnedUpper, p1Low);
  }
}

class Xxh64 implements Hash {
  readonly #acc = writeLanes([wrap64(p1 + p2), p2, 0n, wrap64(-p1)]);
  readonly #buffered = new Uint8Array(stripeLength);
  readonly #view = new DataView(this.#buffered.buffer);
  #filled = 0;
  #size = 0;

  update(bytes: Uint8Array): void {
    this.#size += bytes.length;
    let at = 0;
    if (this.#filled > 0) {
      at = Math.min(stripeLength - this.#filled, bytes.length);
      this.#buffered.set(bytes.subarray(0, at), this.#filled);
      this.#filled += at;
      if (this.#filled < stripeLength) return;
      consumeStripe(this.#acc, this.#view, 0);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = bytes.length - stripeLength;
    for (; at <= end; at += stripeLength) consumeStripe(this.#acc, view, at);
    this.#buffered.set(bytes.subarray(at));
    this.#filled = bytes.length - at;
  }

  digest(): Uint8Array {
    const view = this.#view;
    const filled = this.#filled;
    let h = wrap64((this.#size >= stripeLength ? this.#merge() : p5) + BigInt(this.#size));
    let at = 0;
    for (; at + 8 <= filled; at += 8)
      h = wrap64(rotate64(h ^ round(0n, view.getBigUint64(at, true)), 27n) * p1 + p4);
    if (at + 4 <= filled) {
      h = wrap64(rotate64(h ^ wrap64(BigInt(view.getUint32(at, true)) * p1), 23n) * p2 + p3);
      at += 4;
    }
    for (; at < filled; at++) h = wrap64(rotate64(h ^ wrap64(BigInt(view.getUint8(at)) * p5), 11n) * p1);
    return packLanes(avalanche64(h));
  }

  #merge(): bigint {
    const lanes = readLanes(this.#acc);
    const turns = [1n, 7n, 12n, 18n];
    let h = 0n;
    for (const [i, lane] of lanes.entries()) h += rotate64(lane, turns[i] as bigint);
    h = wrap64(h);
    for (const lane of lanes) h = wrap64((h ^ round(0n, lane)) * p1 + p4);
    return h;
  }
}

const round = (before: bigint, value: bigint): bigint =>
  wrap64(rotate64(wrap64(before + value * p2), 31n) * p1);

export const hashXxh64 = (): Hash => new Xxh64();
