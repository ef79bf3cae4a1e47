/** Versions whose replication was given up, and that they are tried again. */
import type { Context } from '../../../context.ts';
import { laneSlot, queuedByHour } from '../../../metadata/background/hourly-queues.ts';
import {
  everyFailedReplication,
  type FailurePlace,
  removeFailedReplication,
} from '../../../metadata/background/replication/failed.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../../../metadata/records/queues.ts';
import { nameDestination, readDestination } from './destination.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

/** Rows that one request lists or changes. */
const listedMax = 1_000;

export interface FailureFilter {
  readonly bucket?: string | undefined;
  readonly peer?: string | undefined;
  readonly id?: string | undefined;
  /** Called with the bucket of each failure before it is changed, where `id` names failures without their bucket. */
  readonly assertMay?: ((bucket: string) => Promise<void>) | undefined;
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
  for (const row of rows) {
    const { error: _, since: __, ...task } = failureOf(row);
    if (filter.id !== undefined && filter.bucket === undefined) await filter.assertMay?.(task.bucket);
    const target = readDestination(task.destination.Bucket);
    const slot = laneSlot(target === undefined ? '' : nameDestination(target), task.key);
    const due = await ctx.metadata.now();
    const { id, requestId } = row;
    const queued: ReplicationTask = { ...task, isResync: true };
    await ctx.metadata.apply([
      await queuedByHour(ctx, { queue: 'replication', slot }, { task: queued, id, due, requestId }),
    ]);
    await ctx.metadata.apply([removeFailedReplication(row)]);
  }
  return { changed: rows.length, isTruncated };
}
