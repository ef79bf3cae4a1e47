/** The clusters that chunks are kept on, and what an operator does to them. */
import type { Context } from '../../../context.ts';
import { changeCluster, openCluster } from '../../../domain/storage/clusters/change-cluster.ts';
import type { Trigger } from '../../../domain/storage/clusters/transitions.ts';
import { everyCluster } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import type { Reply } from '../../../protocol/reply/reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from '../call.ts';

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
  const found = await everyCluster(ctx.metadata);
  return jsonReply({ clusters: found.map(({ row }) => clusterJson(ctx, row)) });
};

export const GetCluster: AdminHandler<'GetCluster'> = async (ctx, { params }) => {
  await ctx.clusterStates.view();
  return jsonReply(clusterJson(ctx, await openCluster(ctx, params.get('id') ?? '')));
};

async function change(
  ctx: Context,
  { params, record, match }: Pick<AdminRequest, 'params' | 'record' | 'match'>,
  wanted: { readonly trigger: Trigger; readonly weight?: number },
): Promise<Reply> {
  const id = params.get('id') ?? '';
  record?.about(`cluster:${id}`);
  await ctx.clusterStates.view();
  return jsonReply(
    clusterJson(
      ctx,
      await changeCluster(ctx, id, { ...wanted, record, check: (row) => match(clusterJson(ctx, row)) }),
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
