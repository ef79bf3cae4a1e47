/** The memory budget of readers of pools: bounded, and served in the order of arrival, also with slow readers. */
import { expect, test } from 'vitest';
import { crc32c } from '../../src/backends/crypto/node.ts';
import { encodeRecord } from '../../src/backends/data/cluster-pool/chunk-record.ts';
import type { RadosPool } from '../../src/backends/data/cluster-pool/driver.ts';
import { ReadBudget } from '../../src/backends/data/cluster-pool/read-budget.ts';
import { readPieces } from '../../src/backends/data/cluster-pool/read-pieces.ts';
import { chunkBytes } from '../../src/ports/object-bytes.ts';

const block = 64 * 1024;
const mebibyte = 1 << 20;
const owner = { bucketId: 'b', key: 'k' };
const zeros = crc32c(new Uint8Array(block));
const record = encodeRecord('c.0', {
  owner,
  size: chunkBytes,
  crcs: Array.from({ length: chunkBytes / block }, () => zeros),
});

/** A pool whose chunks are zeros; `buffers` collects every buffer that was read into. */
function zeroPool() {
  const buffers = new Set<ArrayBufferLike>();
  const pool = {
    read: (_: string, into: Uint8Array, { wantsAttribute }: { readonly wantsAttribute: boolean }) => {
      buffers.add(into.buffer);
      into.fill(0);
      const { length } = into;
      return {
        done: Promise.resolve(wantsAttribute ? { length, attribute: record } : { length }),
        cancel() {},
      };
    },
  } as unknown as RadosPool;
  const bytesHeld = (): number => [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return { pool, bytesHeld };
}

function reader(budget: ReadBudget, pool: RadosPool): AsyncGenerator<Uint8Array> {
  const parts = { budget, crc32c, openPool: async () => pool, explained: (error: unknown) => error };
  const piece = { chunk: { id: 'c.0', size: chunkBytes }, range: { start: 0, end: chunkBytes - 1 } };
  return readPieces(
    parts,
    Array.from({ length: 16 }, () => piece),
  );
}

test('120 slow readers, one after the other, hold the budget and three blocks each at most', async () => {
  const bytesMax = 32 * mebibyte;
  const count = 120;
  const budget = new ReadBudget({ bytesMax, aheadBytes: 4 * mebibyte });
  const { pool, bytesHeld } = zeroPool();
  const streams: AsyncGenerator<Uint8Array>[] = [];
  const allowed = bytesMax + count * 3 * block;
  // Buffers that are kept for the next reads: 4 MiB for each of five lengths.
  const spares = 20 * mebibyte;
  for (let n = 0; n < count; n += 1) {
    const stream = reader(budget, pool);
    streams.push(stream);
    for (let read = 0; read < 3; read += 1) expect((await stream.next()).done).toBe(false);
    expect(budget.taken).toBeLessThanOrEqual(allowed);
    expect(bytesHeld()).toBeLessThanOrEqual(allowed + spares);
  }
  for (let round = 0; round < 5; round += 1) {
    for (const stream of streams) await stream.next();
    expect(budget.taken).toBeLessThanOrEqual(allowed);
    expect(bytesHeld()).toBeLessThanOrEqual(allowed + spares);
  }
  for (const stream of streams) await stream.return(undefined);
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(budget.taken).toBe(0);
});

test('a single reader reads ahead as far as the settings allow, and every byte', async () => {
  const budget = new ReadBudget({ bytesMax: 64 * mebibyte, aheadBytes: 4 * mebibyte });
  const { pool } = zeroPool();
  let total = 0;
  let most = 0;
  for await (const bytes of reader(budget, pool)) {
    total += bytes.length;
    most = Math.max(most, budget.taken);
  }
  expect(total).toBe(16 * chunkBytes);
  expect(most).toBeGreaterThanOrEqual(5 * mebibyte);
  expect(most).toBeLessThanOrEqual(6 * mebibyte);
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(budget.taken).toBe(0);
});

test('a late reader gets its share once the others release theirs', async () => {
  const budget = new ReadBudget({ bytesMax: 8 * mebibyte, aheadBytes: 4 * mebibyte });
  const { pool } = zeroPool();
  const early = [reader(budget, pool), reader(budget, pool)];
  for (const stream of early) await stream.next();
  const late = reader(budget, pool);
  let largest = 0;
  for (let round = 0; round < 20; round += 1) {
    for (const stream of early) await stream.next();
    largest = Math.max(largest, (await late.next()).value?.length ?? 0);
  }
  expect(largest).toBeGreaterThanOrEqual(mebibyte / 4);
  for (const stream of [...early, late]) await stream.return(undefined);
});
