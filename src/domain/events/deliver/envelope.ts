/** The text of a message in the form that the `envelope` of its target names. */
import type { NotifyTarget } from '../../../config/values/notify-targets.ts';
import { decodeKey } from './subject.ts';

export interface Wrapped {
  readonly body: string;
  readonly contentType: string;
}

/** The parts of an event record that the other forms name elsewhere. */
interface EventRecord {
  readonly awsRegion: string;
  readonly eventTime: string;
  readonly eventName: string;
  readonly userIdentity: { readonly principalId: string };
  readonly requestParameters: { readonly sourceIPAddress: string };
  readonly s3: {
    readonly bucket: { readonly name: string; readonly arn: string; readonly ownerIdentity: object };
    readonly object: {
      readonly key: string;
      readonly size?: number;
      readonly eTag?: string;
      readonly versionId?: string;
      readonly sequencer: string;
    };
  };
}

/** A test event has no record: every target gets it in the form of the public service. */
export function wrapMessage(
  message: object,
  {
    id,
    requestId,
    envelope,
  }: {
    readonly id: string;
    readonly requestId: string;
    readonly envelope: NonNullable<NotifyTarget['envelope']>;
  },
): Wrapped {
  // The cast: the events of a bucket build the records.
  const [record] = (message as { readonly Records?: readonly EventRecord[] }).Records ?? [];
  if (envelope === 's3' || record === undefined)
    return { body: JSON.stringify(message), contentType: 'application/json' };
  if (envelope === 'cloudevents')
    return {
      body: JSON.stringify(cloudEvent(record, id)),
      contentType: 'application/cloudevents+json',
    };
  return {
    body: JSON.stringify(eventBridgeEvent(record, { id, requestId })),
    contentType: 'application/json',
  };
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

/** An event of EventBridge: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html */
function eventBridgeEvent(
  record: EventRecord,
  { id, requestId }: { readonly id: string; readonly requestId: string },
) {
  const { eventName, s3, eventTime } = record;
  const [kind = '', how = ''] = eventName.split(':');
  const { key, size, eTag, versionId, sequencer } = s3.object;
  const isRemoval = kind === 'ObjectRemoved' || kind === 'LifecycleExpiration';
  const isCreation = kind === 'ObjectCreated';
  return {
    version: '0',
    id,
    'detail-type': detailTypes[eventName] ?? detailTypes[kind] ?? eventName,
    source: 'aws.s3',
    account: accountOf(s3.bucket.ownerIdentity),
    time: `${eventTime.slice(0, 19)}Z`,
    region: record.awsRegion,
    resources: [s3.bucket.arn],
    detail: {
      version: '0',
      bucket: { name: s3.bucket.name },
      object: {
        // Keys are encoded in records only.
        key: decodeKey(key),
        ...(size === undefined ? {} : { size }),
        ...(eTag === undefined ? {} : { etag: eTag }),
        ...(versionId === undefined ? {} : { 'version-id': versionId }),
        sequencer,
      },
      'request-id': requestId,
      requester: record.userIdentity.principalId,
      'source-ip-address': record.requestParameters.sourceIPAddress,
      ...(isCreation ? { reason: reasons[how] ?? how } : {}),
      ...(isRemoval
        ? {
            reason: kind === 'ObjectRemoved' ? 'DeleteObject' : 'Lifecycle Expiration',
            'deletion-type': how === 'DeleteMarkerCreated' ? 'Delete Marker Created' : 'Permanently Deleted',
          }
        : {}),
    },
  };
}

const accountOf = (owner: object): string => (owner as { readonly principalId?: string }).principalId ?? '';
