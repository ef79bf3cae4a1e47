/** The hasher over node:crypto and the CRC32 of node:zlib, which workerd has too (`nodejs_compat`). The CRC32C is passed in. */
import { createHash, createHmac, hash as hashOnce } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Hash, Hasher, HashName } from '../../ports/cryptography.ts';
import { bigEndian, type Crc32, hash32, hashCrc64 } from './crc.ts';
import { hashXxh3 } from './xxh3.ts';
import { hashXxh64 } from './xxh64.ts';

type Makers = Readonly<Record<HashName, () => Hash>>;

const makersWith = (crc32c: Crc32): Makers => ({
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
});

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

export function nativeHasher({ crc32c }: { readonly crc32c: Crc32 }): Hasher {
  const makers = makersWith(crc32c);
  const once = (name: HashName, bytes: Uint8Array): Uint8Array => {
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
      case 'md5':
      case 'sha1':
      case 'sha256':
      case 'sha512':
        return hashOnce(name, bytes, 'buffer');
    }
  };
  return {
    create: (name) => makers[name](),
    once,
    sha256Hex: (text) => hashOnce('sha256', text, 'hex'),
    hmacSha256: (key, data) => hmac('sha256', key, data),
    hmacSha1: (key, data) => hmac('sha1', key, data),
  };
}

// HMAC from two one-shot hashes: on Node 24 `createHmac` with a raw key spends 13 µs unwrapping key objects,
// this spends 1.2 (verifying a signature is one HMAC).

const blockLength = 64;

const utf8 = new TextEncoder();

/** Reused: nothing waits between writing to it and hashing it. */
const scratch = new Uint8Array(4096);
const afterBlock = scratch.subarray(blockLength);
/** The padded key, and the inner hash behind it. */
const outerBlocks = {
  sha1: scratch.subarray(0, blockLength + 20),
  sha256: scratch.subarray(0, blockLength + 32),
} as const;

function hmac(name: 'sha1' | 'sha256', key: Uint8Array, data: Uint8Array | string): Uint8Array {
  const lengthMax = blockLength + (typeof data === 'string' ? data.length * 3 : data.length);
  if (lengthMax > scratch.length) return createHmac(name, key).update(data).digest();
  const padded = key.length > blockLength ? octets(hashOnce(name, key, 'binary')) : key;
  pad(padded, 0x36);
  const written = typeof data === 'string' ? utf8.encodeInto(data, afterBlock).written : data.length;
  if (typeof data !== 'string') scratch.set(data, blockLength);
  const inner = hashOnce(name, scratch.subarray(0, blockLength + written), 'binary');
  pad(padded, 0x5c);
  for (let i = 0; i < inner.length; i++) scratch[blockLength + i] = inner.charCodeAt(i);
  const outer = octets(hashOnce(name, outerBlocks[name], 'binary'));
  scratch.fill(0, 0, blockLength);
  return outer;
}

function pad(key: Uint8Array, byte: number): void {
  scratch.fill(byte, 0, blockLength);
  for (let i = 0; i < key.length; i++) scratch[i] = (key[i] as number) ^ byte;
}

/** A digest as a text of octets is cheaper to get than a separate Buffer. */
function octets(binary: string): Uint8Array {
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
