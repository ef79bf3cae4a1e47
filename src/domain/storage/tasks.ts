/** The long tasks of the installation as operators follow them: done, left, rate, time to the end, and why a task does not go on. */

import type { WorkerName } from '../../config/workers.ts';
import type { Context } from '../../context.ts';
import {
  everyProgress,
  findSoundTask,
  findTask,
  putTask,
  type Task,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import type { TaskAmount, TaskProgress, TaskRow } from '../../metadata/records/tasks.ts';
import { emptyings, leftToEmpty } from '../buckets/force-empty.ts';
import { leftToReshard, reshardings } from '../buckets/reshard.ts';
import { advanceProgress, amountLeft, type Measure } from '../common/task-progress.ts';
import { readWorkers, type Workers } from '../common/workers.ts';
import { comparedCounts, fsckRuns, leftToCompare } from '../fsck/fsck.ts';
import { countLeft, results as inventoryResults, runs as inventoryRuns } from '../inventory/runs.ts';
import { leftInPass } from '../lifecycle/backlog.ts';
import { lifecycleTasks } from '../lifecycle/progress.ts';
import { evacuations, leftToEvacuate, listEvacuations } from '../rebalance/evacuations.ts';
import { leftToResync, resyncs } from '../replication/resync.ts';
import { leftToScrub, runName, scrubRuns } from '../scrub/saved-scrub.ts';
import { importRuns } from './import.ts';
import { leftToRewrap, rewrappings } from './rewrap.ts';

// The task of `sluice backup`, which its process writes beside running gateways.

export interface BackupRun {
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly failure?: string;
  /** Files of chunks, copied or there already, and their bytes. */
  readonly done: Required<TaskAmount>;
  readonly all: Required<TaskAmount>;
}

const backups: TaskKind<BackupRun> = { kind: 'backup' };

const name = 'last';

const measureBackup = ({ startedAt, finishedAt, failure, done }: BackupRun): Measure => ({
  startedAt,
  finishedAt,
  failure,
  done,
});

const leftToBackUp = ({ done, all }: BackupRun): TaskAmount => amountLeft(all, done);

/** Of two backups at the same time, which the lease of gc rules out, one row is lost. */
export async function saveBackup({ metadata }: Pick<Context, 'metadata'>, state: BackupRun): Promise<void> {
  const found = await findSoundTask(metadata, backups, name);
  const progress = advanceProgress(found?.progress, measureBackup(state), await metadata.now());
  await putTask(metadata, backups, { name, state, progress, expect: found?.revision ?? 'absent' });
}

// The kinds of long tasks that operators follow: who works on each, what it counts, and how much is left. A new kind is a row here.

type LeftCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'bytes'>;

interface Left extends TaskAmount {
  /** The count was cut off: there is more. */
  readonly isCut?: boolean;
}

interface FollowedKind {
  readonly kind: TaskKindName;
  /** The kind of the stored rows. */
  readonly stored: string;
  /** What works on it: a background worker, or a command that ends with it. */
  readonly by: { readonly worker: WorkerName } | { readonly command: string };
  /** What `count` counts. */
  readonly counts: string;
  /** Which of the two amounts limits how fast it is. */
  readonly paced: 'count' | 'bytes';
  /** The worker has no other task at the same time, so that an error of the worker is the task's. */
  readonly isAlone?: true;
  /** The only row of the stored kind that it is about. Absent: all rows with a progress. */
  readonly only?: string;
  /**
   * Counted when an operator asks, because the workers themselves read only what is next. Undefined: not known.
   * @param until monotonic time (ms) at which a long count is cut off
   */
  left(ctx: LeftCtx, name: string, until: number): Promise<Left | undefined>;
  /** Its tasks in the order of their names. Absent: the stored ones. */
  rows?(ctx: LeftCtx): Promise<readonly Pick<TaskRow, 'name' | 'progress'>[]>;
}

type TaskKindName =
  | 'backup'
  | 'evacuation'
  | 'force-empty'
  | 'fsck'
  | 'import'
  | 'inventory'
  | 'lifecycle'
  | 'reshard'
  | 'resync'
  | 'rewrap'
  | 'scrub';

interface Declared<State> extends Omit<FollowedKind, 'stored' | 'left' | 'kind'> {
  left?(ctx: LeftCtx, task: Task<State>, until: number): Promise<Left | undefined>;
}

/** @param task the declaration of its rows */
const follow = <State>(
  kind: TaskKindName,
  task: TaskKind<State>,
  { left, ...declared }: Declared<State>,
): FollowedKind => ({
  kind,
  stored: task.kind,
  ...declared,
  async left(ctx, name, until) {
    const found = await findTask(ctx.metadata, task, name);
    return found && left?.(ctx, found, until);
  },
});

/** In the order of their stored kinds, which is the order of the list. */
const followedKinds: readonly FollowedKind[] = [
  follow('force-empty', emptyings, {
    by: { worker: 'force-empty' },
    counts: 'versions',
    paced: 'count',
    left: leftToEmpty,
  }),
  follow('backup', backups, {
    by: { command: 'sluice backup' },
    counts: 'files',
    paced: 'bytes',
    left: async (_, { state }) => leftToBackUp(state),
  }),
  {
    ...follow('evacuation', evacuations, { by: { worker: 'rebalance' }, counts: 'chunks', paced: 'bytes' }),
    rows: listEvacuations,
    // Of a drain that no worker has seen yet, too.
    left: leftToEvacuate,
  },
  follow('fsck', fsckRuns, {
    by: { command: 'sluice fsck' },
    only: 'command',
    counts: comparedCounts,
    paced: 'count',
    left: (ctx, { state }) => leftToCompare(ctx, state.state),
  }),
  follow('fsck', fsckRuns, {
    by: { worker: 'fsck' },
    only: 'worker',
    counts: comparedCounts,
    paced: 'count',
    isAlone: true,
    left: (ctx, { state }) => leftToCompare(ctx, state.state),
  }),
  // What the upstream has is not counted before it is listed.
  follow('import', importRuns, { by: { command: 'sluice import' }, counts: 'objects', paced: 'count' }),
  follow('inventory', inventoryRuns, {
    by: { worker: 'inventory' },
    counts: 'rows',
    paced: 'count',
    left: async ({ metadata }, { state, progress }) => ({
      count: await countLeft(metadata, { ...state, rows: progress?.done.count ?? state.rows }),
    }),
  }),
  follow('inventory', inventoryResults, { by: { worker: 'inventory' }, counts: 'rows', paced: 'count' }),
  follow('lifecycle', lifecycleTasks, {
    by: { worker: 'lifecycle' },
    counts: 'entries of the age index',
    paced: 'count',
    left: leftInPass,
  }),
  follow('resync', resyncs, {
    by: { worker: 'replicator' },
    counts: 'versions',
    paced: 'count',
    left: leftToResync,
  }),
  follow('rewrap', rewrappings, {
    by: { worker: 'rewrap' },
    counts: 'versions',
    paced: 'count',
    isAlone: true,
    left: leftToRewrap,
  }),
  follow('scrub', scrubRuns, {
    by: { worker: 'scrub' },
    only: runName,
    counts: 'versions and parts',
    paced: 'bytes',
    isAlone: true,
    left: leftToScrub,
  }),
  follow('reshard', reshardings, {
    by: { worker: 'reshard' },
    counts: 'rows',
    paced: 'count',
    left: leftToReshard,
  }),
].sort((a, b) => Number(a.stored > b.stored) - Number(a.stored < b.stored));

type TaskState = 'running' | 'waiting' | 'paused' | 'done' | 'failed';

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

interface TaskFilter {
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
    for await (const { name, progress } of everyTaskOf(ctx, followed, from)) {
      read += 1;
      if (progress !== undefined && isMatch(filter, progress))
        tasks.push(await describeTask(ctx, { followed, name, progress, workers, until }));
      if (tasks.length === limit || read === readMax) return { tasks, next: `${followed.stored}/${name}` };
    }
  }
  return { tasks };
}

/** The tasks of a kind, by name, behind `after`. */
async function* everyTaskOf(
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
  const { measured: _, failure, finishedAt, perSecond, ...visible } = progress;
  const stands = taskStanding(followed, progress, workers);
  const isEnded = finishedAt !== undefined;
  const left = isEnded ? none(progress.done) : await followed.left(ctx, name, until);
  const rate = perSecond?.[paced] ?? 0;
  const amount = left?.[paced];
  const lastError = latestError(followed, progress, workers);
  return {
    ...visible,
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
function taskStanding(
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
