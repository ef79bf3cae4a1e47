/** Emptying a bucket in the background, and how far that is. */
import { beginEmptying, type Emptying, findEmptying } from '../../../domain/buckets/force-empty.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

export const ForceEmptyBucket: AdminHandler<'ForceEmptyBucket'> = async (
  ctx,
  { params, record, requestId },
) => jsonReply(emptyingJson(await beginEmptying(ctx, params.get('name') ?? '', { record, requestId })), 202);

export const GetForceEmptyBucket: AdminHandler<'GetForceEmptyBucket'> = async (ctx, { params }) => {
  const name = params.get('name') ?? '';
  const found = await findEmptying(ctx, name);
  if (found === undefined) throw fail('NotFound', `There is no recent request to empty bucket ${name}.`);
  return jsonReply(emptyingJson(found));
};

const emptyingJson = ({ phase, deleted, kept, empty, startedAt, finishedAt }: Emptying) => ({
  state: phase === 'done' ? ('done' as const) : ('running' as const),
  deleted,
  kept,
  ...(empty === undefined ? {} : { empty }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
