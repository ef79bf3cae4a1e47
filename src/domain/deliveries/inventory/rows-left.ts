/** How many rows the inventories that are being written have left, estimated from what their buckets hold. */
import { readUsage, sumUsage } from '../../../metadata/buckets/usage.ts';
import type { MetadataStore } from '../../../ports/metadata-store.ts';
import { everyRun, type InventoryRun } from './runs.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit' | 'now'>;

/** Assumes that all versions which the bucket counts are listed: with a prefix, or without old versions, it is too much. */
export async function countLeft(
  metadata: Metadata,
  { bucketId, rows, isListed }: Pick<InventoryRun, 'bucketId' | 'rows' | 'isListed'>,
): Promise<number> {
  if (isListed) return 0;
  const { count } = sumUsage((await readUsage(metadata, bucketId)).values());
  return Math.max(0, count - rows);
}

export async function countAllLeft(metadata: Metadata): Promise<number> {
  let left = 0;
  for await (const { state } of everyRun(metadata)) left += await countLeft(metadata, state);
  return left;
}
