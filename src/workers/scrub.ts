/** `scrub`: reads every stored block in the background, at most `SVC_SCRUB_RATE` bytes a second, pass after pass. */

import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { isAhead } from '../domain/common/clock-skew.ts';
import { ScrubBudget, ScrubPace, scrubRate } from '../domain/scrub/budget.ts';
import {
  beginScrubbing,
  forgetSound,
  knownDamaged,
  nextRun,
  oldestUncheckedMs,
  type ScrubRun,
  savedScrub,
  saveStep,
} from '../domain/scrub/saved-scrub.ts';
import { Scrub, type ScrubStep } from '../domain/scrub/scrub.ts';
import type { Task, Term } from '../metadata/background/tasks.ts';
import { noLabels, type Telemetry } from '../ports/telemetry.ts';
import { inSteps, type Unit, unsupervised } from './worker.ts';

type ScrubWorkerContext = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'clock' | 'telemetry'> & {
  readonly config: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_SCRUB_INTERVAL' | 'SVC_DATA_BACKEND'>;
};

/** A step is saved at least after so many bytes: after a kill at most these are read again. */
const stepBytes = 64 * 1024 * 1024;

interface Scrubbing {
  readonly term: Term;
  readonly scrub: Scrub;
  readonly pace: ScrubPace;
  logUnread(step: ScrubStep): void;
}

export const scrubAll = (context: ScrubWorkerContext, generation = 0, services = unsupervised): Unit =>
  scrubRate(context.config) === 0
    ? async () => {
        services.idle?.nothingBefore(Number.POSITIVE_INFINITY);
        return 'idle';
      }
    : scrubInSteps(context, generation, services);

const scrubInSteps = inSteps<ScrubWorkerContext, Scrubbing>({
  retire: ({ telemetry }) => showState(telemetry, undefined),
  begin: async (context, generation) => ({
    term: await beginScrubbing(context, generation),
    scrub: new Scrub(context),
    pace: new ScrubPace(scrubRate(context.config), context.clock.elapsed()),
    logUnread: unreadLog(context),
  }),
  async step(context, { term, scrub, pace, logUnread }, { signal, runAt }) {
    const { metadata, clock, telemetry, config } = context;
    const former = await savedScrub(context);
    const now = await metadata.now();
    const run = dueRun(config, { former, now, runAt: runAt() });
    const left = pace.left(clock.elapsed());
    if (run === undefined) {
      show(context, { run: former?.state, now });
      return { is: 'idle', nothingBefore: nextPassAt(config, former) };
    }
    if (left <= 0) {
      show(context, { run, now });
      return { is: 'idle' };
    }
    if (run.position.at === 'done') {
      await end(context, { run, former, now, term });
      return { is: 'idle' };
    }
    const budget = new ScrubBudget(Math.min(left, stepBytes));
    const step = await scrub.step(run, { budget, now, signal });
    const bytes = step.run.seen.bytes - run.seen.bytes;
    pace.spend(bytes);
    const added = await saveStep(context, { ...step, former, term });
    // An operator began another pass meanwhile.
    if (added === undefined) return { is: 'busy' };
    telemetry.count('svc_scrub_chunks_total', noLabels, step.run.seen.chunks - run.seen.chunks);
    telemetry.count('svc_scrub_bytes_total', noLabels, bytes);
    for (const found of added) telemetry.log('ERROR', 'stored bytes are damaged', { ...found });
    logUnread(step);
    show(context, { run: step.run, now });
    return { is: pace.left(clock.elapsed()) > 0 && !budget.isEnded ? 'busy' : 'idle' };
  },
});

/** @param state undefined where this process does not lead any more */
function showState(
  telemetry: Telemetry,
  state: { readonly oldestUncheckedSeconds: number; readonly damaged: number } | undefined,
): void {
  telemetry.set('svc_scrub_oldest_unchecked_seconds', noLabels, state?.oldestUncheckedSeconds);
  telemetry.set('svc_scrub_damaged', noLabels, state?.damaged);
}

function show(
  { telemetry }: ScrubWorkerContext,
  { run, now }: { readonly run: ScrubRun | undefined; readonly now: number },
): void {
  if (run !== undefined)
    showState(telemetry, {
      oldestUncheckedSeconds: oldestUncheckedMs(run, now) / 1000,
      damaged: knownDamaged(run),
    });
}

/** Ends a pass. Contents that it did not find damaged again are sound or gone, unless something was left unread. */
async function end(
  context: ScrubWorkerContext,
  {
    run,
    former,
    now,
    term,
  }: {
    readonly run: ScrubRun;
    readonly former: Task<ScrubRun> | undefined;
    readonly now: number;
    readonly term: Term;
  },
): Promise<void> {
  const isComplete = run.seen.unread === 0;
  const ended: ScrubRun = {
    ...run,
    ...(isComplete ? { completeFrom: run.startedAt, listed: await forgetSound(context, run, term) } : {}),
    finishedAt: now,
  };
  if ((await saveStep(context, { run: ended, former, term })) === undefined) return;
  const isWell = isComplete && run.seen.damaged === 0;
  context.telemetry.log(isWell ? 'INFO' : 'ERROR', 'stored bytes were read', { ...run.seen });
  show(context, { run: ended, now });
}

/** Logs once per pass that the chunks of an unreachable cluster were not read. */
function unreadLog({ telemetry }: ScrubWorkerContext): (step: ScrubStep) => void {
  let pass = 0;
  const logged = new Set<string>();
  return ({ run, unread }) => {
    if (pass !== run.startedAt) logged.clear();
    pass = run.startedAt;
    for (const [what, why] of unread) {
      if (logged.has(what)) continue;
      logged.add(what);
      telemetry.log('WARN', 'stored bytes cannot be read now', { what, why });
    }
  };
}

/** When the next pass begins, while none is under way. */
const nextPassAt = (
  { SVC_SCRUB_INTERVAL }: Pick<Config, 'SVC_SCRUB_INTERVAL'>,
  former: Task<ScrubRun> | undefined,
): number => (former?.state.finishedAt ?? 0) + SVC_SCRUB_INTERVAL;

/** The pass that is under way, or a new one when it is due; the first one begins with the first start. */
function dueRun(
  { SVC_SCRUB_INTERVAL }: Pick<Config, 'SVC_SCRUB_INTERVAL'>,
  {
    former,
    now,
    runAt = 0,
  }: {
    readonly former: Task<ScrubRun> | undefined;
    readonly now: number;
    readonly runAt: number | undefined;
  },
): ScrubRun | undefined {
  const last = former?.state;
  if (last?.finishedAt === undefined) return last ?? nextRun(undefined, now);
  const isEarly =
    now - last.finishedAt < SVC_SCRUB_INTERVAL && last.startedAt >= runAt && !isAhead(last.finishedAt, now);
  return isEarly ? undefined : nextRun(last, now);
}
