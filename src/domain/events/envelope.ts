/** The text of a message in the form that the `envelope` of its target names. */

import { describeServerOfUrl } from '../../base/text/server-address.ts';
import type { NotifyTarget } from '../../config/notify-targets.ts';
import type { HourlyRow } from '../../metadata/records/queues.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import { type EventRecord, type SinkTarget, sinkKinds } from '../../ports/event-sink.ts';
import type { Attributes } from '../../ports/trace.ts';

interface Wrapped {
  readonly body: string;
  readonly contentType: string;
}

interface Wrapping {
  readonly row: Pick<HourlyRow, 'id' | 'requestId'>;
  readonly envelope: NonNullable<NotifyTarget['envelope']>;
  readonly storageClass: string | undefined;
  readonly hasher: Pick<Hasher, 'sha256Hex'>;
}

/** A test event has no record: every target gets it in the form of the public service. */
export function wrapMessage(message: object, wrapping: Wrapping): Wrapped {
  const { row, envelope } = wrapping;
  // The cast: the events of a bucket build the records.
  const [record] = (message as { readonly Records?: readonly EventRecord[] }).Records ?? [];
  if (envelope === 's3' || record === undefined)
    return { body: JSON.stringify(message), contentType: 'application/json' };
  if (envelope === 'cloudevents')
    return {
      body: JSON.stringify(cloudEvent(record, row.id)),
      contentType: 'application/cloudevents+json',
    };
  return { body: JSON.stringify(eventBridgeEvent(record, wrapping)), contentType: 'application/json' };
}

/** CloudEvents 1.0 in its JSON format, with the attributes of the specification's adapter for S3. */
const cloudEvent = (record: EventRecord, id: string) => ({
  specversion: '1.0',
  id,
  source: `aws:s3.${record.awsRegion}.${record.s3.bucket.name}`,
  type: `com.amazonaws.s3.${record.eventName}`,
  subject: record.s3.object.key,
  time: record.eventTime,
  datacontenttype: 'application/json',
  data: record,
});

/** The detail types by the event's first word. */
const detailTypes: Readonly<Record<string, string>> = {
  ObjectCreated: 'Object Created',
  ObjectRemoved: 'Object Deleted',
  LifecycleExpiration: 'Object Deleted',
  'ObjectRestore:Post': 'Object Restore Initiated',
  'ObjectRestore:Completed': 'Object Restore Completed',
  'ObjectRestore:Delete': 'Object Restore Expired',
  LifecycleTransition: 'Object Storage Class Changed',
  ObjectAcl: 'Object ACL Updated',
  'ObjectTagging:Put': 'Object Tags Added',
  'ObjectTagging:Delete': 'Object Tags Deleted',
};

/** The reason field of a creation. */
const reasons: Readonly<Record<string, string>> = {
  Put: 'PutObject',
  Post: 'POST Object',
  Copy: 'CopyObject',
  CompleteMultipartUpload: 'CompleteMultipartUpload',
};

/** The name of the public service in what it does by itself. */
const serviceName = 's3.amazonaws.com';

/** An event of EventBridge: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html */
function eventBridgeEvent(record: EventRecord, { row, storageClass, hasher }: Wrapping) {
  const { eventName, s3, eventTime } = record;
  const [kind = '', how = ''] = eventName.split(':');
  const { key, size, eTag, versionId, sequencer } = s3.object;
  const source = record.requestParameters.sourceIPAddress;
  // The service completes a restore by itself, and carries out the rules of buckets.
  const isByService = eventName === 'ObjectRestore:Completed' || source === serviceName;
  return {
    version: '0',
    id: formatUuid(hasher.sha256Hex(row.id)),
    'detail-type': detailTypes[eventName] ?? detailTypes[kind] ?? eventName,
    source: 'aws.s3',
    account: principalAccount(s3.bucket.ownerIdentity),
    time: `${eventTime.slice(0, 19)}Z`,
    region: record.awsRegion,
    resources: [s3.bucket.arn],
    detail: {
      version: '0',
      'event-version': '1.1',
      bucket: { name: s3.bucket.name },
      object: {
        // Keys are encoded in records only.
        key: decodeKey(key),
        ...(size === undefined ? {} : { size }),
        ...(eTag === undefined ? {} : { etag: eTag }),
        ...(versionId === undefined ? {} : { 'version-id': versionId }),
        sequencer,
      },
      'request-id': row.requestId,
      requester: isByService ? serviceName : record.userIdentity.principalId,
      ...(isByService || source === '' ? {} : { 'source-ip-address': source }),
      ...reasonField(kind, how),
      ...storageClassFields(eventName, storageClass),
      ...restoreFields(record),
    },
  };
}

function reasonField(kind: string, how: string): object {
  if (kind === 'ObjectCreated') return { reason: reasons[how] ?? how };
  if (kind !== 'ObjectRemoved' && kind !== 'LifecycleExpiration') return {};
  return {
    reason: kind === 'ObjectRemoved' ? 'DeleteObject' : 'Lifecycle Expiration',
    'deletion-type': how === 'DeleteMarkerCreated' ? 'Delete Marker Created' : 'Permanently Deleted',
  };
}

/** `storageClass` is that of the object after the event. */
function storageClassFields(eventName: string, storageClass: string | undefined): object {
  if (storageClass === undefined) return {};
  if (eventName === 'LifecycleTransition') return { 'destination-storage-class': storageClass };
  return /:(Post|Completed)$/.test(eventName) ? { 'source-storage-class': storageClass } : {};
}

const restoreFields = ({ glacierEventData }: EventRecord): object =>
  glacierEventData === undefined
    ? {}
    : {
        'restore-expiry-time': `${glacierEventData.restoreEventData.lifecycleRestorationExpiryTime.slice(0, 19)}Z`,
      };

/** Equal in each delivery of the event: a UUID of version 8 from its hash. */
const formatUuid = (hash: string): string =>
  `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`;

const principalAccount = (owner: object): string =>
  (owner as { readonly principalId?: string }).principalId ?? '';

// What a delivery to a target is, in traces.

/** @param id of a target that the settings may no longer have */
export function describeDelivery(targets: readonly SinkTarget[], id: string, messages: number): Attributes {
  const target = targets.find((each) => each.id === id);
  if (target === undefined) return { 'messaging.destination.name': id };
  const { system, operation, destination } = sinkKinds[target.type].messaging;
  const { routingKey } = target;
  return {
    'messaging.system': system,
    'messaging.operation.type': 'send',
    'messaging.operation.name': typeof operation === 'string' ? operation : operation(target),
    'messaging.destination.name': destination?.(target) || id,
    'messaging.batch.message_count': messages,
    ...(routingKey === undefined ? {} : { 'messaging.rabbitmq.destination.routing_key': routingKey }),
    ...describeServerOfUrl(target.url),
  };
}

// The bucket and the object that a message is about.

interface Message {
  /** Of a test event. */
  readonly Bucket?: string;
  readonly Records?: readonly {
    readonly s3: {
      readonly bucket: { readonly name: string };
      readonly object: { readonly key: string; readonly sequencer: string };
    };
  }[];
}

export interface Subject {
  readonly bucket: string;
  /** Absent in test events. */
  readonly key?: string;
  readonly sequencer?: string;
}

/** Records have encoded keys. */
export const decodeKey = (key: string): string => decodeURIComponent(key.replaceAll('+', ' '));

export function readSubject(message: object): Subject {
  // The cast: the events of a bucket build the messages.
  const { Bucket = '', Records } = message as Message;
  const s3 = Records?.[0]?.s3;
  if (s3 === undefined) return { bucket: Bucket };
  return {
    bucket: s3.bucket.name,
    key: decodeKey(s3.object.key),
    sequencer: s3.object.sequencer,
  };
}
