/** Keeps a slow write from committing to a cluster that an operator may remove. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { findCluster } from '../../../metadata/background/clusters.ts';

/**
 * Call it between storing the bytes and the commit that owns them. The end of a drain first marks the cluster as empty and then
 * counts its chunks again: either the count finds these bytes, or this call finds the mark. The row is read only when the cached
 * view excludes the cluster, because no cluster is marked before every view excludes it.
 * @throws ServiceUnavailable when the cluster of the bytes was found empty after it was chosen
 */
export async function assertNotEmptied(
  ctx: Pick<Context, 'metadata' | 'clusterStates'>,
  cluster: string,
): Promise<void> {
  const { closed, states } = await ctx.clusterStates.view();
  if (states.has(cluster) && !closed.has(cluster)) return;
  const row = (await findCluster(ctx.metadata, cluster))?.row;
  if (row === undefined || (row.state !== 'removed' && row.emptiedAt === undefined)) return;
  throw fail(
    'ServiceUnavailable',
    'The cluster of this write was drained and found empty while the content arrived. Please retry.',
  );
}
