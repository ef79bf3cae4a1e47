import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import {
  backlog,
  dueRows,
  finishRows,
  putOffRows,
  queueBatchMax,
  queued,
  queueSlot,
  queueSlots,
  retryDelayMs,
} from '../../src/metadata/background/queues.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const slotKey = 'some key';
const slot = queueSlot(slotKey);

function world() {
  const clock = virtualClock(1_000_000);
  const metadata = memoryStore({ clock, random: systemRandom() });
  const add = (id: string, due: number, task: unknown = id) =>
    metadata.apply([queued('gc', slotKey, task, { id, due, requestId: 'r' })]);
  const due = (now: number, max?: number) =>
    dueRows(metadata, { queue: 'gc', slot, now, ...(max === undefined ? {} : { max }) });
  const ids = async (now: number) => (await due(now)).map((row) => row.id);
  return { metadata, add, due, ids };
}

const none: ReadonlySet<QueueRow> = new Set();

test('yields what is due, the oldest first, and nothing before its time', async () => {
  const { add, ids } = world();
  await add('c', 300);
  await add('a', 200);
  await add('b', 200);
  expect(await ids(199)).toEqual([]);
  expect(await ids(200)).toEqual(['a', 'b']);
  expect(await ids(300)).toEqual(['a', 'b', 'c']);
});

test('takes a batch at a time', async () => {
  const { add, due } = world();
  for (let each = 0; each <= queueBatchMax; each += 1) await add(`${each}`, 1);
  expect(await due(1)).toHaveLength(queueBatchMax);
  expect(await due(1, 3)).toHaveLength(3);
});

test('spreads keys over all slots, each always to the same', () => {
  const slots = Array.from({ length: 500 }, (_, each) => queueSlot(`key ${each}`));
  expect(new Set(slots).size).toBe(queueSlots);
  expect(slots.every((each) => each >= 0 && each < queueSlots)).toBe(true);
  expect(slots.map((_, each) => queueSlot(`key ${each}`))).toEqual(slots);
});

test('forgets what is finished, and only that', async () => {
  const { metadata, add, due, ids } = world();
  for (const id of ['a', 'b', 'c']) await add(id, 100);
  const taken = await due(100, 2);
  // While the batch is processed, a slow writer adds a row that was due before the last finished one.
  await add('aa', 100);
  await finishRows(metadata, taken, { failed: none, now: 100 });
  expect(await ids(100)).toEqual(['aa', 'c']);
});

test('brings back what failed as a new row, later every time', async () => {
  const { metadata, add, due } = world();
  await add('a', 100, { what: 'ever' });
  let now = 100;
  for (let attempts = 0; attempts < 20; attempts += 1) {
    const taken = await due(now);
    expect(taken).toMatchObject([{ id: 'a', attempts, task: { what: 'ever' }, requestId: 'r' }]);
    await finishRows(metadata, taken, { failed: new Set(taken), now });
    expect(await due(now + retryDelayMs(attempts) - 1)).toEqual([]);
    now += retryDelayMs(attempts);
  }
  expect(await backlog(metadata, 'gc')).toBe(1);
});

test('puts rows off with their attempts, however large they are', async () => {
  const { metadata, add, due } = world();
  for (let each = 0; each < queueBatchMax; each += 1)
    await add(`${each}`, 100, each % 2 === 0 ? 'x'.repeat(20_000) : 'small');
  const taken = await due(100);
  await putOffRows(metadata, new Map(taken.map((row) => [row, 500])));
  expect(await due(499)).toEqual([]);
  expect(await due(500)).toEqual(taken.map((row) => ({ ...row, due: 500 })));
  expect(await backlog(metadata, 'gc')).toBe(queueBatchMax);
});

test('waits longer after every failure, up to an hour', () => {
  const delays = Array.from({ length: 40 }, (_, attempts) => retryDelayMs(attempts));
  expect(delays.slice(0, 4)).toEqual([1_000, 2_000, 4_000, 8_000]);
  expect(delays.at(-1)).toBe(3_600_000);
  expect(delays).toEqual(delays.toSorted((a, b) => a - b));
});

test('counts its backlog over all slots', async () => {
  const { metadata } = world();
  for (let each = 0; each < 50; each += 1) {
    const options = { id: `${each}`, due: each, requestId: 'r' };
    await metadata.apply([queued('gc', `key ${each}`, {}, options)]);
  }
  expect(await backlog(metadata, 'gc')).toBe(50);
});
