/** Versions whose replication was given up, and that they are tried again. */
import type { Context } from '../../../context.ts';
import type { Refusal } from '../../../errors/refusal.ts';
import { fail } from '../../../errors/refusal.ts';
import { laneSlot, queuedByHour } from '../../../metadata/background/hourly-queues.ts';
import {
  everyFailedReplication,
  type FailurePlace,
  removeFailedReplication,
} from '../../../metadata/background/replication/failed.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { findVersion, objectsAt } from '../../../metadata/objects/objects.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../../../metadata/records/queues.ts';
import type { ObjectRow } from '../../../metadata/tables.ts';
import type { SideChange } from '../../../ports/metadata-store.ts';
import { markPending } from '../../configurations/replication.ts';
import { stampOf } from '../../objects/replica/stamp.ts';
import { nameDestination, readDestination } from './destination.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

/** Rows that one request lists or changes. */
const listedMax = 1_000;

export interface FailureAbout {
  readonly bucket: string;
  /** The peer and its bucket, such as `far/photos`. */
  readonly destination: string;
}

export interface FailureFilter {
  readonly bucket?: string | undefined;
  readonly peer?: string | undefined;
  readonly id?: string | undefined;
  /** Why the caller may not change a failure: one that `id` names is refused, others are passed over. */
  readonly denialOf?: ((failure: FailureAbout) => Promise<Refusal | undefined>) | undefined;
}

/** The cast: each queue has one type of task. */
const failureOf = (row: QueueRow): FailedReplication => row.task as FailedReplication;

function matches(row: QueueRow, { bucket, peer, id }: FailureFilter): boolean {
  const failure = failureOf(row);
  return (
    (bucket === undefined || failure.bucket === bucket) &&
    (peer === undefined || readDestination(failure.destination.Bucket)?.peer === peer) &&
    (id === undefined || row.id === id)
  );
}

export async function listFailures(
  { metadata }: Pick<Ctx, 'metadata'>,
  filter: FailureFilter,
  {
    after,
    limit = listedMax,
  }: { readonly after?: FailurePlace | undefined; readonly limit?: number | undefined } = {},
): Promise<{ readonly rows: readonly QueueRow[]; readonly isTruncated: boolean }> {
  const rows: QueueRow[] = [];
  for await (const row of everyFailedReplication(metadata, after)) {
    if (!matches(row, filter)) continue;
    if (rows.length === limit) return { rows, isTruncated: true };
    rows.push(row);
  }
  return { rows, isTruncated: false };
}

/** Queues failures again. The task is queued before its failure is removed: a kill between the two leaves both, and loses none. */
export async function changeFailures(
  ctx: Ctx,
  filter: FailureFilter,
): Promise<{ readonly changed: number; readonly isTruncated: boolean }> {
  const { rows, isTruncated } = await listFailures(ctx, filter);
  let changed = 0;
  for (const row of rows) {
    const { error: _, since: __, ...task } = failureOf(row);
    const target = readDestination(task.destination.Bucket);
    const destination = target === undefined ? '' : nameDestination(target);
    const denial = await filter.denialOf?.({ bucket: task.bucket, destination });
    if (denial !== undefined && filter.id !== undefined) throw denial;
    if (denial !== undefined) continue;
    const slot = laneSlot(destination, task.key);
    const due = await ctx.metadata.now();
    const { id, requestId } = row;
    const queue = (stamp: string | undefined): Promise<SideChange> => {
      const queued: ReplicationTask = { ...task, isResync: true, ...(stamp === undefined ? {} : { stamp }) };
      const options = { task: queued, id, due, requestId };
      return queuedByHour(ctx, { queue: 'replication', slot }, options);
    };
    await queuePending(ctx, task, queue);
    await ctx.metadata.apply([removeFailedReplication(row)]);
    changed += 1;
  }
  return { changed, isTruncated };
}

/** Attempts against commits that change the row of a version meanwhile. */
const pendingAttempts = 16;

/** Queues a task with the status of its version in one commit, so that lifecycle rules leave the version until it is sent. */
async function queuePending(
  { metadata }: Ctx,
  task: ReplicationTask,
  queue: (stamp: string | undefined) => Promise<SideChange>,
): Promise<void> {
  const name = task.isNull ? 'null' : task.version;
  for (let attempt = 0; attempt < pendingAttempts; attempt += 1) {
    const bucket = (await findBucket(metadata, task.bucket))?.row;
    const found =
      bucket?.id === task.bucketId && !task.removed
        ? await findVersion(metadata, bucket, task.key, name)
        : undefined;
    const isThere = found !== undefined && found.row.version === task.version;
    // The version is gone, or needs no mark: the task is sent all the same.
    if (bucket === undefined || !isThere || !wasGivenUp(found.row))
      return metadata.apply([await queue(isThere ? stampOf(found.row) : undefined)]);
    const change = { put: markPending(found.row), expect: found.revision };
    const then = [await queue(stampOf(found.row))];
    if ((await metadata.commit(objectsAt(bucket), [change], { then })).applied) return;
  }
  throw fail('OperationAborted', `Other requests keep changing the version ${task.version} of ${task.key}.`);
}

/** A version that was sent since by another task keeps its status. */
const wasGivenUp = ({ replication, unsent }: ObjectRow): boolean =>
  replication === 'FAILED' || (replication === 'REPLICA' && !unsent);
