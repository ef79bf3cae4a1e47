/** Rows of a bucket in stores that split, each with a ranking and a counter in other partitions, and what must be true of them. */
import { expect } from 'vitest';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { all, head, heads, ranksOf, talliesOf } from '../contract/metadata-store/tables.ts';

export const bucket = 'photos';
export const objects = { table: heads, in: { bucket }, ways: 64 };
export const slotOf = (key: string) => ({ key, slot: '~' });
export const rank = (name: string) => ({ board: bucket, score: 1, name });
export const keyOf = (n: number): string => `k${String(n).padStart(4, '0')}`;

/** Each write adds to a counter and a ranking, which are mostly in other stores than the row. */
export const put = (
  store: MetadataStore,
  key: string,
  options: { readonly op?: { readonly id: string } } = {},
) =>
  store.commit(objects, [{ put: head(bucket, key), expect: 'absent' }], {
    ...options,
    then: [
      { at: talliesOf(bucket), add: { className: 'c' }, by: { objects: 1, bytes: 7 } },
      { at: ranksOf(bucket), put: rank(key) },
    ],
  });

export async function remove(store: MetadataStore, key: string): Promise<boolean> {
  const found = await store.get(objects, slotOf(key));
  if (found === undefined) return false;
  const outcome = await store.commit(objects, [{ remove: slotOf(key), expect: found.revision }], {
    then: [
      { at: talliesOf(bucket), add: { className: 'c' }, by: { objects: -1, bytes: -7 } },
      { at: ranksOf(bucket), remove: rank(key) },
    ],
  });
  return outcome.applied;
}

export const listed = async (store: MetadataStore): Promise<string[]> =>
  (await all(store.scan(objects))).map(({ key }) => key);

/** What the rows, the ranking and the counter say is the same, and each key is there once, in order. */
export async function expectKeys(store: MetadataStore, keys: readonly string[]): Promise<void> {
  expect(await listed(store)).toEqual([...keys].sort());
  expect((await all(store.scan(ranksOf(bucket)))).map(({ name }) => name).sort()).toEqual([...keys].sort());
  const count = (await store.get(talliesOf(bucket), { className: 'c' }))?.row.objects ?? 0;
  expect(count).toBe(keys.length);
  const copied: unknown[] = [];
  if (store.everyRow !== undefined)
    for await (const page of store.everyRow(heads)) for (const { row } of page.rows) copied.push(row);
  expect(copied).toHaveLength(keys.length);
}

export const fill = async (store: MetadataStore, count: number): Promise<string[]> => {
  const keys = Array.from({ length: count }, (_, n) => keyOf(n));
  for (const key of keys) expect((await put(store, key)).applied).toBe(true);
  return keys;
};
