/** The kinds of long tasks that operators follow: who works on each, what it counts, and how much is left. A new kind is a row here. */
import type { WorkerName } from '../../config/workers.ts';
import type { Context } from '../../context.ts';
import { findTask, type Task, type TaskKind } from '../../metadata/background/tasks.ts';
import type { TaskAmount, TaskRow } from '../../metadata/records/tasks.ts';
import { emptyings, leftToEmpty } from '../buckets/force-empty.ts';
import { leftToReshard, reshardings } from '../buckets/reshard.ts';
import { comparedCounts, fsckRuns, leftToCompare } from '../fsck/fsck.ts';
import { countLeft, results as inventoryResults, runs as inventoryRuns } from '../inventory/runs.ts';
import { leftInPass } from '../lifecycle/backlog.ts';
import { lifecycleTasks } from '../lifecycle/progress.ts';
import { evacuations, leftToEvacuate, listEvacuations } from '../rebalance/evacuations.ts';
import { leftToResync, resyncs } from '../replication/resync.ts';
import { leftToScrub, runName, scrubRuns } from '../scrub/saved-scrub.ts';
import { importRuns } from '../storage/import.ts';
import { leftToRewrap, rewrappings } from '../storage/rewrap.ts';
import { backups, leftToBackUp } from './backups.ts';

export type LeftCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'bytes'>;

export interface Left extends TaskAmount {
  /** The count was cut off: there is more. */
  readonly isCut?: boolean;
}

export interface FollowedKind {
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

export type TaskKindName =
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
export const followedKinds: readonly FollowedKind[] = [
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
