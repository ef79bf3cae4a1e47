/** Numbers of 64 bits as two words of 32, low word first: integers of 32 bits are fast, BigInts are not. */

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
