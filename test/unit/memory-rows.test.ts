import { expect, test } from 'vitest';
import { MemoryRows } from '../../src/backends/metadata/memory-rows.ts';
import { leases } from '../../src/metadata/records/processes.ts';
import type { AnyTable, At, Revision } from '../../src/ports/metadata-store.ts';
import { frozenClock } from '../support/frozen-clock.ts';

const revision = '1' as Revision;

test('frees rows that have expired as others come that will expire', () => {
  const clock = frozenClock(0);
  const rows = new MemoryRows(clock);
  const put = (name: string, expiresAt?: number): void => {
    const at = { table: leases, in: { name } } as unknown as At<AnyTable>;
    rows.preparedPut(at, { name, holder: '', generation: 1, expires: 0 }, expiresAt).write(revision);
  };
  put('stays');
  put('written again', 500);
  put('written again');
  for (let second = 0; second < 1000; second++) {
    clock.time = second * 1000;
    put(`lease ${second}`, clock.time + 10_000);
  }
  expect(rows.size).toBeLessThan(20);
});

test('a log keeps its latest rows, and is not kept whole', () => {
  const rows = new MemoryRows(frozenClock(0));
  const log = { ...leases, name: 'log', log: { linesInMemory: 100 } };
  const put = (name: string): void => {
    const at = { table: log, in: { name } } as unknown as At<AnyTable>;
    const holder = 'h'.repeat(2000);
    rows.preparedPut(at, { name, holder, generation: 1, expires: 0 }, 1_000_000).write(revision);
  };
  const isThere = (name: string): boolean =>
    rows.get({ table: log, in: { name } } as unknown as At<AnyTable>, {}) !== undefined;
  for (let n = 0; n < 100; n++) put(`row ${n}`);
  expect(isThere('row 0')).toBe(true);
  for (let n = 100; n < 1000; n++) put(`row ${n}`);
  expect([isThere('row 700'), isThere('row 900'), isThere('row 999')]).toEqual([false, true, true]);
});

test('a log takes a row that is larger than others together, and every letter', () => {
  const rows = new MemoryRows(frozenClock(0));
  const table = { ...leases, name: 'log', log: { linesInMemory: 4 } };
  const at = { table, in: { name: 'ä' } } as unknown as At<AnyTable>;
  for (const holder of ['small', '\n"€𝄞\ud800'.repeat(100_000)]) {
    rows.preparedPut(at, { name: 'ä', holder, generation: 1, expires: 0 }).write(revision);
    expect(rows.get(at, {})?.row['holder']).toBe(holder);
  }
});

test('a log has rows of any size, but no more than 64 MiB of them', () => {
  const table = { ...leases, name: 'log', log: { linesInMemory: 65_536 } };
  const rows = new MemoryRows(frozenClock(0));
  const at = (name: string): At<AnyTable> => ({ table, in: { name } }) as unknown as At<AnyTable>;
  const holder = '\u0001'.repeat(8_000);
  for (let n = 0; n < 4_000; n++)
    rows.preparedPut(at(`row ${n}`), { name: `row ${n}`, holder, generation: 1, expires: 0 }).write(revision);
  expect([rows.get(at('row 0'), {}), rows.get(at('row 3999'), {})?.row['holder']]).toEqual([
    undefined,
    holder,
  ]);
});

test('what was read of a log stays true as rows come, are written again and make room', () => {
  const table = { ...leases, name: 'log', log: { linesInMemory: 100 } };
  const rows = new MemoryRows(frozenClock(0));
  const at = (name: string): At<AnyTable> => ({ table, in: { name } }) as unknown as At<AnyTable>;
  const put = (name: string, generation: number): void =>
    rows.preparedPut(at(name), { name, holder: 'h'.repeat(2000), generation, expires: 0 }).write(revision);
  const generationOf = (name: string): unknown => rows.get(at(name), {})?.row['generation'];
  for (let n = 0; n < 1000; n++) {
    put(`row ${n}`, 1);
    if (n % 50 === 0) put('again and again', n);
    if (n % 7 === 0)
      expect([generationOf(`row ${n}`), generationOf('again and again')]).toEqual([1, n - (n % 50)]);
  }
  expect([generationOf('row 0'), generationOf('row 999')]).toEqual([undefined, 1]);
});

test('a row of a log is what was written last', () => {
  const rows = new MemoryRows(frozenClock(0));
  const at = {
    table: { ...leases, name: 'log', log: { linesInMemory: 4 } },
    in: { name: 'a' },
  } as unknown as At<AnyTable>;
  const row = { name: 'a', holder: '', generation: 1, expires: 0 };
  for (let generation = 1; generation <= 3; generation++)
    rows.preparedPut(at, { ...row, generation }).write(revision);
  expect(rows.get(at, {})?.row).toMatchObject({ generation: 3 });
  rows.preparedRemove(at, { name: 'a' }).write(revision);
  expect(rows.get(at, {})).toBe(undefined);
});
