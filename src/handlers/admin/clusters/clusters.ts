/** The clusters that chunks are kept on, and what an operator does to them. */
import type { Context } from '../../../context.ts';
import { changeCluster, openCluster } from '../../../domain/storage/clusters/change-cluster.ts';
import type { Trigger } from '../../../domain/storage/clusters/transitions.ts';
import { everyCluster } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import { jsonChoice, jsonObject, readJson } from '../../../protocol/formats/json.ts';
import type { Reply } from '../../../protocol/reply/reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from '../call.ts';
import { jsonWeight } from './weight.ts';

const weighted = jsonObject({ weight: jsonWeight });
const drained = jsonObject({ mode: jsonChoice(['readonly', 'evacuate']) });
const nothing = jsonObject({});

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

export const ListClusters: AdminHandler = async (ctx) => {
  // Reads what the boot step has to say first, if nothing was written yet.
  await ctx.clusterStates.view();
  const found = await everyCluster(ctx.metadata);
  return jsonReply({ clusters: found.map(({ row }) => clusterJson(ctx, row)) });
};

export const GetCluster: AdminHandler = async (ctx, { params }) => {
  await ctx.clusterStates.view();
  return jsonReply(clusterJson(ctx, await openCluster(ctx, params.get('id') ?? '')));
};

async function change(
  ctx: Context,
  { params, record }: AdminRequest,
  wanted: { readonly trigger: Trigger; readonly weight?: number },
): Promise<Reply> {
  const id = params.get('id') ?? '';
  record?.about(`cluster:${id}`);
  await ctx.clusterStates.view();
  return jsonReply(clusterJson(ctx, await changeCluster(ctx, id, { ...wanted, record })));
}

export const ActivateCluster: AdminHandler = (ctx, call) =>
  change(ctx, call, { trigger: 'activate', ...readJson(weighted, call.body) });

export const PutClusterWeight: AdminHandler = (ctx, call) =>
  change(ctx, call, { trigger: 'weight', ...readJson(weighted, call.body) });

export const DrainCluster: AdminHandler = (ctx, call) =>
  change(ctx, call, { trigger: `drain ${readJson(drained, call.body).mode}` });

export const UndrainCluster: AdminHandler = (ctx, call) => {
  readJson(nothing, call.body);
  return change(ctx, call, { trigger: 'undrain' });
};
