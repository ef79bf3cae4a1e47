/**
 * Stored rows hold the values of their columns by position, so a release may only add columns behind those of the release before; the
 * embedded store and TiKV refuse to open anything else. `test/vectors/record-columns.json` has every table with its columns: a new one is
 * appended there too, and what stands there is not changed once a release has it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tables } from '../../src/metadata/tables.ts';

const path = join(import.meta.dirname, '../vectors/record-columns.json');
const released = JSON.parse(readFileSync(path, 'utf8')) as Record<string, readonly string[]>;
const present = new Map(Object.values(tables).map(({ name, columns }) => [name, Object.keys(columns)]));

test.each(Object.entries(released))(
  'the columns of %s begin with those that stored rows have',
  (name, columns) => {
    expect(present.get(name)?.slice(0, columns.length)).toEqual(columns);
  },
);

test.each([...present])('record-columns.json ends with the latest columns of %s', (name, columns) => {
  const missing = columns.slice(released[name]?.length ?? 0);
  expect(missing, `append them to "${name}" of test/vectors/record-columns.json`).toEqual([]);
});
