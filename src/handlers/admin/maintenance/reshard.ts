/** Giving a bucket more shards in the background, and how far that is. */
import { beginResharding, findResharding, type Resharding } from '../../../domain/buckets/reshard.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { runState, seconds } from '../times.ts';

export const ReshardBucket: AdminHandler<'ReshardBucket'> = async (
  ctx,
  { params, body: { shards }, record },
) => {
  const state = await beginResharding(ctx, params.get('name') ?? '', { to: shards, record });
  return jsonReply(reshardingJson(state), state.finishedAt === undefined ? 202 : 200);
};

export const GetReshardBucket: AdminHandler<'GetReshardBucket'> = async (ctx, { params }) => {
  const { shards, state } = await findResharding(ctx, params.get('name') ?? '');
  return jsonReply(state === undefined ? { state: 'none', shards } : { ...reshardingJson(state), shards });
};

/** Splits of single shards: a bucket of 4 that gets 16 takes 4 and then 8 of them. */
const reshardingJson = ({ from, to, shardsDone, rowsMoved, startedAt, finishedAt, why }: Resharding) => ({
  state: runState(finishedAt),
  from,
  to,
  shardsDone,
  shardsTotal: to - from,
  rowsMoved,
  ...(why === undefined ? {} : { why }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
