/** Ranges, pages and seeks: from, after and before with partial keys, in either direction. */
import fc from 'fast-check';
import { expect } from 'vitest';
import {
  type Cursor,
  commitLimits,
  type MetadataStore,
  type Range,
} from '../../../src/ports/metadata-store.ts';
import type { Laws } from '../metadata-store.ts';
import { byBytes } from './order.ts';
import { all, fresh, type Head, head, type heads, headsOf, putHeads, ranksOf } from './tables.ts';

export type HeadRange = Range<typeof heads>;
type PartialKey = { readonly key?: string; readonly slot?: string };

export const names = ['a', 'a!', 'b', 'b/1', 'b/2', 'c', '\uFFFD', '\u{1F600}'];
export const slots = ['1', '2', '~'];

/** Rows of `names` × `slots` in their order. */
async function filled(store: MetadataStore): Promise<{ bucket: string; rows: readonly Head[] }> {
  const bucket = fresh();
  const keys = [...names].sort(byBytes);
  const rows = keys.flatMap((key) => [...slots].reverse().map((slot) => head(bucket, key, { slot })));
  await putHeads(store, rows);
  return { bucket, rows };
}

const matches = (row: Head, partial: PartialKey): boolean =>
  (partial.key === undefined || row.key === partial.key) &&
  (partial.slot === undefined || row.slot === partial.slot);

/** Negative when a row sorts before everything that matches the partial key. */
function compare(row: Head, partial: PartialKey): number {
  if (matches(row, partial)) return 0;
  const byKey = byBytes(row.key, partial.key ?? row.key);
  return byKey !== 0 ? byKey : byBytes(partial.slot ?? row.slot, row.slot);
}

/** What a scan must yield of rows that are in order. */
export function expected(rows: readonly Head[], range: HeadRange): Head[] {
  const { from, after, before } = range;
  const inside = rows.filter(
    (row) =>
      (from === undefined || compare(row, from) >= 0) &&
      (after === undefined || compare(row, after) > 0) &&
      (before === undefined || compare(row, before) < 0),
  );
  return range.reverse === true ? inside.reverse() : inside;
}

const matchingKey: fc.Arbitrary<PartialKey> = fc.oneof(
  fc.record({ key: fc.constantFrom(...names, 'aa', '', 'zz') }),
  fc.record({ key: fc.constantFrom(...names, 'aa'), slot: fc.constantFrom(...slots, '0', '15') }),
);
export const anyRange: fc.Arbitrary<HeadRange> = fc.record(
  { from: matchingKey, after: matchingKey, before: matchingKey, reverse: fc.boolean() },
  { requiredKeys: [] },
);

/** Rows that are in order, and how the partition that holds them is scanned. */
interface Scanned {
  readonly rows: readonly Head[];
  readonly runs: number;
  scan(range: HeadRange): Cursor<typeof heads>;
}

export const expectRanges = ({ rows, runs, scan }: Scanned): Promise<void> =>
  fc.assert(
    fc.asyncProperty(anyRange, fc.integer({ min: 1, max: 9 }), async (range, page) => {
      expect(await all(scan(range), page)).toEqual(expected(rows, range));
    }),
    { numRuns: runs },
  );

export function expectSeeks({ rows, runs, scan }: Scanned): Promise<void> {
  const step = fc.record({ take: fc.integer({ min: 0, max: 4 }), to: matchingKey, past: fc.boolean() });
  return fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(step, { maxLength: 5 }), async (reverse, steps) => {
      const cursor = scan({ reverse });
      let left = reverse ? [...rows].reverse() : [...rows];
      for (const { take, to, past } of steps) {
        const read = take === 0 ? [] : await cursor.next(take);
        expect(read.map((stored) => stored.row)).toEqual(left.splice(0, take));
        cursor.seek(to, { past });
        const side = (row: Head): number => (reverse ? -compare(row, to) : compare(row, to));
        left = left.filter((row) => (past ? side(row) > 0 : side(row) >= 0));
      }
      expect(await all(cursor)).toEqual(left);
    }),
    { numRuns: runs },
  );
}

export function scanLaws({ law, runs }: Laws): void {
  law('reads an empty partition as nothing', async ({ store }) => {
    const cursor = store.scan(headsOf(fresh()));
    expect(await cursor.next(10)).toEqual([]);
    expect(await cursor.next(10)).toEqual([]);
  });

  law('stays inside its partition', async ({ store }) => {
    const bucket = fresh();
    for (const near of [`${bucket}0`, `${bucket}\u0001`, `${bucket} `, `${bucket}\u{1F600}`]) {
      await putHeads(store, [head(near, 'k')]);
    }
    await putHeads(store, [head(bucket, 'k')]);
    for (const reverse of [false, true]) {
      expect(await all(store.scan(headsOf(bucket), { reverse }))).toEqual([head(bucket, 'k')]);
    }
  });

  law('reads pages of any size without a gap or a repetition', async ({ store }) => {
    const { bucket, rows } = await filled(store);
    for (const page of [1, 2, 5, rows.length, rows.length + 1]) {
      expect(await all(store.scan(headsOf(bucket)), page)).toEqual(rows);
      expect(await all(store.scan(headsOf(bucket), { reverse: true }), page)).toEqual([...rows].reverse());
    }
  });

  law('starts `from` at what matches, `after` beyond it, and ends `before` it', async ({ store }) => {
    const { bucket, rows } = await filled(store);
    const keysIn = async (range: HeadRange): Promise<string[]> => [
      ...new Set((await all(store.scan(headsOf(bucket), range))).map((row) => row.key)),
    ];
    expect(await keysIn({ from: { key: 'b' } })).toEqual(['b', 'b/1', 'b/2', 'c', '\uFFFD', '\u{1F600}']);
    expect(await keysIn({ after: { key: 'b' } })).toEqual(['b/1', 'b/2', 'c', '\uFFFD', '\u{1F600}']);
    expect(await keysIn({ before: { key: 'b/1' } })).toEqual(['a', 'a!', 'b']);
    expect(await keysIn({ after: { key: 'a' }, before: { key: 'b' } })).toEqual(['a!']);
    expect(await keysIn({ from: { key: 'c' }, before: { key: 'b' } })).toEqual([]);
    expect(await all(store.scan(headsOf(bucket), { from: {} }))).toEqual(rows);
  });

  law('reads any range as a filter over all rows would', async ({ store }) => {
    const { bucket, rows } = await filled(store);
    await expectRanges({ rows, runs, scan: (range) => store.scan(headsOf(bucket), range) });
  });

  law(
    'seeks ahead in either direction, past the matching rows if requested, and never back',
    async ({ store }) => {
      const { bucket, rows } = await filled(store);
      await expectSeeks({ rows, runs, scan: (range) => store.scan(headsOf(bucket), range) });
    },
  );

  law('reads the next page as it is then, holding no lock', async ({ store }) => {
    const bucket = fresh();
    await putHeads(store, [head(bucket, 'a'), head(bucket, 'b'), head(bucket, 'd')]);
    const cursor = store.scan(headsOf(bucket));
    expect((await cursor.next(1)).map((stored) => stored.row.key)).toEqual(['a']);
    await putHeads(store, [head(bucket, 'c')]);
    const found = await store.get(headsOf(bucket), { key: 'b', slot: '~' });
    if (found === undefined) throw new Error('lost');
    await store.commit(headsOf(bucket), [{ remove: found.row, expect: found.revision }]);
    expect((await all(cursor)).map((row) => row.key)).toEqual(['c', 'd']);
  });

  law('reads of rows the columns that are wanted, and those of the key', async ({ store }) => {
    const bucket = fresh();
    const headers = { big: 2 ** 40, less: [-1, -200, -70_000, 1.5, true, null], long: 'é'.repeat(300) };
    const full = { size: 7, marker: true, headers, manifest: Uint8Array.of(1, 2), etag: 'e'.repeat(40) };
    const rows = [head(bucket, 'a'), head(bucket, 'b', full), head(bucket, 'c', { size: -1, slot: '2' })];
    await putHeads(store, rows);
    const someColumns = fc.subarray(['etag', 'size', 'marker', 'headers', 'manifest'] as const);
    await fc.assert(
      fc.asyncProperty(someColumns, fc.boolean(), async (columns, reverse) => {
        const found = await store.scan(headsOf(bucket), { reverse, columns }).next(rows.length);
        const inOrder = reverse ? rows.toReversed() : rows;
        const names = ['bucket', 'key', 'slot', ...columns] as const;
        expect(found.map(({ row }) => names.map((name) => (row as Head)[name]))).toEqual(
          inOrder.map((row) => names.map((name) => row[name])),
        );
      }),
      { numRuns: runs },
    );
  });

  law('gives rows their revision', async ({ store }) => {
    const { bucket, rows } = await filled(store);
    for (const stored of await store.scan(headsOf(bucket)).next(rows.length)) {
      expect(stored.revision).toBe((await store.get(headsOf(bucket), stored.row))?.revision);
    }
  });

  law('yields every row in exactly one shard', async ({ store }) => {
    const { bucket, rows } = await filled(store);
    const at = { ...headsOf(bucket), ways: 3 };
    const shards = await Promise.all([0, 1, 2].map((shard) => all(store.scan(at, { shard }))));
    const text = (row: Head): string => JSON.stringify(Object.entries(row).sort());
    expect(shards.flat().map(text).sort()).toEqual(rows.map(text).sort());
  });

  law(
    'reads over whatever expired or was removed, however much of it lies in the way',
    async ({ store, pass }) => {
      const board = fresh();
      const expiresAt = (await store.now()) + 1000;
      const rows = Array.from({ length: 300 }, (_, score) => ({ board, score, name: 'n' }));
      for (let start = 0; start < rows.length; start += commitLimits.changes) {
        const some = rows.slice(start, start + commitLimits.changes);
        await store.apply(
          some.map((put) => ({
            at: ranksOf(board),
            put,
            ...(put.score % 100 === 0 ? {} : { expiresAt }),
          })),
        );
      }
      await pass(1000);
      for (const reverse of [false, true]) {
        const cursor = store.scan(ranksOf(board), { reverse });
        const scores: number[] = [];
        for (let read = await cursor.next(1); read.length > 0; read = await cursor.next(1))
          scores.push(...read.map(({ row }) => row.score));
        expect(scores).toEqual(reverse ? [0, 100, 200] : [200, 100, 0]);
      }
    },
  );

  law('fills a page of thousands of rows', async ({ store }) => {
    const board = fresh();
    const total = 2500;
    const puts = Array.from({ length: total }, (_, score) => ({
      at: ranksOf(board),
      put: { board, score, name: 'n' },
    }));
    for (let start = 0; start < total; start += 50) await store.apply(puts.slice(start, start + 50));
    const cursor = store.scan(ranksOf(board));
    expect(await cursor.next(0)).toEqual([]);
    expect((await cursor.next(total - 1)).map(({ row }) => row.score)).toEqual(
      Array.from({ length: total - 1 }, (_, index) => total - 1 - index),
    );
    expect(await cursor.next(total)).toHaveLength(1);
    expect(await cursor.next(total)).toEqual([]);
  });

  law('clears a range of a plain table and nothing beside it', async ({ store }) => {
    const board = fresh();
    const scores = Array.from({ length: 600 }, (_, score) => score);
    for (let start = 0; start < scores.length; start += 50) {
      const changes = scores
        .slice(start, start + 50)
        .map((score) => ({ put: { board, score, name: 'n' }, expect: 'any' as const }));
      await store.commit(ranksOf(board), changes);
    }
    await store.clear(ranksOf(board), { from: { score: 590 }, before: { score: 5 } });
    const left = (await all(store.scan(ranksOf(board)), 100)).map((row) => row.score);
    expect(left).toEqual([...scores.slice(591), ...scores.slice(0, 6)].sort((a, b) => b - a));
    await store.clear(ranksOf(board), {});
    expect(await all(store.scan(ranksOf(board)))).toEqual([]);
  });

  law('clears plain tables only', async ({ store }) => {
    await expect(store.clear(headsOf(fresh()), {})).rejects.toThrow();
  });
}
