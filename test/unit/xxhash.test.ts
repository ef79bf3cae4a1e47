/**
 * XXH64 and XXH3 against test/vectors/xxhash.txt, which the reference library wrote (xxHash 0.8.2 through the Python
 * package xxhash 3.6.0, seed 0): for each length the digests of the first bytes of `content`, big-endian.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hashXxh3 } from '../../src/backends/crypto/xxh3.ts';
import { hashXxh64 } from '../../src/backends/crypto/xxh64.ts';
import type { Hash } from '../../src/ports/cryptography.ts';

const vectors = readFileSync(new URL('../vectors/xxhash.txt', import.meta.url), 'utf8')
  .trim()
  .split('\n');
const content = Uint8Array.from({ length: 20_000 }, (_, i) => i * i * 31 + i * 7 + (i >> 3) * 13 + 5);
const makers = [hashXxh64, () => hashXxh3(64), () => hashXxh3(128)];

/** The three digests of bytes that arrive in pieces of the given lengths, in turn. */
function digestsOf(bytes: Uint8Array, lengths: readonly number[]): string {
  const digest = (hash: Hash): string => {
    for (let at = 0, n = 0; at < bytes.length; n++) {
      const end = at + (lengths[n % lengths.length] as number);
      hash.update(bytes.subarray(at, end));
      at = end;
    }
    return Buffer.from(hash.digest()).toString('hex');
  };
  return makers.map((make) => digest(make())).join(' ');
}

// One piece; single bytes; pieces around the lengths of a stripe, of the buffer and of a block; empty pieces between.
test.each([
  [[20_000]],
  [[1]],
  [[63, 1, 64, 65]],
  [[255, 1, 256, 257, 0]],
  [[241, 1_023, 1_024, 1_025, 7]],
  [[13, 320, 31, 33, 1]],
])('xxHash gives the digests of the reference at every length, in pieces of %j bytes', (lengths) => {
  expect(vectors.length).toBe(1_106);
  const wrong = vectors.filter((vector) => {
    const length = Number.parseInt(vector, 10);
    return vector !== `${length} ${digestsOf(content.subarray(0, length), lengths)}`;
  });
  expect(wrong).toEqual([]);
});
