/** Every row of the tables is used: what no file of `src` uses is removed. docs/reference/places.md shows the files. */
import { expect, test } from 'vitest';
import { findHandlers } from '../../docs/places/handlers.ts';
import { headerPlaces } from '../../docs/places/headers.ts';
import { recordPlaces } from '../../docs/places/records.ts';
import { findErrors, findMetrics, findSettings } from '../../docs/places/uses.ts';
import { errorCodes } from '../../src/base/errors.ts';
import { settingNames } from '../../src/config.ts';
import { tables } from '../../src/metadata/tables.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { adminOperationNames } from '../../src/protocol/admin/operations.ts';
import { leftOutNames } from '../../src/protocol/operations/left-out.ts';
import { operationNames } from '../../src/protocol/operations/operations.ts';

const unused = (places: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] =>
  [...places].flatMap(([name, files]) => (files.size === 0 ? [name] : []));

test('a file refuses with each error code', () => {
  expect(unused(findErrors(errorCodes).refuse)).toEqual([]);
});

test('a file reads each setting, beside the checks between settings', () => {
  const readers = [...findSettings(settingNames)].map(
    ([name, files]) => [name, new Set([...files].filter((file) => file !== 'src/config/checks.ts'))] as const,
  );
  expect(unused(new Map(readers))).toEqual([]);
});

test('a file counts each metric', () => {
  expect(unused(findMetrics(Object.keys(metricTable)).count)).toEqual([]);
});

test('a file reads the rows of each table, and one writes them, beside the export of all tables', () => {
  const dead = Object.values(tables).flatMap(({ name }) =>
    (['reads', 'writes'] as const).flatMap((access) => {
      const files = [...(recordPlaces.get(name)?.[access].direct ?? [])];
      return files.some((file) => file !== 'src/runtime/backup/cli-meta.ts')
        ? []
        : [`no file ${access} ${name}`];
    }),
  );
  expect(dead).toEqual([]);
});

test('the handler of each operation is found', () => {
  const handlers = findHandlers('src/handlers/table.ts', operationNames);
  const left: readonly string[] = leftOutNames;
  expect(operationNames.filter((name) => handlers.has(name) === left.includes(name))).toEqual([]);
  const adminHandlers = findHandlers('src/handlers/admin/table.ts', adminOperationNames);
  expect(adminOperationNames.filter((name) => !adminHandlers.has(name))).toEqual([]);
});

test('headers are found by each way in which they are read and set', () => {
  const where = (name: string) => {
    const { read = new Set(), set = new Set() } = headerPlaces.get(name) ?? {};
    return { read: [...read].sort(), set: [...set].sort() };
  };
  // Selects an operation, by its name in a constant, and as a fact of policies.
  expect(where('x-amz-copy-source').read).toEqual([
    'src/auth/facts.ts',
    'src/gateway/report.ts',
    'src/handlers/object/copy-source.ts',
    'src/protocol/operations/operations.ts',
  ]);
  // By a prefix, in a loop over the names of the request.
  expect(where('x-amz-grant-*').read).toEqual(['src/gateway/permit.ts']);
  // In a list of pairs, in a list that a function returns, and in the details of a refusal.
  expect(where('x-amz-delete-marker').set).toEqual([
    'src/handlers/bucket/delete-objects.ts',
    'src/protocol/render.ts',
  ]);
  expect(where('x-amz-tagging-count').set).toEqual(['src/handlers/object/object-headers.ts']);
  expect(where('content-range').set).toContain('src/handlers/object/conditions.ts');
  // By assignment.
  expect(where('authorization').set).toContain('src/signing/sign-request.ts');
});
