/** What a region that does not serve may cost: only the work that needs it, and only for the time budget. */
import { expect, test } from 'vitest';
import { unpack } from '../../src/backends/metadata/row-codec.ts';
import { Unreachable } from '../../src/backends/tikv/backoff.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { head, headsOf, talliesOf } from '../contract/metadata-store/tables.ts';
import { describeOnDouble } from './on-double.ts';
import { openedStore } from './store-world.ts';
import { bare, opened, settled } from './world.ts';

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

  test('keeps its expired rows; those of other regions and old versions go, and health warns', async () => {
    await using world = opened(await endpoints());
    await using others = bare(await endpoints());
    const double = await engine;
    const { store, clock, keyOf, expiring } = openedStore(await endpoints(), {
      timeoutMs: 1_000,
      gcAgeMs: 1,
    });
    try {
      const names = ['a', 'b', 'y', 'z'];
      const at = headsOf('bucket');
      for (const key of names)
        await store.commit(at, [
          { put: head('bucket', key), expect: 'absent', expiresAt: clock.time + 1_000 },
        ]);
      await double.split(keyOf('bucket', 'm'));
      await double.fault({ command: 'PessimisticLock', kind: 'not-leader', key: keyOf('bucket', 'b') });
      const safe = await others.pd.safePoint(others.backoff());
      clock.time += 2_000;
      await expect(store.maintain()).rejects.toThrow(StoreUnavailable);
      const stored = async (): Promise<readonly string[]> => {
        const rows = await Promise.all(names.map((name) => world.client.get(keyOf('bucket', name))));
        return names.filter((_, i) => rows[i] !== undefined);
      };
      expect(await stored()).toEqual(['a', 'b']);
      expect(await others.pd.safePoint(others.backoff())).toBeGreaterThan(safe);
      const warning = 'removal of expired rows from TiKV fails: no store serves PessimisticLock';
      expect((await store.health()).warnings).toContain(warning);
      await double.heal();
      await store.maintain();
      expect(await stored()).toEqual([]);
      const page = { ...expiring, limit: 10, reverse: false };
      expect(await (await world.client.snapshot()).scan(page)).toEqual([]);
      expect((await store.health()).warnings).not.toContain(warning);
    } finally {
      await store.close();
    }
  });

  test('that holds up a cleaning keeps no lease from being renewed, and the timer starts no second cleaning', async () => {
    await using world = opened(await endpoints());
    const double = await engine;
    const ttlMs = 300;
    const { store, clock, keyOf, keys } = openedStore(await endpoints(), { intentTtlMs: ttlMs });
    try {
      await store.begin({ cluster: 'a' });
      const expiresAt = clock.time + 1;
      await store.commit(headsOf('bucket'), [{ put: head('bucket', 'a'), expect: 'absent', expiresAt }]);
      // One attempt takes as long as a store is given for an answer.
      await double.fault({ command: 'PessimisticLock', kind: 'drop', key: keyOf('bucket', 'a') });
      const readLease = async (): Promise<number | undefined> => {
        const page = { ...keys.epochs(), limit: 100, reverse: false };
        const rows = await (await world.client.snapshot()).scan(page);
        const lease = rows.find(({ key }) => keys.epochOf(key) !== undefined);
        return lease && (unpack(lease.value) as readonly number[])[0];
      };
      for (let renewals = 0; renewals < 5; renewals += 1) {
        clock.time += 10;
        await settled(async () => (await readLease()) === clock.time + ttlMs);
      }
      expect((await double.hits())[0]).toBeLessThan(4);
    } finally {
      await double.heal();
      await store.close();
    }
  });

  test.each(['rows', 'counters'] as const)(
    'with %s of some commits does not hold up the others, though all lock rows that the process shares',
    async (kind) => {
      const double = await engine;
      const { store, keyOf, tallyKeyOf } = openedStore(await endpoints(), { timeoutMs: 10_000 });
      const commit = async (bucket: string, key: string): Promise<number> => {
        const began = performance.now();
        const op = await store.begin({ cluster: 'a' });
        const amounts = { bytes: 1, objects: 1 };
        await store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }], {
          op,
          then: [{ at: talliesOf(bucket), add: { className: key }, by: amounts }],
        });
        await store.end(op);
        return performance.now() - began;
      };
      const names = (count: number): readonly string[] =>
        Array.from({ length: count }, (_, i) => String(i).padStart(3, '0'));
      try {
        await commit('well', 'first');
        const keyIn = kind === 'rows' ? keyOf : tallyKeyOf;
        await double.split(keyIn('stuck', '000'));
        await double.split(keyIn('stuck', '999'));
        for (const name of names(128))
          await double.fault({ command: 'PessimisticLock', kind: 'not-leader', key: keyIn('stuck', name) });
        const began = performance.now();
        const stuck = Promise.allSettled(names(128).map((name) => commit('stuck', name)));
        await settled(async () => (await double.hits()).some((hits) => hits > 0));
        // Those that wait hold no lane of the epoch, of which there are 64.
        for (const round of ['a', 'b', 'c']) {
          const times = await Promise.all(names(20).map((name) => commit('well', `${round}${name}`)));
          expect(Math.max(...times)).toBeLessThan(6_000);
        }
        expect((await stuck).every(({ status }) => status === 'rejected')).toBe(true);
        // One short attempt, then the time budget.
        expect(performance.now() - began).toBeLessThan(20_000);
      } finally {
        await store.close();
      }
    },
  );
});
