/**
 * The events of a bucket: a row of the `notify` queue for every event and sink that its
 * notification configuration names, in the commit of the change. Names and messages are the public API's:
 * https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 * Below: the events for an application that embeds the gateway.
 */

import { memoizeEach } from '../../base/bounded-cache.ts';
import { describeError } from '../../base/text/describe-error.ts';
import type { Context } from '../../context.ts';
import { laneSlot, queuedTask } from '../../metadata/background/hourly-queues.ts';
import type { NotifyTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { ObjectEvent, OnEvent } from '../../ports/application.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Delivery, EventRecord, EventSink, EventSinks, SinkMessage } from '../../ports/event-sink.ts';
import { json, type MetadataStore, type SideChange, table, text } from '../../ports/metadata-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { drawVersion, formatVersionId, versionOrder } from '../common/ids.ts';
import type { KeyMove } from '../common/recorder.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketNotification } from '../configurations/families.ts';
import {
  eventsMeet,
  findSink,
  listRules,
  meetsKeyFilter,
  type Notification,
  readKeyFilter,
  type TargetedRule,
} from '../configurations/notification.ts';
import { decodeKey } from './envelope.ts';

interface EventCause {
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
    return queuedTask(ctx, { queue: 'notify', slot }, { task, id, due, requestId });
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
  readRules(notification).flatMap(({ rule, filter }) =>
    meetsKeyFilter(filter, key) && rule.Event.some((pattern) => eventsMeet(pattern, `s3:${name}`))
      ? [rule]
      : [],
  );

/** Of a cached document: DeleteObjects asks for each of a thousand keys. */
const readRules = memoizeEach((notification: Notification) =>
  listRules(notification).map((rule) => ({ rule, filter: readKeyFilter(rule) })),
);

/** Grows with every event of a key. An event without a new version sorts after the event that created the version. */
const drawSequencer = (ctx: Ctx, { version }: ObjectRow, isFresh: boolean): string =>
  versionOrder(isFresh ? version : drawVersion(ctx, version)).toUpperCase();

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
    ...furtherData[name]?.(subject),
    ...(cause.replication && { replicationEventData: cause.replication }),
  };
}

/** The public service's ETag of a delete marker: the MD5 of nothing. */
const emptyETag = 'd41d8cd98f00b204e9800998ecf8427e';

/** What an event of a kind tells beside the object. */
const furtherData: Readonly<Record<string, (row: ObjectRow) => object | undefined>> = {
  LifecycleTransition: ({ storageClass }) => ({
    lifecycleEventData: { transitionEventData: { destinationStorageClass: storageClass } },
  }),
  'ObjectRestore:Completed': ({ restore, storageClass }) =>
    restore && {
      glacierEventData: {
        restoreEventData: {
          lifecycleRestorationExpiryTime: new Date(restore.expires).toISOString(),
          lifecycleRestoreStorageClass: storageClass,
        },
      },
    },
  'ObjectRetention:Put': ({ lock: { mode, retainUntil } = {} }) =>
    retainUntil === undefined
      ? undefined
      : { objectRetentionEventData: { mode, retainUntilDate: new Date(retainUntil).toISOString() } },
};

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
    return queuedTask(ctx, { queue: 'notify', slot }, { task, id, due, requestId });
  });
  return Promise.all(rows);
}

// Events for the application that embeds the gateway (`onEvent` of `openGateway`). At least once: a row of the `notify`
// queue for each event, in the lane of its bucket, so that a handler that fails or hangs for one bucket delays no
// other. At best effort: the handler is called after the commit, and nothing is stored.

/** No id of SVC_NOTIFY_TARGETS begins with it. */
const targetPrefix = '@application/';
const isApplicationTarget = (id: string): boolean => id.startsWith(targetPrefix);

/** The name of a target as a label of metrics: one for all buckets of the application, because tenants choose their names. */
export const labelTarget = (id: string): string => (isApplicationTarget(id) ? targetPrefix.slice(0, -1) : id);

/** Every event of a bucket, for the application. */
const applicationRule = (bucket: string): TargetedRule => ({
  Event: [],
  arn: `${targetPrefix}${bucket}`,
  service: 'sqs',
});

/** Whether the events of an application are stored; undefined where none has a handler. */
const deliveryTo = ({
  application,
}: Pick<Context, 'application'>): 'at-least-once' | 'best-effort' | undefined =>
  application?.onEvent === undefined ? undefined : (application.eventDelivery ?? 'at-least-once');

/** The id of an event that `eventChanges` makes, `<sequencer>/<request id>/…`. */
const requestIdIn = (id: string): string => id.split('/')[1] ?? '';

function toObjectEvent(id: string, record: EventRecord): ObjectEvent {
  const { bucket, object } = record.s3;
  const { size, eTag, versionId } = object;
  const { sourceIPAddress } = record.requestParameters;
  return {
    id,
    name: record.eventName,
    time: record.eventTime,
    bucket: bucket.name,
    account: bucket.ownerIdentity.principalId,
    key: decodeKey(object.key),
    ...(size === undefined ? {} : { size }),
    ...(eTag === undefined ? {} : { etag: eTag }),
    ...(versionId === undefined ? {} : { versionId }),
    sequencer: object.sequencer,
    principal: record.userIdentity.principalId,
    ...(sourceIPAddress === '' ? {} : { remote: sourceIPAddress }),
    requestId: requestIdIn(id),
  };
}

interface Calling {
  readonly onEvent: OnEvent;
  readonly clock: Pick<Clock, 'sleep'>;
  /** After it a call counts as failed. */
  readonly timeoutMs: number;
}

/** @throws what the handler throws, an Error after the timeout, and the signal's reason when it aborts first */
async function call(
  { onEvent, clock, timeoutMs }: Calling,
  event: ObjectEvent,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const answered = new AbortController();
  const late = clock.sleep(timeoutMs, AbortSignal.any([signal, answered.signal])).then(() => {
    if (answered.signal.aborted) return;
    signal.throwIfAborted();
    throw new Error(`onEvent took longer than ${timeoutMs} ms (notifyTimeout)`);
  });
  try {
    await Promise.race([late, (async () => onEvent(event))()]);
  } finally {
    answered.abort();
  }
}

/** The targets of the settings, and the application for the events of every bucket. */
export function withApplicationSink(sinks: EventSinks | undefined, calling: Calling): EventSinks {
  const deliver = async (messages: readonly SinkMessage[], signal: AbortSignal): Promise<Delivery> => {
    let delivered = 0;
    for (const { id, body } of messages) {
      // The cast: only rows of `applicationRule` come here, in the form of the public API.
      const [record] = (JSON.parse(body) as { readonly Records: readonly [EventRecord] }).Records;
      try {
        await call(calling, toObjectEvent(id, record), signal);
      } catch (cause) {
        if (signal.aborted && delivered === 0) throw signal.reason;
        if (signal.aborted) return { delivered };
        return { delivered, failure: { kind: 'failed', error: `onEvent: ${describeError(cause)}` } };
      }
      delivered += 1;
    }
    return { delivered };
  };
  const sink: EventSink = { deliver, close: async () => {} };
  return {
    open: async (id) =>
      isApplicationTarget(id) ? sink : ((await sinks?.open(id)) ?? 'this process has no sinks'),
    close: async () => sinks?.close(),
  };
}

export const applicationEvents = 'application_events';
/** Rows of this table are never stored: `callAfterCommits` takes them out of the commit. */
const unstored = table({
  name: applicationEvents,
  kind: 'plain',
  isExported: false,
  partition: [],
  sort: ['id'],
  columns: { id: text(), record: json<object>() },
});

/** Part of a commit: the handler is called once the commit has applied. */
const unstoredEvent = (id: string, record: EventRecord): SideChange => ({
  at: { table: unstored, in: {} },
  put: { id, record },
});

/** Events whose handler has not returned; further ones are dropped. */
const runningMax = 1_024;

/** The store, and the handler after its commits. `settle` waits for the calls that run. */
export function callAfterCommits(
  store: MetadataStore,
  { telemetry, ...calling }: Calling & { readonly telemetry: Pick<Telemetry, 'log'> },
): { readonly metadata: MetadataStore; settle(): Promise<void> } {
  const running = new Set<Promise<void>>();
  const never = new AbortController().signal;
  const start = ({ put }: { readonly put: object }): void => {
    // The cast: `unstoredEvent` makes these rows.
    const { id, record } = put as { readonly id: string; readonly record: EventRecord };
    const event = toObjectEvent(id, record);
    const about = { event: event.name, bucket: event.bucket, key: event.key };
    if (running.size >= runningMax) {
      telemetry.log('WARN', 'an event was dropped: onEvent is slower than the changes', about, 'onEvent');
      return;
    }
    const done = call(calling, event, never)
      .catch((cause: unknown) => telemetry.log('WARN', 'onEvent failed', { ...about, cause }, 'onEvent'))
      .finally(() => running.delete(done));
    running.add(done);
  };
  const split = (changes: readonly SideChange[]) => {
    const isEvent = (change: SideChange): change is SideChange & { readonly put: object } =>
      change.at.table === unstored && 'put' in change;
    return [changes.filter(isEvent), changes.filter((change) => change.at.table !== unstored)] as const;
  };
  const commit: MetadataStore['commit'] = async (at, changes, options) => {
    const [events, then] = split(options?.then ?? []);
    if (events.length === 0) return store.commit(at, changes, options);
    const outcome = await store.commit(at, changes, { ...options, then });
    if (outcome.applied) events.forEach(start);
    return outcome;
  };
  const apply: MetadataStore['apply'] = async (changes) => {
    const [events, stored] = split(changes);
    if (stored.length > 0) await store.apply(stored);
    events.forEach(start);
  };
  const own = new Map<PropertyKey, unknown>([
    ['commit', commit],
    ['apply', apply],
    ['behind', store.behind ?? store],
  ]);
  const metadata = new Proxy(store, {
    get(_, name) {
      if (own.has(name)) return own.get(name);
      const value: unknown = Reflect.get(store, name, store);
      const bound = typeof value === 'function' ? value.bind(store) : value;
      if (typeof value === 'function') own.set(name, bound);
      return bound;
    },
  });
  return {
    metadata,
    async settle() {
      await Promise.allSettled(running);
    },
  };
}
