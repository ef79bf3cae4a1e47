/** The hasher for runtimes without node:crypto: @noble/hashes and plain JavaScript. */
import { hmac } from '@noble/hashes/hmac.js';
import { md5, sha1 } from '@noble/hashes/legacy.js';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { Hash, Hasher, HashName } from '../../ports/cryptography.ts';
import { crc32, crc32c, hash32, hashCrc64 } from './crc.ts';
import { hashXxh3 } from './xxh3.ts';
import { hashXxh64 } from './xxh64.ts';

export { portableCipher } from './subtle-cipher.ts';

const text = new TextEncoder();
const toBytes = (data: Uint8Array | string): Uint8Array =>
  typeof data === 'string' ? text.encode(data) : data;

const makers: Readonly<Record<HashName, () => Hash>> = {
  md5: () => incremental(md5.create()),
  sha1: () => incremental(sha1.create()),
  sha256: () => incremental(sha256.create()),
  sha512: () => incremental(sha512.create()),
  crc32: () => hash32(crc32),
  crc32c: () => hash32(crc32c),
  crc64nvme: hashCrc64,
  xxhash64: hashXxh64,
  xxhash3: () => hashXxh3(64),
  xxhash128: () => hashXxh3(128),
};

interface NobleHash {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

function incremental(hash: NobleHash): Hash {
  return {
    update: (bytes) => {
      hash.update(bytes);
    },
    digest: () => hash.digest(),
  };
}

export function portableHasher(): Hasher {
  return {
    create: (name) => makers[name](),
    once(name, bytes) {
      const hash = makers[name]();
      hash.update(bytes);
      return hash.digest();
    },
    sha256Hex: (data) => bytesToHex(sha256(toBytes(data))),
    hmacSha256: (key, data) => hmac(sha256, key, toBytes(data)),
    hmacSha1: (key, data) => hmac(sha1, key, toBytes(data)),
  };
}
