/** `scrub`: reads every stored block in the background, at most `SVC_SCRUB_RATE` bytes a second, pass after pass. */
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
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
import { type Unit, unsupervised } from './worker.ts';

type ScrubWorkerContext = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'clock' | 'telemetry'> & {
  readonly config: Pick<Config, 'SVC_SCRUB_RATE' | 'SVC_SCRUB_INTERVAL' | 'SVC_DATA_BACKEND'>;
};

/** A step is saved at least after so many bytes: after a kill at most these are read again. */
const stepBytes = 64 * 1024 * 1024;

/** @param generation of the leader's lease */
export const scrubAll = (context: ScrubWorkerContext, generation = 0, services = unsupervised): Unit => {
  const { metadata, clock, telemetry, config } = context;
  const rate = scrubRate(config);
  if (rate === 0)
    return async () => {
      services.idle?.nothingBefore(Number.POSITIVE_INFINITY);
      return 'idle';
    };
  const scrub = new Scrub(context);
  const pace = new ScrubPace(rate, clock.elapsed());
  const logUnread = unreadLog(context);
  let term: Term | undefined;
  let isWatched = false;

  return async (signal) => {
    // A process that leads no longer shows nothing: the new leader's gauges are about the same chunks.
    if (!isWatched) signal.addEventListener('abort', () => telemetry.scrubState(undefined), { once: true });
    isWatched = true;
    term ??= await beginScrubbing(context, generation);
    const former = await savedScrub(context);
    const now = await metadata.now();
    const run = dueRun(config, { former, now, runAt: services.runAt() });
    const left = pace.left(clock.elapsed());
    if (run === undefined) services.idle?.nothingBefore(nextPassAt(config, former));
    if (run === undefined || left <= 0) return show(context, { run: run ?? former?.state, now });
    if (run.position.at === 'done') return end(context, { run, former, now, term });
    const budget = new ScrubBudget(Math.min(left, stepBytes));
    const step = await scrub.step(run, { budget, now, signal });
    const bytes = step.run.seen.bytes - run.seen.bytes;
    pace.spend(bytes);
    const added = await saveStep(context, { ...step, former, term });
    // An operator began another pass meanwhile.
    if (added === undefined) return 'busy';
    telemetry.scrubbed({ chunks: step.run.seen.chunks - run.seen.chunks, bytes });
    for (const found of added) telemetry.log('ERROR', 'stored bytes are damaged', { ...found });
    logUnread(step);
    show(context, { run: step.run, now });
    return pace.left(clock.elapsed()) > 0 && step.unread.size === 0 ? 'busy' : 'idle';
  };
};

function show(
  { telemetry }: ScrubWorkerContext,
  { run, now }: { readonly run: ScrubRun | undefined; readonly now: number },
): 'idle' {
  if (run !== undefined)
    telemetry.scrubState({
      oldestUncheckedSeconds: oldestUncheckedMs(run, now) / 1000,
      damaged: knownDamaged(run),
    });
  return 'idle';
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
): Promise<'idle'> {
  const isComplete = run.seen.unread === 0;
  const ended: ScrubRun = {
    ...run,
    ...(isComplete ? { completeFrom: run.startedAt, listed: await forgetSound(context, run, term) } : {}),
    finishedAt: now,
  };
  if ((await saveStep(context, { run: ended, former, term })) === undefined) return 'idle';
  const isWell = isComplete && run.seen.damaged === 0;
  context.telemetry.log(isWell ? 'INFO' : 'ERROR', 'stored bytes were read', { ...run.seen });
  return show(context, { run: ended, now });
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
  const isEarly = now - last.finishedAt < SVC_SCRUB_INTERVAL && last.startedAt >= runAt;
  return isEarly ? undefined : nextRun(last, now);
}
