/** Which of several stores has a row: each partition is in one of them, and a spread partition has each of its keys in one. */
import { fnv32a, mixBits } from '../../../base/shard.ts';
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
export function findShard(at: At<AnyTable>, row: Columns | undefined, count: number): number {
  const partition = keyText(buildOrder(at.table).partitionKey(at.in as Columns));
  const name =
    isSpread(at) && row !== undefined ? `${partition}${row[at.table.spreadBy as string]}` : partition;
  // The low bits of FNV-1a are poor for texts that differ in their last characters, as slots do.
  return mixBits(fnv32a(name)) % count;
}
