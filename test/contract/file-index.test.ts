/** The in-memory lists of the file backend are bounded for any number of chunks, and complete. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cacheSizes } from '../../src/base/bounded-cache.ts';
import { idsOf, listAll, put } from './chunk-store.ts';
import { compactAll, type FileFixture, fileFixture, laterBy } from './file-fixture.ts';

const indexBytesMax = 64 * 1024;
const summariesBytesMax = 4 * 1024;
const listerLimits = { indexBytesMax, summariesBytesMax };
const bytesOf = (name: string): number => cacheSizes().get(name)?.bytes ?? 0;

let fixture: FileFixture;
beforeEach(async () => {
  fixture = await fileFixture({ listerLimits });
});
afterEach(() => fixture.dispose());

const idOf = (n: number): string => `${String(n % 97).padStart(3, '0')}-${String(n).padStart(6, '0')}.0`;

test('the ids of segments stay within their bytes while a segment grows by thousands of chunks', async () => {
  const { store } = fixture;
  const expected: string[] = [];
  let most = 0;
  for (let n = 0; n < 3000; n += 100) {
    const batch = Array.from({ length: 100 }, (_, i) => idOf(n + i));
    await Promise.all(batch.map((id) => put(store, id, 10)));
    expected.push(...batch);
    const found = idsOf(await listAll(store, '005-'));
    expect(found.sort()).toEqual(expected.filter((id) => id.startsWith('005-')).sort());
    most = Math.max(most, bytesOf('segment-records'));
    expect(bytesOf('segment-records')).toBeLessThanOrEqual(indexBytesMax);
  }
  // The index was used until the segment had too many chunks for it.
  expect(most).toBeGreaterThan(indexBytesMax / 4);
});

test('the ids and summaries of many segments stay within their bytes, and every chunk is found by its prefix', async () => {
  const store = fixture.reopen({ segmentBytesMax: 8_000 });
  const ids = Array.from({ length: 1500 }, (_, n) => idOf(n));
  for (let at = 0; at < ids.length; at += 25)
    await Promise.all(ids.slice(at, at + 25).map((id) => put(store, id, 10)));
  await store.close();
  // The segments are sealed and have summaries.
  const reader = fixture.reopen({ clock: laterBy(2 * 3_600_000) });
  await compactAll(reader);
  const prefixes = [...new Set(ids.map((id) => id.slice(0, 4)))];
  const found: string[] = [];
  for (const prefix of prefixes) {
    found.push(...idsOf(await listAll(reader, prefix)));
    expect(bytesOf('segment-records')).toBeLessThanOrEqual(indexBytesMax);
    expect(bytesOf('segment-summaries')).toBeLessThanOrEqual(summariesBytesMax);
  }
  expect(found.sort()).toEqual([...ids].sort());
  expect(bytesOf('segment-summaries')).toBeGreaterThan(summariesBytesMax / 2);
});
