/** The expected effect of a drain, and the progress of a running one. */
import { openCluster } from '../../../domain/storage/clusters/change-cluster.ts';
import { drainImpact } from '../../../domain/storage/clusters/drain-impact.ts';
import { confirmedProgress } from '../../../domain/storage/rebalance/settle-drained.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const GetDrainProgress: AdminHandler<'GetDrainProgress'> = async (ctx, { params }) => {
  await ctx.clusterStates.view();
  const row = await openCluster(ctx, params.get('id') ?? '');
  const { seen, chunks, gcQueue, reasons } = await confirmedProgress(ctx, row);
  return jsonReply({
    cluster: row.id,
    state: row.state,
    since: new Date(row.since).toISOString(),
    manifests: seen.manifests,
    bytes: seen.bytes,
    stuck: seen.stuck,
    failed: seen.failed,
    openUploads: seen.uploads,
    ...(chunks === undefined ? {} : { chunks }),
    gcQueue,
    slotsSeen: seen.slotsSeen,
    slots: seen.slots,
    ...(seen.seenAt === undefined ? {} : { seenAt: new Date(seen.seenAt).toISOString() }),
    deregisterReady: reasons.length === 0,
    reasons,
  });
};

export const GetDrainImpact: AdminHandler<'GetDrainImpact'> = async (ctx, { params, query }) => {
  await ctx.clusterStates.view();
  const { id } = await openCluster(ctx, params.get('id') ?? '');
  return jsonReply({ cluster: id, ...(await drainImpact(ctx, id, query.after)) });
};
