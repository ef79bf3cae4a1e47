/** The replication status of versions, and the end of their tasks. */

import { BoundedCache } from '../../base/bounded-cache.ts';
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  dueRowsOfHour,
  finishedRow,
  finishHourlyRows,
  listDueHours,
} from '../../metadata/background/hourly-consumer.ts';
import { AbandonedTasks } from '../../metadata/background/queues.ts';
import { failedReplication } from '../../metadata/background/replication.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { findVersion, objectsAt } from '../../metadata/objects/objects.ts';
import type { HourlyRow, ReplicationTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { isRowFailure, type SideChange, type Stored } from '../../ports/metadata-store.ts';
import { refreshBucket } from '../common/buckets.ts';
import { passOverDamage } from '../common/damaged-buckets.ts';
import {
  nameDestination,
  replicationTask,
  rowDestination,
} from '../configurations/replication-destination.ts';
import { services } from '../deliveries/service-write.ts';
import { eventChanges, hasListener } from '../events/events.ts';
import { endsDelivery } from '../lanes/pass.ts';
import { pendingStamp } from '../objects/replication-queue.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'telemetry'>;

/** Attempts against commits that change the row of a version meanwhile. */
const statusAttempts = 8;

interface StatusChange {
  readonly replication: 'COMPLETED' | 'FAILED';
  readonly then?: readonly SideChange[];
}

/**
 * Stores a status, unless a change of tags, ACL or lock has queued a task since: then that task stores one. A row that changed otherwise,
 * because its bytes were moved, or in a way that no rule selects, gets it all the same.
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
    if (
      found === undefined ||
      found.row.version !== version ||
      pendingStamp(found.row) !== pendingStamp(sent.row)
    )
      return false;
    const { row, revision }: Stored<ObjectRow> = found;
    const put = withStatus(row, replication);
    if (put === undefined) return false;
    const change = { put, expect: revision };
    const outcome = await ctx.metadata.commit(objectsAt(bucket), [change], { then });
    if (outcome.applied) return true;
    if (outcome.because === 'fenced') {
      const now = await refreshIfThere(ctx, bucket);
      if (now === undefined) return false;
      bucket = now;
    }
    found = await findVersion(ctx.metadata, bucket, key, isNull ? 'null' : version);
  }
  // Of this row, so the versions of others are sent on.
  throw fail('OperationAborted', `Other requests keep changing the version ${version} of ${key}.`);
}

/** @returns undefined where the bucket is gone @throws OperationAborted while a change holds the bucket closed */
async function refreshIfThere(ctx: Ctx, bucket: BucketRow): Promise<BucketRow | undefined> {
  try {
    return await refreshBucket(ctx, bucket);
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === 'NoSuchBucket') return undefined;
    throw cause;
  }
}

/** A replica stays one, and no longer waits. @returns nothing where the row has its last status already */
function withStatus(
  { unsent, pendingStamp: _, ...row }: ObjectRow,
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
  return late.atEnd(ctx, about, {
    event: 'OperationReplicatedAfterThreshold',
    store: (events) =>
      storeStatus(ctx, bucket, found, { replication: 'COMPLETED', then: [finishedRow(task), ...events] }),
  });
};

/** The version of a task is not sent. Where a change has queued another task since, that one decides about its status. */
export async function storeFailed(
  ctx: Ctx,
  row: HourlyRow,
  { why, isDropped = false }: { readonly why: string; readonly isDropped?: boolean },
): Promise<void> {
  const task = replicationTask(row);
  const bucket = (await findBucket(ctx.metadata, task.bucket))?.row;
  if (bucket?.id !== task.bucketId || task.removed) return;
  const found = await findVersion(ctx.metadata, bucket, task.key, task.isNull ? 'null' : task.version);
  if (found === undefined || found.row.version !== task.version) return;
  if (task.stamp !== undefined && task.stamp !== pendingStamp(found.row)) return;
  const about = { bucket, version: found.row, task: row, why };
  const isNotTracked = isDropped && findThreshold(task) !== undefined;
  const then = await replicationEvents(
    ctx,
    ['OperationFailedReplication', ...(isNotTracked ? (['OperationNotTracked'] as const) : [])],
    about,
  );
  await storeStatus(ctx, bucket, found, { replication: 'FAILED', then });
}

/** The same for a row that is moved to another slot. A version has one row for each destination. */
const nameTask = (row: HourlyRow): string => `${row.due} ${row.id} ${nameDestination(rowDestination(row))}`;

/**
 * The failure is stored before the task is removed: a kill between the two leaves both, and forgets none. Where rows of
 * the version are damaged, it keeps its status.
 */
export async function giveUp(
  ctx: Ctx & Pick<Context, 'config'>,
  row: HourlyRow,
  { error, why }: { readonly error: string; readonly why: string },
): Promise<void> {
  const task = replicationTask(row);
  const { metadata, telemetry, config } = ctx;
  const now = await metadata.now();
  const expiresAt = now + config.SVC_REPLICATION_FAILED_RETENTION;
  await ctx.caches.of(AbandonedTasks).giveUp(nameTask(row), now, {
    store: (at) => metadata.apply(failedReplication(row, { error, now: at, expiresAt })),
    async finish() {
      await passOverDamage(ctx, {
        bucket: task.bucket,
        left: 'a version that is not replicated keeps its replication status',
        run: () => storeFailed(ctx, row, { why }),
      });
      await finishHourlyRows(metadata, [row]);
    },
  });
  const destination = rowDestination(row);
  telemetry.count('svc_replication_given_up_total', { peer: destination.peer, why });
  telemetry.log('ERROR', 'a version is not replicated', {
    bucket: task.bucket,
    key: task.key,
    version: task.version,
    destination: nameDestination(destination),
    error,
  });
}

// The events `s3:Replication:*` of the public API: versions that were given up, and those of rules with metrics or a replication time that
// are late. https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html

type ReplicationEventsCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'application'>;

type LateCtx = ReplicationEventsCtx & Pick<Context, 'telemetry'>;

type ReplicationEvent =
  | 'OperationFailedReplication'
  | 'OperationMissedThreshold'
  | 'OperationReplicatedAfterThreshold'
  | 'OperationNotTracked';

const minuteMs = 60_000;
/** That of the public service. */
const thresholdMinutes = 15;

/** How long a version may take before it is late; undefined where the rule asks for no events about that. */
function findThreshold({ destination: { Metrics, ReplicationTime } }: ReplicationTask): number | undefined {
  if (ReplicationTime?.Status === 'Enabled') return ReplicationTime.Time.Minutes * minuteMs;
  if (Metrics?.Status !== 'Enabled') return undefined;
  return (Metrics.EventThreshold?.Minutes ?? thresholdMinutes) * minuteMs;
}

const isLate = (row: HourlyRow, now: number): boolean =>
  row.due + (findThreshold(replicationTask(row)) ?? Infinity) <= now;

/** The names of the public service for causes of a failure. */
const reasons: Readonly<Record<string, string>> = {
  'no-bucket': 'DstBucketNotFound',
  'no-versioning': 'DstBucketUnversioned',
  denied: 'DstPutObjectNotPermitted',
  'client-key': 'SrcObjectNotEligible',
  superseded: 'SrcObjectNotEligible',
  'key-changed': 'SrcObjectNotEligible',
  source: 'SrcGetObjectNotPermitted',
};

interface About {
  readonly bucket: BucketRow;
  readonly version: ObjectRow;
  readonly task: HourlyRow;
  /** The cause of a failure, as metrics count it. */
  readonly why?: string | undefined;
}

/** The rows of events for one commit. */
async function replicationEvents(
  ctx: ReplicationEventsCtx,
  events: readonly ReplicationEvent[],
  { bucket, version, task, why }: About,
): Promise<readonly SideChange[]> {
  if (!hasListener(ctx, bucket)) return [];
  const { rule, destination, marker } = replicationTask(task);
  const replication = {
    replicationRuleId: rule,
    destinationBucket: destination.Bucket,
    s3Operation: marker ? 'OBJECT_DELETE' : 'OBJECT_PUT',
    requestTime: new Date(task.due).toISOString(),
    ...(why === undefined ? {} : { failureReason: reasons[why] ?? why }),
  };
  return eventChanges(
    ctx,
    { bucket, amended: version, gone: [] },
    {
      events: events.map((event) => `Replication:${event}`),
      principalId: services.inventory,
      source: services.inventory,
      requestId: task.requestId,
      replication,
    },
  );
}

/** Rows that a look for late versions reads; those behind them are announced when they arrive. */
const lookedAtMax = 20_000;

/** Sends an event for each version that waits for longer than its rule allows. After a change of the leader it may come again. */
export class LateVersions {
  readonly #announced = new BoundedCache<true>({ name: 'late-replicas', entriesMax: lookedAtMax });

  async announce(ctx: LateCtx, signal: AbortSignal): Promise<void> {
    const now = await ctx.metadata.now();
    let left = lookedAtMax;
    for (const place of await listDueHours(ctx, 'replication', now))
      for await (const row of dueRowsOfHour(ctx, place, { now, max: left })) {
        signal.throwIfAborted();
        left -= 1;
        if (isLate(row, now)) await this.#tryAnnounce(ctx, row);
        if (left <= 0) return;
      }
  }

  /** Stores the end of a version with the events that it has if it is late. */
  async atEnd<T>(
    ctx: ReplicationEventsCtx,
    about: About,
    {
      event,
      store,
    }: {
      readonly event: ReplicationEvent;
      readonly store: (events: readonly SideChange[]) => Promise<T>;
    },
  ): Promise<T> {
    if (!isLate(about.task, await ctx.metadata.now())) return store([]);
    const isNew = this.#isNew(about.task);
    const events: ReplicationEvent[] = isNew ? ['OperationMissedThreshold', event] : [event];
    try {
      return await store(await replicationEvents(ctx, events, about));
    } catch (cause) {
      if (isNew) this.#announced.delete(nameTask(about.task));
      throw cause;
    }
  }

  #isNew(task: HourlyRow): boolean {
    const name = nameTask(task);
    if (this.#announced.get(name)) return false;
    this.#announced.set(name, true);
    return true;
  }

  /** A row whose event cannot be stored, or whose bucket is damaged, stops neither the others nor their deliveries. */
  async #tryAnnounce(ctx: LateCtx, row: HourlyRow): Promise<void> {
    try {
      await this.#announceOne(ctx, row);
    } catch (cause) {
      // The next look tries it again, unless no store would take it.
      if (!isRowFailure(cause)) this.#announced.delete(nameTask(row));
      if (endsDelivery(cause)) throw cause;
      const { bucket, key, version } = replicationTask(row);
      const about = { bucket, key, version, cause };
      ctx.telemetry.log('ERROR', 'a late version is not announced', about);
    }
  }

  async #announceOne(ctx: ReplicationEventsCtx, task: HourlyRow): Promise<void> {
    const { bucket: name, bucketId, key, version, isNull, removed } = replicationTask(task);
    if (removed || !this.#isNew(task)) return;
    const bucket = (await findBucket(ctx.metadata, name))?.row;
    if (bucket?.id !== bucketId || !hasListener(ctx, bucket)) return;
    const found = (await findVersion(ctx.metadata, bucket, key, isNull ? 'null' : version))?.row;
    if (found?.version !== version) return;
    await ctx.metadata.apply(
      await replicationEvents(ctx, ['OperationMissedThreshold'], { bucket, version: found, task }),
    );
  }
}
