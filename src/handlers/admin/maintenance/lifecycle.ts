/** The lifecycle of a bucket: its progress, a pass on demand, and what a pass would do. */
import { findLifecycle, planLifecycle, requestPass } from '../../../domain/lifecycle/on-demand.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

/** Actions that one reply lists. */
const listedMax = 1_000;

export const RunLifecycle: AdminHandler<'RunLifecycle'> = async (
  ctx,
  { params, query, record, requestId },
) => {
  const name = params.get('name') ?? '';
  if (query['dry-run'] !== true) {
    await requestPass(ctx, name, { record, requestId });
    return emptyReply(202);
  }
  return jsonReply(await planLifecycle(ctx, name, listedMax));
};

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** Of a pass that runs: entries that it reads per second, and how long the backlog takes at this rate. */
const rateJson = (read: number, ms: number, backlog: number) =>
  read === 0 || ms <= 0
    ? {}
    : { perSecond: Math.round((read * 1000) / ms), etaSeconds: Math.ceil((backlog * ms) / read / 1000) };

export const GetLifecycle: AdminHandler<'GetLifecycle'> = async (ctx, { params }) => {
  const report = await findLifecycle(ctx, params.get('name') ?? '');
  const { progress, backlog, isBacklogCut, oldestDueDay, isWaiting } = report;
  if (progress === undefined) return jsonReply({ state: isWaiting ? 'waiting' : 'none' });
  const { indexing, tally, byRule, startedAt, finishedAt, nextAt } = progress;
  const state = indexing.at !== 'done' ? 'indexing' : finishedAt === undefined ? 'running' : 'done';
  return jsonReply({
    state: isWaiting && state === 'done' ? 'waiting' : state,
    ...tally,
    byRule,
    backlog,
    ...(isBacklogCut ? { isBacklogCut } : {}),
    ...(state === 'running' ? rateJson(tally.read, (await ctx.metadata.now()) - startedAt, backlog) : {}),
    ...(oldestDueDay === undefined ? {} : { oldestDueDay }),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined
      ? { nextAt: seconds(nextAt) }
      : { finishedAt: seconds(finishedAt), nextAt: seconds(nextAt) }),
  });
};
