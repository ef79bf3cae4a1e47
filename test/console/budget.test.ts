/** The size of the console after gzip. `node console/build.ts` prints every file. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { consoleFolder } from '../../console/build.ts';

interface Manifest {
  readonly first: readonly string[];
  readonly sizes: Readonly<Record<string, number>>;
  readonly imports: Readonly<Record<string, readonly string[]>>;
}

const { first, sizes, imports } = JSON.parse(
  readFileSync(join(consoleFolder, 'manifest.json'), 'utf8'),
) as Manifest;
const sum = (names: Iterable<string>): number =>
  [...names].reduce((all, name) => all + (sizes[name] ?? 0), 0);

/** The chunk of a page, and all that it imports. */
function withImports(start: string): ReadonlySet<string> {
  const found = new Set([start]);
  for (const name of found) for (const next of imports[name] ?? []) found.add(next);
  return found;
}

test('the console has at most 150 kB after gzip, and 90 kB before its first page is usable', () => {
  const overview = Object.keys(sizes).find((name) => name.startsWith('overview-')) ?? '';
  expect(sizes[overview]).toBeGreaterThan(0);
  expect(sum(new Set([...first, ...withImports(overview)]))).toBeLessThanOrEqual(90_000);
  expect(sum(Object.keys(sizes))).toBeLessThanOrEqual(150_000);
});

test('each page is a chunk of its own', () => {
  for (const page of ['overview', 'storage']) {
    const chunk = Object.keys(sizes).find((name) => name.startsWith(`${page}-`)) ?? '';
    expect(sizes[chunk]).toBeGreaterThan(0);
    expect(first).not.toContain(chunk);
  }
});
