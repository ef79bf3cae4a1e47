/** The lifecycle of a bucket: its progress, a pass on demand, and what a pass would do. */
import {
  findLifecycle,
  type LifecycleReport,
  planLifecycle,
  requestPass,
} from '../../../domain/lifecycle/on-demand.ts';
import type { LifecycleProgress } from '../../../domain/lifecycle/progress.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

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

/** Of a pass that runs: entries that it reads per second, and how long the backlog takes at this rate. */
const rateJson = (read: number, ms: number, backlog: number) =>
  read === 0 || ms <= 0
    ? {}
    : { perSecond: Math.round((read * 1000) / ms), etaSeconds: Math.ceil((backlog * ms) / read / 1000) };

export const GetLifecycle: AdminHandler<'GetLifecycle'> = async (ctx, { params }) => {
  const report = await findLifecycle(ctx, params.get('name') ?? '');
  const { progress, backlog, isBacklogCut, oldestDueDay, isWaiting } = report;
  if (progress === undefined) return jsonReply({ state: isWaiting ? 'waiting' : 'none' });
  const { indexing, tally, startedAt, finishedAt, nextAt } = progress;
  const state = indexing.at !== 'done' ? 'indexing' : finishedAt === undefined ? 'running' : 'done';
  const ms = state === 'running' ? (await ctx.metadata.now()) - startedAt : 0;
  return jsonReply({
    state: isWaiting && state === 'done' ? 'waiting' : state,
    ...tally,
    backlog,
    ...(isBacklogCut ? { isBacklogCut } : {}),
    ...rateJson(tally.read, ms, backlog),
    ...(oldestDueDay === undefined ? {} : { oldestDueDay }),
    rules: rulesJson(progress, report.byRule, ms),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined
      ? { nextAt: seconds(nextAt) }
      : { finishedAt: seconds(finishedAt), nextAt: seconds(nextAt) }),
  });
};

/** By rule: what the pass has done and what it has left. `etaSeconds` is when it reaches the last entry of the rule. */
function rulesJson({ byRule, tally }: LifecycleProgress, backlogs: LifecycleReport['byRule'], ms: number) {
  const rules = [...new Set([...Object.keys(byRule), ...backlogs.keys()])].sort();
  return Object.fromEntries(
    rules.map((rule) => {
      const done = byRule[rule] ?? 0;
      const left = backlogs.get(rule);
      if (left === undefined) return [rule, { done, backlog: 0 }];
      const { etaSeconds } = rateJson(tally.read, ms, left.until);
      const { entries: backlog, oldestDueDay } = left;
      const rates = etaSeconds === undefined ? {} : { perSecond: Math.round((done * 1000) / ms), etaSeconds };
      return [rule, { done, backlog, oldestDueDay, ...rates }];
    }),
  );
}
