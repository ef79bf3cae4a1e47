/**
 * The events of a bucket: a row of the `notify` queue for every event and sink that its
 * notification configuration names, in the commit of the change. Names and messages are the public API's:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 */

import type { Context } from '../../context.ts';
import { laneSlot, queuedByHour } from '../../metadata/background/hourly-queues.ts';
import type { NotifyTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { EventRecord } from '../../ports/event-sink.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { drawVersion, formatVersionId, orderOf } from '../common/ids.ts';
import type { KeyMove } from '../common/recorder.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketNotification } from '../configurations/families.ts';
import {
  eventsMeet,
  findSink,
  listRules,
  type Notification,
  readKeyFilter,
  type TargetedRule,
} from '../configurations/notification.ts';
import { applicationRule, deliveryTo, unstoredEvent } from './application-events.ts';

export interface EventCause {
  /**
   * Events of the change, such as `ObjectCreated:Put`. The suffix of `ObjectRemoved` and `LifecycleExpiration` follows from what
   * happened to the key.
   */
  readonly events: readonly string[];
  /** The unique id of the caller, or the name of a service. */
  readonly principalId: string;
  /** The client's address. */
  readonly source: string;
  readonly requestId: string;
  /** Of an event `Replication:…`. */
  readonly replication?: object;
}

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'application'>;

/** Whether anything takes events of the bucket. */
export const hasListener = (ctx: Pick<Context, 'application'>, bucket: BucketRow): boolean =>
  bucketNotification.name in bucket.documents || deliveryTo(ctx) !== undefined;

/** The event rows of a change. Costs nothing where nothing takes events of the bucket. */
export async function eventChanges(
  ctx: Ctx,
  move: KeyMove,
  cause: EventCause,
): Promise<readonly SideChange[]> {
  const { bucket, fresh, amended, gone } = move;
  const subject = fresh ?? amended ?? gone[0];
  if (subject === undefined || !hasListener(ctx, bucket)) return [];
  const notification = await readDocument(ctx, bucket, bucketNotification);
  const delivery = deliveryTo(ctx);
  const own = delivery === undefined ? [] : [applicationRule(bucket.name)];
  const matches = cause.events.flatMap((event) => {
    const name = chooseName(event, move);
    if (name === undefined) return [];
    const rules = notification === undefined ? [] : rulesFor(notification, { name, key: subject.key });
    return [...rules, ...own].map((rule) => ({ name, rule }));
  });
  if (matches.length === 0) return [];
  const due = await ctx.metadata.now();
  const sequencer = drawSequencer(ctx, subject, fresh !== undefined);
  const rows = matches.map(async ({ name, rule }, n) => {
    const record = buildRecord({ name, bucket, subject, cause, sequencer, rule, at: ctx.clock.now() });
    const task: NotifyTask = {
      sink: findSink(rule) ?? rule.arn,
      message: { Records: [record] },
      account: bucket.owner,
      arn: rule.arn,
      ...(/^(ObjectRestore|LifecycleTransition)/.test(name) ? { storageClass: subject.storageClass } : {}),
    };
    const { requestId } = cause;
    // Rows of one millisecond sort by id, and the sequencer grows with every event of a key.
    const id = `${sequencer}/${requestId}/${subject.version}/${n}`;
    if (own.includes(rule) && delivery === 'best-effort') return unstoredEvent(id, record);
    const slot = laneSlot(task.sink, subject.key);
    return queuedByHour(ctx, { queue: 'notify', slot }, { task, id, due, requestId });
  });
  return Promise.all(rows);
}

function chooseName(event: string, { fresh, amended }: KeyMove): string | undefined {
  if (event !== 'ObjectRemoved' && event !== 'LifecycleExpiration') return event;
  // ReplicateState creates a delete marker, or changes a version and removes nothing.
  if (amended !== undefined) return undefined;
  return `${event}:${fresh?.marker ? 'DeleteMarkerCreated' : 'Delete'}`;
}

const rulesFor = (
  notification: Notification,
  { name, key }: { readonly name: string; readonly key: string },
): readonly TargetedRule[] =>
  listRules(notification).filter((rule) => {
    if (!rule.Event.some((pattern) => eventsMeet(pattern, `s3:${name}`))) return false;
    const { prefix, suffix } = readKeyFilter(rule);
    return key.startsWith(prefix) && key.endsWith(suffix);
  });

/** Grows with every event of a key. An event without a new version sorts after the event that created the version. */
const drawSequencer = (ctx: Ctx, { version }: ObjectRow, isFresh: boolean): string =>
  orderOf(isFresh ? version : drawVersion(ctx, version)).toUpperCase();

interface Happened {
  /** Such as `ObjectCreated:Put`. */
  readonly name: string;
  readonly bucket: BucketRow;
  readonly subject: ObjectRow;
  readonly cause: EventCause;
  readonly sequencer: string;
  readonly rule: TargetedRule;
  readonly at: number;
}

function buildRecord({ name, bucket, subject, cause, sequencer, rule, at }: Happened): EventRecord {
  const { requestId, principalId, source } = cause;
  const isThere = !/^(ObjectRemoved|LifecycleExpiration)/.test(name);
  return {
    eventVersion: '2.5',
    eventSource: 'aws:s3',
    awsRegion: bucket.region,
    eventTime: new Date(at).toISOString(),
    eventName: name,
    userIdentity: { principalId },
    requestParameters: { sourceIPAddress: source },
    responseElements: { 'x-amz-request-id': requestId, 'x-amz-id-2': requestId },
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: rule.Id ?? '',
      bucket: {
        name: bucket.name,
        ownerIdentity: { principalId: bucket.owner },
        arn: `arn:aws:s3:::${bucket.name}`,
      },
      object: {
        key: encodedKey(subject.key),
        ...(isThere ? { size: subject.size, eTag: subject.etag } : {}),
        ...(name.endsWith(':DeleteMarkerCreated') ? { eTag: emptyETag } : {}),
        ...(bucket.versioning === '' ? {} : { versionId: formatVersionId(subject) }),
        sequencer,
      },
    },
    ...glacierData(name, subject),
    ...lifecycleData(name, subject),
    ...(cause.replication === undefined ? {} : { replicationEventData: cause.replication }),
  };
}

/** The public service's ETag of a delete marker: the MD5 of nothing. */
const emptyETag = 'd41d8cd98f00b204e9800998ecf8427e';

const lifecycleData = (name: string, { storageClass }: ObjectRow): object =>
  name === 'LifecycleTransition'
    ? { lifecycleEventData: { transitionEventData: { destinationStorageClass: storageClass } } }
    : {};

function glacierData(name: string, { restore, storageClass }: ObjectRow): object {
  if (name !== 'ObjectRestore:Completed' || restore === undefined) return {};
  return {
    glacierEventData: {
      restoreEventData: {
        lifecycleRestorationExpiryTime: new Date(restore.expires).toISOString(),
        lifecycleRestoreStorageClass: storageClass,
      },
    },
  };
}

/** Form encoding, except that slashes stay. */
const encodedKey = (key: string): string =>
  encodeURIComponent(key)
    .replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+')
    .replaceAll('%2F', '/');

/** What a new configuration is about. */
export interface NewConfiguration {
  readonly bucket: Pick<BucketRow, 'name' | 'owner'>;
  readonly requestId: string;
}

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html, "test message" */
export const testEvent = (
  { clock }: Pick<Context, 'clock'>,
  { bucket, requestId }: { readonly bucket?: string; readonly requestId: string },
): object => ({
  Service: 'Amazon S3',
  Event: 's3:TestEvent',
  Time: new Date(clock.now()).toISOString(),
  // An operator tests a target, not a bucket.
  ...(bucket === undefined ? {} : { Bucket: bucket }),
  RequestId: requestId,
  HostId: requestId,
});

/** The rows of the test event for sinks of a new configuration, for the commit that stores it. */
export async function testEvents(
  ctx: Ctx,
  sinks: Iterable<string>,
  configuration: NewConfiguration,
): Promise<readonly SideChange[]> {
  const { bucket, requestId } = configuration;
  const due = await ctx.metadata.now();
  const message = testEvent(ctx, { bucket: bucket.name, requestId });
  const rows = [...sinks].map((sink) => {
    const task: NotifyTask = { sink, message, account: bucket.owner };
    const id = `${requestId}/test/${sink}`;
    const slot = laneSlot(sink, bucket.name);
    return queuedByHour(ctx, { queue: 'notify', slot }, { task, id, due, requestId });
  });
  return Promise.all(rows);
}
