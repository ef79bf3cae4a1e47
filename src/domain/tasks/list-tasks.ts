/** The long tasks of the installation as operators follow them: done, left, rate, time to the end, and why a task does not go on. */
import { everyProgress, findTask } from '../../metadata/background/tasks.ts';
import type { TaskAmount, TaskProgress, TaskRow } from '../../metadata/records/tasks.ts';
import { readWorkers, type Workers } from '../common/workers.ts';
import { type FollowedKind, followedKinds, type Left, type LeftCtx, type TaskKindName } from './kinds.ts';

export type TaskState = 'running' | 'waiting' | 'paused' | 'done' | 'failed';

/** Times are the store's, in ms. */
export interface FollowedTask {
  readonly kind: TaskKindName;
  /** Unique among the tasks of its kind. */
  readonly name: string;
  readonly bucket?: string;
  readonly cluster?: string;
  readonly state: TaskState;
  /** Why it waits, is paused or failed. */
  readonly why?: string;
  readonly worker?: string;
  /** What `count` counts, such as `versions`. */
  readonly counts: string;
  readonly done: TaskAmount;
  /** Absent: not known. */
  readonly left?: Left;
  readonly perSecond?: TaskAmount;
  /** Absent where what is left or the rate is not known, or nothing works on it. */
  readonly etaSeconds?: number;
  readonly startedAt: number;
  readonly updatedAt: number;
  readonly finishedAt?: number;
  readonly lastError?: { readonly at: number; readonly message: string };
}

export interface TaskFilter {
  readonly kind?: TaskKindName | undefined;
  /** `active`: tasks without an end. Default: all. */
  readonly state?: 'active' | 'ended' | undefined;
  readonly bucket?: string | undefined;
  readonly cluster?: string | undefined;
}

/** Rows that one page reads at most: it then has fewer entries, and a `next`. */
const readMax = 10_000;
/** The limit of all counts of one page that read more than a few rows. */
const countMs = 1_000;
/** A command that saved nothing for this long has ended. */
const commandSilentMs = 60_000;

/** @param after the `next` of the page before */
export async function listTasks(
  ctx: LeftCtx,
  filter: TaskFilter,
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<{ readonly tasks: readonly FollowedTask[]; readonly next?: string }> {
  const workers = await readWorkers(ctx);
  const until = ctx.clock.elapsed() + countMs;
  const [afterKind = '', afterName] = splitPlace(after);
  const tasks: FollowedTask[] = [];
  let read = 0;
  for (const followed of followedKinds) {
    if (followed.stored < afterKind || (filter.kind !== undefined && followed.kind !== filter.kind)) continue;
    const from = followed.stored === afterKind ? afterName : undefined;
    for await (const { name, progress } of tasksOf(ctx, followed, from)) {
      read += 1;
      if (progress !== undefined && isMatch(filter, progress))
        tasks.push(await describeTask(ctx, { followed, name, progress, workers, until }));
      if (tasks.length === limit || read === readMax) return { tasks, next: `${followed.stored}/${name}` };
    }
  }
  return { tasks };
}

/** The tasks of a kind, by name, behind `after`. */
async function* tasksOf(
  ctx: LeftCtx,
  { stored, only, rows }: FollowedKind,
  after: string | undefined,
): AsyncGenerator<Pick<TaskRow, 'name' | 'progress'>> {
  const isNext = (name: string): boolean => after === undefined || name > after;
  if (rows !== undefined) {
    for (const row of await rows(ctx)) if (isNext(row.name)) yield row;
  } else if (only === undefined) yield* everyProgress(ctx.metadata, { kind: stored }, after);
  else if (isNext(only)) {
    const found = await findTask(ctx.metadata, { kind: stored }, only);
    if (found !== undefined) yield found;
  }
}

function splitPlace(place: string | undefined): readonly [string?, string?] {
  if (place === undefined) return [];
  const at = place.indexOf('/');
  return at < 0 ? [place] : [place.slice(0, at), place.slice(at + 1)];
}

const isMatch = ({ state, bucket, cluster }: TaskFilter, { finishedAt, ...names }: TaskProgress): boolean =>
  (state === undefined || (state === 'ended') === (finishedAt !== undefined)) &&
  (bucket === undefined || names.bucket === bucket) &&
  (cluster === undefined || names.cluster === cluster);

interface Described {
  readonly followed: FollowedKind;
  readonly name: string;
  readonly progress: TaskProgress;
  readonly workers: Workers;
  readonly until: number;
}

async function describeTask(
  ctx: LeftCtx,
  { followed, name, progress, workers, until }: Described,
): Promise<FollowedTask> {
  const { kind, by, counts, paced } = followed;
  const { measured: _, failure, finishedAt, perSecond, ...shown } = progress;
  const stands = standingOf(followed, progress, workers);
  const isEnded = finishedAt !== undefined;
  const left = isEnded ? none(progress.done) : await followed.left(ctx, name, until);
  const rate = perSecond?.[paced] ?? 0;
  const amount = left?.[paced];
  const lastError = latestError(followed, progress, workers);
  return {
    ...shown,
    kind,
    name,
    ...stands,
    ...('worker' in by ? { worker: by.worker } : {}),
    counts,
    ...(left === undefined ? {} : { left }),
    ...(isEnded || perSecond === undefined ? {} : { perSecond }),
    ...(stands.state === 'running' && amount !== undefined && rate > 0
      ? { etaSeconds: Math.ceil(amount / rate) }
      : {}),
    ...(isEnded ? { finishedAt } : {}),
    ...(lastError === undefined ? {} : { lastError }),
  };
}

const none = ({ bytes }: TaskAmount): TaskAmount => ({
  count: 0,
  ...(bytes === undefined ? {} : { bytes: 0 }),
});

/** Whether anything works on the task, and why not. */
function standingOf(
  { by }: FollowedKind,
  { finishedAt, updatedAt, failure }: TaskProgress,
  workers: Workers,
): Pick<FollowedTask, 'state' | 'why'> {
  if (finishedAt !== undefined)
    return failure === undefined ? { state: 'done' } : { state: 'failed', why: failure };
  if ('command' in by)
    return workers.now - updatedAt > commandSilentMs
      ? { state: 'waiting', why: `No process runs ${by.command}: the next run continues.` }
      : { state: 'running' };
  const paused = workers.controls.get(by.worker)?.paused;
  if (paused !== undefined)
    return {
      state: 'paused',
      why: `${paused.by} paused the worker ${by.worker}${paused.reason === undefined ? '' : `: ${paused.reason}`}`,
    };
  return workers.isRunning(by.worker)
    ? { state: 'running' }
    : { state: 'waiting', why: `No process runs the worker ${by.worker}: see SVC_WORKERS.` };
}

/** That of the task, or of its worker since the task began. */
function latestError(
  { by, isAlone }: FollowedKind,
  { startedAt, finishedAt, lastError }: TaskProgress,
  workers: Workers,
): FollowedTask['lastError'] {
  if (lastError !== undefined || finishedAt !== undefined || isAlone !== true || !('worker' in by))
    return lastError;
  const ofWorker = workers.lastError(by.worker);
  return ofWorker !== undefined && ofWorker.at >= startedAt ? ofWorker : undefined;
}
