/** Clusters and their drains. */

import type { Context } from '../../context.ts';
import {
  changeCluster,
  openCluster,
  readStates,
  type Trigger,
} from '../../domain/clusters/cluster-states.ts';
import { drainImpact } from '../../domain/clusters/drains.ts';
import { confirmedProgress } from '../../domain/rebalance/evacuations.ts';
import type { ClusterRow } from '../../metadata/records/clusters.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from './call.ts';

// The clusters that chunks are kept on, and what an operator does to them.

/** The JSON of a cluster; `listed` says whether the settings of this gateway have it. */
const clusterJson = (
  { bytes }: Pick<Context, 'bytes'>,
  { id, state, weight, since, emptiedAt }: Omit<ClusterRow, 'slot'>,
) => ({
  id,
  state,
  weight,
  since: new Date(since).toISOString(),
  listed: bytes.clusters.includes(id),
  ...(emptiedAt === undefined ? {} : { emptiedAt: new Date(emptiedAt).toISOString() }),
});

export const ListClusters: AdminHandler<'ListClusters'> = async (ctx) => {
  // Reads what the boot step has to say first, if nothing was written yet.
  await ctx.clusterStates.view();
  const { found, view } = await readStates(ctx);
  const clusters = [...found.map(({ row }) => clusterJson(ctx, row)), ...view.damaged.map(damagedJson)];
  return jsonReply({ clusters: clusters.sort((a, b) => (a.id < b.id ? -1 : 1)) });
};

/** A cluster whose row is damaged. */
const damagedJson = (id: string) => ({ id, state: 'damaged', weight: 0, since: undefined, listed: true });

export const GetCluster: AdminHandler<'GetCluster'> = async (ctx, { params }) => {
  await ctx.clusterStates.view();
  const id = params.get('id') ?? '';
  const { damaged } = (await readStates(ctx)).view;
  return jsonReply(damaged.includes(id) ? damagedJson(id) : clusterJson(ctx, await openCluster(ctx, id)));
};

async function change(
  ctx: Context,
  { params, record, match }: Pick<AdminRequest, 'params' | 'record' | 'match'>,
  requested: { readonly trigger: Trigger; readonly weight?: number },
): Promise<Reply> {
  const id = params.get('id') ?? '';
  record?.about(`cluster:${id}`);
  await ctx.clusterStates.view();
  return jsonReply(
    clusterJson(
      ctx,
      await changeCluster(ctx, id, { ...requested, record, check: (row) => match(clusterJson(ctx, row)) }),
    ),
  );
}

export const ActivateCluster: AdminHandler<'ActivateCluster'> = (ctx, call) =>
  change(ctx, call, { trigger: 'activate', ...call.body });

export const PutClusterWeight: AdminHandler<'PutClusterWeight'> = (ctx, call) =>
  change(ctx, call, { trigger: 'weight', ...call.body });

export const DrainCluster: AdminHandler<'DrainCluster'> = (ctx, call) =>
  change(ctx, call, { trigger: `drain ${call.body.mode}` });

export const UndrainCluster: AdminHandler<'UndrainCluster'> = (ctx, call) =>
  change(ctx, call, { trigger: 'undrain' });

// The expected effect of a drain, and the progress of a running one.

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
