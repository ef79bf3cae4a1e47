/** What a region that does not serve may cost: only the work that needs it, and only for the time budget. */
import { expect, test } from 'vitest';
import { Unreachable } from '../../src/backends/tikv/backoff.ts';
import { describeOnDouble } from './on-double.ts';
import { opened, settled } from './world.ts';

/** Far longer than anything here takes by itself, because the machine may be busy. */
const patienceMs = 8_000;

describeOnDouble('a region that does not serve', {}, (engine) => {
  const endpoints = async (): Promise<readonly string[]> => (await engine).endpoints;

  test('ends a collection after the time budget, within which it is asked less and less often', async () => {
    await using world = opened(await endpoints(), { timeoutMs: 1_000 });
    const double = await engine;
    await double.fault({ command: 'ScanLock', kind: 'not-leader' });
    const began = performance.now();
    await expect(world.client.collect({ ageMs: 0, everyMs: 0 })).rejects.toThrow(Unreachable);
    expect(performance.now() - began).toBeLessThan(patienceMs);
    expect((await double.hits())[0]).toBeLessThan(50);
    await double.heal();
    await world.client.collect({ ageMs: 0, everyMs: 0 });
  });

  test('does not keep a collection alive after close()', async () => {
    const world = opened(await endpoints(), { timeoutMs: 60_000 });
    const double = await engine;
    await double.fault({ command: 'ScanLock', kind: 'not-leader' });
    const ended = world.client.collect({ ageMs: 0, everyMs: 0 }).catch((error: unknown) => error);
    await settled(async () => ((await double.hits())[0] ?? 0) > 2);
    const closed = performance.now();
    await world.client.close();
    expect(await ended).toBeInstanceOf(Unreachable);
    expect(performance.now() - closed).toBeLessThan(patienceMs);
  });
});
