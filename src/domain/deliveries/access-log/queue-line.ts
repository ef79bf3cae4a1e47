/** Queues a line for the log of a bucket. */
import type { Context } from '../../../context.ts';
import { queuedByHour } from '../../../metadata/background/hourly-queues.ts';
import type { AccessLogTask } from '../../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { SideChange } from '../../../ports/metadata-store.ts';
import { readDocument } from '../../configurations/documents.ts';
import { bucketLogging, type Logging } from '../../configurations/families.ts';
import { shownVersion } from '../../objects/read-object.ts';
import { drawId } from '../../objects/version-ids.ts';
import { accessLogLine } from './log-line.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

export interface Log {
  readonly bucket: BucketRow;
  readonly to: NonNullable<Logging['LoggingEnabled']>;
}

interface Line {
  readonly line: string;
  /** When what the line is about began (ms since the epoch). */
  readonly time: number;
  /** Unique in the queue. */
  readonly id: string;
  readonly requestId: string;
}

export function queueLine(
  ctx: Pick<Ctx, 'caches' | 'metadata' | 'clock'>,
  { bucket, to }: Log,
  { line, time, id, requestId }: Line,
): Promise<SideChange> {
  const { TargetBucket, TargetPrefix, TargetObjectKeyFormat } = to;
  const by = TargetObjectKeyFormat?.PartitionedPrefix?.PartitionDateSource;
  const task: AccessLogTask = {
    bucketId: bucket.id,
    bucket: bucket.name,
    account: bucket.owner,
    region: bucket.region,
    time: Math.round(time),
    target: {
      bucket: TargetBucket,
      prefix: TargetPrefix,
      ...(by === undefined ? {} : { partitionedBy: by }),
    },
    line,
  };
  return queuedByHour(
    ctx,
    { queue: 'access-log', slotKey: bucket.id },
    { task, id, due: ctx.clock.now(), requestId },
  );
}

/** An action of the service itself: no request, so no client, status or time that it took. */
export interface ServiceAction {
  /** Such as `S3.EXPIRE.OBJECT`. */
  readonly operation: string;
  readonly key: string;
  /** The version that the action made, changed or removed. */
  readonly version: ObjectRow | undefined;
  readonly requestId: string;
}

/** The line of an action, for its commit. Costs nothing where the bucket has no log. */
export async function lineOfAction(
  ctx: Ctx,
  bucket: BucketRow,
  { operation, key, version, requestId }: ServiceAction,
): Promise<readonly SideChange[]> {
  if (!(bucketLogging.name in bucket.documents)) return [];
  const to = (await readDocument(ctx, bucket, bucketLogging))?.LoggingEnabled;
  if (to === undefined) return [];
  const time = ctx.clock.now();
  const line = accessLogLine({
    bucketOwner: bucket.owner,
    bucket: bucket.name,
    time,
    requester: 'AmazonS3',
    requestId,
    operation,
    key,
    objectSize: version?.size,
    versionId: version === undefined || bucket.versioning === '' ? undefined : shownVersion(version),
  });
  return [await queueLine(ctx, { bucket, to }, { line, time, id: drawId(ctx.random), requestId })];
}
