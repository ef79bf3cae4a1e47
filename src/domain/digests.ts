/** Digests of a content that flows by: computed on the way, compared at its end (spec item 7, design §7.4). */
import { fail } from '../errors/refusal.ts';
import type { Checksum } from '../metadata/tables.ts';
import type { Hash, Hasher, HashName } from '../ports/hasher.ts';
import { watched } from './watched.ts';

export type ChecksumAlgorithm = Checksum['algorithm'];

export const hashNames: Readonly<Record<ChecksumAlgorithm, HashName>> = {
  CRC32: 'crc32',
  CRC32C: 'crc32c',
  CRC64NVME: 'crc64nvme',
  SHA1: 'sha1',
  SHA256: 'sha256',
};
export const checksumAlgorithms = Object.keys(hashNames) as readonly ChecksumAlgorithm[];
/** Length of each digest in bytes, to tell a malformed value from a wrong one. */
export const digestBytes: Readonly<Record<ChecksumAlgorithm, number>> = {
  CRC32: 4,
  CRC32C: 4,
  CRC64NVME: 8,
  SHA1: 20,
  SHA256: 32,
};

/** What the client said about its content, beside its length. */
export interface Claims {
  /** Base64 of `Content-MD5`. */
  readonly md5?: string;
  /** The checksum to compute. `value` is asked at the end of the content, because it may be a trailer. */
  readonly checksum?: { readonly algorithm: ChecksumAlgorithm; value(): string | undefined };
}

export interface Digested {
  readonly size: number;
  /** Hex. */
  readonly md5: string;
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly value: string } | undefined;
}

export interface Digesting {
  readonly content: AsyncIterable<Uint8Array>;
  /**
   * After the end of `content`: what it was.
   * @throws BadDigest when it is not what was claimed
   */
  finish(): Digested;
}

export function digesting(
  ctx: { readonly hasher: Hasher },
  source: AsyncIterable<Uint8Array>,
  { claims, sizeMax }: { readonly claims: Claims; readonly sizeMax: number },
): Digesting {
  const md5 = ctx.hasher.create('md5');
  const sum = claims.checksum && ctx.hasher.create(hashNames[claims.checksum.algorithm]);
  let size = 0;
  const content = watched(source, {
    see(piece) {
      size += piece.length;
      if (size > sizeMax) throw fail('EntityTooLarge', { elements: { MaxSizeAllowed: sizeMax } });
      md5.update(piece);
      sum?.update(piece);
    },
  });
  return { content, finish: () => settle(claims, { md5, sum, size }) };
}

function settle(
  claims: Claims,
  { md5, sum, size }: { readonly md5: Hash; readonly sum: Hash | undefined; readonly size: number },
): Digested {
  const md5Bytes = md5.digest();
  if (claims.md5 !== undefined && claims.md5 !== toBase64(md5Bytes)) {
    throw fail('BadDigest', {
      message: 'The Content-MD5 you specified did not match what we received.',
      elements: { ExpectedDigest: claims.md5, CalculatedDigest: toBase64(md5Bytes) },
    });
  }
  const checksum = sum &&
    claims.checksum && { algorithm: claims.checksum.algorithm, value: toBase64(sum.digest()) };
  const claimed = claims.checksum?.value();
  if (checksum !== undefined && claimed !== undefined && claimed !== checksum.value) {
    throw fail('BadDigest', `The ${checksum.algorithm} you specified did not match the calculated checksum.`);
  }
  return { size, md5: toHex(md5Bytes), checksum };
}

export const toHex = (bytes: Uint8Array): string => {
  let hex = '';
  for (const byte of bytes) hex += digits[byte];
  return hex;
};
const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

export const fromHex = (hex: string): Uint8Array =>
  Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16));
