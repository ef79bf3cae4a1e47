/** Side changes: they apply if and only if their commit applies, and before it returns. */
import { expect } from 'vitest';
import type { MetadataStore, SideChange } from '../../../src/ports/metadata-store.ts';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, head, headsOf, putRanks, ranksOf, talliesOf, visitsOf } from './tables.ts';

const add = (bucket: string, by: Record<string, number>, className = 'c'): SideChange => ({
  at: talliesOf(bucket),
  add: { className },
  by,
});

const tally = async (store: MetadataStore, bucket: string, className = 'c') =>
  (await store.get(talliesOf(bucket), { className }))?.row;

export function sideChangeLaws({ law }: Laws): void {
  law('puts, removes and adds when the commit applies', async ({ store }) => {
    const bucket = fresh();
    await putRanks(store, bucket, [[1, 'old']]);
    const then: SideChange[] = [
      { at: ranksOf(bucket), put: { board: bucket, score: 2, name: 'new' } },
      { at: ranksOf(bucket), remove: { score: 1, name: 'old' } },
      add(bucket, { bytes: 10, objects: 1 }),
    ];
    const put = await store.commit(headsOf(bucket), [{ put: head(bucket, 'k'), expect: 'absent' }], { then });
    expect(put).toMatchObject({ applied: true });
    expect(await all(store.scan(ranksOf(bucket)))).toEqual([{ board: bucket, score: 2, name: 'new' }]);
    expect(await tally(store, bucket)).toEqual({ bucket, part: 0, className: 'c', bytes: 10, objects: 1 });
  });

  law('does nothing when the commit is refused', async ({ store }) => {
    const bucket = fresh();
    const row = head(bucket, 'k');
    await putRanks(store, bucket, [[1, 'old']]);
    await store.commit(headsOf(bucket), [{ put: row, expect: 'absent' }]);
    await store.raiseFence(headsOf(bucket), 3);
    const then: SideChange[] = [
      { at: ranksOf(bucket), put: { board: bucket, score: 2, name: 'new' } },
      { at: ranksOf(bucket), remove: { score: 1, name: 'old' } },
      add(bucket, { bytes: 10 }),
    ];
    const op = await store.begin({ cluster: 'c' });
    await store.abort(op.id);
    const other = { put: head(bucket, 'l'), expect: 'absent' as const };
    const refusals = [
      await store.commit(headsOf(bucket), [{ put: row, expect: 'absent' }], { then }),
      await store.commit(headsOf(bucket, 2), [other], { then }),
      await store.commit(headsOf(bucket), [other], { then, op }),
    ];
    expect(refusals.map((each) => !each.applied && each.because)).toEqual([
      'conflict',
      'fenced',
      'abandoned',
    ]);
    expect(await all(store.scan(ranksOf(bucket)))).toEqual([{ board: bucket, score: 1, name: 'old' }]);
    expect(await tally(store, bucket)).toBeUndefined();
  });

  law('starts a counter at 0 in every column and adds either sign', async ({ store }) => {
    const bucket = fresh();
    await store.apply([add(bucket, { bytes: 5 })]);
    expect(await tally(store, bucket)).toEqual({ bucket, part: 0, className: 'c', bytes: 5, objects: 0 });
    await store.apply([add(bucket, { bytes: -7, objects: 2 }), add(bucket, { objects: 1 }, 'd')]);
    expect(await all(store.scan(talliesOf(bucket)))).toEqual([
      { bucket, part: 0, className: 'c', bytes: -2, objects: 2 },
      { bucket, part: 0, className: 'd', bytes: 0, objects: 1 },
    ]);
    expect(await all(store.scan(talliesOf(bucket, 1)))).toEqual([]);
  });

  law('gives a counter another revision with every addition, also where the sum stays', async ({ store }) => {
    const bucket = fresh();
    const revisions: (string | undefined)[] = [];
    for (const bytes of [5, 0, 3, -3]) {
      await store.apply([add(bucket, { bytes })]);
      const { revision } = (await store.get(talliesOf(bucket), { className: 'c' })) ?? {};
      const [scanned] = await store.scan(talliesOf(bucket)).next(10);
      expect(scanned?.revision).toBe(revision);
      revisions.push(revision);
    }
    expect(new Set(revisions).size).toBe(4);
  });

  law('owes no addition once the commit has returned', async ({ store }) => {
    const bucket = fresh();
    const op = await store.begin({ cluster: 'c' });
    const then = [add(bucket, { bytes: 10 })];
    for (const options of [{ then }, { then, op }]) {
      const put = { put: head(bucket, fresh()), expect: 'absent' as const };
      await store.commit(headsOf(bucket), [put], options);
      expect(await store.hasPendingAdditions(talliesOf(bucket))).toBe(false);
    }
    expect((await tally(store, bucket))?.bytes).toBe(20);
    await store.end(op);
  });

  law('adds twice to a counter that one commit names twice', async ({ store }) => {
    const bucket = fresh();
    await store.apply([add(bucket, { bytes: 1 }), add(bucket, { bytes: 2 })]);
    expect((await tally(store, bucket))?.bytes).toBe(3);
  });

  law('keeps the largest amount in a column of maxima, and the sums in the others', async ({ store }) => {
    const bucket = fresh();
    const at = visitsOf(bucket);
    const read = async () => {
      const found = await store.get(at, { className: 'c' });
      expect(await all(store.scan(at))).toEqual(found === undefined ? [] : [found.row]);
      return found?.row;
    };
    const visit = (by: Record<string, number>): SideChange => ({ at, add: { className: 'c' }, by });
    const key = { bucket, className: 'c' };
    await store.apply([visit({ count: 1 })]);
    expect(await read()).toEqual({ ...key, count: 1, lastAt: 0 });
    const put = { put: head(bucket, 'k'), expect: 'absent' as const };
    const then = [visit({ count: 2, lastAt: 9 }), visit({ count: 3, lastAt: 7 })];
    await store.commit(headsOf(bucket), [put], { then });
    expect(await read()).toEqual({ ...key, count: 6, lastAt: 9 });
    await store.apply([visit({ count: -6, lastAt: 8 })]);
    expect(await read()).toEqual({ ...key, count: 0, lastAt: 9 });
    const times = Array.from({ length: 12 }, (_, n) => 10 + ((n * 7) % 12));
    await Promise.all(times.map((lastAt) => store.apply([visit({ count: 1, lastAt })])));
    expect(await read()).toEqual({ ...key, count: 12, lastAt: 21 });
  });

  law('adds once for each commit under an op', async ({ store }) => {
    const bucket = fresh();
    const op = await store.begin({ cluster: 'c' });
    for (const key of ['a', 'b', 'a', 'c'])
      await store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }], {
        op,
        then: [add(bucket, { objects: 1, bytes: 5 })],
      });
    await store.end(op);
    expect(await tally(store, bucket)).toMatchObject({ objects: 3, bytes: 15 });
  });

  law('reads counters in pages, ranges and either direction, as it reads rows', async ({ store }) => {
    const bucket = fresh();
    const names = Array.from({ length: 12 }, (_, index) => `class ${String(index).padStart(2, '0')}`);
    for (let turn = 1; turn <= 3; turn++)
      await store.apply(names.map((name, index) => add(bucket, { bytes: index * turn, objects: 1 }, name)));
    const expected = names.map((className, index) => ({
      bucket,
      part: 0,
      className,
      bytes: index * 6,
      objects: 3,
    }));
    for (const page of [1, 5, 100]) expect(await all(store.scan(talliesOf(bucket)), page)).toEqual(expected);
    expect(await all(store.scan(talliesOf(bucket), { reverse: true }), 5)).toEqual([...expected].reverse());
    const range = { after: { className: 'class 02' }, before: { className: 'class 09' } };
    expect(await all(store.scan(talliesOf(bucket), range), 2)).toEqual(expected.slice(3, 9));
    const cursor = store.scan(talliesOf(bucket));
    await cursor.next(2);
    cursor.seek({ className: 'class 07' }, { past: true });
    expect(await all(cursor)).toEqual(expected.slice(8));
  });

  law('removes a counter, which starts at 0 again', async ({ store }) => {
    const bucket = fresh();
    await store.apply([add(bucket, { bytes: 5 }), add(bucket, { bytes: 7 }, 'd')]);
    await store.apply([{ at: talliesOf(bucket), remove: { className: 'c' } }]);
    expect(await tally(store, bucket)).toBeUndefined();
    await store.apply([add(bucket, { bytes: 2 })]);
    expect((await tally(store, bucket))?.bytes).toBe(2);
    expect((await tally(store, bucket, 'd'))?.bytes).toBe(7);
  });

  law('lets the later of two writes of a plain row win', async ({ store }) => {
    const board = fresh();
    const row = { board, score: 1, name: 'n' };
    for (let turn = 0; turn < 40; turn++) {
      const note = String(turn);
      await store.apply([{ at: ranksOf(board), put: { ...row, note } }]);
      expect((await store.get(ranksOf(board), row))?.row.note).toBe(note);
      if (turn % 2 === 0) continue;
      await store.apply([{ at: ranksOf(board), remove: row }]);
      expect(await store.get(ranksOf(board), row)).toBeUndefined();
    }
  });

  law('adds exactly once for each commit that applied, however many race', async ({ store }) => {
    const bucket = fresh();
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        store.commit(headsOf(bucket), [{ put: head(bucket, `k${index % 20}`), expect: 'absent' }], {
          then: [add(bucket, { bytes: 3, objects: 1 })],
        }),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.applied)).toHaveLength(20);
    expect(await tally(store, bucket)).toMatchObject({ bytes: 60, objects: 20 });
  });

  law('applies side changes of their own accord', async ({ store, pass }) => {
    const board = fresh();
    const expiresAt = (await store.now()) + 2000;
    await store.apply([
      { at: ranksOf(board), put: { board, score: 1, name: 'stays' } },
      { at: ranksOf(board), put: { board, score: 2, name: 'goes' }, expiresAt },
    ]);
    expect(await all(store.scan(ranksOf(board)))).toHaveLength(2);
    await pass(2001);
    expect(await all(store.scan(ranksOf(board)))).toEqual([{ board, score: 1, name: 'stays' }]);
    await store.apply([{ at: ranksOf(board), remove: { score: 1, name: 'stays' } }]);
    expect(await all(store.scan(ranksOf(board)))).toEqual([]);
  });

  law('keeps rows that expire in a very long time', async ({ store }) => {
    const board = fresh();
    const now = await store.now();
    const years = [1, 10, 15, 19, 25, 1000];
    await store.apply(
      years.map((score) => ({
        at: ranksOf(board),
        put: { board, score, name: 'n' },
        expiresAt: now + score * 365 * 24 * 60 * 60 * 1000,
      })),
    );
    const kept = (await all(store.scan(ranksOf(board)))).map(({ score }) => score);
    expect(kept.sort((a, b) => a - b)).toEqual(years);
  });

  law('refuses side changes that do not suit the kind of their table', async ({ store }) => {
    const bucket = fresh();
    const unsuited: SideChange[] = [
      { at: headsOf(bucket), put: head(bucket, 'k') },
      { at: headsOf(bucket), remove: { key: 'k', slot: '~' } },
      { at: ranksOf(bucket), add: { score: 1, name: 'n' }, by: { score: 1 } },
      { at: talliesOf(bucket), put: { bucket, part: 0, className: 'c', bytes: 1, objects: 1 } },
      add(bucket, { className: 1 }),
      add(bucket, { bytes: 0.5 }),
    ];
    const changes = [{ put: head(bucket, 'k'), expect: 'absent' as const }];
    for (const change of unsuited) {
      await expect(store.apply([change])).rejects.toThrow();
      await expect(store.commit(headsOf(bucket), changes, { then: [change] })).rejects.toThrow();
    }
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
  });
}
