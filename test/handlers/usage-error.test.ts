/**
 * What a day is billed differs from the exact integral of what the bucket held by at most one sample interval of each
 * object (`tolerance`).
 */
import { describe, expect, test } from 'vitest';
import { openDice } from '../support/dice.ts';
import { dayMs, drawHistory, exactUsage, type History } from '../support/usage-histories.ts';
import { hourMs, openUsageWorld, type UsageWorld } from '../support/usage-world.ts';

interface Event {
  readonly at: number;
  /** Of events at the same time, the higher ones come first. */
  readonly rank: number;
  run(): Promise<unknown>;
}

/** Plays a day of the bucket against the gateway, with a sample each hour. */
async function play(world: UsageWorld, { created, deleted, states }: History): Promise<void> {
  const put = (path: string, bytes = 0, storageClass = '') =>
    world.client.put(
      path,
      storageClass === '' ? {} : { body: 'x'.repeat(bytes), headers: { '*-storage-class': storageClass } },
    );
  const follows = new Set(states.map(({ key, at }) => `${key} ${at}`));
  const events: Event[] = [
    ...Array.from({ length: 25 }, (_, hour) => ({ at: hour * hourMs, rank: 1, run: () => world.rollUp() })),
    { at: created, rank: 9, run: () => put('/bucket') },
    ...states.map(({ key, at, bytes, storageClass }) => ({
      at,
      rank: 5,
      run: () => put(`/bucket/${key}`, bytes, storageClass),
    })),
    ...states
      .filter(({ key, until }) => until < dayMs && !follows.has(`${key} ${until}`))
      .map(({ key, until }) => ({ at: until, rank: 4, run: () => world.client.delete(`/bucket/${key}`) })),
    ...(deleted < dayMs ? [{ at: deleted, rank: 2, run: () => world.client.delete('/bucket') }] : []),
  ];
  const start = world.clock.now();
  for (const { at, run } of events.toSorted((a, b) => a.at - b.at || b.rank - a.rank)) {
    world.clock.jump(start + at - world.clock.now());
    await run();
  }
}

async function billed(world: UsageWorld): Promise<ReadonlyMap<string, number>> {
  const { text } = await world.ask('/usage/export?day=2026-01-01&format=jsonl');
  const rows = text.split('\n').filter((line) => line !== '');
  return new Map(
    rows.map((line) => JSON.parse(line)).map((row) => [row.storageClass, Number(row.byteSeconds)]),
  );
}

describe.each(['all-day', 'created', 'deleted'] as const)('a bucket that exists: %s', (kind) => {
  test('is billed within one sample interval of each object, in each storage class', async () => {
    for (let seed = 1; seed <= 25; seed += 1) {
      const history = drawHistory(openDice(seed), kind);
      await using world = await openUsageWorld();
      await play(world, history);
      const bills = await billed(world);
      for (const [storageClass, { byteSeconds, tolerance }] of exactUsage(history, hourMs)) {
        const error = Math.abs((bills.get(storageClass) ?? 0) - byteSeconds);
        expect([seed, storageClass, error <= tolerance + 1]).toEqual([seed, storageClass, true]);
      }
      expect([...bills.keys()].filter((name) => !exactUsage(history, hourMs).has(name))).toEqual([]);
    }
  });
});

test('an object that is put at 22:30 into a bucket that exists is billed one and a half hours', async () => {
  await using world = await openUsageWorld();
  const at = 22.5 * hourMs;
  const state = { key: 'late', at, until: dayMs, storageClass: 'GLACIER', bytes: 1_000 };
  await play(world, { created: 0, deleted: dayMs, states: [state] });
  expect((await billed(world)).get('GLACIER')).toBe(1_000 * 1.5 * 3_600);
});

test('an object that changes its storage class is billed a day in all', async () => {
  await using world = await openUsageWorld();
  const noon = 12 * hourMs + 1;
  const states = [
    { key: 'moved', at: 0, until: noon, storageClass: 'STANDARD', bytes: 1_000 },
    { key: 'moved', at: noon, until: dayMs, storageClass: 'GLACIER', bytes: 1_000 },
  ];
  await play(world, { created: 0, deleted: dayMs, states });
  const bills = await billed(world);
  expect((bills.get('STANDARD') ?? 0) + (bills.get('GLACIER') ?? 0)).toBe(1_000 * 86_400);
});

test('a bucket with one sample on its first day is billed for the whole day, as the specification says', async () => {
  await using world = await openUsageWorld();
  const states = [{ key: 'late', at: 22.5 * hourMs, until: dayMs, storageClass: 'STANDARD', bytes: 1_000 }];
  await play(world, { created: 22.2 * hourMs, deleted: dayMs, states });
  expect((await billed(world)).get('STANDARD')).toBe(1_000 * 86_400);
});
