/** Removes rows that have expired, and their entries in the index. */
import { isAlive, type StoredRow } from '../row-codec.ts';
import { expiryKey, rowKeyOf, space } from './codec.ts';
import type { OrderedStore, Submit } from './ordered-store.ts';

/** Rows that one transaction removes; further ones wait for the next transaction, so that the removal does not block the writers. */
export const removalsPerTransaction = 256;

/** Call it inside a transaction. @param entries of the index, which are due at `now` */
export function removeExpired(store: OrderedStore, entries: readonly Uint8Array[], now: number): void {
  const rows = entries.map((entry) => ({ entry, key: rowKeyOf(entry) }));
  for (const each of rows.flatMap(({ entry, key }) => [entry, key])) store.assertRemovable?.(each);
  const found = rows.map(({ key }) => store.get(key) as StoredRow | undefined);
  rows.forEach(({ entry, key }, index) => {
    // A row that was written again since has another entry, or does not expire.
    if (found[index] !== undefined && !isAlive(found[index], now)) store.remove(key);
    store.remove(entry);
  });
}

/** Removes all rows that are due, in steps, so that a large number of them does not block the writers. */
export async function sweepExpired(store: OrderedStore, submit: Submit, now: number): Promise<void> {
  const span = { low: Uint8Array.of(space.expiry), high: expiryKey(now + 1), reverse: false };
  for (let swept = removalsPerTransaction; swept === removalsPerTransaction; ) {
    const entries: Uint8Array[] = [];
    store.refresh();
    store.read(span, (key) => entries.push(new Uint8Array(key)) < removalsPerTransaction);
    swept = entries.length;
    if (swept > 0) await submit(() => removeExpired(store, entries, now), { frees: true });
  }
}
