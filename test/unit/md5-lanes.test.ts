/** MD5 of several contents at a time, beside node:crypto. */

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadMd5Program, Md5Lanes } from '../../src/backends/crypto/md5-lanes.ts';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import type { DeferredHash } from '../../src/ports/cryptography.ts';

const openLanes = (): Md5Lanes => new Md5Lanes(() => nodeHasher().create('md5'), setImmediate);
const allBytes = Uint8Array.from({ length: 300 * 1024 }, (_, at) => (at * 31 + (at >> 8) * 7) & 0xff);
const bytesOf = (length: number, seed: number): Uint8Array => allBytes.subarray(seed, seed + length);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const expected = (content: Uint8Array): string => createHash('md5').update(content).digest('hex');

async function hashInPieces(
  hash: DeferredHash,
  content: Uint8Array,
  cuts: readonly number[],
): Promise<string> {
  let from = 0;
  for (const cut of [...cuts.toSorted((a, b) => a - b), content.length]) {
    const to = Math.min(cut, content.length);
    await hash.update(content.subarray(from, to));
    from = to;
  }
  return hex(hash.digest());
}

test('the runtime has vectors in WebAssembly', () => {
  expect(loadMd5Program()).toBeDefined();
});

test('contents of any lengths that are hashed at the same time get their own MD5, however they are cut', async () => {
  const content = fc.record({
    length: fc.oneof(fc.nat(200), fc.nat(100_000)),
    cuts: fc.array(fc.nat(100_000), { maxLength: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(content, { minLength: 1, maxLength: 15 }), async (plans) => {
      const lanes = openLanes();
      await Promise.all(
        plans.map(async ({ length, cuts }, seed) => {
          const bytes = bytesOf(length, seed);
          expect(await hashInPieces(lanes.open(), bytes, cuts)).toBe(expected(bytes));
        }),
      );
    }),
    { numRuns: 40 },
  );
});

test.each([55, 56, 63, 64, 119, 120, 128])('the padding of %i bytes is that of RFC 1321', async (length) => {
  const lanes = openLanes();
  lanes.open();
  const bytes = bytesOf(length, 1);
  expect(await hashInPieces(lanes.open(), bytes, [])).toBe(expected(bytes));
});

test('a content that ends early, and whose array was freed, does not stop the others', async () => {
  const lanes = openLanes();
  lanes.open();
  const [ended, other] = [lanes.open(), lanes.open()];
  const [freed, bytes] = [new Uint8Array(256 * 1024), bytesOf(256 * 1024, 2)];
  const updates = [ended.update(freed), other.update(bytes)];
  freed.buffer.transfer(0);
  await Promise.all(updates);
  expect(hex(other.digest())).toBe(expected(bytes));
});

test('a content that is alone is hashed by the runtime, also after others were abandoned', () => {
  const lanes = openLanes();
  lanes.open();
  const piece = new Uint8Array(64);
  for (let n = 0; n < 300; n++) {
    const alone = lanes.open();
    void alone.update(piece);
    alone.digest();
  }
  expect(lanes.open().update(new Uint8Array(256 * 1024))).toBeUndefined();
});

test('a content that begins alone right after others is hashed in lanes, as more of them may follow; the next one is not', () => {
  const lanes = openLanes();
  const piece = bytesOf(64 * 1024, 3);
  const [first, second] = [lanes.open(), lanes.open()];
  for (const content of [first, second]) content.digest();
  const [third, fourth] = [0, 1].map(() => {
    const content = lanes.open();
    const update = content.update(piece);
    return { update, content: update === undefined ? content.digest() : lanes.close(content) };
  });
  expect(third?.update).toBeInstanceOf(Promise);
  expect(fourth?.update).toBeUndefined();
});
