/** Records of lmdb's free list, and the pages that they may not name. */
import { expect, test } from 'vitest';
import { FreePages, PageSet } from '../../src/backends/metadata/embedded/check-pages.ts';

const lastPage = 40;

/** A record as lmdb writes it: the count and then the entries. */
const record = (count: number, ...entries: readonly number[]): Buffer =>
  Buffer.from(new BigInt64Array([count, ...entries].map(BigInt)).buffer);

function faults(records: readonly Buffer[], used: readonly number[]): readonly string[] {
  const pages = new FreePages(lastPage);
  for (const each of records) pages.add(each);
  const inUse = new PageSet(lastPage);
  for (const page of used) inUse.add(page);
  return pages.faults(inUse);
}

test.each<[string, readonly Buffer[], readonly number[], readonly string[]]>([
  ['no page is in both', [record(2, 9, 7)], [2, 8, 10], []],
  ['entries behind the count are none', [record(1, 9, 8)], [8], []],
  ['an entry of 0 is none', [record(3, 0, 9, 0)], [0, 8], []],
  ['a page in both', [record(2, 9, 7)], [7], ['page 7 is in use and in the free list']],
  ['the last page in both', [record(1, 40)], [40], ['page 40 is in use and in the free list']],
  [
    'a page of a block in both',
    [record(3, 30, -4, 20)],
    [19, 23, 24],
    ['page 23 is in use and in the free list'],
  ],
  ['a block ends where its pages do', [record(3, -4, 20, 30)], [24, 31], []],
  [
    'more pages than are named',
    [record(2, -12, 20)],
    [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
    ['pages 20, 21, 22, 23, 24, 25, 26, 27 and 4 more are in use and in the free list'],
  ],
  [
    'a page twice, in two records',
    [record(1, 9), record(2, -3, 8)],
    [],
    ['page 9 is in the free list twice'],
  ],
])('%s', (_, records, used, expected) => {
  expect(faults(records, used)).toEqual(expected);
});

test.each([
  ['without a count', Buffer.alloc(0), 'no sound count'],
  ['with a count beyond its end', record(3, 9, 8), 'no sound count'],
  ['with a count below 0', record(-1, 9), 'no sound count'],
  ['cut off in an entry', record(1, 9).subarray(0, 12), 'no sound count'],
  ['with a page that the file does not have', record(1, 41), 'names 1 pages from 41'],
  ['with a block that leaves the file', record(2, -2, 40), 'names 2 pages from 40'],
  ['with a meta page', record(1, 1), 'names 1 pages from 1'],
])('a record %s is refused', (_, damaged, expected) => {
  expect(() => new FreePages(lastPage).add(damaged)).toThrow(expected);
});
