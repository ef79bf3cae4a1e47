/** Emptying a bucket in the background, and how far that is. */
import {
  beginEmptying,
  cancelEmptying,
  type Emptying,
  findEmptying,
} from '../../../domain/buckets/force-empty.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

export const ForceEmptyBucket: AdminHandler<'ForceEmptyBucket'> = async (
  ctx,
  { params, record, requestId },
) => jsonReply(emptyingJson(await beginEmptying(ctx, params.get('name') ?? '', { record, requestId })), 202);

export const GetForceEmptyBucket: AdminHandler<'GetForceEmptyBucket'> = async (ctx, { params }) => {
  const name = params.get('name') ?? '';
  return jsonReply(emptyingJson((await findEmptying(ctx, name)) ?? refuseUnknown(name)));
};

export const CancelForceEmptyBucket: AdminHandler<'CancelForceEmptyBucket'> = async (
  ctx,
  { params, record },
) => {
  const name = params.get('name') ?? '';
  return jsonReply(emptyingJson((await cancelEmptying(ctx, name, { record })) ?? refuseUnknown(name)));
};

function refuseUnknown(name: string): never {
  throw fail('NotFound', `There is no recent request to empty bucket ${name}.`);
}

const emptyingJson = ({ phase, deleted, kept, empty, isCancelled, startedAt, finishedAt }: Emptying) => ({
  state: phase === 'done' ? ('done' as const) : ('running' as const),
  deleted,
  kept,
  ...(empty === undefined ? {} : { empty }),
  ...(isCancelled === undefined ? {} : { isCancelled }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
