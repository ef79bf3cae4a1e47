/** The size of the console after gzip. `node console/build.ts` prints every file. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { consoleFolder } from '../../console/build.ts';

interface Manifest {
  /** What the browser loads before any page: entry, what it imports, the style sheet. */
  readonly first: readonly string[];
  readonly sizes: Readonly<Record<string, number>>;
  /** By chunk: what it imports before it runs, and what it loads when it is needed. */
  readonly imports: Readonly<Record<string, readonly string[]>>;
  readonly later: Readonly<Record<string, readonly string[]>>;
}

const { first, sizes, imports, later } = JSON.parse(
  readFileSync(join(consoleFolder, 'manifest.json'), 'utf8'),
) as Manifest;
const pages = first.flatMap((name) => later[name] ?? []).filter((name) => !name.startsWith('de-'));
const sum = (names: Iterable<string>): number =>
  [...names].reduce((all, name) => all + (sizes[name] ?? 0), 0);

/** A page with all that it imports, and with what it may load afterwards. */
function loadOf(page: string, { isUsable }: { readonly isUsable: boolean }): number {
  const found = new Set([...first, page]);
  for (const name of found) {
    for (const next of imports[name] ?? []) found.add(next);
    // What every page begins with also names the other pages, and the words of the other language.
    if (!isUsable && !first.includes(name)) for (const next of later[name] ?? []) found.add(next);
  }
  return sum(found);
}

describe('the size of the console after gzip', () => {
  test('is at most 90 kB before the overview is usable', () => {
    const overview = pages.find((name) => name.startsWith('overview-')) ?? '';
    expect(sizes[overview]).toBeGreaterThan(0);
    expect(loadOf(overview, { isUsable: true })).toBeLessThanOrEqual(90_000);
  });

  test('is at most 150 kB for the first load of any page, with all that it loads afterwards', () => {
    expect(pages.length).toBeGreaterThan(1);
    for (const page of pages)
      expect([page, loadOf(page, { isUsable: false }) <= 150_000]).toEqual([page, true]);
  });

  test('is divided: each page is a chunk of its own', () => {
    for (const page of pages) expect(first).not.toContain(page);
  });
});
