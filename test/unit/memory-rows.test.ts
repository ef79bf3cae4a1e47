import { expect, test } from 'vitest';
import { MemoryRows } from '../../src/backends/metadata/memory/rows.ts';
import { leases } from '../../src/metadata/lease-table.ts';
import type { AnyTable, At, Revision } from '../../src/ports/metadata-store.ts';

const revision = '1' as Revision;

test('frees rows that have expired as others come that will expire', () => {
  let now = 0;
  const rows = new MemoryRows({ now: () => now, elapsed: () => now, sleep: async () => {} });
  const put = (name: string, expiresAt?: number): void => {
    const at = { table: leases, in: { name } } as unknown as At<AnyTable>;
    rows.preparedPut(at, { name, holder: '', generation: 1, expires: 0 }, expiresAt).write(revision);
  };
  put('stays');
  put('written again', 500);
  put('written again');
  for (let second = 0; second < 1000; second++) {
    now = second * 1000;
    put(`lease ${second}`, now + 10_000);
  }
  expect(rows.size).toBeLessThan(20);
});
