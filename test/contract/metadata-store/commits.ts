/** Commits: atomic, one winner, no lost update, and the size limits of every backend. */
import { expect } from 'vitest';
import { commitLimits, type Revision } from '../../../src/ports/metadata-store.ts';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, head, headsOf, putHeads, putRanks, ranksOf, talliesOf } from './tables.ts';

const concurrent = 24;

export function commitLaws({ law }: Laws): void {
  law('puts what is absent once', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k', { etag: 'first' });
    expect(await store.commit(at, [{ put: row, expect: 'absent' }])).toMatchObject({ applied: true });
    const second = await store.commit(at, [{ put: { ...row, etag: 'second' }, expect: 'absent' }]);
    expect(second).toMatchObject({ applied: false, because: 'conflict', current: { row } });
    expect((await store.get(at, row))?.row).toEqual(row);
  });

  law('replaces and removes only the revision that was expected', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    const first = await store.commit(at, [{ put: row, expect: 'absent' }]);
    if (!first.applied) throw new Error('refused');
    const second = await store.commit(at, [{ put: row, expect: first.revision }]);
    if (!second.applied) throw new Error('refused');
    expect(second.revision).not.toBe(first.revision);
    const stale = await store.commit(at, [{ remove: row, expect: first.revision }]);
    expect(stale).toEqual({
      applied: false,
      because: 'conflict',
      current: { row, revision: second.revision },
    });
    expect(await store.commit(at, [{ remove: row, expect: second.revision }])).toMatchObject({
      applied: true,
    });
    const gone = await store.commit(at, [{ put: row, expect: second.revision }]);
    expect(gone).toEqual({ applied: false, because: 'conflict' });
    expect(await store.commit(at, [{ remove: row, expect: second.revision }])).toMatchObject({
      applied: false,
    });
  });

  law('applies every change or none', async ({ store }) => {
    const at = headsOf(fresh());
    const [a, b, c] = ['a', 'b', 'c'].map((key) => head(at.in.bucket, key)) as [
      ReturnType<typeof head>,
      ReturnType<typeof head>,
      ReturnType<typeof head>,
    ];
    const put = await store.commit(at, [
      { put: a, expect: 'absent' },
      { put: b, expect: 'absent' },
    ]);
    if (!put.applied) throw new Error('refused');
    const refused = await store.commit(at, [
      { remove: a, expect: put.revision },
      { put: c, expect: 'absent' },
      { put: b, expect: 'absent' },
    ]);
    expect(refused).toMatchObject({ applied: false, because: 'conflict', current: { row: b } });
    expect(await all(store.scan(at))).toEqual([a, b]);
    const applied = await store.commit(at, [
      { remove: a, expect: put.revision },
      { put: c, expect: 'absent' },
      { put: { ...b, etag: 'new' }, expect: put.revision },
    ]);
    expect(applied).toMatchObject({ applied: true });
    expect(await all(store.scan(at))).toEqual([{ ...b, etag: 'new' }, c]);
  });

  law('shows no reader half of a commit', async ({ store }) => {
    const at = headsOf(fresh());
    let expected: 'absent' | Revision = 'absent';
    let done = false;
    const torn: string[][] = [];
    const reader = (async () => {
      while (!done) {
        const etags = (await store.scan(at).next(8)).map((stored) => stored.row.etag);
        if (new Set(etags).size > 1 || (etags.length !== 4 && etags.length !== 0)) torn.push(etags);
        await new Promise((resolve) => setTimeout(resolve));
      }
    })();
    for (let turn = 0; turn < 40; turn++) {
      const rows = ['a', 'b', 'c', 'd'].map((key) => head(at.in.bucket, key, { etag: String(turn) }));
      const put = await store.commit(
        at,
        rows.map((row) => ({ put: row, expect: expected })),
      );
      if (!put.applied) throw new Error('refused');
      expected = put.revision;
    }
    done = true;
    await reader;
    expect(torn).toEqual([]);
  });

  law('reports the row of the first change that failed', async ({ store }) => {
    const at = headsOf(fresh());
    const rows = ['a', 'b'].map((key) => head(at.in.bucket, key));
    await putHeads(store, rows);
    const refused = await store.commit(at, [
      { check: head(at.in.bucket, 'none'), expect: 'absent' },
      ...[...rows].reverse().map((put) => ({ put, expect: 'absent' as const })),
    ]);
    expect(refused).toMatchObject({ applied: false, current: { row: rows[1] } });
  });

  law('checks a row without writing it', async ({ store }) => {
    const at = headsOf(fresh());
    const [checked, other] = [head(at.in.bucket, 'a'), head(at.in.bucket, 'b')];
    const put = await store.commit(at, [
      { check: { key: 'c', slot: '~' }, expect: 'absent' },
      { put: checked, expect: 'absent' },
    ]);
    if (!put.applied) throw new Error('refused');
    const second = await store.commit(at, [
      { check: checked, expect: put.revision },
      { put: other, expect: 'absent' },
    ]);
    expect(second).toMatchObject({ applied: true });
    expect((await store.get(at, checked))?.revision).toBe(put.revision);
    const third = await store.commit(at, [
      { check: checked, expect: 'absent' },
      { put: head(at.in.bucket, 'c'), expect: 'absent' },
    ]);
    expect(third).toMatchObject({ applied: false, because: 'conflict', current: { row: checked } });
    expect(await all(store.scan(at))).toEqual([checked, other]);
  });

  law(
    'applies the side changes of a commit that only checks, if and only if the check holds',
    async ({ store }) => {
      const at = headsOf(fresh());
      const checked = head(at.in.bucket, 'a');
      const put = await store.commit(at, [{ put: checked, expect: 'absent' }]);
      if (!put.applied) throw new Error('refused');
      const board = ranksOf(fresh());
      const row = { board: board.in.board, score: 1, name: 'n', note: '' };
      const then = [{ at: board, put: row }];
      const refused = await store.commit(at, [{ check: checked, expect: 'absent' }], { then });
      expect(refused).toMatchObject({ applied: false, because: 'conflict' });
      expect(await all(store.scan(board))).toEqual([]);
      const applied = await store.commit(at, [{ check: checked, expect: put.revision }], { then });
      expect(applied).toMatchObject({ applied: true });
      expect(await all(store.scan(board))).toEqual([row]);
      expect((await store.get(at, checked))?.revision).toBe(put.revision);
    },
  );

  law('gives every row that a commit put the revision that it tells', async ({ store }) => {
    const at = headsOf(fresh());
    const rows = ['a', 'b', 'c'].map((key) => head(at.in.bucket, key));
    const put = await store.commit(
      at,
      rows.map((row) => ({ put: row, expect: 'absent' as const })),
    );
    if (!put.applied) throw new Error('refused');
    for (const row of rows) expect((await store.get(at, row))?.revision).toBe(put.revision);
    for (const stored of await store.scan(at).next(9)) expect(stored.revision).toBe(put.revision);
  });

  law('gives one winner to any number of writers who expect the row absent', async ({ store }) => {
    for (let race = 0; race < 5; race++) {
      const at = headsOf(fresh());
      const outcomes = await Promise.all(
        Array.from({ length: concurrent }, (_, writer) =>
          store.commit(at, [{ put: head(at.in.bucket, 'k', { etag: String(writer) }), expect: 'absent' }]),
        ),
      );
      const winners = outcomes.flatMap((outcome, writer) => (outcome.applied ? [String(writer)] : []));
      expect(winners).toHaveLength(1);
      expect((await store.get(at, { key: 'k', slot: '~' }))?.row.etag).toBe(winners[0]);
      for (const outcome of outcomes) {
        if (!outcome.applied) expect(outcome.current?.row.etag).toBe(winners[0]);
      }
    }
  });

  law('gives one winner to any number of writers who expect the same revision', async ({ store }) => {
    const at = headsOf(fresh());
    let expected: 'absent' | Revision = 'absent';
    for (let race = 0; race < 8; race++) {
      const outcomes = await Promise.all(
        Array.from({ length: concurrent }, (_, writer) =>
          store.commit(at, [{ put: head(at.in.bucket, 'k', { etag: String(writer) }), expect: expected }]),
        ),
      );
      const won = outcomes.filter((outcome) => outcome.applied);
      expect(won).toHaveLength(1);
      expected = (won[0] as { revision: Revision }).revision;
    }
  });

  law('loses no update', async ({ store }) => {
    const at = headsOf(fresh());
    const key = { key: 'k', slot: '~' };
    await Promise.all(
      Array.from({ length: concurrent }, async () => {
        for (let turn = 0; turn < 4; turn++) {
          const changed = await store.update(at, key, (row) => ({
            ...head(at.in.bucket, 'k'),
            size: (row?.size ?? 0) + 1,
          }));
          expect(changed.size).toBeGreaterThan(turn);
        }
      }),
    );
    expect((await store.get(at, key))?.row.size).toBe(concurrent * 4);
  });

  law('refuses a revision that an update has replaced, however close the two were', async ({ store }) => {
    for (let turn = 0; turn < 10; turn++) {
      const at = headsOf(fresh());
      const row = head(at.in.bucket, 'k');
      const [put] = await Promise.all([
        store.commit(at, [{ put: row, expect: 'absent' }]),
        store.update(at, row, (found) => ({ ...row, ...found, etag: 'updated' })),
      ]);
      const stored = await store.get(at, row);
      if (!put.applied || stored?.row.etag !== 'updated') continue;
      const late = await store.commit(at, [{ put: row, expect: put.revision }]);
      expect(late).toEqual({ applied: false, because: 'conflict', current: stored });
    }
  });

  law('does not change a row when its update throws', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    await putHeads(store, [row]);
    const update = store.update(at, row, () => {
      throw new Error('on purpose');
    });
    await expect(update).rejects.toThrow('on purpose');
    await expect(store.update(at, row, () => head(at.in.bucket, 'other'))).rejects.toThrow();
    expect(await all(store.scan(at))).toEqual([row]);
  });

  law('writes plain rows whatever was there', async ({ store }) => {
    const board = fresh();
    const row = { board, score: 1, name: 'n' };
    for (const note of ['one', 'two']) {
      const put = await store.commit(ranksOf(board), [{ put: { ...row, note }, expect: 'any' }]);
      expect(put).toMatchObject({ applied: true });
      expect((await store.get(ranksOf(board), row))?.row).toEqual({ ...row, note });
    }
    for (let turn = 0; turn < 2; turn++) {
      const removed = await store.commit(ranksOf(board), [{ remove: row, expect: 'any' }]);
      expect(removed).toMatchObject({ applied: true });
    }
    expect(await all(store.scan(ranksOf(board)))).toEqual([]);
  });

  law('refuses expectations that do not suit the kind of the table', async ({ store }) => {
    const bucket = fresh();
    const row = head(bucket, 'k');
    await expect(store.commit(headsOf(bucket), [{ put: row, expect: 'any' }])).rejects.toThrow();
    await expect(store.commit(headsOf(bucket), [{ remove: row, expect: 'any' }])).rejects.toThrow();
    const plain = { board: bucket, score: 1, name: 'n' };
    const at = ranksOf(bucket);
    await expect(store.commit(at, [{ put: plain, expect: 'absent' }])).rejects.toThrow();
    await expect(store.commit(at, [{ remove: plain, expect: 'r' as Revision }])).rejects.toThrow();
    await expect(store.commit(at, [{ check: plain, expect: 'absent' }])).rejects.toThrow();
    await expect(store.update(at, plain, () => plain)).rejects.toThrow();
    // Unconditional writes cannot be refused, so they take neither an op nor a fence.
    const op = await store.begin({ cluster: 'c' });
    await expect(store.commit(at, [{ put: plain, expect: 'any' }], { op })).rejects.toThrow();
    await expect(store.commit({ ...at, fence: 0 }, [{ put: plain, expect: 'any' }])).rejects.toThrow();
    await store.end(op);
    const tally = { bucket, part: 0, className: 'c', bytes: 0, objects: 0 };
    await expect(store.commit(talliesOf(bucket), [{ put: tally, expect: 'any' }])).rejects.toThrow();
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
    expect(await all(store.scan(at))).toEqual([]);
  });

  law('refuses two changes of one row, and a row of another partition', async ({ store }) => {
    const bucket = fresh();
    const row = head(bucket, 'k');
    const twice = store.commit(headsOf(bucket), [
      { check: row, expect: 'absent' },
      { put: row, expect: 'absent' },
    ]);
    await expect(twice).rejects.toThrow();
    await expect(
      store.commit(headsOf(bucket), [{ put: head('elsewhere', 'k'), expect: 'absent' }]),
    ).rejects.toThrow();
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
  });

  law('stays with one spread value where the partition is spread', async ({ store }) => {
    const at = { ...headsOf(fresh()), ways: 4 };
    const { bucket } = at.in;
    const apart = ['a', 'b'].map((key) => ({ put: head(bucket, key), expect: 'absent' as const }));
    await expect(store.commit(at, apart)).rejects.toThrow();
    const together = ['1', '2'].map((slot) => ({
      put: head(bucket, 'a', { slot }),
      expect: 'absent' as const,
    }));
    expect(await store.commit(at, together)).toMatchObject({ applied: true });
  });

  law('takes commits up to their limits and refuses larger ones', async ({ store }) => {
    const board = fresh();
    const at = ranksOf(board);
    const row = (score: number, bytes: number) => ({
      put: { board, score, name: 'n', note: 'x'.repeat(bytes) },
      expect: 'any' as const,
    });
    const many = (count: number, bytes: number) => Array.from({ length: count }, (_, i) => row(i, bytes));
    const spare = 64;
    expect(await store.commit(at, many(commitLimits.changes, 1))).toMatchObject({ applied: true });
    await expect(store.commit(at, many(commitLimits.changes + 1, 1))).rejects.toThrow();
    expect(await store.commit(at, [row(1, commitLimits.rowBytes - spare)])).toMatchObject({ applied: true });
    await expect(store.commit(at, [row(2, commitLimits.rowBytes + 1)])).rejects.toThrow();
    const third = commitLimits.bytes / 4;
    expect(await store.commit(at, many(4, third - spare))).toMatchObject({ applied: true });
    await expect(store.commit(at, many(4, third + 1))).rejects.toThrow();
    const then = [{ at, put: row(3, third).put }];
    await expect(store.commit(at, many(3, third + 1), { then })).rejects.toThrow();
    expect((await store.get(at, { score: 2, name: 'n' }))?.row.note).toBe('x'.repeat(third - spare));
  });

  law('keeps a thousand commits that were sent at once', async ({ store }) => {
    const board = fresh();
    await Promise.all(Array.from({ length: 1000 }, (_, score) => putRanks(store, board, [[score, 'n']])));
    expect(await all(store.scan(ranksOf(board)), 300)).toHaveLength(1000);
  });
}
