/** The memory budget of writes: bounded, writes above it wait, and each of them gets its share in the end. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { chunked } from '../../src/backends/data/chunked/chunked.ts';
import { memoryChunks } from '../../src/backends/data/memory.ts';
import { WriteBudget } from '../../src/backends/data/write-budget.ts';
import type { ChunkStore } from '../../src/ports/chunk-store.ts';
import { chunkBytes } from '../../src/ports/object-bytes.ts';
import { faulty } from '../support/faulty.ts';
import { isWaiting } from '../support/is-waiting.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const share = 512 * 1024;
const owner = { bucketId: 'b', key: 'k' };

async function* sourceOf(size: number): AsyncGenerator<Uint8Array> {
  for (let left = size; left > 0; left -= 65_536) {
    await turn();
    yield new Uint8Array(Math.min(left, 65_536));
  }
}

/** A client that sends the beginning and then pauses until `goOn` is called. */
function stalling(size: number): { readonly source: AsyncIterable<Uint8Array>; readonly goOn: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const source = async function* (): AsyncGenerator<Uint8Array> {
    yield* sourceOf(size);
    await promise;
    yield* sourceOf(size);
  };
  return { source: source(), goOn: resolve };
}

/** Counts the writes that are concurrently in the store; each takes some turns of the event loop. */
function tap(budget: WriteBudget): {
  readonly store: ChunkStore;
  readonly seen: { now: number; most: number; mostBytes: number };
} {
  const memory = memoryChunks();
  const seen = { now: 0, most: 0, mostBytes: 0 };
  const write: ChunkStore['write'] = async (id, source, options) => {
    seen.now += 1;
    seen.most = Math.max(seen.most, seen.now);
    seen.mostBytes = Math.max(seen.mostBytes, budget.taken);
    try {
      return await memory.write(id, source, options);
    } finally {
      await turn();
      seen.now -= 1;
    }
  };
  return { store: faulty(memory, { write }), seen };
}

test('many uploads of several chunks through a budget of two all end, and never hold more', async () => {
  const budget = new WriteBudget(2 * share);
  const { store, seen } = tap(budget);
  const bytes = chunked({ default: store }, budget);
  const size = 2 * chunkBytes + 5;
  const writes = Array.from({ length: 10 }, (_, i) =>
    bytes.write(sourceOf(size), { cluster: 'default', id: `op${i}`, owner, ...(i % 2 ? { size } : {}) }),
  );
  for (const extent of await Promise.all(writes)) expect(extent.size).toBe(size);
  expect(seen.mostBytes).toBeLessThanOrEqual(2 * share);
  expect(seen.most).toBeGreaterThan(1);
  expect(budget.taken).toBe(0);
});

test('a budget smaller than one chunk admits one at a time', async () => {
  const budget = new WriteBudget(1000);
  const { store, seen } = tap(budget);
  const bytes = chunked({ default: store }, budget);
  const writes = Array.from({ length: 5 }, (_, i) =>
    bytes.write(sourceOf(70_000), { cluster: 'default', id: `op${i}`, owner, size: 70_000 }),
  );
  await Promise.all(writes);
  expect(seen.most).toBe(1);
  expect(budget.taken).toBe(0);
});

test('small chunks take what they are, so that many pass together', async () => {
  const budget = new WriteBudget(share);
  expect(await budget.take(4096)).toBe(4096);
  expect(await isWaiting(budget.take(undefined))).toBe(true);
  expect(budget.taken).toBe(4096);
});

test('waiting writes are admitted in order, and small ones do not overtake a large one', async () => {
  const budget = new WriteBudget(share);
  const first = budget.take(share);
  const order: string[] = [];
  const large = budget.take(share).then((bytes) => {
    order.push('large');
    return bytes;
  });
  const small = budget.take(1).then(() => order.push('small'));
  budget.give(await first);
  budget.give(await large);
  await small;
  expect(order).toEqual(['large', 'small']);
});

test('a cancelled write leaves the queue, and those after it move up', async () => {
  const budget = new WriteBudget(share);
  expect(await budget.take(share - 10)).toBe(share - 10);
  const gone = new AbortController();
  const large = budget.take(share, gone.signal);
  const small = budget.take(5);
  gone.abort(new Error('gone'));
  await expect(large).rejects.toThrow('gone');
  expect(await small).toBe(5);
  await expect(budget.take(share, AbortSignal.abort(new Error('gone before')))).rejects.toThrow('before');
  budget.give(5);
  budget.give(share - 10);
  expect(budget.taken).toBe(0);
});

test('a write that fails or is cancelled, waiting or writing, releases its share', async () => {
  const memory = memoryChunks();
  const broken = faulty(memory, { write: () => Promise.reject(new Error('disk full')) });
  const budget = new WriteBudget(share);
  const failing = chunked({ default: broken }, budget);
  const options = { cluster: 'default', id: 'x', owner };
  await expect(failing.write(sourceOf(9 * 1024 * 1024), options)).rejects.toThrow('disk full');
  expect(budget.taken).toBe(0);

  const held = budget.take(share);
  const gone = new AbortController();
  const waiting = chunked({ default: memory }, budget).write(sourceOf(500_000), {
    ...options,
    signal: gone.signal,
  });
  await turn();
  gone.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  budget.give(await held);
  expect(budget.taken).toBe(0);
});

test('uploads of stalled clients do not block others, and finish when their clients resume', async () => {
  const budget = new WriteBudget(2 * share);
  const bytes = chunked({ default: memoryChunks() }, budget);
  const write = (id: string, source: AsyncIterable<Uint8Array>) =>
    bytes.write(source, { cluster: 'default', id, owner });
  const stalled = Array.from({ length: 8 }, () => stalling(300_000));
  const writes = stalled.map(({ source }, i) => write(`stalled${i}`, source));
  expect((await write('large', sourceOf(2 * chunkBytes))).size).toBe(2 * chunkBytes);
  for (const { goOn } of stalled) goOn();
  for (const extent of await Promise.all(writes)) expect(extent.size).toBe(600_000);
  expect(budget.taken).toBe(0);
});

test('clients that send slowly do not block others either', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(share, clock);
  const slow = budget.open(undefined);
  await slow.take();
  const waiting = budget.take(share);
  for (let drop = 0; drop < 20; drop += 1) {
    slow.park();
    await clock.advance(10);
    if (await isWaiting(slow.resume(100))) break;
  }
  expect(await waiting).toBe(share);
  slow.close();
  budget.give(share);
  await clock.settle();
  expect(budget.taken).toBe(0);
});

test('a store that holds a whole chunk of a slow client lends its memory when that is stored, not before', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(chunkBytes, clock);
  const slow = budget.open(chunkBytes, { bufferedMax: chunkBytes });
  await slow.take();
  const asked: string[] = [];
  let isStoring = true;
  slow.spillBy(share / 2, () => {
    asked.push('spill');
    return isStoring;
  });
  slow.park();
  let isAdmitted = false;
  const waiting = budget.take(chunkBytes).then((bytes) => {
    isAdmitted = true;
    return bytes;
  });
  for (let look = 0; look < 50; look += 1) await clock.advance(100);
  expect(asked.length).toBeGreaterThan(0);
  expect(isAdmitted).toBe(false);
  expect(budget.taken).toBe(chunkBytes);

  // The cluster has stored the bytes, so the rest of the share is lent again.
  isStoring = false;
  slow.release();
  budget.give(await waiting);
  expect(budget.taken).toBe(0);
  // The client continues, and takes only as much as the store holds now.
  await slow.resume(100);
  expect(budget.taken).toBe(share / 2);
  slow.close();
  expect(budget.taken).toBe(0);
});

test('no more chunks are spilled than the first of those that wait needs', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(4 * chunkBytes, clock);
  const spilling = new Set<number>();
  for (let n = 0; n < 4; n += 1) {
    const slow = budget.open(chunkBytes, { bufferedMax: chunkBytes });
    await slow.take();
    slow.spillBy(share, () => spilling.add(n).size > 0);
    slow.park();
  }
  void budget.take(chunkBytes - share);
  for (let look = 0; look < 10; look += 1) await clock.advance(100);
  expect(spilling.size).toBe(1);
});

test('a client that keeps sending keeps its share, however many wait', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(share, clock);
  const fast = budget.open(undefined);
  await fast.take();
  const waiting = budget.take(share);
  for (let array = 0; array < 20; array += 1) {
    fast.park();
    await clock.advance(50);
    expect(await isWaiting(fast.resume(65_536))).toBe(false);
  }
  fast.close();
  expect(await waiting).toBe(share);
});

test('a small write that is in memory already passes those that wait', async () => {
  const budget = new WriteBudget(share);
  const held = await budget.take(share);
  const bytes = chunked({ default: memoryChunks() }, budget);
  const small = await bytes.write(sourceOf(1), { cluster: 'default', id: 'small', owner, size: 1 });
  expect(small.size).toBe(1);
  budget.give(held);
  expect(budget.taken).toBe(0);
});

test('accounts that wait are admitted in rotation, and one never holds all of the memory', async () => {
  const budget = new WriteBudget(8 * share);
  const order: string[] = [];
  const held: (() => void)[] = [];
  const take = (account: string): void =>
    void budget.take(share, undefined, account).then((bytes) => {
      order.push(account);
      held.push(() => budget.give(bytes, account));
    });
  for (let n = 0; n < 20; n += 1) take('many');
  await turn();
  // Three times as much as is free.
  expect(order).toEqual(Array(6).fill('many'));
  for (let n = 0; n < 3; n += 1) take('few');
  await turn();
  expect(order.slice(6)).toEqual(['few']);
  while (held.length > 0) {
    for (const give of held.splice(0)) give();
    await turn();
  }
  expect(order).toHaveLength(23);
  expect(order.lastIndexOf('few')).toBeLessThan(12);
  expect(budget.taken).toBe(0);
});

test('a write waits for no slow client of its own account', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(4 * share, clock);
  for (let n = 0; n < 3; n += 1) {
    const slow = budget.open(undefined, { account: 'one' });
    await slow.take();
    slow.park();
  }
  const waiting = budget.take(share, undefined, 'one');
  await clock.advance(200);
  expect(await waiting).toBe(share);
});

/** Takes one share after another. */
async function takeMany(budget: WriteBudget, account: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await budget.take(share, undefined, account);
}

test('an account that has its share takes no memory from slow clients of accounts that hold less', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(8 * share, clock);
  const slow = [0, 1].map(() => budget.open(share, { account: 'few' }));
  for (const each of slow) await each.take();
  for (const each of slow) each.park();
  const spilled = vi.fn(() => false);
  for (const each of slow) each.spillBy(share, spilled);
  await takeMany(budget, 'many', 4);
  const waiting = budget.take(share, undefined, 'many');
  await clock.advance(1_000);
  expect([budget.taken, spilled.mock.calls.length]).toEqual([6 * share, 0]);
  for (const each of slow) expect(await isWaiting(each.resume(100))).toBe(false);
  budget.give(share, 'many');
  expect(await waiting).toBe(share);
});

test('an account that may not have more even with what slow clients of others hold takes nothing from them', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(8 * share, clock);
  await takeMany(budget, 'many', 6);
  const slow = budget.open(2 * share, { account: 'few', bufferedMax: 2 * share });
  await slow.take();
  slow.park();
  const waiting = budget.take(share, undefined, 'many');
  await clock.advance(1_000);
  expect([await isWaiting(waiting), budget.taken]).toEqual([true, 8 * share]);
});

test('where no memory is free, slow clients of accounts that hold as much lend what a write needs', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(8 * share, clock);
  await takeMany(budget, '', 4);
  await takeMany(budget, 'one', 1);
  for (const account of ['two', 'three', 'four']) {
    const slow = budget.open(share, { account });
    await slow.take();
    slow.park();
  }
  const waiting = budget.take(share, undefined, 'one');
  await clock.advance(200);
  expect([await isWaiting(waiting), budget.taken]).toEqual([false, 7 * share]);
});

test('slow clients of an account that holds more lend until both hold the same', async () => {
  const clock = virtualClock();
  const budget = new WriteBudget(8 * share, clock);
  for (let n = 0; n < 6; n += 1) {
    const slow = budget.open(share, { account: 'stalled' });
    await slow.take();
    slow.park();
  }
  const taken = takeMany(budget, 'few', 3);
  await clock.advance(1_000);
  expect([await isWaiting(taken), budget.taken]).toEqual([false, 7 * share]);
  const further = budget.take(share, undefined, 'few');
  await clock.advance(1_000);
  expect([await isWaiting(further), budget.taken]).toEqual([true, 6 * share]);
});

test('writes to a cluster that hangs delay no write of another account to another cluster', async () => {
  const budget = new WriteBudget(8 * share);
  const memory = memoryChunks();
  const release = Promise.withResolvers<void>();
  const hanging = faulty(memory, {
    async write(id, source, options) {
      await release.promise;
      return memory.write(id, source, options);
    },
  });
  const bytes = chunked({ hanging, default: memory }, budget);
  const size = 2 * share;
  const writes = Array.from({ length: 20 }, (_, n) =>
    bytes.write(sourceOf(size), { account: 'bob', cluster: 'hanging', id: `h${n}`, owner, size }),
  );
  await turn();
  const other = { account: 'alice', cluster: 'default', owner, size };
  for (const id of ['a', 'b', 'c'])
    expect((await bytes.write(sourceOf(size), { ...other, id })).size).toBe(size);
  release.resolve();
  await Promise.all(writes);
  expect(budget.taken).toBe(0);
});
