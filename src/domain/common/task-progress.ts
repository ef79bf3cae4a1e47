/**
 * How far a long task is: one shape for every kind of task. A task derives it from its state whenever it saves the state, and both are
 * one row and one commit, so that the progress costs no write and survives what the state survives.
 */
import { describeError } from '../../base/text/describe-error.ts';
import type { Context } from '../../context.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import { findTask, putTask, type TaskKind } from '../../metadata/background/tasks.ts';
import type { TaskAmount, TaskProgress } from '../../metadata/records/tasks.ts';

/** What a task says about its state. Times are the store's, in ms. */
export interface Measure extends Pick<TaskProgress, 'startedAt' | 'done' | 'bucket' | 'cluster'> {
  readonly finishedAt?: number | undefined;
  readonly failure?: string | undefined;
}

/** A rate is measured over at least this time. */
const intervalMs = 1_000;
/** The rate follows the measurements of about this time. */
const averagedMs = 60_000;
/** A task that saved nothing for this long did not run: the time says nothing about its rate. */
const stoppedMs = 5 * 60_000;

/** The progress after the state was saved at `now`. @param former of the same task; another `startedAt` begins anew */
export function advanceProgress(
  former: TaskProgress | undefined,
  { finishedAt, failure, ...measure }: Measure,
  now: number,
): TaskProgress {
  const same = former?.startedAt === measure.startedAt ? former : undefined;
  const measured = same?.measured ?? { at: measure.startedAt, done: zero(measure.done) };
  const { lastError } = same ?? {};
  const rest = {
    ...measure,
    updatedAt: now,
    ...(finishedAt === undefined ? {} : { finishedAt }),
    ...(failure === undefined ? {} : { failure }),
    ...(lastError === undefined ? {} : { lastError }),
  };
  const tookMs = now - measured.at;
  if (tookMs < intervalMs) return { ...rest, ...optionalRate(same?.perSecond), measured };
  const next = { at: now, done: measure.done };
  if (tookMs >= stoppedMs) return { ...rest, ...optionalRate(same?.perSecond), measured: next };
  const weight = same?.perSecond === undefined ? 1 : 1 - Math.exp(-tookMs / averagedMs);
  const perSecond = combine(measure.done, (of) => {
    const latest = (Math.max(0, of(measure.done) - of(measured.done)) * 1000) / tookMs;
    const before = same?.perSecond === undefined ? 0 : of(same.perSecond);
    return before + weight * (latest - before);
  });
  return { ...rest, perSecond, measured: next };
}

const optionalRate = (perSecond: TaskAmount | undefined) => (perSecond === undefined ? {} : { perSecond });

const zero = (like: TaskAmount): TaskAmount => combine(like, () => 0);

/** An amount with bytes where `like` has them. */
const combine = (like: TaskAmount, to: (of: (amount: TaskAmount) => number) => number): TaskAmount => ({
  count: to(({ count }) => count),
  ...(like.bytes === undefined ? {} : { bytes: to(({ bytes = 0 }) => bytes) }),
});

/** What a task has left. It may have done more than `all`, which was counted at another time. */
export const amountLeft = (all: Required<TaskAmount>, done: Required<TaskAmount>): Required<TaskAmount> => ({
  count: Math.max(0, all.count - done.count),
  bytes: Math.max(0, all.bytes - done.bytes),
});

/**
 * Adds an error to the progress of a task. Does nothing where the task has changed meanwhile, or the store fails: the
 * log has the error.
 */
export async function noteTaskError<State>(
  { metadata, telemetry }: Pick<Context, 'metadata' | 'telemetry'>,
  kind: TaskKind<State>,
  { name, cause }: { readonly name: string; readonly cause: unknown },
): Promise<void> {
  // The task is another leader's now.
  if (cause instanceof LeaseLost) return;
  try {
    const found = await findTask(metadata, kind, name);
    if (found?.progress === undefined || found.progress.finishedAt !== undefined) return;
    const lastError = { at: await metadata.now(), message: describeError(cause) };
    const { state, progress, revision: expect } = found;
    await putTask(metadata, kind, { name, state, progress: { ...progress, lastError }, expect });
  } catch (failure) {
    telemetry.log('DEBUG', 'the error of a task could not be stored', {
      kind: kind.kind,
      name,
      cause: failure,
    });
  }
}
