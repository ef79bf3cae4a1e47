/** Bounded parallelism: order of results, the bound, and what happens after a failure. */
import { expect, test } from 'vitest';
import { inParallel } from '../../src/base/concurrency.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('results have the order of their items, and no more than the limit run at a time', async () => {
  let running = 0;
  let most = 0;
  const results = await inParallel(3, [5, 1, 4, 2, 3], async (turns, index) => {
    running += 1;
    most = Math.max(most, running);
    for (let n = 0; n < turns; n += 1) await turn();
    running -= 1;
    return `${index}:${turns}`;
  });
  expect(results).toEqual(['0:5', '1:1', '2:4', '3:2', '4:3']);
  expect(most).toBe(3);
  expect(await inParallel(3, [], turn)).toEqual([]);
});

test('a failure is thrown once the running items have ended, and no further item begins', async () => {
  const begun: number[] = [];
  const ended: number[] = [];
  const failing = inParallel(2, [1, 2, 3, 4], async (item) => {
    begun.push(item);
    await turn();
    if (item === 1) throw new Error('the first');
    for (let n = 0; n < 5; n += 1) await turn();
    ended.push(item);
    throw new Error('a later one');
  });
  await expect(failing).rejects.toThrow('the first');
  expect(begun).toEqual([1, 2]);
  expect(ended).toEqual([2]);
});

test('a function that throws instead of returning a promise fails like one that rejects', async () => {
  const failing = inParallel(2, [1, 2], () => {
    throw new Error('at once');
  });
  await expect(failing).rejects.toThrow('at once');
});
