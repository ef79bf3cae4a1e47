/**
 * Resync: queues the versions of a bucket that exist already, page by page. The task keeps the position, so that it continues after a kill;
 * a page that is queued twice is sent twice, and the peer keeps one. Pages wait while many versions of their account wait for their destination.
 */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { dueRowsInShares, listDueHours } from '../../metadata/background/hourly-consumer.ts';
import { hashToLane, laneOfSlot } from '../../metadata/background/hourly-queues.ts';
import {
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  putTasks,
  type Task,
  type TaskKind,
  type TaskRange,
} from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage, sumUsage } from '../../metadata/buckets/usage.ts';
import { findVersion, objectsAt } from '../../metadata/objects/objects.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import { type BucketRow, historySpace, type ObjectRow, type objects } from '../../metadata/tables.ts';
import { MetadataDamaged, type SortOf, type Stored } from '../../ports/metadata-store.ts';
import { openBucket, refreshBucket } from '../common/buckets.ts';
import { reportDamaged, unlessDamaged } from '../common/damaged-buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketReplication, type ReplicationRule } from '../configurations/families.ts';
import { nameLane, replicationTask } from '../configurations/replication-destination.ts';
import { coversExisting, isPending, markPending, queueTask } from '../objects/replication-queue.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

/** Which of the bucket's versions a resync queues: those that meet every field that is given. */
interface ResyncFilter {
  readonly prefix?: string | undefined;
  /** Times of the last modification, in ms since the epoch: from `since` on, and before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** `none` were never selected for replication, `failed` were given up, `all` includes those that were replicated. */
  readonly status: 'none' | 'failed' | 'none-or-failed' | 'all';
  /** Versions that the peer has removed permanently are sent too, and come back there. */
  readonly restoresRemoved?: true | undefined;
}

export interface Resync extends ResyncFilter {
  readonly bucket: string;
  readonly after?: SortOf<typeof objects>;
  /** Reads the current versions again: one that became current meanwhile left the history before the walk came there. */
  readonly isSecondPass?: true;
  readonly read: number;
  readonly queued: number;
  /** Versions that were left out, because metadata about them is damaged. */
  readonly damaged?: number;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly requestId: string;
}
export const resyncs: TaskKind<Resync> = { kind: 'replication-resync' };

const measureResync = ({ bucket, startedAt, finishedAt, read }: Resync): Measure => ({
  bucket,
  startedAt,
  finishedAt,
  done: { count: read },
});

/** Versions that the walk has not read, by the counters of the bucket. */
export async function leftToResync(
  { metadata }: Pick<Context, 'metadata'>,
  { name, state: { read } }: Pick<Task<Resync>, 'name' | 'state'>,
): Promise<TaskAmount> {
  const { count } = sumUsage((await readUsage(metadata, name)).values());
  return { count: Math.max(0, count - read) };
}

const pageRows = 100;
/** No page is queued while so many rows of its account wait for the destination. */
const waitingMax = 2_000;
/** Rows of the destination's lane that a count reads: those of other accounts and destinations are among them. */
const countedMax = 10_000;
/** A count is used again for this many times the time that the last counts of all destinations of its account took. */
const recountFactor = 10;
const recountMaxMs = 5 * 60_000;
/** A count that is no longer used is forgotten after this time. */
const countedMs = 60_000;
/** How long a result is kept. */
const retentionMs = 30 * 24 * 60 * 60 * 1000;

/** @throws NoSuchBucket, ReplicationConfigurationNotFoundError, OperationAborted while another resync of the bucket runs */
export async function beginResync(
  ctx: Ctx,
  name: string,
  {
    filter,
    record,
    requestId,
  }: { readonly filter: ResyncFilter; readonly record: Recorder | undefined; readonly requestId: string },
): Promise<Resync> {
  const bucket = await openBucket(ctx, name);
  if ((await findRule(ctx, bucket)) === undefined)
    throw fail('ReplicationConfigurationNotFoundError', { elements: { BucketName: name } });
  const found = await findSoundTask(ctx.metadata, resyncs, bucket.id);
  if (found !== undefined && found.state.finishedAt === undefined)
    throw fail('OperationAborted', 'A resync of this bucket runs: wait for its end, or cancel it.');
  const state = newResync(name, filter, { now: await ctx.metadata.now(), requestId });
  const expect = found?.revision ?? 'absent';
  const then = await recorded(record);
  const progress = advanceProgress(undefined, measureResync(state), state.startedAt);
  const outcome = await putTask(ctx.metadata, resyncs, { name: bucket.id, state, progress, expect, then });
  if (!outcome.applied) throw fail('OperationAborted');
  record?.applied();
  return state;
}

/** Attempts against the worker, which writes the progress of a running resync. */
const attemptsMax = 16;

/**
 * Queues the versions from before a rule with `ExistingObjectReplication`. A resync that runs already begins again, and covers both what it
 * was asked for and these.
 */
export async function resyncExisting(ctx: Ctx, name: string, requestId: string): Promise<void> {
  const bucket = await openBucket(ctx, name);
  const rule = await findRule(ctx, bucket);
  if (rule?.ExistingObjectReplication?.Status !== 'Enabled') return;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findSoundTask(ctx.metadata, resyncs, bucket.id);
    const running = found?.state.finishedAt === undefined ? found?.state : undefined;
    const state = newResync(name, unionWith(running), { now: await ctx.metadata.now(), requestId });
    const expect = found?.revision ?? 'absent';
    const progress = advanceProgress(undefined, measureResync(state), state.startedAt);
    if ((await putTask(ctx.metadata, resyncs, { name: bucket.id, state, progress, expect })).applied) return;
  }
  throw fail('OperationAborted');
}

function unionWith(running: Resync | undefined): ResyncFilter {
  if (running === undefined) return { status: 'none' };
  const { status, restoresRemoved } = running;
  return {
    status: status === 'failed' ? 'none-or-failed' : status,
    ...(restoresRemoved === undefined ? {} : { restoresRemoved }),
  };
}

const newResync = (
  bucket: string,
  filter: ResyncFilter,
  { now, requestId }: { readonly now: number; readonly requestId: string },
): Resync => ({ ...filter, bucket, read: 0, queued: 0, startedAt: now, requestId });

export async function findResync(ctx: Ctx, name: string): Promise<Resync | undefined> {
  const bucket = await openBucket(ctx, name);
  return (await findTask(ctx.metadata, resyncs, bucket.id))?.state;
}

/** Ends the resync of a bucket; what it has queued is still sent. @throws NotFound */
export async function cancelResync(ctx: Ctx, name: string, record: Recorder | undefined): Promise<void> {
  const bucket = await openBucket(ctx, name);
  for (;;) {
    const found = await findSoundTask(ctx.metadata, resyncs, bucket.id);
    if (found === undefined) throw fail('NotFound', `There is no resync of bucket ${name}.`);
    const changes = [{ remove: { name: bucket.id }, expect: found.revision }];
    if ((await putTasks(ctx.metadata, resyncs, { changes })).applied) break;
  }
  await ctx.metadata.apply([...(await recorded(record))]);
  record?.applied();
}

/** The resyncs that run. */
export async function* everyResync(
  { metadata }: Pick<Ctx, 'metadata'>,
  range?: TaskRange,
): AsyncGenerator<Task<Resync>> {
  for await (const task of everyTask(metadata, resyncs, range))
    if (task.state.finishedAt === undefined) yield task;
}

/** The last count of the rows that wait for a destination. */
interface Count {
  /** Rows that resyncs may queue before the next count. */
  left: number;
  readonly tookMs: number;
  /** No count follows before, by the monotonic clock. */
  readonly until: number;
}

type Rest = () => Promise<void>;

class Counts {
  /** By destination. */
  readonly of = new BoundedCache<Map<string, Count>>({ name: 'resync-counts', entriesMax: 1_024 });
}

/**
 * Counts the rows of the bucket's account that wait for the destination, so neither a peer that is away nor another account holds up the
 * resync. All resyncs of the account to the destination share the count, whose time is bounded for the account. Behind many rows of others
 * in the lane some rows of the account are not counted.
 */
async function countBacklog(
  ctx: Ctx,
  bucket: BucketRow,
  { rule: { Destination }, rest }: { readonly rule: ReplicationRule; readonly rest?: Rest | undefined },
): Promise<Count> {
  const { clock } = ctx;
  const counts = ctx.caches.of(Counts).of;
  const ofAccount = counts.get(bucket.owner) ?? new Map<string, Count>();
  counts.set(bucket.owner, ofAccount);
  const destination = nameLane(Destination.Bucket);
  const known = ofAccount.get(destination);
  const begunAt = clock.elapsed();
  if (known !== undefined && (known.left > 0 || known.until > begunAt)) return known;
  const now = await ctx.metadata.now();
  const lane = hashToLane(destination);
  const places = (await listDueHours(ctx, 'replication', now)).filter(
    ({ slot }) => laneOfSlot(slot) === lane,
  );
  let left = waitingMax;
  for await (const { row } of dueRowsInShares(ctx, places, { now, max: countedMax })) {
    await rest?.();
    const { destination: to, account, bucketId } = replicationTask(row);
    const isOwn = account === bucket.owner || bucketId === bucket.id;
    if (isOwn && nameLane(to.Bucket) === destination) left -= 1;
    if (left <= 0) break;
  }
  const endedAt = clock.elapsed();
  for (const [name, { until }] of ofAccount) if (until + countedMs < endedAt) ofAccount.delete(name);
  const others = [...ofAccount].filter(([name]) => name !== destination);
  const tookMs = endedAt - begunAt;
  const allMs = others.reduce((sum, [, other]) => sum + other.tookMs, tookMs);
  const count = { left, tookMs, until: endedAt + Math.min(recountFactor * allMs, recountMaxMs) };
  ofAccount.set(destination, count);
  return count;
}

/**
 * Queues a page of a resync, unless the queue is long.
 * @param rest of `openTurns`
 * @returns whether a page was queued and there may be another one
 */
export async function stepResync(
  ctx: Ctx & Pick<Context, 'telemetry'>,
  { name, state, progress: former, revision }: Task<Resync>,
  rest?: Rest,
): Promise<boolean> {
  const bucket = (await findBucket(ctx.metadata, state.bucket))?.row;
  const rule = bucket?.id === name ? await findRule(ctx, bucket) : undefined;
  const waiting = bucket && rule && (await countBacklog(ctx, bucket, { rule, rest }));
  if (waiting !== undefined && waiting.left <= 0) return false;
  const role = bucket && (await readDocument(ctx, bucket, bucketReplication))?.Role;
  const now = await ctx.metadata.now();
  const next =
    bucket === undefined || rule === undefined || role === undefined
      ? { ...state, finishedAt: now }
      : await queuePage(ctx, { bucket, role, rule, state, now });
  if (waiting !== undefined) waiting.left -= next.queued - state.queued;
  const present = (await findBucket(ctx.metadata, state.bucket))?.row;
  // The next step repeats the page by the present rule, which names another destination for what this one has not queued.
  if (bucket && present && !isSameRule(present, bucket)) return true;
  const isDone = next.finishedAt !== undefined;
  const expiry = isDone ? { expiresAt: now + retentionMs } : {};
  // Refused: an operator cancelled it meanwhile. The rows of this page are sent all the same.
  const progress = advanceProgress(former, measureResync(next), now);
  await putTask(ctx.metadata, resyncs, { name, state: next, progress, expect: revision, ...expiry });
  return !isDone;
}

const findRule = async (ctx: Ctx, bucket: BucketRow): Promise<ReplicationRule | undefined> => {
  const [rule] = (await readDocument(ctx, bucket, bucketReplication))?.Rule ?? [];
  return rule?.Status === 'Enabled' ? rule : undefined;
};

const isSameRule = (one: BucketRow, other: BucketRow): boolean =>
  one.documents[bucketReplication.name] === other.documents[bucketReplication.name];

interface Queueing {
  readonly bucket: BucketRow;
  readonly role: string;
  readonly rule: ReplicationRule;
  readonly state: Resync;
}

/** The second pass of a resync of `all` leaves out versions that were replicated: the first one has sent nearly all of them again. */
function selects({ rule, state }: Pick<Queueing, 'rule' | 'state'>, row: ObjectRow): boolean {
  const status = state.isSecondPass && state.status === 'all' ? 'none-or-failed' : state.status;
  return isSelected({ ...state, status }, row) && coversExisting(rule, row);
}

/**
 * Queues a version and marks it in one commit. Where another commit changed it meanwhile, it is read again, because not
 * every change queues it: a move of its bytes does not.
 * @returns false where it is gone, no longer selected, that change has queued it, or the rule was changed
 * @throws OperationAborted
 */
async function queueVersion(
  ctx: Ctx,
  read: Stored<ObjectRow>,
  { bucket: known, role, rule, state }: Queueing,
): Promise<boolean> {
  const { requestId, restoresRemoved: restores } = state;
  const { key, version, isNull } = read.row;
  let bucket = known;
  let found: Stored<ObjectRow> | undefined = read;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    if (found?.row.version !== version) return false;
    const { row, revision } = found;
    if (attempt > 0 && !selects({ rule, state }, row)) return false;
    const task = { bucket, role, rule, row, requestId, isResync: true, restores } as const;
    if (isPending(row)) {
      if (attempt > 0) return false;
      await ctx.metadata.apply([await queueTask(ctx, task)]);
      return true;
    }
    const change = { put: markPending(row), expect: revision };
    const then = [await queueTask(ctx, task)];
    const outcome = await ctx.metadata.commit(objectsAt(bucket), [change], { then });
    if (outcome.applied) return true;
    if (outcome.because === 'fenced') bucket = await refreshBucket(ctx, bucket);
    if (!isSameRule(bucket, known)) return false;
    found = await findVersion(ctx.metadata, bucket, key, isNull ? 'null' : version);
  }
  throw fail('OperationAborted', `Other requests keep changing the version ${version} of ${key}.`);
}

async function queuePage(
  ctx: Ctx & Pick<Context, 'telemetry'>,
  { bucket, role, rule, state, now }: Queueing & { readonly now: number },
): Promise<Resync> {
  const { after, isSecondPass } = state;
  const range = {
    ...(after === undefined ? {} : { after }),
    ...(isSecondPass ? { before: { space: historySpace } } : {}),
  };
  const cursor = ctx.metadata.scan(objectsAt(bucket), range);
  const { rows, damaged: unread, isEnd } = await soundPage(cursor, pageRows);
  const damaged = [...unread];
  const selected = rows.filter(({ row }) => selects({ rule, state }, row));
  let queued = 0;
  for (const version of selected) {
    const outcome = await unlessDamaged(() => queueVersion(ctx, version, { bucket, role, rule, state }));
    if (outcome instanceof MetadataDamaged) damaged.push(outcome);
    else if (outcome) queued += 1;
  }
  reportDamaged(ctx, { bucket: bucket.name, left: 'versions are left out of a resync', damaged });
  const next: Resync = {
    ...state,
    queued: state.queued + queued,
    // Each version is counted once.
    ...(isSecondPass ? {} : { read: state.read + rows.length }),
    ...(isSecondPass || damaged.length === 0 ? {} : { damaged: (state.damaged ?? 0) + damaged.length }),
  };
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) {
    if (isSecondPass) return { ...next, finishedAt: now };
    const { after: _, ...restarted } = next;
    return { ...restarted, isSecondPass: true };
  }
  const { space, key, slot } = last;
  return { ...next, after: { space, key, slot } };
}

function isSelected({ prefix = '', since, until, status }: ResyncFilter, row: ObjectRow): boolean {
  const { key, modified, replication } = row;
  if (!key.startsWith(prefix)) return false;
  if (since !== undefined && modified < since) return false;
  if (until !== undefined && modified >= until) return false;
  const isFailed = replication === 'FAILED';
  if (status === 'failed') return isFailed;
  const isNone = replication === undefined;
  return status === 'all' || isNone || (status === 'none-or-failed' && isFailed);
}
