/** The kinds of long tasks that operators follow: who works on each, what it counts, and how much is left. A new kind is a row here. */
import type { WorkerName } from '../../config/values/workers.ts';
import type { Context } from '../../context.ts';
import { findTask, type Task, type TaskKind } from '../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { emptyings, leftToEmpty } from '../buckets/force-empty.ts';
import { leftToReshard, reshardings } from '../buckets/reshard.ts';

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
  /**
   * Counted when an operator asks, because the workers themselves read only what is next. Undefined: not known.
   * @param until monotonic time (ms) at which a long count is cut off
   */
  left(ctx: LeftCtx, name: string, until: number): Promise<Left | undefined>;
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
  follow('reshard', reshardings, {
    by: { worker: 'reshard' },
    counts: 'rows',
    paced: 'count',
    left: leftToReshard,
  }),
].sort((a, b) => (a.stored < b.stored ? -1 : 1));
