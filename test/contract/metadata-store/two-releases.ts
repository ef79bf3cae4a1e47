/** A table as two releases declare it: a release may append columns, and during a rolling upgrade gateways of both serve. */
import { expect } from 'vitest';
import { int, type MetadataStore, optional, table, text } from '../../../src/ports/metadata-store.ts';

const declared = {
  name: 'two_releases',
  kind: 'conditional',
  isExported: true,
  partition: ['shelf'],
  sort: ['key'],
} as const;
const columns = { shelf: text(), key: text(), size: int() };
export const former = table({ ...declared, columns });
export const later = table({ ...declared, columns: { ...columns, color: optional(text()) } });

interface Gateways {
  readonly former: Pick<MetadataStore, 'get' | 'commit'>;
  readonly later: Pick<MetadataStore, 'get' | 'commit'>;
}

/** Rows that the later release wrote are read and changed by the former one. @returns the color that the later release then reads */
export async function changeByTurns(gateways: Gateways): Promise<string | undefined> {
  const [at, then] = [
    { table: former, in: { shelf: 's' } },
    { table: later, in: { shelf: 's' } },
  ] as const;
  const key = { key: 'k' };
  const written = { shelf: 's', key: 'k', size: 1, color: 'red' };
  expect(await gateways.later.commit(then, [{ put: written, expect: 'absent' }])).toMatchObject({
    applied: true,
  });
  const found = await gateways.former.get(at, key);
  expect(found?.row).toEqual({ shelf: 's', key: 'k', size: 1 });
  const change = { put: { shelf: 's', key: 'k', size: 2 }, expect: found?.revision ?? 'absent' } as const;
  expect(await gateways.former.commit(at, [change])).toMatchObject({ applied: true });
  const row = (await gateways.later.get(then, key))?.row;
  expect(row).toMatchObject({ size: 2 });
  return row?.color;
}
