/** Ciphers, hashes and the sealing of small secrets, as the service needs them. */

import { toHex } from '../base/text/hex.ts';

// AES-256-GCM, the only cipher of the service: native where the runtime has it, SubtleCrypto elsewhere (docs/adr/0006-encryption.md). There
// is no additional authenticated data, because the context of a text is part of its key.

/** A prepared key, for any number of texts. */
export interface CipherKey {
  /** @param into `tagBytes` longer than the plain text; holds the ciphertext and its tag when the call has ended */
  encrypt(plain: Uint8Array, how: CipherUse): Promise<void>;
  /**
   * @param into `tagBytes` shorter than the encrypted text
   * @returns false when authentication fails; the content of `into` must then not be used
   */
  decrypt(encrypted: Uint8Array, how: CipherUse): Promise<boolean>;
}

interface CipherUse {
  /** `nonceBytes` long. A nonce must not be used twice under one key. */
  readonly nonce: Uint8Array;
  readonly into: Uint8Array;
}

export interface Cipher {
  /** @param key `cipherKeyBytes` long */
  ready(key: Uint8Array): Promise<CipherKey>;
}

export const cipherKeyBytes = 32;
export const nonceBytes = 12;
export const tagBytes = 16;

/**
 * Synchronous, incremental hashing: native where the runtime has it, @noble/hashes otherwise. SubtleCrypto has no MD5 and
 * cannot hash incrementally.
 */
export type HashName =
  | 'md5'
  | 'sha1'
  | 'sha256'
  | 'sha512'
  | 'crc32'
  | 'crc32c'
  | 'crc64nvme'
  | 'xxhash64'
  | 'xxhash3'
  | 'xxhash128';

export interface Hash {
  /** The array must not change until the next call. */
  update(bytes: Uint8Array): void;
  /** Big-endian for the CRCs and xxHash, as the protocol sends them. Call once. */
  digest(): Uint8Array;
}

/** The hash of a long content, which may be computed together with those of other contents. */
export interface DeferredHash {
  /** The array must not change until the promise resolves, and then the next call may follow; undefined: the array was hashed. */
  update(bytes: Uint8Array): Promise<void> | undefined;
  /** Call once, after the last promise has resolved. */
  digest(): Uint8Array;
}

export interface Hasher {
  create(name: HashName): Hash;
  /** The MD5 of a long content. Absent where the runtime computes it in no other way than that of a short one. */
  createLongMd5?(): DeferredHash;
  once(name: HashName, bytes: Uint8Array): Uint8Array;
  /** SHA-256 of a text in lower-case hexadecimal; the most frequent call, for signatures. */
  sha256Hex(text: string): string;
  hmacSha256(key: Uint8Array, data: Uint8Array | string): Uint8Array;
  hmacSha1(key: Uint8Array, data: Uint8Array | string): Uint8Array;
}

/** The hash of the digests of an object's parts. */
export function compositeDigest(
  hasher: Pick<Hasher, 'create'>,
  name: HashName,
  digests: readonly Uint8Array[],
): Uint8Array {
  const hash = hasher.create(name);
  for (const digest of digests) hash.update(digest);
  return hash.digest();
}

/**
 * The ETag of an object in parts: the MD5 of what the ETags of its parts say (their MD5, unless they are encrypted) as
 * hexadecimal, a hyphen, their number. An upstream makes it by the same formula as this service, so it stands where
 * domain and backends can import it.
 */
export const compositeEtag = (hasher: Pick<Hasher, 'create'>, digests: readonly Uint8Array[]): string =>
  `${toHex(compositeDigest(hasher, 'md5', digests))}-${digests.length}`;

/**
 * A stored secret does not open: the master key that sealed it is missing, or its stored text was changed. A retry does not help.
 */
export class SecretUnreadable extends Error {}

/**
 * Sealing small secrets under the service's master key. These are sealed: keys of objects under SSE-S3 and of their uploads
 * (`domain/content/wrapped-key.ts`), secrets of access keys of users and of roots of accounts (`domain/iam/access-keys.ts`), seeds of
 * MFA devices (`domain/iam/mfa.ts`), keys of replication peers (`domain/replication/peers.ts`), seals of the audit log
 * (`domain/events/seal-hours.ts`), session tokens (`auth/session/sessions.ts`). `test/tidy/sealed-secrets.test.ts` compares this list.
 */
export interface Sealer {
  /**
   * Encrypts and authenticates. The result differs each time and reveals only the length and the key's id.
   * @param context the place of the secret; it can be opened only with the same context
   */
  seal(plain: Uint8Array, context: string): Promise<Uint8Array>;
  /** `undefined` for a text that was sealed under an unknown master key or for another context, or that was changed. */
  open(sealed: Uint8Array, context: string): Promise<Uint8Array | undefined>;
  /** A sealer that uses the given key instead of the master key. @param key `cipherKeyBytes` long */
  under(key: Uint8Array): Sealer;
}
