/**
 * The rules of a split (docs/adr/0010-a-shard-splits-under-its-clients.md): a shard stays or becomes exactly two, and writers always know
 * which.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ShardMerge } from '../../src/backends/metadata/wide-column/cursor.ts';
import { leaves, listPlaces, locateText } from '../../src/backends/metadata/wide-column/layouts.ts';
import { hashToShard } from '../../src/base/shard.ts';

const exponent = fc.nat(10);

test('when the shards double, a row stays where it is or moves as many shards up as there were', () => {
  fc.assert(
    fc.property(fc.string(), exponent, (text, power) => {
      const ways = 2 ** power;
      const [before, after] = [hashToShard(text, ways), hashToShard(text, ways * 2)];
      expect([before, before + ways]).toContain(after);
      expect(leaves(text, ways)).toBe(after !== before);
    }),
  );
});

test('every shard splits: some of its rows stay and some leave', () => {
  const texts = Array.from({ length: 4_000 }, (_, each) => `key ${each}`);
  for (const ways of [1, 4, 64])
    for (let shard = 0; shard < ways; shard += 1) {
      const mine = texts.filter((text) => hashToShard(text, ways) === shard);
      expect(new Set(mine.map((text) => leaves(text, ways))).size).toBe(2);
    }
});

test('a row is searched along its way, from its expected shard to the last possible one', () => {
  fc.assert(
    fc.property(fc.string(), exponent, fc.nat(4), (text, power, doublings) => {
      const ways = 2 ** power;
      const places = listPlaces(text, { ways, to: ways * 2 ** doublings });
      expect(places[0]).toBe(hashToShard(text, ways));
      expect(places.at(-1)).toBe(hashToShard(text, ways * 2 ** doublings));
      expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
    }),
  );
  expect(listPlaces('key', { ways: 64, to: 0 })).toEqual([hashToShard('key', 64)]);
});

describe('a row that leaves is written', () => {
  const progress = { to: 8, batch: 3, isDone: false };
  test.each([
    ['z', undefined, 'old'],
    ['z', { ...progress, moved: 'm' }, 'old'],
    ['m', { ...progress, moved: 'm' }, 'new'],
    ['a', { ...progress, moved: 'm', moving: 'p' }, 'new'],
    ['n', { ...progress, moved: 'm', moving: 'p' }, 'leaving'],
    ['p', { ...progress, moved: 'm', moving: 'p' }, 'leaving'],
    ['q', { ...progress, moved: 'm', moving: 'p' }, 'old'],
    ['q', { ...progress, moved: 'm', moving: null }, 'leaving'],
    ['q', { ...progress, isDone: true }, 'new'],
    // Keys are ordered by UTF-8 bytes, which differs from JavaScript's order here.
    ['\u{10000}', { ...progress, moved: '\uffff' }, 'old'],
    ['\uffff', { ...progress, moved: '\u{10000}' }, 'new'],
  ] as const)('%j at %j: %s', (text, at, stand) => {
    expect(locateText(text, at)).toBe(stand);
  });
});

test('a merge returns every row of its shards once, in order, with any slice size', async () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uniqueArray(fc.stringMatching(/^[a-z]{1,3}$/)), { minLength: 4, maxLength: 4 }),
      fc.integer({ min: 1, max: 5 }),
      fc.boolean(),
      async (shards, slice, reverse) => {
        const merge = new ShardMerge<string>({
          shards: [0, 1, 2, 3],
          splitAt: 2,
          bounds: { low: bytes(''), high: bytes('~') },
          reverse,
          slice,
          keyOf: bytes,
          async read(shard, { low, high }, limit) {
            const inside = (shards[shard] ?? []).filter(
              (text) => Buffer.compare(bytes(text), low) >= 0 && Buffer.compare(bytes(text), high) < 0,
            );
            const rows = (reverse ? inside.sort().reverse() : inside.sort()).slice(0, limit);
            return { rows, hasMore: rows.length === limit };
          },
        });
        const merged: string[] = [];
        for (let row = await merge.next(); row !== undefined; row = await merge.next()) merged.push(row);
        const all = [...new Set(shards.flat())].sort();
        expect(merged).toEqual(reverse ? all.reverse() : all);
      },
    ),
  );
});

test('a row that moves between two slices of a page is met in its new shard', async () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const shards: string[][] = [['a', 'c'], []];
  let reads = 0;
  const merge = new ShardMerge<string>({
    shards: [0, 1],
    splitAt: 1,
    bounds: { low: bytes('a'), high: bytes('z') },
    reverse: false,
    slice: 1,
    keyOf: bytes,
    async read(shard, { low, high }, limit) {
      const inside = (shards[shard] ?? []).filter(
        (text) => Buffer.compare(bytes(text), low) >= 0 && Buffer.compare(bytes(text), high) < 0,
      );
      reads += 1;
      // Both shards have been read once.
      if (reads === 2) shards.splice(0, 2, ['a'], ['c']);
      return { rows: inside.slice(0, limit), hasMore: inside.length > limit };
    },
  });
  const merged: string[] = [];
  for (let row = await merge.next(); row !== undefined; row = await merge.next()) merged.push(row);
  expect(merged).toEqual(['a', 'c']);
});
