/** The placement of a bucket: which clusters its objects go to. */
import type { Context } from '../../../context.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { changeBucket } from '../../../domain/buckets/change-bucket.ts';
import { fail } from '../../../errors/refusal.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

/** Undefined where none is set. */
const placementJson = ({ name, placement, placementMode }: BucketRow) =>
  placement && { bucket: name, placement, mode: placementMode || ('weighted' as const) };

/** @throws NoSuchBucketPlacement */
function showPlacement(bucket: BucketRow) {
  const shown = placementJson(bucket);
  if (shown === undefined) throw fail('NoSuchBucketPlacement', { elements: { BucketName: bucket.name } });
  return jsonReply(shown);
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
