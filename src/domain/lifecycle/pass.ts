/**
 * A step of the lifecycle worker in one bucket: indexes a page of older versions, or carries out what a page of the age index has due. A pass
 * leaves transitions to steps of their own, which begin after it, so that deletions of other buckets never wait until bytes are copied.
 */
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { audited } from '../../metadata/audit.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import {
  findSoundTask,
  findTask,
  firstThatFit,
  putTask,
  putTasks,
  type Task,
  type Term,
} from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import {
  ageChanges,
  ageDay,
  hasLateVersions,
  listLifecycleBucket,
  putAge,
  removeAge,
  scanLifecycleBuckets,
  unlistLifecycleBucket,
  uploadAge,
  withoutLateVersions,
} from '../../metadata/objects/ages.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { uploadsIn } from '../../metadata/objects/uploads.ts';
import type { AgeRow, LifecycleBucketRow } from '../../metadata/records/ages.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { openBucket } from '../common/buckets.ts';
import { isAhead } from '../common/clock-skew.ts';
import { passOverDamage } from '../common/damaged-buckets.ts';
import { drawId, formatVersionId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { readRules } from '../configurations/families.ts';
import type { Lifecycle } from '../configurations/lifecycle-rules.ts';
import { lockTime } from '../objects/object-lock.ts';
import type { Pace } from '../rebalance/pace.ts';
import { type Backlog, pageRows as backlogPageRows, countBacklog, duePages, noBacklog } from './backlog.ts';
import { type ActCtx, carryOut, type Run } from './carry-out.ts';
import { findDueAction } from './due-action.ts';
import {
  addTally,
  emptyTally,
  endOf,
  type Indexing,
  type LifecycleProgress,
  lifecycleTasks,
  type Tally,
} from './progress.ts';
import { findFirstDays, nextPass, openWindows, positionBehind, readDuePage, startPosition } from './walk.ts';

export type PassCtx = ActCtx & Pick<Context, 'config'>;

const pageRows = 1_000;
/** Keys that are worked on at a time. A local store writes what comes together in one transaction. */
const atOnce = { local: 128, distant: 16 } as const;
/**
 * A turn of a bucket begins no further action after this time, nor the copy of a further extent, and begins transitions of no more bytes than
 * this unless one version has more: a bucket must not delay the rules of others. What is left is done in its next turn. The bytes cut no version
 * that moves already.
 */
const turnMs = 5_000;
const turnBytesMax = 1024 ** 3;
/** The rest of a bucket where an action failed or waits for the replicator. */
const retryMs = 10 * 60_000;
/** Bytes of the rules whose actions are counted one by one: a row has positions of the pass too, with long keys. */
const rulesBytesMax = 6 * 1024;

export interface Step {
  readonly listed: LifecycleBucketRow;
  readonly task: Task<LifecycleProgress> | undefined;
  readonly term: Term;
  /** Waits until so many further actions are within the rate. */
  readonly actions: Pace;
  /** The same for bytes that transitions copy. */
  readonly bytes: Pace;
  /** The last request of an operator for a pass; store time. */
  readonly runAt?: number | undefined;
  /** The step carries out transitions only, those that the last pass has found. */
  readonly isMoving?: boolean;
  readonly signal: AbortSignal;
}

/** Entries on old days, as of an import, a resync or a roll-back, begin no pass earlier than this after the last one. */
const lateRestMs = 10 * 60_000;

/** Whether a bucket needs a step of a pass now. */
export const isDue = (
  { token }: LifecycleBucketRow,
  task: Task<LifecycleProgress> | undefined,
  {
    now,
    hasLate,
    runAt = 0,
  }: { readonly now: number; readonly hasLate: boolean; readonly runAt?: number | undefined },
): boolean =>
  task === undefined ||
  task.state.token !== token ||
  task.state.nextAt <= now ||
  // A pass that was begun for the request may state an earlier start, by a clock that is behind that of the store.
  (task.state.startedAt < runAt && task.state.runAt !== runAt) ||
  isAhead(task.state.startedAt, now) ||
  (hasLate && beginsForLate(task.state, now));

/** A pass that runs goes on, so that each pass comes to an end however many such versions come. */
const beginsForLate = ({ finishedAt }: LifecycleProgress, now: number): boolean =>
  finishedAt !== undefined && finishedAt + lateRestMs <= now;

/** @returns the stored progress, and whether more is due now; undefined when the bucket is gone */
export async function stepBucket(
  ctx: PassCtx,
  turn: Step,
): Promise<{ readonly task: Task<LifecycleProgress>; readonly isBusy: boolean } | undefined> {
  const { listed, term } = turn;
  // A pass that begins again finds what is left: an action states the version that it was decided by.
  const task = turn.task ?? (await findSoundTask(ctx.metadata, lifecycleTasks, listed.bucketId));
  const found = await findBucket(ctx.metadata, listed.bucket);
  if (found === undefined || found.row.id !== listed.bucketId) {
    // The progress goes first, because no step would find it without the entry in the list.
    if (task !== undefined) await removeProgress(ctx, task, term);
    await ctx.metadata.apply([unlistLifecycleBucket(listed), withoutLateVersions(listed.bucketId)]);
    return undefined;
  }
  const bucket = found.row;
  const now = await lockTime(ctx);
  const isMoving = turn.isMoving === true && task?.state.moves !== undefined;
  const step = { ...turn, task, isMoving };
  const isRestart =
    !isMoving &&
    task?.state.token === listed.token &&
    beginsForLate(task.state, now) &&
    (await hasLateVersions(ctx.metadata, bucket.id));
  const begun = {
    ...(isMoving ? task.state : begin(bucket, step, { now, isRestart })),
    owner: bucket.owner,
  };
  const passing = { bucket, state: begun, now };
  // Such a version may come while a page is read, so its announcement is removed before the first one.
  const state = isRestart
    ? begun
    : isMoving
      ? await advanceMoves(ctx, step, passing)
      : await advance(ctx, step, passing);
  // By the end of the step: the buckets of an account take turns in the order of this time.
  const progress = advanceProgress(task?.progress, measurePass(state), await ctx.metadata.now());
  const outcome = await putTask(ctx.metadata, lifecycleTasks, {
    name: bucket.id,
    state,
    progress,
    expect: task?.revision ?? 'absent',
    term,
    then: isRestart ? [withoutLateVersions(bucket.id)] : [],
  });
  if (!outcome.applied) throw new LeaseLost(lifecycleTasks.kind, term.generation);
  const stored = { name: bucket.id, state, progress, revision: outcome.revision };
  return { task: stored, isBusy: state.nextAt <= now };
}

/** @throws LeaseLost */
async function removeProgress(
  { metadata }: Pick<PassCtx, 'metadata'>,
  { name, revision }: Task<LifecycleProgress>,
  term: Term,
): Promise<void> {
  const changes = [{ remove: { name }, expect: revision }];
  const outcome = await putTasks(metadata, lifecycleTasks, { changes, term });
  if (!outcome.applied) throw new LeaseLost(lifecycleTasks.kind, term.generation);
}

const measurePass = (state: LifecycleProgress): Measure => ({
  bucket: state.bucket,
  startedAt: state.startedAt,
  finishedAt: endOf(state),
  done: { count: state.tally.read },
});

/** The progress with a pass under way: the present one, or a new one. */
function begin(
  bucket: BucketRow,
  { listed, task, runAt }: Step,
  { now, isRestart }: { readonly now: number; readonly isRestart: boolean },
): LifecycleProgress {
  const { token } = listed;
  const day = ageDay(bucket.created);
  const first = { upload: day, noncurrent: day, current: day, marker: day, restored: day };
  const asked = runAt === undefined ? {} : { runAt };
  const fresh = { tally: emptyTally, byRule: {}, startedAt: now, nextAt: now, ...asked };
  if (task === undefined) return { bucket: bucket.name, token, indexing: { at: 'objects' }, first, ...fresh };
  const { state } = task;
  const { finishedAt: _, position: __, moves: ___, ...retained } = state;
  // Another token: the rules have changed, or an operator asked for a pass. A clock that was ahead may have taken later
  // days for the first ones.
  if (state.token !== token || isRestart || isAhead(state.startedAt, now))
    return { ...retained, token, first, ...fresh };
  return state.finishedAt === undefined ? state : { ...retained, ...fresh };
}

interface Passing {
  readonly bucket: BucketRow;
  readonly state: LifecycleProgress;
  readonly now: number;
}

async function advance(
  ctx: PassCtx,
  step: Step,
  { bucket, state, now }: Passing,
): Promise<LifecycleProgress> {
  if (state.indexing.at !== 'done')
    return { ...state, indexing: await indexPage(ctx.metadata, bucket, state.indexing) };
  const lifecycle = await readRules(ctx, bucket);
  const none: Lifecycle = { Rule: [] };
  if (lifecycle === undefined) return end(state, { lifecycle: none, now });
  if (state.position === undefined) {
    const { first, isDone } = await findFirstDays(ctx.metadata, { bucket, first: state.first, now });
    return isDone ? { ...state, first, position: startPosition({ first }) } : { ...state, first };
  }
  const due = { bucket, first: state.first, windows: openWindows(lifecycle, now) };
  const { rows, next } = await readDuePage(ctx.metadata, due, { from: state.position, max: pageRows });
  const { firstMove, firstLeft, ...done } = await actOnPage(ctx, step, { bucket, lifecycle, now, rows });
  const counted = addResults(state, done);
  if (firstMove !== undefined && counted.moves === undefined) {
    // What is left may have transitions too.
    const before = rows[Math.min(firstMove, firstLeft ?? firstMove) - 1];
    counted.moves = before === undefined ? state.position : positionBehind(due, before);
  }
  if (firstLeft !== undefined) {
    // Entries behind it that are done are removed, or skipped when the page is read again.
    const before = rows[firstLeft - 1];
    return before === undefined ? counted : { ...counted, position: positionBehind(due, before) };
  }
  return next === undefined ? end(counted, { lifecycle, now }) : { ...counted, position: next };
}

/** A page of the transitions that the last pass has found. */
async function advanceMoves(
  ctx: PassCtx,
  step: Step,
  { bucket, state, now }: Passing,
): Promise<LifecycleProgress> {
  const { moves: from, ...ended } = state;
  const lifecycle = await readRules(ctx, bucket);
  if (lifecycle === undefined || from === undefined) return ended;
  const due = { bucket, first: state.first, windows: openWindows(lifecycle, now) };
  const { rows, next } = await readDuePage(ctx.metadata, due, { from, max: pageRows });
  const { firstLeft, ...done } = await actOnPage(ctx, step, { bucket, lifecycle, now, rows });
  const before = firstLeft === undefined ? undefined : rows[firstLeft - 1];
  const moves = firstLeft === undefined ? next : before === undefined ? from : positionBehind(due, before);
  const counted = addResults(ended, done);
  if (moves !== undefined) return { ...counted, moves };
  return counted.tally.undone > 0 ? { ...counted, nextAt: Math.min(state.nextAt, now + retryMs) } : counted;
}

const addResults = (
  state: LifecycleProgress,
  { tally, byRule }: Pick<Results, 'tally' | 'byRule'>,
): { -readonly [Name in keyof LifecycleProgress]: LifecycleProgress[Name] } => ({
  ...state,
  tally: addTally(state.tally, tally),
  byRule: addRules(state.byRule, byRule),
});

function end(
  { position: _, ...state }: LifecycleProgress,
  { lifecycle, now }: { readonly lifecycle: Lifecycle; readonly now: number },
): LifecycleProgress {
  const next = nextPass(lifecycle, { first: state.first, now });
  const nextAt = state.tally.undone > 0 ? Math.min(next, now + retryMs) : next;
  return { ...state, finishedAt: now, nextAt };
}

interface Page {
  readonly bucket: BucketRow;
  readonly lifecycle: Lifecycle;
  readonly now: number;
  readonly rows: readonly AgeRow[];
}

interface Results {
  readonly tally: Partial<Tally>;
  readonly byRule: ReadonlyMap<string, number>;
  /** The index of the first row whose transition is due, in a pass. */
  readonly firstMove: number | undefined;
  /** The index of the first row that is left to the next turn. */
  readonly firstLeft: number | undefined;
}

async function actOnPage(
  ctx: PassCtx,
  { actions, bytes, signal, isMoving = false }: Step,
  { bucket, lifecycle, now, rows }: Page,
): Promise<Results> {
  const requestId = drawId(ctx.random);
  const turn = openTurn(ctx);
  const run: Run = { bucket, requestId, pace: bytes, signal, isOver: turn.isLate };
  const moves = new Set<AgeRow>();
  const left = new Set<AgeRow>();
  const tally = new Map<keyof Tally, number>();
  const byRule = new Map<string, number>();
  // The entries of a key follow each other, and its changes would refuse each other.
  const keys = Map.groupBy(rows, ({ key }) => key);
  const width = ctx.metadata.isDistant ? atOnce.distant : atOnce.local;
  await inParallel(width, [...keys.values()], async (entries) => {
    for (const age of entries) {
      signal.throwIfAborted();
      if (turn.isOver()) {
        left.add(age);
        continue;
      }
      const action = await passOverDamage(ctx, {
        bucket: bucket.name,
        left: 'a version is left to a later pass of its lifecycle rules',
        run: () => findDueAction(ctx.metadata, { bucket, lifecycle, now }, age),
      });
      if (action === undefined && !isMoving) tally.set('undone', (tally.get('undone') ?? 0) + 1);
      if (action === undefined || action.do === 'nothing') continue;
      if (action.do === 'stale') {
        await ctx.metadata.apply([removeAge(age)]);
        continue;
      }
      if ((action.do === 'transition') !== isMoving) {
        if (!isMoving) moves.add(age);
        continue;
      }
      // The first row always has its turn, so that each turn comes further, also where an action fails again and again.
      if (action.do === 'transition' && !turn.takes(action.version.row.size) && age !== rows[0]) {
        left.add(age);
        continue;
      }
      await actions(1, signal);
      const { result, rule } = await carryOut(ctx, run, action);
      if (result === 'changed') continue;
      if (result === 'begun') {
        left.add(age);
        continue;
      }
      tally.set(result, (tally.get(result) ?? 0) + 1);
      if (result !== 'held' && result !== 'undone') byRule.set(rule, (byRule.get(rule) ?? 0) + 1);
    }
  });
  for (const [action, count] of tally)
    if (action !== 'read') ctx.telemetry.count('svc_lifecycle_actions_total', { action }, count);
  const done = [...byRule.values()].reduce((sum, count) => sum + count, 0);
  if (done > 0) await audit(ctx, { bucket, requestId, now, count: done });
  const firstOf = (found: ReadonlySet<AgeRow>): number | undefined => {
    const first = rows.findIndex((row) => found.has(row));
    return first === -1 ? undefined : first;
  };
  const firstLeft = firstOf(left);
  // Rows behind it are read again.
  if (!isMoving) tally.set('read', firstLeft ?? rows.length);
  return { tally: Object.fromEntries(tally), byRule, firstMove: firstOf(moves), firstLeft };
}

/** The limits of one turn of a bucket: its time, and the bytes of its transitions. */
function openTurn({ clock }: Pick<PassCtx, 'clock'>) {
  const endsAt = clock.elapsed() + turnMs;
  let begunBytes = 0;
  let isFull = false;
  const isLate = (): boolean => clock.elapsed() >= endsAt;
  return {
    isLate,
    isOver: () => isFull || isLate(),
    /** @returns false where the bytes exceed the limit, which ends the turn: rows behind would only be read again in the next one */
    takes(bytes: number): boolean {
      isFull ||= begunBytes > 0 && begunBytes + bytes > turnBytesMax;
      if (!isFull) begunBytes += bytes;
      return !isFull;
    },
  };
}

/** One audit row for each page: a row for each version would double the writes, and the events name each version. */
const audit = (
  ctx: PassCtx,
  {
    bucket,
    requestId,
    now,
    count,
  }: { readonly bucket: BucketRow; readonly requestId: string; readonly now: number; readonly count: number },
): Promise<void> =>
  ctx.metadata.apply([
    audited(
      {
        time: now,
        id: requestId,
        action: 'worker:Lifecycle',
        resource: `bucket:${bucket.name}`,
        status: 204,
        principal: 'lifecycle',
        account: bucket.owner,
        source: '',
        count,
      },
      { retentionMs: ctx.config.SVC_AUDIT_RETENTION },
    ),
  ]);

function addRules(
  sums: LifecycleProgress['byRule'],
  more: ReadonlyMap<string, number>,
): LifecycleProgress['byRule'] {
  // A map, whose order is that of insertion: rules that are counted already come first, so that none of them begins anew.
  const next = new Map(Object.entries(sums));
  for (const [rule, count] of more) next.set(rule, (next.get(rule) ?? 0) + count);
  return Object.fromEntries(firstThatFit(next, rulesBytesMax));
}

// Indexes the versions and uploads that a bucket had before its age index, a page at a time.

const indexedRows = 500;
const columns = ['version', 'marker', 'modified', 'restore', 'noncurrentSince'] as const;

type Metadata = Pick<MetadataStore, 'scan' | 'apply' | 'raiseFence'>;

/**
 * One page. Entries of versions that are deleted meanwhile stay in the index; the worker removes them when they are due.
 * @returns the position behind it
 */
async function indexPage(metadata: Metadata, bucket: BucketRow, at: Indexing): Promise<Indexing> {
  if (at.at === 'done') return at;
  if (at.at === 'uploads') return indexUploads(metadata, bucket, at);
  // Writers that do not index yet hold an older row of the bucket: their commits are refused from now on.
  if (at.after === undefined) await metadata.raiseFence(objectsAt(bucket), bucket.generation);
  const range = at.after === undefined ? {} : { after: at.after };
  const cursor = metadata.scan(objectsAt(bucket), { ...range, columns });
  const { rows, isEnd } = await soundPage(cursor, indexedRows);
  // The cast is safe: entries are made of the columns that were read.
  const after = rows.map(({ row }) => row as unknown as ObjectRow);
  await metadata.apply(ageChanges(bucket, { before: [], after }));
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return { at: 'uploads' };
  return { at: 'objects', after: { space: last.space, key: last.key, slot: last.slot } };
}

async function indexUploads(
  metadata: Metadata,
  bucket: BucketRow,
  { after }: Extract<Indexing, { readonly at: 'uploads' }>,
): Promise<Indexing> {
  const cursor = metadata.scan(uploadsIn(bucket.id), after === undefined ? {} : { after });
  const { rows, isEnd } = await soundPage(cursor, indexedRows);
  await metadata.apply(rows.map(({ row }) => putAge(uploadAge(row.uploadId, row))));
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return { at: 'done' };
  return { at: 'uploads', after: { key: last.key, uploadId: last.uploadId } };
}

// What operators ask about the lifecycle of a bucket: a pass now, the progress, and what a pass would do.

type QueryCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** Entries that a plan reads. */
const plannedMax = 20_000;
/** The limit of a count of the backlog. */
const countMs = 1_000;

async function readLifecycle(
  ctx: QueryCtx,
  name: string,
): Promise<{ readonly bucket: BucketRow; readonly lifecycle: Lifecycle }> {
  const bucket = await openBucket(ctx, name);
  const lifecycle = await readRules(ctx, bucket);
  if (lifecycle === undefined) throw fail('NoSuchLifecycleConfiguration', { elements: { BucketName: name } });
  return { bucket, lifecycle };
}

/** The worker begins a pass over the bucket within SVC_LIFECYCLE_INTERVAL. @throws NoSuchLifecycleConfiguration */
export async function requestPass(
  ctx: QueryCtx,
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

export async function findLifecycle(ctx: QueryCtx, name: string): Promise<LifecycleReport> {
  const { bucket, lifecycle } = await readLifecycle(ctx, name);
  const now = await lockTime(ctx);
  const task = await findTask(ctx.metadata, lifecycleTasks, bucket.id);
  const [listed] = await scanLifecycleBuckets(ctx.metadata, bucket.id).next(1);
  const isWaiting =
    listed?.row.bucketId === bucket.id &&
    isDue(listed.row, task, { now, hasLate: await hasLateVersions(ctx.metadata, bucket.id) });
  const progress = task?.state;
  // A pass has read everything that was due, until the next one.
  if (progress === undefined || (!isWaiting && endOf(progress) !== undefined))
    return { progress, isWaiting, ...noBacklog };
  // The pass that waits reads everything again, whatever transitions the last one has left.
  const { moves: _, ...waiting } = progress;
  const passing = { bucket, lifecycle, progress: isWaiting ? waiting : progress, now };
  return { progress, isWaiting, ...(await countBacklog(ctx, passing, ctx.clock.elapsed() + countMs)) };
}

interface PlannedAction {
  readonly action: string;
  readonly rule: string;
  readonly key: string;
  readonly versionId?: string;
  readonly uploadId?: string;
  readonly storageClass?: string;
}

/** What a pass would do now, the first actions of it. Nothing changes. */
export async function planLifecycle(
  ctx: QueryCtx,
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
    read += Math.max(rows.length, backlogPageRows);
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
