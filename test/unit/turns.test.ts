/** Works that share the turns of the event loop. */
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { inParallelTurns, openTurns } from '../../src/domain/common/turns.ts';

/** Time passes only by work. `held` is the longest time for which the event loop served nothing else. */
async function measure(works: (world: World) => readonly Promise<unknown>[]) {
  let time = 0;
  const clock = { elapsed: () => time, sleep: () => setImmediate() };
  const pieces: { readonly name: string; readonly at: number }[] = [];
  const spend = (name: string, ms: number) => {
    pieces.push({ name, at: time });
    time += ms;
  };
  let isRunning = true;
  let held = 0;
  const all = Promise.all(works({ clock, spend })).finally(() => {
    isRunning = false;
  });
  for (let before = time; isRunning; before = time) {
    await setImmediate();
    held = Math.max(held, time - before);
  }
  await all;
  return { held, pieces };
}

interface World {
  readonly clock: { elapsed(): number; sleep(): Promise<void> };
  spend(name: string, ms: number): void;
}

/** As a request does with the keys of its body: some steps pass before the piece takes its time. */
function parallelWork({ clock, spend }: World, { account, ms }: { account: string; ms: number }) {
  const rest = openTurns(clock, { account, isParallel: true });
  return inParallelTurns({ limit: 16, rest }, Array.from({ length: 40 }), async () => {
    for (let step = 0; step < 30; step += 1) await undefined;
    spend(account, ms);
    await setImmediate();
  });
}

test('one piece of all parallel works runs between two rounds of the event loop', async () => {
  const { held, pieces } = await measure((world) =>
    Array.from({ length: 4 }, () => parallelWork(world, { account: 'a', ms: 12 })),
  );
  expect([held, pieces.length]).toEqual([12, 160]);
});

test('the work of an account waits for one turn of another account at a time, however many requests that one has', async () => {
  const { pieces } = await measure((world) => [
    ...Array.from({ length: 4 }, () => parallelWork(world, { account: 'a', ms: 12 })),
    parallelWork(world, { account: 'b', ms: 12 }),
  ]);
  const last = pieces.findLastIndex(({ name }) => name === 'b');
  // 40 of its own, and as many of the other account.
  expect(last).toBeLessThan(90);
});

test('small pieces of a sequential work go on for a turn beside large pieces of another account', async () => {
  const { held, pieces } = await measure((world) => [
    parallelWork(world, { account: 'a', ms: 12 }),
    (async () => {
      const turn = openTurns(world.clock, { account: 'b' });
      for (let piece = 0; piece < 100; piece += 1) {
        await turn();
        world.spend('b', 1);
      }
    })(),
  ]);
  expect(held).toBeLessThanOrEqual(12);
  const last = pieces.findLastIndex(({ name }) => name === 'b');
  expect(pieces.slice(0, last).filter(({ name }) => name === 'a').length).toBeLessThanOrEqual(12);
});

test('a work that was aborted leaves the queue, and the others go on', async () => {
  const left = new AbortController();
  const { pieces } = await measure(({ clock, spend }) => {
    const gone = openTurns(clock, { account: 'a', isParallel: true, signal: left.signal });
    const refused = Array.from({ length: 3 }, () => gone().then(() => spend('gone', 12)));
    return [
      ...refused.map((each, index) => (index === 0 ? each : expect(each).rejects.toBe('gone'))),
      parallelWork({ clock, spend }, { account: 'b', ms: 12 }),
      Promise.resolve().then(() => left.abort('gone')),
    ];
  });
  expect(pieces.filter(({ name }) => name === 'b')).toHaveLength(40);
});
