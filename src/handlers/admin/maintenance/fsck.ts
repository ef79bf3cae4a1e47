/** The state of the background comparison of metadata and data (fsck), and its start on request. */
import { fromTheStart, fsckSlots, slotsSeenOf } from '../../../domain/storage/fsck/fsck.ts';
import { type SavedRun, savedRun, saveRun } from '../../../domain/storage/fsck/saved-run.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { runState, seconds } from '../times.ts';

export const GetFsck: AdminHandler<'GetFsck'> = async (ctx) => {
  const run = await savedRun(ctx, 'worker');
  if (run === undefined) throw fail('NotFound', 'No fsck run is recorded.');
  return jsonReply(runJson(run));
};

/** Does not disturb a run that is under way. */
export const StartFsck: AdminHandler<'StartFsck'> = async (ctx, { body }) => {
  const { fix = ctx.config.SVC_FSCK_FIX, deep = false } = body;
  const last = await savedRun(ctx, 'worker');
  if (last !== undefined && last.finishedAt === undefined) return jsonReply(runJson(last), 202);
  const run = { state: fromTheStart({ fix, drop: false, deep }), startedAt: await ctx.metadata.now() };
  await saveRun(ctx, 'worker', run);
  return jsonReply(runJson(run), 202);
};

const runJson = ({ state, state: { mode, position, seen }, startedAt, finishedAt }: SavedRun) => ({
  state: runState(finishedAt),
  fix: mode.fix,
  deep: mode.deep ?? false,
  ...(finishedAt === undefined ? { at: position.at } : {}),
  slotsSeen: slotsSeenOf(state),
  slots: fsckSlots,
  ...seen,
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
