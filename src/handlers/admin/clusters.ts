/** Clusters, their drains, the default class of a bucket, and placement. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  changeCluster,
  openCluster,
  readStates,
  type Trigger,
} from '../../domain/clusters/cluster-states.ts';
import { drainImpact } from '../../domain/clusters/drains.ts';
import { changeBucket, openBucket } from '../../domain/common/buckets.ts';
import { confirmedProgress } from '../../domain/rebalance/evacuations.ts';
import type { ClusterRow } from '../../metadata/records/clusters.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { findStorageClassName } from '../../ports/storage-classes.ts';
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

// The storage class of what is written to a bucket without one.

const defaultClassJson = ({ name, defaultClass }: BucketRow) => ({
  bucket: name,
  defaultClass: defaultClass ?? 'STANDARD',
  isSet: defaultClass !== undefined,
});

export const GetBucketDefaultClass: AdminHandler<'GetBucketDefaultClass'> = async (ctx, { params }) =>
  jsonReply(defaultClassJson(await openBucket(ctx, params.get('name') ?? '')));

export const PutBucketDefaultClass: AdminHandler<'PutBucketDefaultClass'> = async (
  ctx,
  { params, body, record, match },
) => {
  const asked = body.defaultClass;
  const defaultClass = findStorageClassName(asked);
  if (defaultClass === undefined)
    throw fail('InvalidStorageClass', { elements: { StorageClassRequested: asked } });
  const change = (bucket: BucketRow): BucketRow => {
    match(defaultClassJson(bucket));
    return { ...bucket, defaultClass };
  };
  return jsonReply(
    defaultClassJson(
      await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change }),
    ),
  );
};

export const DeleteBucketDefaultClass: AdminHandler<'DeleteBucketDefaultClass'> = async (
  ctx,
  { params, record, match },
) => {
  const change = (row: BucketRow): BucketRow => {
    match(defaultClassJson(row));
    const { defaultClass: _, ...bucket } = row;
    return bucket;
  };
  await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change });
  return { status: 204, headers: [] };
};

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

// The placement of a bucket: which clusters its objects go to.

/** Undefined where none is set. */
const placementJson = ({ name, placement, placementMode }: BucketRow) =>
  placement && { bucket: name, placement, mode: placementMode || ('weighted' as const) };

/** @throws NoSuchBucketPlacement */
function showPlacement(bucket: BucketRow) {
  const visible = placementJson(bucket);
  if (visible === undefined) throw fail('NoSuchBucketPlacement', { elements: { BucketName: bucket.name } });
  return jsonReply(visible);
}

export const GetBucketPlacement: AdminHandler<'GetBucketPlacement'> = async (ctx, { params }) =>
  showPlacement(await openBucket(ctx, params.get('name') ?? ''));

export const PutBucketPlacement: AdminHandler<'PutBucketPlacement'> = async (
  ctx,
  { params, body, record, match },
) => {
  const { placement, mode = 'weighted' } = body;
  await assertPossible(ctx, placement);
  const row = await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), {
    record,
    change: (bucket) => {
      match(placementJson(bucket));
      return { ...bucket, placement: Object.fromEntries(placement), placementMode: mode };
    },
  });
  return showPlacement(row);
};

export const DeleteBucketPlacement: AdminHandler<'DeleteBucketPlacement'> = async (
  ctx,
  { params, record, match },
) => {
  await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), {
    record,
    change: (row) => {
      match(placementJson(row));
      const { placement: _, placementMode: __, ...bucket } = row;
      return bucket;
    },
  });
  return { status: 204, headers: [] };
};

/** Accepts pending clusters and clusters without a weight; also draining ones, because they may become live again. */
async function assertPossible(ctx: Context, placement: ReadonlyMap<string, number>): Promise<void> {
  const { states } = await ctx.clusterStates.view();
  for (const id of placement.keys()) {
    const state = states.get(id);
    if (state === undefined || state === 'removed')
      throw fail('InvalidArgument', {
        message: `placement names cluster ${id}; there are: ${[...states.keys()].join(', ')}.`,
        field: `placement.${id}`,
      });
  }
  if (![...placement.values()].some((weight) => weight > 0))
    throw fail('InvalidArgument', {
      message: 'placement gives no cluster a weight above 0.',
      field: 'placement',
    });
}
