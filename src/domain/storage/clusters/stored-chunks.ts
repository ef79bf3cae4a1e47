/** Counts the chunks that are stored on a cluster, up to a limit. */
import { chunkBytes, type ObjectBytes } from '../../../ports/storage/object-bytes.ts';

/** If the store's estimate is above this number, the estimate is returned; the exact count stops here too. */
const countMax = 10_000;

/** Exact for small numbers, because a cluster counts as empty only after its chunks were listed. */
export async function storedChunks(
  bytes: Pick<ObjectBytes, 'find' | 'health'>,
  cluster: string,
): Promise<number> {
  const pools = (await bytes.health()).find((each) => each.cluster === cluster)?.pools ?? [];
  const estimate = pools.reduce((sum, { chunkCount }) => sum + chunkCount, 0);
  if (estimate > countMax) return estimate;
  let count = 0;
  for await (const { extent } of bytes.find(cluster, '')) {
    count += Math.max(1, Math.ceil(extent.size / chunkBytes));
    if (count >= countMax) break;
  }
  return count;
}
