/** The parts of XXH3 that run once for each digest: inputs of at most 240 bytes, and the end of longer ones. */
import { packLanes, rotate64, wrap64 } from './lanes.ts';

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
export const secretWords = (from: number): Int32Array =>
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
export const shortDigest64 = (v: DataView): Uint8Array => packLanes(short64(v));

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
export function shortDigest128(v: DataView): Uint8Array {
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
export function longDigest(
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
