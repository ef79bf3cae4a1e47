/** The cost of rows that have expired and are not removed yet. */
import { expect, test } from 'vitest';
import { head, headsOf } from '../contract/metadata-store/tables.ts';
import { describeOnDouble } from './on-double.ts';
import { openedStore } from './store-world.ts';

describeOnDouble('expired rows', {}, (engine) => {
  test('a page of one row behind 512 of them takes a few range reads, and no row is left out', async () => {
    const double = await engine;
    const { store, clock } = openedStore(double.endpoints);
    try {
      const at = headsOf('bucket');
      const expiresAt = clock.time + 1_000;
      for (let from = 0; from < 512; from += 64) {
        const names = Array.from({ length: 64 }, (_, i) => `dead-${String(from + i).padStart(3, '0')}`);
        await store.commit(
          at,
          names.map((key) => ({ put: head('bucket', key), expect: 'absent', expiresAt })),
        );
      }
      const living = ['live-1', 'live-2', 'live-3'];
      for (const key of living) await store.commit(at, [{ put: head('bucket', key), expect: 'absent' }]);
      clock.time += 2_000;
      await double.fault({ command: 'Scan', kind: 'delay' });
      const cursor = store.scan(at);
      const found: string[] = [];
      for (let page = await cursor.next(1); page.length > 0; page = await cursor.next(1))
        found.push(...page.map(({ row }) => row.key));
      expect(found).toEqual(living);
      expect((await double.hits())[0]).toBeLessThan(20);
    } finally {
      await store.close();
    }
  });
});
