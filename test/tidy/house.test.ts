/** The goals for how `src` is divided, which `node test/tidy/house.ts` prints. */
import { expect, test } from 'vitest';
import { house } from './house.ts';

test('a folder is a noun with three files at least', () => {
  expect(house.smallFolders).toEqual([]);
});

test('what only one file uses lives in it: 150 files at most have one importer', () => {
  expect(house.filesWithOneImporter).toBeLessThanOrEqual(150);
  expect(house.files).toBeLessThanOrEqual(720);
  expect(house.cuts).toBeLessThanOrEqual(90);
});

test('a reader descends 2.8 folders on average, and no two folders of the domain import each other', () => {
  expect(house.depth).toBeLessThan(2.85);
  expect(house.mutualPairs).toBe(0);
});
