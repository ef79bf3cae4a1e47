/** Wrapping stored keys again under the current version of their wrapping key, and how far that is. */
import {
  beginRewrapping,
  findRewrapping,
  type Rewrapping,
} from '../../../domain/content/rewrap/rewrapping.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { runState, seconds } from '../times.ts';

export const RewrapKeys: AdminHandler<'RewrapKeys'> = async (ctx, { record, requestId }) =>
  jsonReply(rewrappingJson(await beginRewrapping(ctx, { record, requestId })), 202);

export const GetRewrapKeys: AdminHandler<'GetRewrapKeys'> = async (ctx) => {
  const found = await findRewrapping(ctx);
  if (found === undefined) throw fail('NotFound', 'There is no recent request to wrap keys again.');
  return jsonReply(rewrappingJson(found.state));
};

const rewrappingJson = ({ bucket, counts, lastFailure, startedAt, finishedAt }: Rewrapping) => ({
  state: runState(finishedAt),
  ...counts,
  ...(bucket === undefined ? {} : { bucket: bucket.name }),
  ...(lastFailure === undefined ? {} : { lastFailure }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
