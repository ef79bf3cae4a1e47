/** The order inside a partition: text by UTF-8 bytes, integers by value, `-` from the end. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, head, headsOf, putHeads, putRanks, ranksOf, scoresOf } from './tables.ts';

export const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Texts that UTF-16 order sorts differently, texts with control characters, and texts with long common prefixes. */
export const keyText = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }).filter((text) => !text.includes('\u0000')),
  fc.string({
    unit: fc.constantFrom('a', 'b', '/', '\u0001', 'é', '\uFFFD', '\uFFFF', '\u{1F600}'),
    minLength: 1,
  }),
);

export function orderLaws({ law, runs }: Laws): void {
  law('sorts text by UTF-8 bytes, not by UTF-16 units', async ({ store }) => {
    const bucket = fresh();
    const keys = ['\u{1F600}', '\uFFFD', '\uE000', 'é', 'z', 'a', 'a\u0001', 'a/', 'a!', 'aa', 'Z', '\u007F'];
    await putHeads(
      store,
      keys.map((key) => head(bucket, key)),
    );
    const read = (await all(store.scan(headsOf(bucket)))).map((row) => row.key);
    expect(read).toEqual([...keys].sort(byBytes));
    expect(read.indexOf('\uFFFD')).toBeLessThan(read.indexOf('\u{1F600}'));
  });

  law('sorts a descending column from its end, inside the columns before it', async ({ store }) => {
    const bucket = fresh();
    const slots = ['~', '1', '10', '2', 'é', '\uFFFD', '\u{1F600}'];
    const rows = ['k', 'ka', 'j'].flatMap((key) => slots.map((slot) => head(bucket, key, { slot })));
    await putHeads(store, rows);
    const down = [...slots].sort(byBytes).reverse();
    const read = (await all(store.scan(headsOf(bucket)))).map((row) => [row.key, row.slot]);
    expect(read).toEqual(['j', 'k', 'ka'].flatMap((key) => down.map((slot) => [key, slot])));
  });

  law('sorts descending integers, negative ones among them', async ({ store }) => {
    const board = fresh();
    const values = [0, -1, 1, 127, 128, 255, 256, -255, -256, -257, 65_536, 2 ** 40, -(2 ** 40)];
    await putRanks(
      store,
      board,
      values.map((score) => [score, 'n']),
    );
    const read = (await all(store.scan(ranksOf(board)))).map((row) => row.score);
    expect(read).toEqual([...values].sort((a, b) => b - a));
  });

  law('sorts any keys as their bytes sort', async ({ store }) => {
    const keys = fc.uniqueArray(fc.tuple(keyText, keyText), {
      selector: (pair) => pair.join('\u0000'),
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(keys, async (pairs) => {
        const bucket = fresh();
        await putHeads(
          store,
          pairs.map(([key, slot]) => head(bucket, key, { slot })),
        );
        const sorted = [...pairs].sort((a, b) => byBytes(a[0], b[0]) || byBytes(b[1], a[1]));
        const read = await all(store.scan(headsOf(bucket)));
        expect(read.map((row) => [row.key, row.slot])).toEqual(sorted);
        const reversed = await all(store.scan(headsOf(bucket), { reverse: true }));
        expect(reversed).toEqual([...read].reverse());
      }),
      { numRuns: runs },
    );
  });

  law('sorts any integers by value', async ({ store }) => {
    const keys = fc.uniqueArray(fc.tuple(fc.oneof(fc.maxSafeInteger(), fc.integer()), keyText), {
      selector: (pair) => pair.join('\u0000'),
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(keys, async (pairs) => {
        const board = fresh();
        for (const [score, name] of pairs) {
          await store.commit(scoresOf(board), [{ put: { board, score, name }, expect: 'any' }]);
        }
        const sorted = [...pairs].sort((a, b) => a[0] - b[0] || byBytes(b[1], a[1]));
        const read = await all(store.scan(scoresOf(board)));
        expect(read.map((row) => [row.score, row.name])).toEqual(sorted);
      }),
      { numRuns: runs },
    );
  });

  law('refuses NUL and lone surrogates in a key', async ({ store }) => {
    const bucket = fresh();
    for (const key of ['a\u0000b', '\uD83D', '\uDE00x']) {
      await expect(
        store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }]),
      ).rejects.toThrow();
      await expect(store.get(headsOf(bucket), { key, slot: '~' })).rejects.toThrow();
    }
    expect(await all(store.scan(headsOf(bucket)))).toEqual([]);
  });

  law('takes keys of 1024 bytes of any kind', async ({ store }) => {
    const bucket = fresh();
    const keys = ['\u0001'.repeat(1024), 'é'.repeat(512), '\u{1F600}'.repeat(256), 'k'.repeat(1024)];
    await putHeads(
      store,
      keys.map((key) => head(bucket, key, { slot: 's'.repeat(64) })),
    );
    expect((await all(store.scan(headsOf(bucket)))).map((row) => row.key)).toEqual([...keys].sort(byBytes));
  });
}
