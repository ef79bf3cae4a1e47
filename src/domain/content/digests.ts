/** Digests of a streamed content: computed while it passes, compared at its end. */

import { tap } from '../../base/tap.ts';
import { toHex } from '../../base/text/hex.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';
import type { Checksum } from '../../metadata/tables.ts';
import type { Hash, Hasher, HashName } from '../../ports/crypto/hasher.ts';
import { DataUnavailable } from '../../ports/storage/object-bytes.ts';

export type ChecksumAlgorithm = Checksum['algorithm'];

export const hashNames: Readonly<Record<ChecksumAlgorithm, HashName>> = {
  CRC32: 'crc32',
  CRC32C: 'crc32c',
  CRC64NVME: 'crc64nvme',
  SHA1: 'sha1',
  SHA256: 'sha256',
  SHA512: 'sha512',
  MD5: 'md5',
  XXHASH64: 'xxhash64',
  XXHASH3: 'xxhash3',
  XXHASH128: 'xxhash128',
};
export const checksumAlgorithms = Object.keys(hashNames) as readonly ChecksumAlgorithm[];
/** Length of each digest in bytes, to tell a malformed value from a wrong one. */
export const digestBytes: Readonly<Record<ChecksumAlgorithm, number>> = {
  CRC32: 4,
  CRC32C: 4,
  CRC64NVME: 8,
  SHA1: 20,
  SHA256: 32,
  SHA512: 64,
  MD5: 16,
  XXHASH64: 8,
  XXHASH3: 8,
  XXHASH128: 16,
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

export interface Digesting {
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
  /** The store compares the MD5 with the claim and reports it, so this process computes none. */
  readonly isMd5Told?: boolean;
}

export function digesting(
  ctx: { readonly hasher: Hasher },
  source: AsyncIterable<Uint8Array>,
  { claims, sizeMax, isMd5Told = false }: DigestingOptions,
): Digesting {
  const md5 = isMd5Told ? undefined : ctx.hasher.create('md5');
  const sum = claims.checksum && ctx.hasher.create(hashNames[claims.checksum.algorithm]);
  let size = 0;
  let settled: Settled | undefined;
  let told: string | undefined;
  const content = tap(source, {
    see(piece) {
      size += piece.length;
      if (size > sizeMax) throw fail('EntityTooLarge', { elements: { MaxSizeAllowed: sizeMax } });
      md5?.update(piece);
      sum?.update(piece);
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
      told = stored;
    },
    digested() {
      const { md5: known = told, checksum } = ended();
      if (known === undefined) throw new DataUnavailable('the store did not tell the MD5 of what it has');
      return { size, md5: known, checksum };
    },
  };
}

/** The MD5 is undefined when the store reports it. */
interface Settled extends Pick<Digested, 'checksum'> {
  readonly md5: string | undefined;
}

function settleMd5(claims: Claims, hash: Hash): string {
  const bytes = hash.digest();
  if (claims.md5 !== undefined && claims.md5 !== toBase64(bytes))
    throw wrongMd5({ ExpectedDigest: claims.md5, CalculatedDigest: toBase64(bytes) });
  return toHex(bytes);
}

export const wrongMd5 = (elements: Readonly<Record<string, string>>): Refusal =>
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

export const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
