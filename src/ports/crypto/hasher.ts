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

export interface Hasher {
  create(name: HashName): Hash;
  once(name: HashName, bytes: Uint8Array): Uint8Array;
  /** SHA-256 of a text in lower-case hexadecimal; the most frequent call, for signatures. */
  sha256Hex(text: string): string;
  hmacSha256(key: Uint8Array, data: Uint8Array | string): Uint8Array;
  hmacSha1(key: Uint8Array, data: Uint8Array | string): Uint8Array;
}
