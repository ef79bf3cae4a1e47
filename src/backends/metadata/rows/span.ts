/**
 * The range of keys that a scan has still to read: ranges, seeks and paging of the metadata port as arithmetic on encoded keys, for every
 * backend that sorts bytes.
 */
import type { AnyTable, Range } from '../../../ports/metadata-store.ts';
import type { Columns, TableOrder } from './order.ts';

/** Negative, 0 or positive, as `a` sorts before, with or after `b`. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const shared = Math.min(a.length, b.length);
  for (let index = 0; index < shared; index++) {
    const difference = (a[index] as number) - (b[index] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** The first key beyond every key that starts with `prefix`. */
export function beyond(prefix: Uint8Array): Uint8Array {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) throw new Error('nothing sorts beyond an endless prefix');
  const next = new Uint8Array(prefix.subarray(0, length));
  next[length - 1] = (next[length - 1] as number) + 1;
  return next;
}

/** The keys that a scan has still to read: from `low` (inclusive) up to `high` (exclusive). */
export interface Span {
  readonly low: Uint8Array;
  readonly high: Uint8Array;
  readonly reverse: boolean;
}

export function computeSpan(order: TableOrder, partition: Columns, range: Range<AnyTable>): Span {
  const all = order.partitionKey(partition);
  const prefix = (partial: object): Uint8Array => order.prefix(partition, partial as Columns);
  let low = all;
  if (range.from !== undefined) low = larger(low, prefix(range.from));
  if (range.after !== undefined) low = larger(low, beyond(prefix(range.after)));
  let high = beyond(all);
  if (range.before !== undefined) high = smaller(high, prefix(range.before));
  return { low, high, reverse: range.reverse ?? false };
}

/** The rest of the range after a jump to the rows under `prefix`, or past them; never more than before. */
export function skipTo(span: Span, prefix: Uint8Array, past: boolean): Span {
  if (span.reverse) return { ...span, high: smaller(span.high, past ? prefix : beyond(prefix)) };
  return { ...span, low: larger(span.low, past ? beyond(prefix) : prefix) };
}

/** The rest of the range after the row under `key` was read. */
export function passed(span: Span, key: Uint8Array): Span {
  if (span.reverse) return { ...span, high: key };
  const low = new Uint8Array(key.length + 1);
  low.set(key);
  return { ...span, low };
}

const larger = (a: Uint8Array, b: Uint8Array): Uint8Array => (compareBytes(a, b) >= 0 ? a : b);
const smaller = (a: Uint8Array, b: Uint8Array): Uint8Array => (compareBytes(a, b) <= 0 ? a : b);
