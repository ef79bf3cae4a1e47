/** The checksums of the public API over 1 MiB in pieces of 64 KiB, beside the MD5 that every PUT computes anyway. */

import { nodeHasher } from '../../src/backends/crypto/node.ts';
import type { Hasher, HashName } from '../../src/ports/cryptography.ts';
import { microsOfSync, type Piece } from '../lib/micro.ts';

const names: readonly HashName[] = [
  'crc32',
  'crc32c',
  'crc64nvme',
  'sha1',
  'sha256',
  'sha512',
  'xxhash64',
  'xxhash3',
  'xxhash128',
];
const piece = Uint8Array.from({ length: 65_536 }, (_, i) => i * 7 + (i >> 8));

function microsOfOne(hasher: Hasher, name: HashName): number {
  return microsOfSync(() => {
    const hash = hasher.create(name);
    for (let i = 0; i < 16; i++) hash.update(piece);
    hash.digest();
  });
}

export async function checksums(): Promise<Piece[]> {
  const hasher = nodeHasher();
  const floor = { name: 'MD5', micros: microsOfOne(hasher, 'md5') };
  return names.map((name) => ({ name: `${name} of 1 MiB`, micros: microsOfOne(hasher, name), floor }));
}
