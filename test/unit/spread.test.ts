/** The hash that spreads rows over shards equals the documented one, so that existing rows are found. */
import { expect, test } from 'vitest';
import { fnv32a, hashToShard } from '../../src/base/shard.ts';

test('is FNV-1a of the UTF-8 bytes', () => {
  // From the test vectors of FNV's authors.
  expect(fnv32a('')).toBe(0x811c9dc5);
  expect(fnv32a('a')).toBe(0xe40c292c);
  expect(fnv32a('foobar')).toBe(0xbf9cf968);
  expect(fnv32a('é')).toBe(byHand([0xc3, 0xa9]));
});

const byHand = (bytes: readonly number[]): number =>
  Number(bytes.reduce((hash, byte) => BigInt.asUintN(32, (hash ^ BigInt(byte)) * 0x01000193n), 0x811c9dc5n));

test('spreads texts over all slots', () => {
  for (const slots of [4, 16, 100]) {
    const taken = Array.from({ length: 4000 }, (_, each) => hashToShard(`key ${each}`, slots));
    expect(new Set(taken).size).toBe(slots);
    expect(taken.every((slot) => slot >= 0 && slot < slots)).toBe(true);
  }
});
