/** Which of several stores has a row: each partition is in one of them, and a spread partition has each of its keys in one. */
import { fnv32a } from '../../../base/shard.ts';
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, keyText } from '../key-order.ts';

/** A store and how many there are. */
export interface ShardPlace {
  /** From 0. */
  readonly number: number;
  readonly count: number;
}

/** Whether the rows of a partition are in all stores. The number of its shards does not matter, so it can be changed. */
export const isSpread = ({ table, ways = 1 }: At<AnyTable>): boolean =>
  table.spreadBy !== undefined && ways > 1;

/** The number of the store that has a row. @param row its key; may be absent where the partition is not spread */
export function placeOf(at: At<AnyTable>, row: Columns | undefined, count: number): number {
  const partition = keyText(buildOrder(at.table).partitionKey(at.in as Columns));
  const name =
    isSpread(at) && row !== undefined ? `${partition}${row[at.table.spreadBy as string]}` : partition;
  return mix(fnv32a(name)) % count;
}

/** The low bits of FNV-1a are poor for texts that differ in their last characters, as slots do: this is the end of MurmurHash3. */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
