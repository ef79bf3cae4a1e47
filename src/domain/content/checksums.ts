/**
 * The checksum of a multipart object from its parts' checksums: FULL_OBJECT is the CRC of
 * the whole, combined without reading a byte again; COMPOSITE is the hash of the parts' digests.
 */
import type { Hasher, HashName } from '../../ports/crypto/hasher.ts';

export type CrcName = 'crc32' | 'crc32c' | 'crc64nvme';

interface Field {
  readonly bits: number;
  /** Reflected, as the CRCs are computed. */
  readonly polynomial: bigint;
}

const fields: Readonly<Record<CrcName, Field>> = {
  crc32: { bits: 32, polynomial: 0xedb88320n },
  crc32c: { bits: 32, polynomial: 0x82f63b78n },
  crc64nvme: { bits: 64, polynomial: 0x9a6c9329ac4bc9b5n },
};

/** The product of two polynomials modulo the field's, all reflected: the top bit is x⁰. */
function multiply({ bits, polynomial }: Field, a: bigint, b: bigint): bigint {
  let product = 0n;
  let power = b;
  for (let bit = BigInt(bits - 1); bit >= 0n; bit--) {
    if ((a >> bit) & 1n) product ^= power;
    power = power & 1n ? (power >> 1n) ^ polynomial : power >> 1n;
  }
  return product;
}

/** x to the power of 8·length. Appending `length` bytes multiplies a CRC by it. */
function shiftBy(field: Field, length: number): bigint {
  let result = 1n << BigInt(field.bits - 1);
  let square = result >> 8n;
  for (let rest = length; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = multiply(field, result, square);
    square = multiply(field, square, square);
  }
  return result;
}

function toBigInt(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return value;
}

function toBytes(value: bigint, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = length - 1, rest = value; at >= 0; at--, rest >>= 8n) bytes[at] = Number(rest & 0xffn);
  return bytes;
}

export interface PartChecksum {
  /** Big-endian bytes, as digests are. */
  readonly digest: Uint8Array;
  readonly size: number;
}

/** The FULL_OBJECT checksum of all parts in order. Parts of one size, the usual case, share the power. */
export function combineCrcs(name: CrcName, parts: readonly PartChecksum[]): Uint8Array {
  const field = fields[name];
  const powers = new Map<number, bigint>();
  let whole = 0n;
  for (const { digest, size } of parts) {
    let power = powers.get(size);
    if (power === undefined) {
      power = shiftBy(field, size);
      powers.set(size, power);
    }
    whole = multiply(field, power, whole) ^ toBigInt(digest);
  }
  return toBytes(whole, field.bits / 8);
}

/** The COMPOSITE checksum: the hash of the parts' digests; the wire adds `-<number of parts>`. */
export function compositeDigest(hasher: Hasher, name: HashName, digests: readonly Uint8Array[]): Uint8Array {
  const hash = hasher.create(name);
  for (const digest of digests) hash.update(digest);
  return hash.digest();
}

/** In the form of the protocol: base64 of the digest of digests, a hyphen, the number of parts. */
export function compositeChecksum(hasher: Hasher, name: HashName, digests: readonly Uint8Array[]): string {
  const digest = compositeDigest(hasher, name, digests);
  return `${btoa(String.fromCharCode(...digest))}-${digests.length}`;
}
