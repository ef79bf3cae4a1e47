/** Each kind of event in each envelope, as the public documentation describes it. */
import { expect, test, vi } from 'vitest';
import { eventChanges } from '../../src/domain/events/events.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { openNotifyWorld, until } from '../support/notify-world.ts';
import { openWebhookSink, type Received } from '../support/webhook-sink.ts';

const everything = ['ObjectCreated', 'ObjectRemoved', 'ObjectTagging', 'ObjectAcl', 'ObjectRestore']
  .map((kind) => `<Event>s3:${kind}:*</Event>`)
  .join('');
const ruleFor = (target: string): string =>
  `<QueueConfiguration><Id>${target}</Id>${everything}<Queue>arn:aws:sqs:default:123456789012:${target}</Queue></QueueConfiguration>`;

interface Bridge {
  readonly id: string;
  readonly 'detail-type': string;
  readonly detail: Readonly<Record<string, unknown>> & { readonly object: Readonly<Record<string, unknown>> };
}

/** In the order in which they happened: the sequencers of one key grow. */
const bodies = <T>(received: readonly Received[]): readonly T[] =>
  received.filter(({ body }) => !body.includes('s3:TestEvent')).map(({ body }) => JSON.parse(body) as T);

test('every kind of event has the fields of the public record, of CloudEvents and of EventBridge', async () => {
  await using records = await openWebhookSink();
  await using clouds = await openWebhookSink();
  await using bridges = await openWebhookSink();
  const sinks = { records, clouds, bridges };
  const envelopes = { records: 's3', clouds: 'cloudevents', bridges: 'eventbridge' } as const;
  await using world = await openNotifyWorld({
    targets: Object.entries(sinks).map(([id, { url }]) => ({
      id,
      url,
      envelope: envelopes[id as keyof typeof envelopes],
    })),
    rules: [],
  });
  const { client } = world;
  await setVersioning(client, 'bucket', 'Enabled');
  const all = ['records', 'clouds', 'bridges'].map(ruleFor);
  // One configuration may not name overlapping rules, so each target has its round of the same changes.
  for (const [n, body] of all.entries()) {
    const configured = await client.put('/bucket?notification', {
      body: `<NotificationConfiguration>${body}</NotificationConfiguration>`,
    });
    expect(configured.status, configured.text).toBe(200);
    const key = `/bucket/a%20key-${n}`;
    let marker = '';
    const changes = [
      () => client.put(key, { body: 'body', headers: { '*-storage-class': 'GLACIER' } }),
      () => client.post(`${key}?restore`, { body: '<RestoreRequest><Days>1</Days></RestoreRequest>' }),
      () =>
        client.put(`${key}?tagging`, {
          body: '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>',
        }),
      () => client.delete(`${key}?tagging`),
      () => client.put(`${key}?acl`, { headers: { '*-acl': 'public-read' } }),
      async () => {
        marker = (await client.delete(key)).header('*-version-id') ?? '';
      },
      () => client.delete(`${key}?versionId=${marker}`),
      async () => {
        const uploadId = await createUpload(client, key);
        const parts = [await putPart(client, key, { uploadId, number: 1, body: 'p' })];
        await complete(client, key, { uploadId, parts });
      },
    ];
    for (const change of changes) {
      // Changes of one millisecond that create no version have no order.
      world.clock.hurry(2);
      await change();
    }
  }
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);

  const names = [
    'ObjectCreated:Put',
    'ObjectRestore:Post',
    'ObjectRestore:Completed',
    'ObjectTagging:Put',
    'ObjectTagging:Delete',
    'ObjectAcl:Put',
    'ObjectRemoved:DeleteMarkerCreated',
    'ObjectRemoved:Delete',
    'ObjectCreated:CompleteMultipartUpload',
  ];
  type EventRecord = Readonly<Record<string, unknown>> & {
    readonly s3: { readonly object: Readonly<Record<string, unknown>> };
  };
  const told = bodies<{ readonly Records: readonly EventRecord[] }>(records.received).flatMap(
    ({ Records }) => Records,
  );
  expect(told.map(({ eventName }) => eventName)).toEqual(names);
  for (const record of told) {
    expect(record).toMatchObject({
      eventVersion: '2.5',
      eventSource: 'aws:s3',
      awsRegion: 'default',
      eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      userIdentity: { principalId: 'alice-account' },
      requestParameters: { sourceIPAddress: '127.0.0.1' },
      responseElements: { 'x-amz-request-id': expect.any(String), 'x-amz-id-2': expect.any(String) },
      s3: {
        s3SchemaVersion: '1.0',
        configurationId: 'records',
        bucket: {
          name: 'bucket',
          ownerIdentity: { principalId: 'alice-account' },
          arn: 'arn:aws:s3:::bucket',
        },
        object: {
          key: 'a+key-0',
          versionId: expect.any(String),
          sequencer: expect.stringMatching(/^[0-9A-F]+$/),
        },
      },
    });
    expect('glacierEventData' in record).toBe(record['eventName'] === 'ObjectRestore:Completed');
  }
  const object = (n: number) => told[n]?.s3.object;
  expect(object(0)).toMatchObject({ size: 4, eTag: '841a2d689ad86bd1611447453c22c6fc' });
  expect(object(6)).toMatchObject({ eTag: 'd41d8cd98f00b204e9800998ecf8427e' });
  expect(object(7)).not.toHaveProperty('eTag');

  const events = bodies<Readonly<Record<string, unknown>>>(clouds.received);
  expect(events.map(({ type }) => type)).toEqual(names.map((name) => `com.amazonaws.s3.${name}`));
  expect(new Set(events.map(({ id }) => id)).size).toBe(names.length);
  for (const event of events)
    expect(event).toMatchObject({
      specversion: '1.0',
      source: 'aws:s3.default.bucket',
      subject: 'a+key-1',
      time: expect.stringMatching(/Z$/),
      datacontenttype: 'application/json',
      data: { eventVersion: '2.5', s3: { object: { key: 'a+key-1' } } },
    });

  const bridged = bodies<Bridge>(bridges.received);
  expect(bridged.map((each) => each['detail-type'])).toEqual([
    'Object Created',
    'Object Restore Initiated',
    'Object Restore Completed',
    'Object Tags Added',
    'Object Tags Deleted',
    'Object ACL Updated',
    'Object Deleted',
    'Object Deleted',
    'Object Created',
  ]);
  for (const { id, detail, ...rest } of bridged) {
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(rest).toMatchObject({
      version: '0',
      source: 'aws.s3',
      account: 'alice-account',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      region: 'default',
      resources: ['arn:aws:s3:::bucket'],
    });
    expect(detail).toMatchObject({ version: '0', 'event-version': '1.1', bucket: { name: 'bucket' } });
    expect(detail.object['key']).toBe('a key-2');
  }
  const detail = (n: number) => bridged[n]?.detail;
  expect(detail(0)).toMatchObject({
    reason: 'PutObject',
    requester: 'alice-account',
    'source-ip-address': '127.0.0.1',
  });
  expect(detail(0)).not.toHaveProperty('source-storage-class');
  expect(detail(1)).toMatchObject({ 'source-storage-class': 'GLACIER', requester: 'alice-account' });
  expect(detail(1)).not.toHaveProperty('restore-expiry-time');
  expect(detail(2)).toMatchObject({
    'source-storage-class': 'GLACIER',
    'restore-expiry-time': expect.stringMatching(/T00:00:00Z$/),
    requester: 's3.amazonaws.com',
  });
  expect(detail(2)).not.toHaveProperty('source-ip-address');
  expect(detail(6)).toMatchObject({ reason: 'DeleteObject', 'deletion-type': 'Delete Marker Created' });
  expect(detail(7)).toMatchObject({ reason: 'DeleteObject', 'deletion-type': 'Permanently Deleted' });
  expect(detail(8)).toMatchObject({ reason: 'CompleteMultipartUpload' });
});

test('events of lifecycle rules name the service, the new storage class and the kind of deletion', async () => {
  await using records = await openWebhookSink();
  await using bridges = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: [
      { id: 'records', url: records.url },
      { id: 'bridges', url: bridges.url, envelope: 'eventbridge' },
    ],
    rules: [],
  });
  const { client } = world;
  const { context } = world.world;
  const events = ['s3:LifecycleTransition', 's3:LifecycleExpiration:*', 's3:ObjectRestore:Delete']
    .map((name) => `<Event>${name}</Event>`)
    .join('');
  for (const target of ['records', 'bridges']) {
    const queue = `<QueueConfiguration>${events}<Queue>arn:aws:sqs:default:123456789012:${target}</Queue></QueueConfiguration>`;
    await client.put('/bucket?notification', {
      body: `<NotificationConfiguration>${queue}</NotificationConfiguration>`,
    });
    await client.put('/bucket/key', { body: 'x', headers: { '*-storage-class': 'GLACIER' } });
    const bucket = (await findBucket(context.metadata, 'bucket'))?.row;
    const row = bucket && (await findLiveHead(context.metadata, bucket, 'key'))?.row;
    if (bucket === undefined || row === undefined) throw new Error('the object is missing');
    const cause = { principalId: 's3.amazonaws.com', source: '' };
    const moves = [
      { events: ['LifecycleTransition'], move: { bucket, amended: row, gone: [] } },
      { events: ['ObjectRestore:Delete'], move: { bucket, amended: row, gone: [] } },
      { events: ['LifecycleExpiration'], move: { bucket, gone: [row] } },
    ];
    for (const { events: named, move } of moves) {
      world.clock.hurry(2);
      const requestId = String(named);
      await context.metadata.apply(await eventChanges(context, move, { ...cause, events: named, requestId }));
    }
  }
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  const told = bodies<{ readonly Records: readonly object[] }>(records.received).flatMap(
    ({ Records }) => Records,
  );
  expect(told).toMatchObject([
    {
      eventName: 'LifecycleTransition',
      userIdentity: { principalId: 's3.amazonaws.com' },
      lifecycleEventData: { transitionEventData: { destinationStorageClass: 'GLACIER' } },
    },
    { eventName: 'ObjectRestore:Delete' },
    { eventName: 'LifecycleExpiration:Delete' },
  ]);
  for (const record of told.slice(1)) expect(record).not.toHaveProperty('lifecycleEventData');
  const bridged = bodies<Bridge>(bridges.received);
  expect(bridged).toMatchObject([
    { 'detail-type': 'Object Storage Class Changed', detail: { 'destination-storage-class': 'GLACIER' } },
    { 'detail-type': 'Object Restore Expired' },
    {
      'detail-type': 'Object Deleted',
      detail: { reason: 'Lifecycle Expiration', 'deletion-type': 'Permanently Deleted' },
    },
  ]);
  for (const { detail } of bridged) {
    expect(detail['requester']).toBe('s3.amazonaws.com');
    expect(detail).not.toHaveProperty('source-ip-address');
  }
});
