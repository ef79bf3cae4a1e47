/** The native hasher: node:crypto, zlib's CRC32 and @node-rs/crc32 (Node, Bun, Deno). */
import { createHash, hash as hashOnce } from 'node:crypto';
import { crc32 } from 'node:zlib';
import nodeRs from '@node-rs/crc32';
import type { Hash, Hasher, HashName } from '../../ports/cryptography.ts';
import { bigEndian, hash32, hashCrc64 } from './crc.ts';
import { hmac, octets } from './hmac.ts';
import { hashXxh3 } from './xxh3.ts';
import { hashXxh64 } from './xxh64.ts';

/** Continues a CRC32C (0 to begin with), at 13 GB/s: what the stored blocks are checked with. */
export const crc32c: (bytes: Uint8Array, before?: number) => number = nodeRs.crc32c;

const makers: Readonly<Record<HashName, () => Hash>> = {
  md5: () => incremental('md5'),
  sha1: () => incremental('sha1'),
  sha256: () => incremental('sha256'),
  sha512: () => incremental('sha512'),
  crc32: () => hash32(crc32),
  crc32c: () => hash32(crc32c),
  crc64nvme: hashCrc64,
  xxhash64: hashXxh64,
  xxhash3: () => hashXxh3(64),
  xxhash128: () => hashXxh3(128),
};

/** Most contents are one array, which a one-shot hash takes for less: so the first one is kept until there is a second. */
function incremental(name: string): Hash {
  let first: Uint8Array | undefined;
  let hash: ReturnType<typeof createHash> | undefined;
  return {
    update: (bytes) => {
      if (hash === undefined && first === undefined) first = bytes;
      else {
        hash ??= createHash(name).update(first as Uint8Array);
        hash.update(bytes);
      }
    },
    digest: () => hash?.digest() ?? octets(hashOnce(name, first ?? '', 'binary')),
  };
}

function once(name: HashName, bytes: Uint8Array): Uint8Array {
  switch (name) {
    case 'crc32':
      return bigEndian(crc32(bytes));
    case 'crc32c':
      return bigEndian(crc32c(bytes));
    case 'crc64nvme':
    case 'xxhash64':
    case 'xxhash3':
    case 'xxhash128': {
      const hash = makers[name]();
      hash.update(bytes);
      return hash.digest();
    }
    default:
      return hashOnce(name, bytes, 'buffer');
  }
}

export function nodeHasher(): Hasher {
  return {
    create: (name) => makers[name](),
    once,
    sha256Hex: (text) => hashOnce('sha256', text, 'hex'),
    hmacSha256: (key, data) => hmac('sha256', key, data),
    hmacSha1: (key, data) => hmac('sha1', key, data),
  };
}
