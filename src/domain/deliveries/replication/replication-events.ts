/**
 * The events `s3:Replication:*` of the public API: versions that were given up, and those of rules with metrics or a replication time that
 * are late. https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 */
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { Context } from '../../../context.ts';
import { dueRowsOfHour, listDueHours } from '../../../metadata/background/hourly-consumer.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { findVersion } from '../../../metadata/objects/objects.ts';
import type { HourlyRow, ReplicationTask } from '../../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { SideChange } from '../../../ports/metadata-store.ts';
import { eventChanges, hasListener } from '../../events/events.ts';
import { services } from '../service-write.ts';
import { taskOf } from './destination.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'application'>;

export type ReplicationEvent =
  | 'OperationFailedReplication'
  | 'OperationMissedThreshold'
  | 'OperationReplicatedAfterThreshold'
  | 'OperationNotTracked';

const minuteMs = 60_000;
/** That of the public service. */
const thresholdMinutes = 15;

/** How long a version may take before it is late; undefined where the rule asks for no events about that. */
export function thresholdOf({
  destination: { Metrics, ReplicationTime },
}: ReplicationTask): number | undefined {
  if (ReplicationTime?.Status === 'Enabled') return ReplicationTime.Time.Minutes * minuteMs;
  if (Metrics?.Status !== 'Enabled') return undefined;
  return (Metrics.EventThreshold?.Minutes ?? thresholdMinutes) * minuteMs;
}

const isLate = (row: HourlyRow, now: number): boolean =>
  row.due + (thresholdOf(taskOf(row)) ?? Infinity) <= now;

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
export async function replicationEvents(
  ctx: Ctx,
  events: readonly ReplicationEvent[],
  { bucket, version, task, why }: About,
): Promise<readonly SideChange[]> {
  if (!hasListener(ctx, bucket)) return [];
  const { rule, destination, marker } = taskOf(task);
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

  async announce(ctx: Ctx, signal: AbortSignal): Promise<void> {
    const now = await ctx.metadata.now();
    let left = lookedAtMax;
    for (const place of await listDueHours(ctx, 'replication', now))
      for await (const row of dueRowsOfHour(ctx, place, { now, max: left })) {
        signal.throwIfAborted();
        left -= 1;
        if (isLate(row, now)) await this.#announceOne(ctx, row);
        if (left <= 0) return;
      }
  }

  /** For the commit of a status: a version that is late at its end. */
  async atEnd(ctx: Ctx, about: About, event: ReplicationEvent): Promise<readonly SideChange[]> {
    if (!isLate(about.task, await ctx.metadata.now())) return [];
    const events: ReplicationEvent[] = this.#isNew(about.task)
      ? ['OperationMissedThreshold', event]
      : [event];
    return replicationEvents(ctx, events, about);
  }

  #isNew({ slot, due, id }: HourlyRow): boolean {
    const name = `${slot} ${due} ${id}`;
    if (this.#announced.get(name)) return false;
    this.#announced.set(name, true);
    return true;
  }

  async #announceOne(ctx: Ctx, task: HourlyRow): Promise<void> {
    const { bucket: name, bucketId, key, version, isNull, removed } = taskOf(task);
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
