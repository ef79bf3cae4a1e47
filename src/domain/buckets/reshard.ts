/**
 * Gives a bucket more shards while it is in use: all of its shards split in two, as often as needed. The bucket's row says
 * between which two counts it is; the metadata store moves the rows.
 */

import { inParallel } from '../../base/concurrency.ts';
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  type Task,
  type TaskKind,
  type TaskRange,
} from '../../metadata/background/tasks.ts';
import { findBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage, sumUsage } from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { MetadataStore, Stored } from '../../ports/metadata-store.ts';
import { assertOpen, changeBucket, openBucket } from '../common/buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';

export interface Resharding {
  readonly bucket: string;
  readonly from: number;
  readonly to: number;
  /** Shards that have split. */
  readonly shardsDone: number;
  /** A lower bound: rows that a worker moved just before it died are not counted. */
  readonly rowsMoved: number;
  /** Why there was nothing to move. */
  readonly why?: string;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
}
export const reshardings: TaskKind<Resharding> = { kind: 'reshard' };

const measureResharding = ({ bucket, startedAt, finishedAt, rowsMoved }: Resharding): Measure => ({
  bucket,
  startedAt,
  finishedAt,
  done: { count: rowsMoved },
});

/** An estimate from the versions that the bucket counts: of the rows of a shard that splits, half move. */
export async function leftToReshard(
  { metadata }: Metadata,
  { name, state: { from, to, rowsMoved } }: Pick<Task<Resharding>, 'name' | 'state'>,
): Promise<TaskAmount> {
  const { count } = sumUsage((await readUsage(metadata, name)).values());
  return { count: Math.max(0, Math.round((count / 2) * Math.log2(to / from)) - rowsMoved) };
}

/** The largest count; CreateBucket has the same limit. */
const shardsMax = 65_536;
/** How long a result is kept. */
const retentionMs = 7 * 24 * 60 * 60 * 1000;
/** Shards that split concurrently; the store has one queue for each. */
const atOnce = 4;
/** How long a round may take before it saves its progress. */
const roundMs = 2_000;
const attemptsMax = 4;

type Metadata = Pick<Context, 'metadata'>;
type Changing = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

interface Asked {
  readonly to: number;
  readonly record?: Recorder | undefined;
}

/** Begins to reshard a bucket; does nothing when it is being resharded to the same count already. */
export async function beginResharding(ctx: Changing, name: string, asked: Asked): Promise<Resharding> {
  const { to } = asked;
  if (!Number.isInteger(Math.log2(to)) || to > shardsMax)
    throw fail('InvalidArgument', {
      message: `shards must be a power of two, at most ${shardsMax}, and not ${to}.`,
      field: 'shards',
    });
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const bucket = await openBucket(ctx, name);
    const found = await findSoundTask(ctx.metadata, reshardings, bucket.id);
    if (found !== undefined && found.state.finishedAt === undefined) {
      if (found.state.to === to) return found.state;
      throw fail('InvalidBucketState', `The bucket is being resharded to ${found.state.to} shards.`);
    }
    assertMore(bucket, to);
    const now = await ctx.metadata.now();
    const fresh = { bucket: name, from: bucket.shards, to, shardsDone: 0, rowsMoved: 0, startedAt: now };
    const expect = found?.revision ?? 'absent';
    if (ctx.metadata.split === undefined) return reshardAtOnce(ctx, { ...asked, bucket, fresh, expect });
    const then = await recorded(asked.record);
    const progress = advanceProgress(undefined, measureResharding(fresh), now);
    const outcome = await putTask(ctx.metadata, reshardings, {
      name: bucket.id,
      state: fresh,
      progress,
      expect,
      then,
    });
    // Refused: another operator's request was committed first.
    if (!outcome.applied) continue;
    asked.record?.applied();
    return fresh;
  }
  throw fail('OperationAborted');
}

function assertMore({ shards }: BucketRow, to: number): void {
  if (to <= shards)
    throw fail('InvalidArgument', {
      message: `The bucket has ${shards} shards, which can only become more, not ${to}.`,
      field: 'shards',
    });
}

/** Changes the count alone, when the rows do not depend on it. */
async function reshardAtOnce(
  ctx: Changing,
  {
    bucket,
    to,
    record,
    fresh,
    expect,
  }: Asked & {
    readonly bucket: BucketRow;
    readonly fresh: Resharding;
    readonly expect: Parameters<typeof putTask>[2]['expect'];
  },
): Promise<Resharding> {
  const change = (row: BucketRow): BucketRow => {
    assertMore(row, to);
    return { ...row, shards: to };
  };
  await changeBucket(ctx, bucket, { record, change });
  const state: Resharding = {
    ...fresh,
    shardsDone: to - fresh.from,
    why: 'This metadata backend keeps a bucket as one ordered range: no row had to move.',
    finishedAt: fresh.startedAt,
  };
  const expiresAt = fresh.startedAt + retentionMs;
  const progress = advanceProgress(undefined, measureResharding(state), fresh.startedAt);
  await putTask(ctx.metadata, reshardings, { name: bucket.id, state, progress, expect, expiresAt });
  return state;
}

/** The number of shards, and the progress or result of a recent reshard. */
export async function findResharding(
  ctx: Metadata,
  name: string,
): Promise<{ readonly shards: number; readonly state: Resharding | undefined }> {
  const { id, shards } = await openBucket(ctx, name);
  return { shards, state: (await findTask(ctx.metadata, reshardings, id))?.state };
}

/** The buckets that are being resharded. */
export async function* everyResharding(
  { metadata }: Metadata,
  range?: TaskRange,
): AsyncGenerator<Task<Resharding>> {
  for await (const task of everyTask(metadata, reshardings, range))
    if (task.state.finishedAt === undefined) yield task;
}

/** The state of one doubling in the memory of one worker; another worker determines it again. */
export interface Doubling {
  readonly ways: number;
  /** Every writer knows the new count. */
  isFenced: boolean;
  readonly done: Set<number>;
}

type Ctx = Pick<Context, 'metadata' | 'clock'>;

/** Works on one bucket for one round. @returns the pause before the next round, in ms; 0 means none */
export async function reshardRound(
  ctx: Ctx,
  task: Task<Resharding>,
  { doublings, signal }: { readonly doublings: Map<string, Doubling>; readonly signal: AbortSignal },
): Promise<number> {
  const { name: bucketId, state } = task;
  const found = await findBucket(ctx.metadata, state.bucket);
  if (found?.row.id !== bucketId) {
    doublings.delete(bucketId);
    return finish(ctx, task, { why: 'The bucket is gone.' });
  }
  const { row } = found;
  if (row.splittingTo === undefined)
    return row.shards >= state.to
      ? finish(ctx, task, { shardsDone: state.to - state.from })
      : begin(ctx, found);
  const known = doublings.get(bucketId);
  const doubling =
    known?.ways === row.shards ? known : { ways: row.shards, isFenced: false, done: new Set<number>() };
  doublings.set(bucketId, doubling);
  // The same call finishes any change of the generation whose process died half-way.
  if (!doubling.isFenced) await ctx.metadata.raiseFence(objectsAt(row), row.generation);
  doubling.isFenced = true;
  const { rows, waitMs } = await splitShards(ctx, row, { doubling, signal });
  const isOver = doubling.done.size === row.shards;
  if (isOver) {
    doublings.delete(bucketId);
    await end(ctx, found);
  }
  const shardsDone = row.shards - state.from + doubling.done.size;
  const next = { ...state, shardsDone, rowsMoved: state.rowsMoved + rows };
  if (rows > 0 || shardsDone !== state.shardsDone) {
    const progress = advanceProgress(task.progress, measureResharding(next), await ctx.metadata.now());
    await putTask(ctx.metadata, reshardings, {
      name: bucketId,
      state: next,
      progress,
      expect: task.revision,
    });
  }
  return isOver ? 0 : waitMs;
}

/** After it returns, no writer commits with the old count; the store redirects readers that have the old count. */
async function begin({ metadata }: Ctx, found: Stored<BucketRow>): Promise<number> {
  try {
    await assertOpen({ metadata }, found);
  } catch (cause) {
    // A DeleteBucket is running: the bucket will be gone soon, or open again.
    if (cause instanceof Refusal) return roundMs;
    throw cause;
  }
  const { row } = found;
  if (row.closedAt === 0)
    await replaceBucket(metadata, found, {
      ...row,
      splittingTo: row.shards * 2,
      generation: row.generation + 1,
    });
  return 0;
}

async function end({ metadata }: Ctx, found: Stored<BucketRow>): Promise<void> {
  const { splittingTo, ...row } = found.row;
  // Refused: another request changed it, and the next round ends the doubling, which has nothing left to move.
  await replaceBucket(metadata, found, { ...row, shards: splittingTo ?? row.shards });
}

async function splitShards(
  { metadata, clock }: Ctx,
  bucket: BucketRow,
  { doubling, signal }: { readonly doubling: Doubling; readonly signal: AbortSignal },
): Promise<{ readonly rows: number; readonly waitMs: number }> {
  const { done, ways } = doubling;
  const left = Array.from({ length: ways }, (_, shard) => shard).filter((shard) => !done.has(shard));
  const until = clock.elapsed() + roundMs;
  let rows = 0;
  let waitMs = 0;
  await inParallel(atOnce, left, async (shard) => {
    while (!signal.aborted && waitMs === 0 && clock.elapsed() < until && !done.has(shard)) {
      const step = await requireSplit(metadata)(objectsAt(bucket), shard);
      if (step.is === 'waiting') waitMs = Math.min(step.ms, roundMs);
      else rows += step.rows;
      if (step.is === 'done') done.add(shard);
    }
  });
  return { rows, waitMs };
}

function requireSplit(metadata: MetadataStore): NonNullable<MetadataStore['split']> {
  if (metadata.split === undefined) throw new Error('a bucket splits on a store that keeps no shards');
  return metadata.split.bind(metadata);
}

async function finish(
  { metadata }: Ctx,
  { name, state, progress, revision }: Task<Resharding>,
  more: Partial<Resharding>,
): Promise<number> {
  const finishedAt = await metadata.now();
  const ended = { ...state, ...more, finishedAt };
  await putTask(metadata, reshardings, {
    name,
    state: ended,
    progress: advanceProgress(progress, measureResharding(ended), finishedAt),
    expect: revision,
    expiresAt: finishedAt + retentionMs,
  });
  return 0;
}
