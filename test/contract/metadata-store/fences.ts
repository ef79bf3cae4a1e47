/** Fences: a partition's generation, which commits may state and which only increases. */
import { expect } from 'vitest';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, head, headsOf, ranksOf } from './tables.ts';

export function fenceLaws({ law }: Laws): void {
  law('finds a partition that was never fenced at 0', async ({ store }) => {
    const bucket = fresh();
    expect(await store.fence(headsOf(bucket))).toBe(0);
    const put = await store.commit(headsOf(bucket, 0), [{ put: head(bucket, 'k'), expect: 'absent' }]);
    expect(put).toMatchObject({ applied: true });
  });

  law('raises to a generation and never lowers', async ({ store }) => {
    const at = headsOf(fresh());
    for (const [raised, stands] of [
      [3, 3],
      [2, 3],
      [3, 3],
      [10, 10],
      [0, 10],
    ] as const) {
      await store.raiseFence(at, raised);
      expect(await store.fence(at)).toBe(stands);
    }
    await Promise.all([12, 30, 7, 21, 29].map((generation) => store.raiseFence(at, generation)));
    expect(await store.fence(at)).toBe(30);
  });

  law('refuses a commit that believes in another generation, and tells the right one', async ({ store }) => {
    const bucket = fresh();
    const change = { put: head(bucket, 'k'), expect: 'absent' as const };
    await store.raiseFence(headsOf(bucket), 5);
    for (const fence of [0, 4, 6]) {
      expect(await store.commit(headsOf(bucket, fence), [change])).toEqual({
        applied: false,
        because: 'fenced',
        fence: 5,
      });
    }
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
    expect(await store.commit(headsOf(bucket, 5), [change])).toMatchObject({ applied: true });
    expect(await store.commit(headsOf(bucket), [{ check: change.put, expect: 'absent' }])).toMatchObject({
      because: 'conflict',
    });
  });

  law('fences one partition of one table', async ({ store }) => {
    const bucket = fresh();
    await store.raiseFence(headsOf(bucket), 5);
    expect(await store.fence(headsOf(`${bucket}0`))).toBe(0);
    expect(await store.fence(ranksOf(bucket))).toBe(0);
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
  });

  law('tells a fence before a conflict', async ({ store }) => {
    const bucket = fresh();
    const change = { put: head(bucket, 'k'), expect: 'absent' as const };
    await store.commit(headsOf(bucket), [change]);
    await store.raiseFence(headsOf(bucket), 1);
    expect(await store.commit(headsOf(bucket, 0), [change])).toMatchObject({ because: 'fenced', fence: 1 });
  });

  law('lets nothing of an earlier generation through once it was raised', async ({ store }) => {
    const bucket = fresh();
    const seenAfter: string[] = [];
    let raised = false;
    const writers = Array.from({ length: 40 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index % 8));
      const began = raised;
      const key = `k${index}`;
      const outcome = await store.commit(headsOf(bucket, 0), [{ put: head(bucket, key), expect: 'absent' }]);
      if (outcome.applied && began) seenAfter.push(key);
      return outcome.applied;
    });
    await new Promise((resolve) => setTimeout(resolve, 3));
    await store.raiseFence(headsOf(bucket), 1);
    raised = true;
    const present = (await all(store.scan(headsOf(bucket)))).length;
    const applied = (await Promise.all(writers)).filter(Boolean).length;
    expect(seenAfter).toEqual([]);
    // Every commit that applied did so before the fence was raised.
    expect(applied).toBe(present);
  });
}
