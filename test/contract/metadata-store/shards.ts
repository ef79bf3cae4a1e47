import { expect } from 'vitest';
import { hashToShard } from '../../../src/base/shard.ts';
import type { MetadataStore, Revision } from '../../../src/ports/metadata-store.ts';
import type { Laws } from '../metadata-store.ts';
import { byBytes } from './order.ts';
import { expected, expectRanges, expectSeeks, names, slots } from './scans.ts';
import { all, fresh, type Head, head, headsOf } from './tables.ts';

const ways = 4;

const spread = (bucket: string, fence?: number) => ({ ...headsOf(bucket, fence), ways });

/** The rows of one key lie in one shard, so they are put by one commit. */
async function putSpread(store: MetadataStore, bucket: string, keys: readonly string[]): Promise<Head[]> {
  const rows: Head[] = [];
  for (const key of [...keys].sort(byBytes)) {
    const ofKey = [...slots].reverse().map((slot) => head(bucket, key, { slot }));
    await store.commit(
      spread(bucket),
      ofKey.map((put) => ({ put, expect: 'absent' as const })),
    );
    rows.push(...ofKey);
  }
  return rows;
}

/** Keys that together fall into every shard. */
const manyKeys = Array.from({ length: 24 }, (_, index) => `key ${index}`);

export function shardLaws({ law, runs }: Laws): void {
  law('uses keys that fall into every shard', async () => {
    expect(new Set(manyKeys.map((key) => hashToShard(key, ways))).size).toBe(ways);
  });

  law('reads any range of a spread partition in one order', async ({ store }) => {
    const bucket = fresh();
    const rows = await putSpread(store, bucket, names);
    await expectRanges({ rows, runs, scan: (range) => store.scan(spread(bucket), range) });
  });

  law('seeks in every shard at once, in either direction', async ({ store }) => {
    const bucket = fresh();
    const rows = await putSpread(store, bucket, names);
    await expectSeeks({ rows, runs, scan: (range) => store.scan(spread(bucket), range) });
  });

  law(
    'gives each row of a spread partition in one shard, in order, from where it is told',
    async ({ store }) => {
      const bucket = fresh();
      const rows = await putSpread(store, bucket, manyKeys);
      const from = { key: 'key 15' };
      const shards = await Promise.all(
        Array.from({ length: ways }, (_, shard) => all(store.scan(spread(bucket), { shard, from }))),
      );
      const wanted = expected(rows, { from });
      expect(shards.flat()).toHaveLength(wanted.length);
      for (const shard of shards) {
        const inOrder = wanted.filter((row) => shard.some(({ key }) => key === row.key));
        expect(shard).toEqual(inOrder);
      }
    },
  );

  law('finds, replaces and removes each row of a spread partition by its key', async ({ store }) => {
    const bucket = fresh();
    await Promise.all(
      manyKeys.map(async (key) => {
        const row = head(bucket, key);
        const put = await store.commit(spread(bucket), [{ put: row, expect: 'absent' }]);
        if (!put.applied) throw new Error('refused');
        expect(await store.get(spread(bucket), row)).toEqual({ row, revision: put.revision });
        const updated = await store.update(spread(bucket), row, () => ({ ...row, etag: 'new' }));
        const stored = await store.get(spread(bucket), row);
        expect(stored?.row).toEqual(updated);
        const remove = { remove: row, expect: stored?.revision as Revision };
        if (key.endsWith('1'))
          expect(await store.commit(spread(bucket), [remove])).toMatchObject({ applied: true });
      }),
    );
    const left = manyKeys.filter((key) => !key.endsWith('1')).sort(byBytes);
    expect((await all(store.scan(spread(bucket)))).map(({ key }) => key)).toEqual(left);
  });

  law('raises the fence of every shard', async ({ store }) => {
    const bucket = fresh();
    await store.raiseFence(spread(bucket), 4);
    expect(await store.fence(spread(bucket))).toBe(4);
    for (const key of manyKeys) {
      const change = { put: head(bucket, key), expect: 'absent' as const };
      expect(await store.commit(spread(bucket, 3), [change])).toEqual({
        applied: false,
        because: 'fenced',
        fence: 4,
      });
    }
    expect(await all(store.scan(spread(bucket)))).toEqual([]);
    for (const key of manyKeys) {
      const change = { put: head(bucket, key), expect: 'absent' as const };
      expect(await store.commit(spread(bucket, 4), [change])).toMatchObject({ applied: true });
    }
  });

  law('lets nothing of an earlier generation into any shard once the fence was raised', async ({ store }) => {
    const bucket = fresh();
    const late: string[] = [];
    let raised = false;
    const writers = manyKeys.map(async (key, index) => {
      await new Promise((resolve) => setTimeout(resolve, index % 8));
      const began = raised;
      const outcome = await store.commit(spread(bucket, 0), [{ put: head(bucket, key), expect: 'absent' }]);
      if (outcome.applied && began) late.push(key);
      return outcome.applied;
    });
    await new Promise((resolve) => setTimeout(resolve, 3));
    await store.raiseFence(spread(bucket), 1);
    raised = true;
    const present = (await all(store.scan(spread(bucket)))).length;
    const applied = (await Promise.all(writers)).filter(Boolean).length;
    expect(late).toEqual([]);
    expect(applied).toBe(present);
  });
}
