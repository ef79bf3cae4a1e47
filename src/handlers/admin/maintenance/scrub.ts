/** The state of the scrub and the damage that it found, and its start on request. */
import type { Context } from '../../../context.ts';
import { scrubRate } from '../../../domain/storage/scrub/rate.ts';
import { damagedContents, nextRun, savedScrub, saveStep } from '../../../domain/storage/scrub/saved-scrub.ts';
import type { DamagedContent, ScrubRun } from '../../../domain/storage/scrub/state.ts';
import { knownDamaged, oldestUncheckedMs } from '../../../domain/storage/scrub/state.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { runState, seconds } from '../times.ts';

export const GetScrub: AdminHandler<'GetScrub'> = async (ctx) => {
  const saved = await savedScrub(ctx);
  if (saved === undefined) throw fail('NotFound', 'No scrub run is recorded.');
  const damaged: ReturnType<typeof shownDamaged>[] = [];
  for await (const { state } of damagedContents(ctx)) damaged.push(shownDamaged(state));
  return jsonReply({ ...(await scrubJson(ctx, saved.state)), damagedList: damaged });
};

/** Does not disturb a pass that is under way. */
export const StartScrub: AdminHandler<'StartScrub'> = async (ctx) => {
  if (scrubRate(ctx.config) === 0)
    throw fail('InvalidRequest', 'SVC_SCRUB_RATE is 0 here, or unset on upstream-store: no scrub runs.');
  const former = await savedScrub(ctx);
  if (former !== undefined && former.state.finishedAt === undefined)
    return jsonReply(await scrubJson(ctx, former.state), 202);
  const run = nextRun(former?.state, await ctx.metadata.now());
  // If two passes begin at the same time, the one that is saved first counts.
  const isBegun = (await saveStep(ctx, { run, former })) !== undefined;
  return jsonReply(await scrubJson(ctx, isBegun ? run : ((await savedScrub(ctx))?.state ?? run)), 202);
};

async function scrubJson({ metadata }: Pick<Context, 'metadata'>, run: ScrubRun) {
  const { startedAt, finishedAt, completeFrom, position, seen } = run;
  return {
    state: runState(finishedAt),
    ...(finishedAt === undefined ? { position } : {}),
    ...seen,
    damaged: knownDamaged(run),
    oldestUncheckedSeconds: seconds(oldestUncheckedMs(run, await metadata.now())),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
    ...(completeFrom === undefined ? {} : { completeFrom: seconds(completeFrom) }),
  };
}

const shownDamaged = ({ foundAt, pass: _, ...found }: DamagedContent) => ({
  ...found,
  foundAt: seconds(foundAt),
});
