/** The events of a bucket: one row for each change and each target that its configuration names. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { NotifyTask } from '../../src/metadata/records/queues.ts';
import type { EventRecord } from '../../src/ports/event-sink.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { complete, createUpload, deletion, md5, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, eventsOf, tasksOf, tickingClock } from '../support/recorded.ts';

const sinks = JSON.stringify([
  { id: 'hooks', accounts: ['*'], type: 'webhook', url: 'https://example.com/hook', token: 'hidden-token' },
  { id: 'jobs', accounts: ['*'], type: 'redis', url: 'redis://example.com', key: 'events' },
]);

interface Rule {
  readonly id: string;
  readonly events?: readonly string[];
  readonly prefix?: string;
  readonly suffix?: string;
  readonly sink?: string;
}

const everything = ['ObjectCreated', 'ObjectRemoved', 'ObjectTagging', 'ObjectAcl', 'ObjectRestore'].map(
  (kind) => `s3:${kind}:*`,
);

const rule = ({ id, events = everything, prefix = '', suffix = '', sink = 'jobs' }: Rule): string =>
  `<QueueConfiguration><Id>${id}</Id>${events.map((event) => `<Event>${event}</Event>`).join('')}<Filter><S3Key>
   <FilterRule><Name>prefix</Name><Value>${prefix}</Value></FilterRule>
   <FilterRule><Name>suffix</Name><Value>${suffix}</Value></FilterRule></S3Key></Filter>
   <Queue>arn:aws:sqs:default:123456789012:${sink}</Queue></QueueConfiguration>`;

async function openWorld(options: GatewayWorldOptions, ...rules: readonly Rule[]) {
  const world = await openGateway({ ...options, settings: { SVC_NOTIFY_TARGETS: sinks } });
  await world.client.put('/bucket');
  const body = `<NotificationConfiguration>${rules.map(rule).join('')}</NotificationConfiguration>`;
  const put = await world.client.put('/bucket?notification', { body });
  if (put.status !== 200) throw new Error(put.text);
  return world;
}

const inShort = ({ eventName, s3: { object } }: EventRecord): string => `${eventName} ${object.key}`;

describe.each(backends)('on %s', (backend) => {
  test('every change of an object sends one event, with its name in the public API', async () => {
    await using world = await openWorld({ backend, clock: tickingClock() }, { id: 'all' });
    const { client, context } = world;
    await client.put('/bucket/key', { body: 'one' });
    await client.put('/bucket/key', { body: 'two' });
    await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } });
    await client.put('/bucket/key?tagging', {
      body: '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>',
    });
    await client.delete('/bucket/key?tagging');
    await client.put('/bucket/key?acl', { headers: { '*-acl': 'public-read' } });
    const uploadId = await createUpload(client, '/bucket/parts');
    const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' })];
    for (const _ of [1, 2]) await complete(client, '/bucket/parts', { uploadId, parts });
    await client.delete('/bucket/copy');
    await client.delete('/bucket/copy');
    await client.get('/bucket/key');
    await client.head('/bucket/key');
    expect((await eventsOf(context)).map(inShort)).toEqual([
      'ObjectCreated:Put key',
      'ObjectCreated:Put key',
      'ObjectCreated:Copy copy',
      'ObjectTagging:Put key',
      'ObjectTagging:Delete key',
      'ObjectAcl:Put key',
      'ObjectCreated:CompleteMultipartUpload parts',
      'ObjectRemoved:Delete copy',
    ]);
  });

  test('a restore records the event of its request and that of its completion immediately', async () => {
    await using world = await openWorld({ backend, clock: tickingClock() }, { id: 'all' });
    const { client, context } = world;
    await client.put('/bucket/key', { body: 'x', headers: { '*-storage-class': 'GLACIER' } });
    const body = '<RestoreRequest><Days>1</Days></RestoreRequest>';
    expect((await client.post('/bucket/key?restore', { body })).status).toBe(202);
    const [, asked, done] = await eventsOf(context);
    expect([asked, done].map((event) => event?.eventName)).toEqual([
      'ObjectRestore:Post',
      'ObjectRestore:Completed',
    ]);
    expect(asked).not.toHaveProperty('glacierEventData');
    expect(done).toHaveProperty('glacierEventData.restoreEventData', {
      lifecycleRestorationExpiryTime: expect.stringMatching(/T00:00:00.000Z$/),
      lifecycleRestoreStorageClass: 'GLACIER',
    });
    const [row] = (await auditRows(context)).slice(-1);
    expect(row).toMatchObject({ action: 'RestoreObject', status: 202 });
  });

  test('delete markers and permanent deletions have their own event names', async () => {
    await using world = await openWorld({ backend, clock: tickingClock() }, { id: 'all' });
    const { client, context } = world;
    await setVersioning(client, 'bucket', 'Enabled');
    const version = (await client.put('/bucket/key', { body: 'one' })).header('*-version-id') ?? '';
    const marker = (await client.delete('/bucket/key')).header('*-version-id') ?? '';
    await client.delete(`/bucket/key?versionId=${version}`);
    await client.delete(`/bucket/key?versionId=${marker}`);
    await client.delete(`/bucket/key?versionId=${marker}`);
    const events = await eventsOf(context);
    expect(events.map((event) => [event.eventName, event.s3.object.versionId])).toEqual([
      ['ObjectCreated:Put', version],
      ['ObjectRemoved:DeleteMarkerCreated', marker],
      ['ObjectRemoved:Delete', version],
      ['ObjectRemoved:Delete', marker],
    ]);
    const order = events.slice(0, 3).map(({ s3 }) => s3.object.sequencer);
    expect(order).toEqual([...new Set(order)].sort());
  });

  test('DeleteObjects sends an event for each deleted key, and leaves one audit row and a page with its keys', async () => {
    await using world = await openWorld({ backend }, { id: 'all' });
    const { client, context } = world;
    for (const key of ['a', 'b', 'kept']) await client.put(`/bucket/${key}`, { body: key });
    const many = await client.post('/bucket?delete', {
      body: deletion(['a', 'b', 'b', 'none', '<Key>kept</Key><ETag>other</ETag>']),
    });
    expect(many.all('Code')).toEqual(['PreconditionFailed']);
    const removed = (await eventsOf(context)).filter(({ eventName }) =>
      eventName.startsWith('ObjectRemoved'),
    );
    expect(removed.map(inShort).sort()).toEqual(['ObjectRemoved:Delete a', 'ObjectRemoved:Delete b']);
    const rows = await auditRows(context);
    expect(rows.filter(({ action }) => action === 'DeleteObjects').map(({ keys }) => keys?.length)).toEqual([
      undefined,
      5,
    ]);
  });

  test('a refused request sends no event', async () => {
    await using world = await openWorld({ backend }, { id: 'all' });
    const { client, context } = world;
    await client.put('/bucket/key', { body: 'x', headers: { 'if-match': '"e"' } });
    await client.put('/bucket/key', { body: 'x', headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' } });
    await world.bob.put('/bucket/key', { body: 'x' });
    await client.delete('/bucket/none');
    await client.put('/bucket/none?tagging', { body: '<Tagging><TagSet></TagSet></Tagging>' });
    expect(await eventsOf(context)).toEqual([]);
  });

  test('a change that was retried sends one event', async () => {
    let conflicts = 0;
    const wrap = (context: Context): Context => {
      const commit: MetadataStore['commit'] = (at, changes, options) => {
        const isFirst = (at.table as { name: string }).name === 'objects' && conflicts++ % 2 === 0;
        return isFirst
          ? Promise.resolve({ applied: false, because: 'conflict' })
          : context.metadata.commit(at, changes, options);
      };
      return { ...context, metadata: faulty(context.metadata, { commit }) };
    };
    await using world = await openWorld({ backend, wrap }, { id: 'all' });
    await world.client.put('/bucket/key', { body: 'x' });
    await world.client.delete('/bucket/key');
    expect(conflicts).toBe(4);
    expect((await eventsOf(world.context)).map(inShort).sort()).toEqual([
      'ObjectCreated:Put key',
      'ObjectRemoved:Delete key',
    ]);
    const objects = (await auditRows(world.context)).filter(({ key }) => key === 'key');
    expect(objects).toHaveLength(2);
  });

  test('event names, wildcards, prefixes and suffixes select events and targets', async () => {
    await using world = await openWorld(
      { backend },
      { id: 'images', events: ['s3:ObjectCreated:*'], prefix: 'img/', suffix: '.jpg', sink: 'hooks' },
      { id: 'copies', events: ['s3:ObjectCreated:Copy'], prefix: 'sp%20ace/' },
      { id: 'gone', events: ['s3:ObjectRemoved:Delete'] },
    );
    const { client, context } = world;
    await client.put('/bucket/img/a.jpg', { body: 'x' });
    await client.put('/bucket/img/a.png', { body: 'x' });
    await client.put('/bucket/a.jpg', { body: 'x' });
    for (const key of ['sp%20ace/b', 'other'])
      await client.put(`/bucket/${key}`, { headers: { '*-copy-source': '/bucket/a.jpg' } });
    await client.delete('/bucket/a.jpg');
    const told = (await eventsOf(context)).map((event) => `${event.s3.configurationId}: ${inShort(event)}`);
    expect(told.sort()).toEqual([
      'copies: ObjectCreated:Copy sp+ace/b',
      'gone: ObjectRemoved:Delete a.jpg',
      'images: ObjectCreated:Put img/a.jpg',
    ]);
    const tasks = await tasksOf<NotifyTask>(context, 'notify');
    expect(new Set(tasks.map(({ sink }) => sink))).toEqual(new Set(['hooks', 'jobs']));
  });
});

test('a record is that of the public API', async () => {
  await using world = await openWorld({}, { id: 'all' });
  const { client, context } = world;
  const put = await client.put("/bucket/a%20b/%C3%BC'(1)%2B", { body: 'hello' });
  const [record] = await eventsOf(context);
  expect(record).toEqual({
    eventVersion: '2.5',
    eventSource: 'aws:s3',
    awsRegion: 'default',
    eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    eventName: 'ObjectCreated:Put',
    userIdentity: { principalId: alice.owner },
    requestParameters: { sourceIPAddress: '127.0.0.1' },
    responseElements: {
      'x-amz-request-id': put.header('*-request-id'),
      'x-amz-id-2': put.header('*-id-2'),
    },
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'all',
      bucket: {
        name: 'bucket',
        ownerIdentity: { principalId: alice.owner },
        arn: 'arn:aws:s3:::bucket',
      },
      object: {
        key: 'a+b/%C3%BC%27%281%29%2B',
        size: 5,
        eTag: md5('hello'),
        sequencer: expect.stringMatching(/^[0-9A-F]{16}$/),
      },
    },
  });
});

test('PutBucketNotificationConfiguration sends one test event to each sink, and none when it is refused', async () => {
  await using world = await openWorld(
    {},
    { id: 'a', events: ['s3:ObjectCreated:Put'], sink: 'hooks' },
    { id: 'b', events: ['s3:ObjectCreated:Copy'], sink: 'hooks' },
    { id: 'c', events: ['s3:ObjectRemoved:*'] },
  );
  const { client, context } = world;
  const body = `<NotificationConfiguration>${rule({ id: 'x', sink: 'none' })}</NotificationConfiguration>`;
  expect((await client.put('/bucket?notification', { body })).status).toBe(400);
  await client.put('/bucket?notification', { body: '<NotificationConfiguration/>' });
  const tasks = await tasksOf<NotifyTask>(context, 'notify');
  expect(tasks.map(({ sink }) => sink).sort()).toEqual(['hooks', 'jobs']);
  for (const { message } of tasks)
    expect(message).toEqual({
      Service: 'Amazon S3',
      Event: 's3:TestEvent',
      Time: expect.stringMatching(/Z$/),
      Bucket: 'bucket',
      RequestId: expect.stringMatching(/^[0-9A-F]{16}$/),
      HostId: expect.stringMatching(/^[0-9A-F]{16}$/),
    });
});

test('no secret is in what waits for a sink', async () => {
  await using world = await openWorld({}, { id: 'all' });
  await world.client.put('/bucket/key', { body: 'x', headers: { '*-meta-word': 'swordfish' } });
  await world.client.presigned('PUT', '/bucket/key', { body: 'x' });
  const text = JSON.stringify(await tasksOf(world.context, 'notify'));
  expect(text).not.toMatch(/secret|signature|credential|swordfish|hidden-token/i);
});
