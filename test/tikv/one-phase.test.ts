/** Commits in one phase: when they are used, and lost answers to them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Undetermined, Unreachable } from '../../src/backends/tikv/backoff.ts';
import { describeOnDouble } from './on-double.ts';
import { bytes, count, freshKeys, type Opened, opened, put, settled, text } from './world.ts';

describeOnDouble('one phase', {}, (engine) => {
  const endpoints = async (): Promise<readonly string[]> => (await engine).endpoints;

  test('keys of one region are committed in one phase, others in two', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys();
    await double.fault({ command: 'Commit', kind: 'delay' });
    await count(world.client, key('a'));
    expect(await double.hits()).toEqual([0]);
    await world.client.transact(async (transaction) => {
      await transaction.lock([key('a'), key('z')]);
      // The region has changed meanwhile and serves the key as before.
      await double.split(key('m'));
      for (const name of ['a', 'z']) transaction.put(key(name), bytes('both'));
    });
    expect([await world.client.get(key('a')), await world.client.get(key('z'))].map(text)).toEqual([
      'both',
      'both',
    ]);
    await settled(async () => (await double.hits())[0] === 2);
  });

  test('a store that refuses a one-phase commit gets one in two phases', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys()('n');
    await double.fault({ command: 'Prewrite', kind: 'two-phase' });
    await double.fault({ command: 'Commit', kind: 'delay' });
    for (let i = 0; i < 3; i += 1) await count(world.client, key);
    expect(text(await world.client.get(key))).toBe('3');
    expect(await double.hits()).toEqual([3, 3]);
  });

  test('a one-phase commit is after all earlier snapshots, and in all later ones', async () => {
    await using world = opened(await endpoints());
    const key = freshKeys();
    const page = { low: key(''), high: key('~'), limit: 5, reverse: false };
    for (let i = 1; i <= 20; i += 1) {
      const before = await world.client.snapshot();
      await count(world.client, key('n'));
      const [was, is] = [await before.scan(page), await (await world.client.snapshot()).scan(page)];
      expect(text(was[0]?.value)).toBe(i === 1 ? undefined : String(i - 1));
      expect(text(is[0]?.value)).toBe(String(i));
    }
  });

  test('commits are counted once, however their answers are lost while regions split, merge and move', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const key = freshKeys();
    await double.chaos(5);
    const harm = (async () => {
      for (let i = 0; i < 30; i += 1) {
        await double.fault({ command: 'Prewrite', kind: i % 2 ? 'cut' : 'cut-before', skip: 5, count: 1 });
        await sleep(60);
      }
    })();
    let stood = 0;
    let unknown = 0;
    const worker = async (name: string): Promise<void> => {
      for (let i = 0; i < 40; i += 1) {
        const work = world.client.transact(async (transaction) => {
          const values = await transaction.lock([key('sum'), key(name)]);
          for (const [at, each] of [key('sum'), key(name)].entries())
            transaction.put(each, bytes(String(Number(text(values[at]) ?? 0) + 1)));
          transaction.put(key(`blind-${name}`), bytes(String(i)));
        });
        await work.then(
          () => {
            stood += 1;
          },
          (error: unknown) => {
            if (error instanceof Undetermined) unknown += 1;
          },
        );
      }
    };
    await Promise.all(['a', 'b', 'c', 'd'].map(worker));
    await harm;
    await double.chaos(0);
    await double.heal();
    const sum = Number(text(await world.client.get(key('sum'))));
    expect(stood).toBeGreaterThan(100);
    expect(sum).toBeGreaterThanOrEqual(stood);
    expect(sum).toBeLessThanOrEqual(stood + unknown);
    const each = await Promise.all(['a', 'b', 'c', 'd'].map((name) => world.client.get(key(name))));
    expect(each.reduce((total, value) => total + Number(text(value)), 0)).toBe(sum);
  });

  describe('a commit in one phase whose answer is lost', () => {
    const write = (world: Opened, key: Uint8Array): Promise<void> =>
      world.client.transact(async (transaction) => {
        await transaction.lock([key]);
        transaction.put(key, bytes('new'));
      });

    test.each([
      ['is found to stand, and not done again', 'cut', 1],
      ['is done again where it was not done', 'cut-before', 3],
    ] as const)('%s', async (_, kind, lost) => {
      await using world = opened(await endpoints());
      const double = await engine;
      const key = freshKeys()('n');
      await count(world.client, key);
      await double.fault({ command: 'Prewrite', kind, key, count: lost });
      await double.fault({ command: 'PessimisticLock', kind: 'delay', key });
      await count(world.client, key);
      expect(text(await world.client.get(key))).toBe('2');
      // Each retry of the transaction takes new locks.
      expect(await double.hits()).toEqual([lost, kind === 'cut' ? 1 : lost + 1]);
    });

    test('that a store answers too late is found committed', async () => {
      await using world = opened(await endpoints(), { timeoutMs: 1200 });
      const double = await engine;
      const key = freshKeys()('n');
      await put(world.client, key, 'old');
      await double.fault({ command: 'Prewrite', kind: 'lose', key, count: 1 });
      await write(world, key);
      expect(text(await world.client.get(key))).toBe('new');
    });

    test('that a store has not begun is barred, and refused when it arrives', async () => {
      await using world = opened(await endpoints(), { timeoutMs: 1200 });
      const double = await engine;
      const key = freshKeys()('n');
      await put(world.client, key, 'old');
      await double.fault({ command: 'Prewrite', kind: 'delay', ms: 2_500, key, count: 1 });
      await expect(write(world, key)).rejects.toThrow(Unreachable);
      expect(text(await world.client.get(key))).toBe('old');
      await sleep(2_000);
      expect(text(await world.client.get(key))).toBe('old');
    });

    test.each(['lose', 'drop'] as const)(
      'is undetermined when its outcome cannot be read (%s)',
      async (kind) => {
        await using world = opened(await endpoints(), { timeoutMs: 1200 });
        await using reader = opened(await endpoints());
        const double = await engine;
        const key = freshKeys()('n');
        await put(world.client, key, 'old');
        await double.fault({ command: 'Prewrite', kind, key });
        await double.fault({ command: 'BatchRollback', kind: 'drop', key });
        await expect(write(world, key)).rejects.toThrow(Undetermined);
        await double.heal();
        const expected = kind === 'lose' ? 'new' : 'old';
        expect(text(await reader.client.get(key))).toBe(expected);
        await reader.client.transact(async (transaction) => {
          const [value] = await transaction.lock([key]);
          expect(text(value)).toBe(expected);
        });
      },
    );
  });
});
