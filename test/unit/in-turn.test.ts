/** Commits of one process that change a common row run one after the other. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { MultiKeyMutex } from '../../src/base/mutex.ts';

/** Runs the works concurrently; returns their begins and ends in order. */
async function order(works: readonly (readonly string[])[], ms = 1): Promise<string[]> {
  const turns = new MultiKeyMutex();
  const seen: string[] = [];
  await Promise.all(
    works.map((names, i) =>
      turns.run(names, async () => {
        seen.push(`${i}(`);
        await sleep(ms);
        seen.push(`)${i}`);
      }),
    ),
  );
  return seen;
}

test('works that share a name run one after the other, in the order of their calls', async () => {
  expect(await order([['a'], ['a'], ['a']])).toEqual(['0(', ')0', '1(', ')1', '2(', ')2']);
});

test('works that share no name do not wait', async () => {
  expect((await order([['a'], ['b']])).slice(0, 2)).toEqual(['0(', '1(']);
});

test('a work that shares names with two others waits for both, and any order of names is free of deadlocks', async () => {
  const seen = await order([['a'], ['b'], ['b', 'a'], ['a', 'b']]);
  expect(seen.slice(-4)).toEqual(['2(', ')2', '3(', ')3']);
});

test('a failure releases the next one, and waiting for one that hangs is bounded', async () => {
  const turns = new MultiKeyMutex();
  const failing = turns.run(['a'], () => Promise.reject(new Error('no')));
  const next = turns.run(['a'], async () => 'next');
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('next');
  void turns.run(['a'], () => new Promise(() => {}));
  expect(await turns.run(['a'], async () => 'at last')).toBe('at last');
});

test('a queue that is longer than the longest turn keeps its order', async () => {
  const seen = await order([['a'], ['a'], ['a']], 150);
  expect(seen).toEqual(['0(', ')0', '1(', ')1', '2(', ')2']);
});
