/** The tables are consistent with each other and with the files that they refer to. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { errorCodes } from '../../src/base/errors.ts';
import { optionalPackages } from '../../src/base/optional-packages.ts';
import { eventPatterns } from '../../src/domain/configurations/notification.ts';
import { tables, versionColumns } from '../../src/metadata/tables.ts';
import {
  type AnyTable,
  type At,
  int,
  json,
  optional,
  type RowOf,
  table,
  text,
} from '../../src/ports/metadata-store.ts';
import { adminOperations } from '../../src/protocol/admin/operations.ts';
import { errorCatalogue } from '../../src/protocol/errors.ts';
import {
  describeOperation,
  type Operation,
  operationNames,
  operations,
  ties,
} from '../../src/protocol/operations/operations.ts';
import { sourceFiles } from './source-files.ts';

test('no two rows of the operation table answer one request', () => {
  expect(ties()).toEqual([]);
});

test('request lines are well-formed', () => {
  const line = /^(GET|HEAD|PUT|POST|DELETE|OPTIONS|ANY) (service|bucket|object)( [?+][\w-]+(=[\w-]+)?)*$/;
  expect(operationNames.filter((name) => !line.test(operations[name].on))).toEqual([]);
});

test('every event that an operation causes is one that a configuration may name', () => {
  const caused = operationNames.flatMap((name) => describeOperation(name).events ?? []);
  const known = (event: string): boolean =>
    eventPatterns.has(`s3:${event}`) || eventPatterns.has(`s3:${event}:*`);
  expect(caused.filter((event) => !known(event))).toEqual([]);
});

test('error codes are listed once and have a sensible status', () => {
  expect(new Set(errorCodes).size).toBe(errorCodes.length);
  expect(
    errorCodes.filter((code) => errorCatalogue[code].status < 300 || errorCatalogue[code].status > 599),
  ).toEqual([]);
});

test('every error code is thrown somewhere', () => {
  const others = sourceFiles().filter((path) => !/base\/errors\.ts$|protocol\/errors\.ts$/.test(path));
  const source = others.map((path) => readFileSync(path, 'utf8')).join('\n');
  expect(errorCodes.filter((code) => !source.includes(`'${code}'`))).toEqual([]);
});

test('key columns exist and table names are unique', () => {
  const all = Object.values(tables);
  expect(new Set(all.map((table) => table.name)).size).toBe(all.length);
  for (const table of all) {
    const keys = [...table.partition, ...table.sort.map((column) => column.replace(/^-/, ''))];
    expect(Object.keys(table.columns)).toEqual(expect.arrayContaining(keys));
    const optionalKeys = keys.filter((key) => (table.columns as AnyTable['columns'])[key]?.isOptional);
    expect(optionalKeys, table.name).toEqual([]);
  }
});

test('the type of a row follows from the columns of its table', () => {
  const made = table({
    name: 'made',
    kind: 'plain',
    isExported: true,
    partition: ['shelf'],
    sort: ['-place'],
    columns: { shelf: text<'a' | 'b'>(), place: int(), note: optional(json<{ readonly by: string }>()) },
  });
  type Row = RowOf<typeof made>;
  const rows: readonly Row[] = [
    { shelf: 'a', place: 1 },
    { shelf: 'b', place: 2, note: { by: 'c' } },
    // @ts-expect-error another text
    { shelf: 'c', place: 1 },
    // @ts-expect-error a column is missing
    { shelf: 'a' },
    // @ts-expect-error no such column
    { shelf: 'a', place: 1, color: 'red' },
    // @ts-expect-error an optional column is absent, not undefined
    { shelf: 'a', place: 1, note: undefined },
  ];
  const at: At<typeof made> = { table: made, in: { shelf: 'a' } };
  // @ts-expect-error the partition has another column
  const elsewhere: At<typeof made> = { table: made, in: { place: 1 } };
  table({
    name: 'made',
    kind: 'plain',
    isExported: true,
    partition: [],
    // @ts-expect-error a table sorts by its columns
    sort: ['color'],
    columns: { shelf: text() },
  });
  expect([rows.length, at.table, elsewhere.table]).toEqual([6, made, made]);
});

test('every table that is declared is among those that backends make', async () => {
  const made = new Set<unknown>(Object.values(tables));
  const isTable = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && 'partition' in value && 'columns' in value;
  const declared: unknown[] = [];
  for (const path of sourceFiles().filter((each) => each.includes('src/metadata/')))
    declared.push(...Object.values((await import(join(process.cwd(), path))) as object).filter(isTable));
  expect(new Set(declared).size).toBe(made.size);
  expect(declared.filter((table) => !made.has(table))).toEqual([]);
});

test('the optional packages are those of package.json, at the versions that the tests use', () => {
  const path = join(import.meta.dirname, '../../package.json');
  const { dependencies, peerDependencies, peerDependenciesMeta, devDependencies } = JSON.parse(
    readFileSync(path, 'utf8'),
  );
  expect(peerDependencies).toEqual(optionalPackages);
  for (const [name, version] of Object.entries(optionalPackages)) {
    expect(peerDependenciesMeta[name]).toEqual({ optional: true });
    expect(`^${devDependencies[name]}`).toBe(version);
    expect(dependencies).not.toHaveProperty(name);
  }
});

/** Operations that change something and are served below the reserve of a disk, by the reason for it. */
const servedOnFullDisks: Readonly<Record<string, (name: string, on: string) => boolean>> = {
  'it reads, or removes': (name, on) => /^(GET|HEAD|OPTIONS|DELETE) /.test(on) || name === 'DeleteObjects',
  'a configuration may be what empties the bucket, or closes it': (_, on) => on.startsWith('PUT bucket ?'),
  'an action of IAM, STS or access points may revoke': (_, on) => on.startsWith('ANY service '),
  'it protects what is stored': (name) => ['PutObjectRetention', 'PutObjectLegalHold'].includes(name),
  'its bytes are stored already': (name) => name === 'CompleteMultipartUpload',
};

test('an operation that stores data is refused early on a full disk: it has `adds`, or a reason', () => {
  const isServed = (name: string, on: string) =>
    Object.values(servedOnFullDisks).some((applies) => applies(name, on));
  const undecided = operationNames.filter((name) => {
    const { on, adds, leftOut }: Operation = operations[name];
    return leftOut === undefined && (adds === true) === isServed(name, on);
  });
  expect(undecided).toEqual([]);
  expect(isServed('RenameObject', 'PUT object ?rename')).toBe(false);
});

test('what StatObject shows of a column of versions is in its published reply', () => {
  const { properties = {} } = adminOperations.StatObject.reply.schema;
  const published = properties['versions']?.items?.properties ?? {};
  const fields = Object.values(versionColumns).flatMap(({ displayedAs }) => displayedAs || []);
  expect(fields).toContain('storageClass');
  expect(fields.filter((field) => !(field in published))).toEqual([]);
});
