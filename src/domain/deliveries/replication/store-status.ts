/** The replication status of versions, and the end of their tasks. */
import type { Context } from '../../../context.ts';
import { finishedRow, finishHourlyRows } from '../../../metadata/background/hourly-consumer.ts';
import { failedReplication } from '../../../metadata/background/replication/failed.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { findVersion, objectsAt } from '../../../metadata/objects/objects.ts';
import type { HourlyRow } from '../../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import { type SideChange, type Stored, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { stampOf } from '../../objects/replica/stamp.ts';
import { destinationOf, nameDestination, taskOf } from './destination.ts';
import { type LateVersions, replicationEvents, thresholdOf } from './replication-events.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'telemetry'>;

/** Attempts against commits that change the row of a version meanwhile. */
const statusAttempts = 8;

interface StatusChange {
  readonly replication: 'COMPLETED' | 'FAILED';
  readonly then?: readonly SideChange[];
}

/**
 * Stores a status, unless tags, ACL or lock have changed since: then the task of that change stores one. A row that changed otherwise,
 * because its bytes were moved, gets it all the same.
 * @returns whether it was stored
 */
async function storeStatus(
  ctx: Ctx,
  read: BucketRow,
  sent: Stored<ObjectRow>,
  { replication, then = [] }: StatusChange,
): Promise<boolean> {
  const { key, version, isNull } = sent.row;
  let bucket = read;
  let found: Stored<ObjectRow> | undefined = sent;
  for (let attempt = 0; attempt < statusAttempts; attempt += 1) {
    if (found === undefined || found.row.version !== version || stampOf(found.row) !== stampOf(sent.row))
      return false;
    const { row, revision }: Stored<ObjectRow> = found;
    const put = withStatus(row, replication);
    if (put === undefined) return false;
    const change = { put, expect: revision };
    if ((await ctx.metadata.commit(objectsAt(bucket), [change], { then })).applied) return true;
    // The commit is refused too where the bucket has changed since it was read.
    const now = (await findBucket(ctx.metadata, read.name))?.row;
    if (now?.id !== read.id) return false;
    bucket = now;
    found = await findVersion(ctx.metadata, bucket, key, isNull ? 'null' : version);
  }
  throw new StoreUnavailable(`the replication status of ${key} could not be stored`);
}

/** A replica stays one, and no longer waits. @returns nothing where the row has its last status already */
function withStatus(
  { unsent, ...row }: ObjectRow,
  replication: StatusChange['replication'],
): ObjectRow | undefined {
  if (row.replication === 'REPLICA') return unsent ? row : undefined;
  return row.replication === 'PENDING' || row.replication === 'FAILED' ? { ...row, replication } : undefined;
}

interface Completed {
  readonly found: Stored<ObjectRow>;
  readonly task: HourlyRow;
  readonly late: LateVersions;
}

/** @returns whether the task was removed with it */
export const complete = async (
  ctx: Ctx,
  bucket: BucketRow,
  { found, task, late }: Completed,
): Promise<boolean> => {
  const about = { bucket, version: found.row, task };
  const events = await late.atEnd(ctx, about, 'OperationReplicatedAfterThreshold');
  return storeStatus(ctx, bucket, found, { replication: 'COMPLETED', then: [finishedRow(task), ...events] });
};

/** The version of a task is not sent. Where it has changed since, the task of that change decides about its status. */
export async function storeFailed(
  ctx: Ctx,
  row: HourlyRow,
  { why, isDropped = false }: { readonly why: string; readonly isDropped?: boolean },
): Promise<void> {
  const task = taskOf(row);
  const bucket = (await findBucket(ctx.metadata, task.bucket))?.row;
  if (bucket?.id !== task.bucketId || task.removed) return;
  const found = await findVersion(ctx.metadata, bucket, task.key, task.isNull ? 'null' : task.version);
  if (found === undefined || found.row.version !== task.version) return;
  if (task.stamp !== undefined && task.stamp !== stampOf(found.row)) return;
  const about = { bucket, version: found.row, task: row, why };
  const isNotTracked = isDropped && thresholdOf(task) !== undefined;
  const then = await replicationEvents(
    ctx,
    ['OperationFailedReplication', ...(isNotTracked ? (['OperationNotTracked'] as const) : [])],
    about,
  );
  await storeStatus(ctx, bucket, found, { replication: 'FAILED', then });
}

/** The failure is stored before the task is removed: a kill between the two leaves both, and forgets none. */
export async function giveUp(
  ctx: Ctx,
  row: HourlyRow,
  { error, why }: { readonly error: string; readonly why: string },
): Promise<void> {
  const task = taskOf(row);
  const { metadata, telemetry } = ctx;
  await metadata.apply([failedReplication(row, { error, now: await metadata.now() })]);
  await storeFailed(ctx, row, { why });
  await finishHourlyRows(metadata, [row]);
  const { peer } = destinationOf(row);
  const destination = nameDestination(destinationOf(row));
  telemetry.replicationGivenUp(peer, why);
  telemetry.log('ERROR', 'a version is not replicated', {
    bucket: task.bucket,
    key: task.key,
    version: task.version,
    destination,
    error,
  });
}
