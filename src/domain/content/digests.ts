/** Digests of a streamed content: computed while it passes, compared at its end. */

import { fail, type Refusal } from '../../base/errors.ts';
import { tap } from '../../base/tap.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import type { Checksum } from '../../metadata/tables.ts';
import { compositeDigest, type Hash, type Hasher, type HashName } from '../../ports/cryptography.ts';
import { type ClaimedDigests, ContentMismatch, DataUnavailable } from '../../ports/object-bytes.ts';

export type ChecksumAlgorithm = Checksum['algorithm'];

/** What the checksum of an object in parts can be, and its type where the client names none (public API). */
interface Types<Hash, Type> {
  /** What computes it: `backends/crypto` has the hash for each runtime. */
  readonly hash: Hash;
  readonly types: readonly Type[];
  readonly fallback: Type;
}

/** FULL_OBJECT follows from the checksums of the parts by `combineCrcs`, so only a CRC may have it. */
type ChecksumFacts = (Types<HashName, 'COMPOSITE'> | Types<CrcName, Checksum['type']>) & {
  /** Length of the digest in bytes, to tell a malformed value from a wrong one. */
  readonly bytes: number;
};

const ofDigests = { types: ['COMPOSITE'], fallback: 'COMPOSITE' } as const;
const ofEither = { types: ['COMPOSITE', 'FULL_OBJECT'], fallback: 'COMPOSITE' } as const;
const ofWhole = { types: ['FULL_OBJECT'], fallback: 'FULL_OBJECT' } as const;

/** All that the service knows of an algorithm. `checksumNames` of `protocol/schemas/common.ts` lists the same names for the wire. */
export const checksumFacts: Readonly<Record<ChecksumAlgorithm, ChecksumFacts>> = {
  CRC32: { hash: 'crc32', bytes: 4, ...ofEither },
  CRC32C: { hash: 'crc32c', bytes: 4, ...ofEither },
  CRC64NVME: { hash: 'crc64nvme', bytes: 8, ...ofWhole },
  SHA1: { hash: 'sha1', bytes: 20, ...ofDigests },
  SHA256: { hash: 'sha256', bytes: 32, ...ofDigests },
  SHA512: { hash: 'sha512', bytes: 64, ...ofDigests },
  MD5: { hash: 'md5', bytes: 16, ...ofDigests },
  XXHASH64: { hash: 'xxhash64', bytes: 8, ...ofDigests },
  XXHASH3: { hash: 'xxhash3', bytes: 8, ...ofDigests },
  XXHASH128: { hash: 'xxhash128', bytes: 16, ...ofDigests },
};

/** The digests that the client declared for its content. */
export interface Claims {
  /** Base64 of `Content-MD5`. */
  readonly md5?: string;
  /** The checksum to compute. `value` is called at the end of the content, because it may be a trailer. */
  readonly checksum?: { readonly algorithm: ChecksumAlgorithm; value(): string | undefined };
}

export interface Digested {
  readonly size: number;
  /** Hex. */
  readonly md5: string;
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly value: string } | undefined;
}

interface Digesting {
  /** Throws `BadDigest` at its end when a digest differs from the claim, before the store has the whole content. */
  readonly content: AsyncIterable<Uint8Array>;
  /** Takes the MD5 that the store computed. Call it after the end of `content`. Throws when it differs from the streamed content's. */
  confirm(md5: string): void;
  /** The digests of the content. Call it after the end of `content`. */
  digested(): Digested;
}

interface DigestingOptions {
  readonly claims: Claims;
  readonly sizeMax: number;
  /** In bytes; undefined when it is not known. */
  readonly length?: number | undefined;
  /** The store compares the MD5 with the claim and reports it, so this process computes none. */
  readonly isMd5Known?: boolean;
}

/** Contents from this length on are hashed together with others. Shorter ones mostly arrive as one array, whose hash costs one call. */
const longBytesMin = 128 * 1024;

export function digesting(
  ctx: { readonly hasher: Hasher },
  source: AsyncIterable<Uint8Array>,
  { claims, sizeMax, length = 0, isMd5Known = false }: DigestingOptions,
): Digesting {
  const md5 = isMd5Known
    ? undefined
    : ((length >= longBytesMin ? ctx.hasher.createLongMd5?.() : undefined) ?? ctx.hasher.create('md5'));
  const sum = claims.checksum && ctx.hasher.create(checksumFacts[claims.checksum.algorithm].hash);
  let size = 0;
  let settled: Settled | undefined;
  let reportedMd5: string | undefined;
  const content = tap(source, {
    see(piece) {
      size += piece.length;
      if (size > sizeMax) throw fail('EntityTooLarge', { elements: { MaxSizeAllowed: sizeMax } });
      sum?.update(piece);
      return md5?.update(piece);
    },
    end() {
      settled = { md5: md5 && settleMd5(claims, md5), checksum: sum && settleChecksum(claims, sum) };
    },
  });
  const ended = (): Settled => {
    if (settled === undefined) throw new Error('the content has not come to its end');
    return settled;
  };
  return {
    content,
    confirm(stored) {
      const { md5: sent = claims.md5 && toHex(fromBase64(claims.md5)) } = ended();
      if (sent !== undefined && sent !== stored)
        throw new DataUnavailable(`a content of MD5 ${sent} was stored as one of ${stored}`);
      reportedMd5 = stored;
    },
    digested() {
      const { md5: known = reportedMd5, checksum } = ended();
      if (known === undefined) throw new DataUnavailable('the store did not tell the MD5 of what it has');
      return { size, md5: known, checksum };
    },
  };
}

/** The MD5 is undefined when the store reports it. */
interface Settled extends Pick<Digested, 'checksum'> {
  readonly md5: string | undefined;
}

function settleMd5(claims: Claims, hash: Pick<Hash, 'digest'>): string {
  const bytes = hash.digest();
  if (claims.md5 !== undefined && claims.md5 !== toBase64(bytes))
    throw wrongMd5({ ExpectedDigest: claims.md5, CalculatedDigest: toBase64(bytes) });
  return toHex(bytes);
}

const wrongMd5 = (elements: Readonly<Record<string, string>>): Refusal =>
  fail('BadDigest', {
    message: 'The Content-MD5 you specified did not match what we received.',
    elements,
  });

function settleChecksum({ checksum }: Claims, hash: Hash): Digested['checksum'] {
  if (checksum === undefined) return undefined;
  const { algorithm } = checksum;
  const value = toBase64(hash.digest());
  const claimed = checksum.value();
  if (claimed !== undefined && claimed !== value)
    throw fail('BadDigest', `The ${algorithm} you specified did not match the calculated checksum.`);
  return { algorithm, value };
}

// The checksum of a multipart object from its parts' checksums: FULL_OBJECT is the CRC of
// the whole, combined without reading a byte again; COMPOSITE is the hash of the parts' digests.

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

/** Whether the checksum of a content follows from those of its parts. */
export const isCrc = (name: HashName): name is CrcName => name in fields;

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

interface PartChecksum {
  /** Big-endian bytes, as digests are. */
  readonly digest: Uint8Array;
  readonly size: number;
}

/**
 * The FULL_OBJECT checksum of all parts in order. Parts of one size, the usual case, share the power.
 * @throws Error for a hash that is no CRC
 */
export function combineCrcs(name: HashName, parts: readonly PartChecksum[]): Uint8Array {
  if (!isCrc(name)) throw new Error(`a ${name} does not follow from those of the parts`);
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

/** The COMPOSITE checksum in the form of the protocol: base64 of the digest of digests, a hyphen, the number of parts. */
export function compositeChecksum(hasher: Hasher, name: HashName, digests: readonly Uint8Array[]): string {
  const digest = compositeDigest(hasher, name, digests);
  return `${btoa(String.fromCharCode(...digest))}-${digests.length}`;
}

// Lets the store compare a content with the checksum that the client sent, where the store verifies it anyway. The content is then
// hashed once instead of twice.

/** A hash that the content must match: verified as it flows by, unless another component verifies it. */
export interface SignedHash {
  /** SHA-256 in lower-case hexadecimal. */
  readonly hex: string;
  /** The caller takes over the comparison. Call it before reading the source. */
  delegate(): void;
}

/** The length and digests that the client sent for a content. */
export interface Claimed {
  /** In bytes; undefined when the client did not state it. */
  readonly length: number | undefined;
  readonly claims: Claims;
  /** Absent when the signature does not cover a hash of the content, or when the source compares the hash itself. */
  readonly sha256?: SignedHash | undefined;
}

/** The hash that the store is to verify; undefined when the gateway verifies the content as it streams. */
export async function delegateHash(
  { bytes }: Pick<Context, 'bytes'>,
  { sha256, length, claims }: Claimed,
  { cluster, isEncrypted }: { readonly cluster: string; readonly isEncrypted: boolean },
): Promise<ClaimedDigests | undefined> {
  // The store gets ciphertext when the content is encrypted, so it cannot compare the hash of the plaintext.
  if (sha256 === undefined || length === undefined || isEncrypted) return undefined;
  if (!(await bytes.verifies?.(cluster, length))) return undefined;
  sha256.delegate();
  return { sha256: sha256.hex, md5: claims.md5 };
}

/** The refusal for a client whose content has another checksum than it declared. */
export function toMismatch(cause: unknown, claimed: ClaimedDigests | undefined): unknown {
  if (!(cause instanceof ContentMismatch) || claimed === undefined) return cause;
  if (cause.digest === 'md5') return wrongMd5({ ExpectedDigest: claimed.md5 ?? '' });
  return fail('XAmzContentSHA256Mismatch', {
    cause,
    elements: { ClientComputedContentSHA256: claimed.sha256 },
  });
}
