/** Single rows: stored exactly, visible at once, absent after their expiry. */
import { expect } from 'vitest';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, type Head, head, headsOf, holders, putHeads, ranksOf, scoresOf } from './tables.ts';

const whole: Head = {
  bucket: 'b',
  key: 'a/é/\u{1F600}',
  slot: '~',
  etag: 'ü\u0001"\\',
  size: Number.MAX_SAFE_INTEGER,
  marker: false,
  headers: { list: [1, null, 'x', { deep: true }], text: 'é\u{1F600}\u0000', empty: {} },
  manifest: Uint8Array.of(0, 255, 7, 0),
};

export function rowLaws({ law }: Laws): void {
  law('returns every type of column unchanged', async ({ store }) => {
    await putHeads(store, [whole]);
    const stored = await store.get(headsOf('b'), { key: whole.key, slot: '~' });
    expect(stored?.row).toEqual(whole);
    expect(await all(store.scan(headsOf('b')))).toEqual([whole]);
  });

  law('leaves absent what was absent', async ({ store }) => {
    await putHeads(store, [head('b', 'k'), head('b', 'l', { headers: null, size: 0, marker: false })]);
    const first = await store.get(headsOf('b'), { key: 'k', slot: '~' });
    expect(Object.keys(first?.row ?? {}).sort()).toEqual(['bucket', 'etag', 'key', 'slot']);
    const second = await store.get(headsOf('b'), { key: 'l', slot: '~' });
    expect(second?.row).toMatchObject({ size: 0, marker: false });
  });

  law('keeps what is empty, which is not absent', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, '', {
      slot: '',
      etag: '',
      headers: {},
      manifest: new Uint8Array(0),
    });
    const nothing = head(at.in.bucket, 'k', { headers: null });
    await putHeads(store, [row, nothing]);
    expect((await store.get(at, { key: '', slot: '' }))?.row).toEqual(row);
    expect((await store.get(at, nothing))?.row).toEqual(nothing);
    expect(await all(store.scan(at))).toEqual([row, nothing]);
  });

  law('keeps JSON names that mean something to JavaScript', async ({ store }) => {
    const headers = JSON.parse('{"__proto__":"a","constructor":{"prototype":1},"toString":"b"}');
    const bucket = fresh();
    await putHeads(store, [head(bucket, 'k', { headers })]);
    const stored = await store.get(headsOf(bucket), { key: 'k', slot: '~' });
    expect(JSON.stringify(stored?.row.headers)).toBe(JSON.stringify(headers));
  });

  law('keeps integers of either sign exactly', async ({ store }) => {
    const board = fresh();
    const values = [0, 1, -1, 255, 256, -256, 2 ** 31, -(2 ** 31), 2 ** 53 - 1, -(2 ** 53) + 1];
    for (const score of values) {
      await store.commit(scoresOf(board), [{ put: { board, score, name: 'n' }, expect: 'any' }]);
    }
    const sorted = [...values].sort((a, b) => a - b);
    expect((await all(store.scan(scoresOf(board)))).map((row) => row.score)).toEqual(sorted);
  });

  law('knows nothing of a row that was not put, or was removed', async ({ store }) => {
    const at = headsOf(fresh());
    const key = { key: 'k', slot: '~' };
    expect(await store.get(at, key)).toBeUndefined();
    const put = await store.commit(at, [{ put: head(at.in.bucket, 'k'), expect: 'absent' }]);
    if (!put.applied) throw new Error('refused');
    await store.commit(at, [{ remove: key, expect: put.revision }]);
    expect(await store.get(at, key)).toBeUndefined();
  });

  law('holds a partition of one row', async ({ store }) => {
    const at = { table: holders, in: { name: fresh() } } as const;
    await store.commit(at, [{ put: { ...at.in, holder: 'h' }, expect: 'absent' }]);
    expect((await store.get(at, {}))?.row).toEqual({ ...at.in, holder: 'h' });
    expect(await all(store.scan(at))).toEqual([{ ...at.in, holder: 'h' }]);
  });

  law('shows an acknowledged write to every read that begins after it', async ({ store }) => {
    const at = headsOf(fresh());
    for (let turn = 0; turn < 50; turn++) {
      const etag = String(turn);
      await store.update(at, { key: 'k', slot: '~' }, () => head(at.in.bucket, 'k', { etag }));
      expect((await store.get(at, { key: 'k', slot: '~' }))?.row.etag).toBe(etag);
      expect((await all(store.scan(at)))[0]?.etag).toBe(etag);
    }
  });

  law('changes the revision with every write, even of the same content', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    const seen = new Set<string>();
    let expected: 'absent' | string = 'absent';
    for (let turn = 0; turn < 20; turn++) {
      const put = await store.commit(at, [{ put: row, expect: expected as 'absent' }]);
      if (!put.applied) throw new Error('refused');
      expect((await store.get(at, { key: 'k', slot: '~' }))?.revision).toBe(put.revision);
      seen.add(put.revision);
      expected = put.revision;
    }
    expect(seen.size).toBe(20);
  });

  law('gives a row that was removed and put again another revision', async ({ store }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    const first = await store.commit(at, [{ put: row, expect: 'absent' }]);
    if (!first.applied) throw new Error('refused');
    await store.commit(at, [{ remove: row, expect: first.revision }]);
    await store.commit(at, [{ put: row, expect: 'absent' }]);
    expect(await store.commit(at, [{ put: row, expect: first.revision }])).toMatchObject({ applied: false });
  });

  law('hides a row from every reader once its time has come', async ({ store, pass }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    const expiresAt = (await store.now()) + 3000;
    await store.commit(at, [{ put: row, expect: 'absent', expiresAt }]);
    expect((await store.get(at, row))?.row).toEqual(row);
    expect(await store.commit(at, [{ put: row, expect: 'absent' }])).toMatchObject({ applied: false });
    await pass(3001);
    expect(await store.get(at, row)).toBeUndefined();
    expect(await all(store.scan(at))).toEqual([]);
    expect(await store.commit(at, [{ put: row, expect: 'absent' }])).toMatchObject({ applied: true });
    await pass(3001);
    expect((await store.get(at, row))?.row).toEqual(row);
  });

  law('shows a row up to the very moment of its expiry', async ({ store, pass }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    const expiresAt = (await store.now()) + 3000;
    await store.commit(at, [{ put: row, expect: 'absent', expiresAt }]);
    await pass(2999);
    expect((await store.get(at, row))?.row).toEqual(row);
    expect(await all(store.scan(at))).toEqual([row]);
    await pass(1);
    expect(await store.get(at, row)).toBeUndefined();
    expect(await all(store.scan(at))).toEqual([]);
  });

  law('treats a row that has expired as absent in every change', async ({ store, pass }) => {
    const at = headsOf(fresh());
    const [a, b, c] = ['a', 'b', 'c'].map((key) => head(at.in.bucket, key)) as [Head, Head, Head];
    const expiresAt = (await store.now()) + 1000;
    const put = await store.commit(
      at,
      [a, b, c].map((row) => ({ put: row, expect: 'absent' as const, expiresAt })),
    );
    if (!put.applied) throw new Error('refused');
    await pass(1000);
    for (const change of [
      { put: a, expect: put.revision },
      { remove: a, expect: put.revision },
      { check: a, expect: put.revision },
    ])
      expect(await store.commit(at, [change])).toEqual({ applied: false, because: 'conflict' });
    const checked = await store.commit(at, [
      { check: a, expect: 'absent' },
      { put: b, expect: 'absent' },
    ]);
    expect(checked).toMatchObject({ applied: true });
    await store.update(at, c, (found) => {
      expect(found).toBeUndefined();
      return { ...c, etag: 'anew' };
    });
    await pass(5000);
    expect(await all(store.scan(at))).toEqual([b, { ...c, etag: 'anew' }]);
  });

  law('lets a row that an update has changed live on', async ({ store, pass }) => {
    const at = headsOf(fresh());
    const row = head(at.in.bucket, 'k');
    await store.commit(at, [{ put: row, expect: 'absent', expiresAt: (await store.now()) + 1000 }]);
    await store.update(at, row, (found) => ({ ...row, ...found, etag: 'kept' }));
    await pass(1000);
    expect((await store.get(at, row))?.row.etag).toBe('kept');
  });

  law('keeps a row that was put again without an expiry', async ({ store, pass }) => {
    const board = fresh();
    const put = { board, score: 1, name: 'n' };
    const expiresAt = (await store.now()) + 2000;
    await store.commit(ranksOf(board), [{ put, expect: 'any', expiresAt }]);
    await store.commit(ranksOf(board), [{ put, expect: 'any' }]);
    await pass(2001);
    expect((await store.get(ranksOf(board), put))?.row).toEqual(put);
  });

  law('is not changed by what a caller does to a row afterwards', async ({ store }) => {
    const at = headsOf(fresh());
    const headers = { a: 'before' };
    const manifest = Uint8Array.of(1);
    await putHeads(store, [head(at.in.bucket, 'k', { headers, manifest })]);
    headers.a = 'after';
    manifest[0] = 2;
    const stored = await store.get(at, { key: 'k', slot: '~' });
    expect(stored?.row).toMatchObject({ headers: { a: 'before' }, manifest: Uint8Array.of(1) });
  });

  law('tells its time and its nodes', async ({ store, pass }) => {
    const before = await store.now();
    await pass(20);
    expect(await store.now()).toBeGreaterThanOrEqual(before + 10);
    const { nodes } = await store.health();
    expect(nodes.length).toBeGreaterThan(0);
    for (const node of nodes) expect(Object.values(node).every((field) => field !== '')).toBe(true);
  });
}
