/** What operators ask about the lifecycle of a bucket: a pass now, the progress, and what a pass would do. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findTask } from '../../metadata/background/tasks.ts';
import { hasLateVersions, listLifecycleBucket, scanLifecycleBuckets } from '../../metadata/objects/ages.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { openBucket } from '../common/buckets.ts';
import { formatVersionId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import type { Lifecycle } from '../configurations/lifecycle.ts';
import { lockTime } from '../objects/object-lock.ts';
import { type Backlog, countBacklog, duePages, noBacklog, pageRows } from './backlog.ts';
import { findDueAction, readRules } from './due-action.ts';
import { isDue } from './pass.ts';
import { type LifecycleProgress, lifecycleTasks } from './progress.ts';
import { openWindows } from './walk.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** Entries that a plan reads. */
const plannedMax = 20_000;
/** The limit of a count of the backlog. */
const countMs = 1_000;

async function readLifecycle(
  ctx: Ctx,
  name: string,
): Promise<{ readonly bucket: BucketRow; readonly lifecycle: Lifecycle }> {
  const bucket = await openBucket(ctx, name);
  const lifecycle = await readRules(ctx, bucket);
  if (lifecycle === undefined) throw fail('NoSuchLifecycleConfiguration', { elements: { BucketName: name } });
  return { bucket, lifecycle };
}

/** The worker begins a pass over the bucket within SVC_LIFECYCLE_INTERVAL. @throws NoSuchLifecycleConfiguration */
export async function requestPass(
  ctx: Ctx,
  name: string,
  { record, requestId }: { readonly record: Recorder | undefined; readonly requestId: string },
): Promise<void> {
  const { bucket } = await readLifecycle(ctx, name);
  await ctx.metadata.apply([listLifecycleBucket(bucket, requestId), ...(await recorded(record))]);
  record?.applied();
}

export interface LifecycleReport extends Backlog {
  readonly progress: LifecycleProgress | undefined;
  /** A pass is due, and has not begun. */
  readonly isWaiting: boolean;
}

export async function findLifecycle(ctx: Ctx, name: string): Promise<LifecycleReport> {
  const { bucket, lifecycle } = await readLifecycle(ctx, name);
  const now = await lockTime(ctx);
  const task = await findTask(ctx.metadata, lifecycleTasks, bucket.id);
  const [listed] = await scanLifecycleBuckets(ctx.metadata, bucket.id).next(1);
  const isWaiting =
    listed?.row.bucketId === bucket.id &&
    isDue(listed.row, task, { now, hasLate: await hasLateVersions(ctx.metadata, bucket.id) });
  const progress = task?.state;
  // A pass has read everything that was due, until the next one.
  const isIdle = progress === undefined || (!isWaiting && progress.finishedAt !== undefined);
  const backlog = isIdle
    ? noBacklog
    : await countBacklog(ctx, { bucket, lifecycle, progress, now }, ctx.clock.elapsed() + countMs);
  return { progress, isWaiting, ...backlog };
}

export interface PlannedAction {
  readonly action: string;
  readonly rule: string;
  readonly key: string;
  readonly versionId?: string;
  readonly uploadId?: string;
  readonly storageClass?: string;
}

/** What a pass would do now, the first actions of it. Nothing changes. */
export async function planLifecycle(
  ctx: Ctx,
  name: string,
  max: number,
): Promise<{ readonly actions: readonly PlannedAction[]; readonly isComplete: boolean }> {
  const { bucket, lifecycle } = await readLifecycle(ctx, name);
  const now = await lockTime(ctx);
  const task = await findTask(ctx.metadata, lifecycleTasks, bucket.id);
  if (task?.state.indexing.at !== 'done') return { actions: [], isComplete: false };
  const due = { bucket, first: task.state.first, windows: openWindows(lifecycle, now) };
  const actions: PlannedAction[] = [];
  let read = 0;
  for await (const rows of duePages(ctx, due, { max: plannedMax })) {
    read += Math.max(rows.length, pageRows);
    for (const age of rows) {
      const found = await findDueAction(ctx.metadata, { bucket, lifecycle, now }, age);
      if (found.do === 'nothing' || found.do === 'stale') continue;
      if (actions.length === max) return { actions, isComplete: false };
      const { key } = age;
      const { rule } = found;
      if (found.do === 'abort') actions.push({ action: 'abort', rule, key, uploadId: age.version });
      else
        actions.push({
          action: found.do,
          rule,
          key,
          versionId: formatVersionId(found.version.row),
          ...(found.do === 'transition' ? { storageClass: found.storageClass } : {}),
        });
    }
  }
  return { actions, isComplete: read < plannedMax };
}
