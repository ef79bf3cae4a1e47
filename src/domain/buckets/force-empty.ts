/**
 * Empties a bucket for an operator: aborts uploads and deletes versions and delete markers, a page at a time, and resumes after a
 * kill. It passes through the bucket once: what writers add behind its position stays, and the result says whether the bucket was
 * empty at the end. Versions under Object Lock are kept.
 */

import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
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
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage, sumUsage } from '../../metadata/buckets/usage.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { uploadsIn } from '../../metadata/objects/uploads.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import { type BucketRow, headSlot, historySpace, liveSpace, type objects } from '../../metadata/tables.ts';
import { MetadataDamaged, type SortOf } from '../../ports/metadata-store.ts';
import { openBucket } from '../common/buckets.ts';
import { reportDamaged, unlessDamaged } from '../common/damaged-buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, amountLeft, type Measure } from '../common/task-progress.ts';
import type { CommitCtx } from '../objects/commit-version.ts';
import { mfaRequired, removeSeenVersion } from '../objects/delete-object.ts';
import { abortOpen } from '../uploads/upload-session.ts';

type Ctx = CommitCtx & Pick<Context, 'telemetry'>;

/** The history comes first: deleting a head would move a version back to a place that the pass has left behind. */
const phases = ['uploads', 'history', 'live', 'done'] as const;

export interface Emptying {
  readonly bucket: string;
  readonly phase: (typeof phases)[number];
  /** The last row of the phase that was processed. */
  readonly after?: object;
  readonly requestId: string;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly deleted: { readonly versions: number; readonly markers: number; readonly uploads: number };
  /** Versions that Object Lock or MFA delete holds. */
  readonly kept: number;
  /** Rows that the pass left, because metadata about them is damaged. */
  readonly damaged?: number;
  /** Bytes of the versions that were deleted, and of those that are held. Absent in rows of an earlier release. */
  readonly bytes?: { readonly deleted: number; readonly kept: number };
  /** Set at the end: no rows were left, and none were added meanwhile. Absent where the pass was cancelled. */
  readonly empty?: boolean;
  /** An operator ended it. What the page that was in work has deleted is not counted. */
  readonly isCancelled?: true;
}
export const emptyings: TaskKind<Emptying> = { kind: 'force-empty', frees: true };

const measureEmptying = ({ bucket, startedAt, finishedAt, deleted, bytes }: Emptying): Measure => ({
  bucket,
  startedAt,
  finishedAt,
  done: { count: deleted.versions + deleted.markers + deleted.uploads, bytes: bytes?.deleted ?? 0 },
});

/** What the pass has left, by the counters of the bucket: versions that writers add meanwhile are counted too. */
export async function leftToEmpty(
  { metadata }: Pick<Context, 'metadata'>,
  { name, state }: Pick<Task<Emptying>, 'name' | 'state'>,
): Promise<TaskAmount> {
  const stored = sumUsage((await readUsage(metadata, name)).values());
  return amountLeft(stored, { count: state.kept, bytes: state.bytes?.kept ?? 0 });
}

/** How long a result is kept. */
const retentionMs = 7 * 24 * 60 * 60 * 1000;
const pageRows = 256;
const atOnce = 8;

/** Begins to empty a bucket; does nothing when it is being emptied already. */
export async function beginEmptying(
  ctx: Pick<Context, 'metadata'>,
  name: string,
  { record, requestId }: { readonly record?: Recorder | undefined; readonly requestId: string },
): Promise<Emptying> {
  const bucket = await openBucket(ctx, name);
  if (bucket.mfaDelete) throw mfaRequired();
  const found = await findSoundTask(ctx.metadata, emptyings, bucket.id);
  if (found !== undefined && found.state.phase !== 'done') return found.state;
  const state: Emptying = {
    bucket: name,
    phase: 'uploads',
    requestId,
    startedAt: await ctx.metadata.now(),
    deleted: { versions: 0, markers: 0, uploads: 0 },
    kept: 0,
    bytes: { deleted: 0, kept: 0 },
  };
  const outcome = await putTask(ctx.metadata, emptyings, {
    name: bucket.id,
    state,
    progress: advanceProgress(undefined, measureEmptying(state), state.startedAt),
    expect: found?.revision ?? 'absent',
    then: await recorded(record),
  });
  // Refused: another operator's request was committed first.
  if (!outcome.applied) return (await findEmptying(ctx, name)) ?? state;
  record?.applied();
  return state;
}

/** The progress or result; undefined when there was no recent request. */
export async function findEmptying(
  ctx: Pick<Context, 'metadata'>,
  name: string,
): Promise<Emptying | undefined> {
  const { id } = await openBucket(ctx, name);
  return (await findTask(ctx.metadata, emptyings, id))?.state;
}

const cancelAttemptsMax = 8;

/**
 * Ends the emptying of a bucket between two pages; does nothing when it has ended already.
 * @returns undefined when there was no recent request
 * @throws OperationAborted where the worker saved its progress again and again meanwhile
 */
export async function cancelEmptying(
  ctx: Pick<Context, 'metadata'>,
  name: string,
  { record }: { readonly record?: Recorder | undefined },
): Promise<Emptying | undefined> {
  const bucket = await openBucket(ctx, name);
  for (let attempt = 0; attempt < cancelAttemptsMax; attempt += 1) {
    const found = await findTask(ctx.metadata, emptyings, bucket.id);
    if (found === undefined || found.state.phase === 'done') return found?.state;
    const { after: _, ...state } = found.state;
    const now = await ctx.metadata.now();
    const ended: Emptying = { ...state, phase: 'done', isCancelled: true, finishedAt: now };
    // The worker expects the revision that it has read: its write of the page in work is refused from here on.
    const outcome = await putTask(ctx.metadata, emptyings, {
      name: bucket.id,
      state: ended,
      progress: advanceProgress(found.progress, measureEmptying(ended), now),
      expect: found.revision,
      expiresAt: now + retentionMs,
      then: await recorded(record),
    });
    if (!outcome.applied) continue;
    record?.applied();
    return ended;
  }
  throw fail('OperationAborted');
}

/** The buckets that are being emptied. */
export async function* everyEmptying(
  { metadata }: Pick<Context, 'metadata'>,
  range?: TaskRange,
): AsyncGenerator<Task<Emptying>> {
  for await (const task of everyTask(metadata, emptyings, range)) if (task.state.phase !== 'done') yield task;
}

/**
 * One page of one bucket, unless its task has changed since it was read. After an interruption the next call repeats
 * the page and finds its rows gone.
 * @returns how much was deleted
 */
export async function emptyPage(
  ctx: Ctx,
  { name: bucketId, state, progress, revision }: Task<Emptying>,
): Promise<number> {
  const found = await findBucket(ctx.metadata, state.bucket);
  const bucket = found?.row.id === bucketId ? found.row : undefined;
  const isCurrent = async (): Promise<boolean> =>
    (await findTask(ctx.metadata, emptyings, bucketId))?.revision === revision;
  const next =
    bucket === undefined
      ? { ...state, phase: 'done' as const, empty: true }
      : await passed(ctx, bucket, { state, isCurrent });
  if (next === undefined) return 0;
  const now = await ctx.metadata.now();
  const isDone = next.phase === 'done';
  const saved: Emptying = isDone ? { ...next, finishedAt: now } : next;
  await putTask(ctx.metadata, emptyings, {
    name: bucketId,
    state: saved,
    progress: advanceProgress(progress, measureEmptying(saved), now),
    expect: revision,
    ...(isDone ? { expiresAt: now + retentionMs } : {}),
  });
  return countDeleted(next) - countDeleted(state);
}

const countDeleted = ({ deleted: { versions, markers, uploads } }: Emptying): number =>
  versions + markers + uploads;

interface Page {
  readonly state: Emptying;
  /**
   * Whether the task has not changed since it was read. A page calls it when it has read its rows and before it deletes any of them: an
   * operator, or a successor while this process was paused, may have ended the task, and what clients have written since must stay.
   */
  isCurrent(): Promise<boolean>;
}

/** @returns undefined where the task has changed; then nothing is deleted */
async function passed(ctx: Ctx, bucket: BucketRow, page: Page): Promise<Emptying | undefined> {
  const { state, isCurrent } = page;
  if (state.phase === 'uploads') return abortPage(ctx, bucket, page);
  const space = state.phase === 'history' ? historySpace : liveSpace;
  const after = state.after as SortOf<typeof objects> | undefined;
  const cursor = ctx.metadata.scan(objectsAt(bucket), {
    ...(after === undefined ? { from: { space } } : { after }),
    ...(space === liveSpace ? { before: { space: historySpace } } : {}),
  });
  const { rows, damaged: unread, isEnd } = await soundPage(cursor, pageRows);
  if (!(await isCurrent())) return undefined;
  const damaged = [...unread];
  const keys = Map.groupBy(
    rows.map(({ row }) => row),
    ({ key }) => key,
  );
  const gone = { versions: 0, markers: 0 };
  const bytes = { deleted: 0, kept: 0 };
  let retained = 0;
  await inParallel(atOnce, [...keys.values()], async (versions) => {
    const locked: number[] = [];
    // Oldest first, so that no deletion has to move a version to the head.
    for (const row of versions.toReversed()) {
      const outcome = await unlessDamaged(() =>
        removeSeenVersion(ctx, bucket, { row, requestId: state.requestId }),
      );
      if (outcome instanceof MetadataDamaged) damaged.push(outcome);
      if (outcome === 'kept') locked.push(row.size);
      if (outcome !== 'gone') continue;
      gone[row.marker ? 'markers' : 'versions'] += 1;
      bytes.deleted += row.size;
      // A held version stood under the marker. It is the head now, and the next phase will count it there.
      if (row.marker && row.slot === headSlot) locked.pop();
    }
    retained += locked.length;
    bytes.kept += locked.reduce((sum, size) => sum + size, 0);
  });
  const { versions, markers, uploads } = state.deleted;
  const next: Emptying = {
    ...countDamaged(ctx, bucket, { state, damaged }),
    deleted: { versions: versions + gone.versions, markers: markers + gone.markers, uploads },
    kept: state.kept + retained,
    bytes: {
      deleted: (state.bytes?.deleted ?? 0) + bytes.deleted,
      kept: (state.bytes?.kept ?? 0) + bytes.kept,
    },
  };
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return atEnd(ctx, bucket, next);
  return { ...next, after: { space: last.space, key: last.key, slot: last.slot } };
}

function countDamaged(
  ctx: Ctx,
  bucket: BucketRow,
  { state, damaged }: { readonly state: Emptying; readonly damaged: readonly MetadataDamaged[] },
): Emptying {
  if (damaged.length === 0) return state;
  reportDamaged(ctx, { bucket: bucket.name, left: 'a bucket is not emptied of all its rows', damaged });
  return { ...state, damaged: (state.damaged ?? 0) + damaged.length };
}

/** The next phase; the last one counts what is left. */
async function atEnd(ctx: Ctx, bucket: BucketRow, { after: _, ...state }: Emptying): Promise<Emptying> {
  const phase = phases[phases.indexOf(state.phase) + 1] ?? 'done';
  if (phase !== 'done') return { ...state, phase };
  const versions = await soundPage(ctx.metadata.scan(objectsAt(bucket)), 1);
  const uploads = await soundPage(ctx.metadata.scan(uploadsIn(bucket.id)), 1);
  const left = [versions, uploads].flatMap(({ rows, damaged }) => [...rows, ...damaged]);
  return { ...state, phase, empty: left.length === 0 };
}

async function abortPage(
  ctx: Ctx,
  bucket: BucketRow,
  { state, isCurrent }: Page,
): Promise<Emptying | undefined> {
  const after = state.after as { readonly key: string; readonly uploadId: string } | undefined;
  const cursor = ctx.metadata.scan(uploadsIn(bucket.id), after === undefined ? {} : { after });
  const { rows, damaged: unread, isEnd } = await soundPage(cursor, pageRows);
  if (!(await isCurrent())) return undefined;
  const damaged = [...unread];
  let aborted = 0;
  await inParallel(atOnce, rows, async ({ row }) => {
    const outcome = await unlessDamaged(() => abortOpen(ctx, row.uploadId, state.requestId));
    if (outcome instanceof MetadataDamaged) damaged.push(outcome);
    else if (outcome) aborted += 1;
  });
  const next: Emptying = {
    ...countDamaged(ctx, bucket, { state, damaged }),
    deleted: { ...state.deleted, uploads: state.deleted.uploads + aborted },
  };
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return atEnd(ctx, bucket, next);
  return { ...next, after: { key: last.key, uploadId: last.uploadId } };
}
