/** A cache holds a bounded number of entries and bytes, and evicts the least recently used entry. */
import { expect, test } from 'vitest';
import { BoundedCache, cacheSizes } from '../../src/base/bounded-cache.ts';

const open = (entriesMax: number, max: number) =>
  new BoundedCache<string>({
    name: 'test',
    entriesMax,
    bytes: { max, sizeOf: (value, key) => value.length + key.length },
  });

test('holds no more entries and no more bytes than its limits say', () => {
  const cache = open(3, 20);
  for (const key of ['a', 'b', 'c', 'd']) cache.set(key, 'xxx');
  expect([cache.get('a'), cache.get('d'), cache.size]).toEqual([undefined, 'xxx', { entries: 3, bytes: 12 }]);
  cache.set('e', 'x'.repeat(14));
  expect([cache.size, cache.get('d')]).toEqual([{ entries: 2, bytes: 19 }, 'xxx']);
});

test('a value that has been used is spared once before those that have not', () => {
  const cache = open(3, 100);
  for (const key of ['a', 'b', 'c']) cache.set(key, key);
  cache.get('a');
  cache.set('d', 'd');
  expect(['a', 'b', 'c', 'd'].map((key) => cache.get(key))).toEqual(['a', undefined, 'c', 'd']);
});

test('a value larger than the whole cache is not stored, and evicts none', () => {
  const cache = open(3, 10);
  cache.set('a', 'x');
  cache.set('b', 'x'.repeat(10));
  expect([cache.get('a'), cache.get('b'), cache.size.bytes]).toEqual(['x', undefined, 2]);
});

test('an entry that is set again counts once', () => {
  const cache = open(3, 100);
  for (let round = 0; round < 10; round++) cache.set('a', 'x'.repeat(round));
  cache.delete('b');
  expect(cache.size).toEqual({ entries: 1, bytes: 10 });
  cache.delete('a');
  expect(cache.size).toEqual({ entries: 0, bytes: 0 });
});

test('caches of one name are summed for the metrics', () => {
  const pair = [
    new BoundedCache<number>({ name: 'pair', entriesMax: 9 }),
    new BoundedCache<number>({ name: 'pair', entriesMax: 9 }),
  ];
  for (const cache of pair) cache.set('a', 1);
  expect(cacheSizes().get('pair')).toEqual({ entries: 2, bytes: 0 });
});
