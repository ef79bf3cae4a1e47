/** Who caused an event, which changes have one, and the order of events that operators deliver again. */
import { expect, test, vi } from 'vitest';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { hurriedClock, openNotifyWorld, recordsIn, rule, targetsAt, until } from '../support/notify-world.ts';
import { eventsOf } from '../support/recorded.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

const configuration = (...events: readonly string[]): string =>
  `<NotificationConfiguration><QueueConfiguration>${events.map((event) => `<Event>${event}</Event>`).join('')}
   <Queue>arn:aws:sqs:default:123456789012:hook</Queue></QueueConfiguration></NotificationConfiguration>`;
const targets = JSON.stringify([
  { id: 'hook', accounts: ['*'], type: 'webhook', url: 'http://127.0.0.1:1/' },
]);

test('an event of a lifecycle rule names the service as its source', async () => {
  const clock = hurriedClock();
  await using world = await openGateway({ clock, settings: { SVC_NOTIFY_TARGETS: targets } });
  const { client, context } = world;
  await client.put('/bucket');
  await client.put('/bucket?notification', { body: configuration('s3:LifecycleExpiration:*') });
  const body =
    '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
  await client.put('/bucket?lifecycle', { body });
  await client.put('/bucket/old', { body: 'x' });
  clock.hurry(2.5 * 24 * 3_600_000);
  const unit = carryOutLifecycles(context);
  while ((await unit(new AbortController().signal)) === 'busy');
  expect(await eventsOf(context)).toMatchObject([
    {
      eventName: 'LifecycleExpiration:Delete',
      userIdentity: { principalId: 's3.amazonaws.com' },
      requestParameters: { sourceIPAddress: 's3.amazonaws.com' },
    },
  ]);
});

test('PutObjectAcl sends ObjectAcl:Put where it changes the ACL, and nothing where the ACL stays', async () => {
  await using world = await openGateway({ settings: { SVC_NOTIFY_TARGETS: targets } });
  const { client, context } = world;
  await client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
  await client.put('/bucket?notification', { body: configuration('s3:ObjectAcl:Put') });
  await client.put('/bucket/key', { body: 'x' });
  const put = async (acl: string): Promise<number> => {
    const { status: code, text } = await client.put('/bucket/key?acl', { headers: { '*-acl': acl } });
    expect(code, text).toBe(200);
    return (await eventsOf(context)).length;
  };
  const counts: number[] = [];
  for (const acl of ['private', 'authenticated-read', 'authenticated-read', 'private', 'private'])
    counts.push(await put(acl));
  expect(counts).toEqual([0, 1, 1, 2, 2]);
});

test('PutObjectRetention sends ObjectRetention:Put with the retention, and PutObjectLegalHold sends nothing', async () => {
  await using world = await openGateway({ settings: { SVC_NOTIFY_TARGETS: targets } });
  const { client, context } = world;
  await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  const events = ['s3:ObjectRetention:Put', 's3:ObjectAnnotation:*', 's3:ObjectAnnotation:Put'];
  const configured = await client.put('/bucket?notification', { body: configuration(...events) });
  expect(configured.status, configured.text).toBe(200);
  await client.put('/bucket/key', { body: 'x' });
  const until = '2999-01-01T00:00:00.000Z';
  for (const [query, body] of [
    ['legal-hold', '<LegalHold><Status>OFF</Status></LegalHold>'],
    [
      'retention',
      `<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>${until}</RetainUntilDate></Retention>`,
    ],
    ['retention', '<Retention/>'],
  ] as const) {
    const headers = { '*-bypass-governance-retention': 'true' };
    expect((await client.put(`/bucket/key?${query}`, { body, headers })).status).toBe(200);
  }
  const sent = await eventsOf(context);
  expect(sent.map(({ eventName, s3 }) => [eventName, s3.object.key])).toEqual([
    ['ObjectRetention:Put', 'key'],
    ['ObjectRetention:Put', 'key'],
  ]);
  expect(sent[0]).toHaveProperty('objectRetentionEventData', { mode: 'GOVERNANCE', retainUntilDate: until });
  expect(sent[1]).not.toHaveProperty('objectRetentionEventData');
});

test('redriven events of an object arrive in their order, and before later ones that wait', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }), rules: [rule('hook')] });
  const { client } = world;
  const etags: (string | undefined)[] = [];
  const write = async (body: string): Promise<void> =>
    void etags.push((await client.put('/bucket/key', { body })).header('etag')?.replaceAll('"', ''));
  sink.answer = status(400);
  for (let n = 0; n < 30; n += 1) await write(`given up ${n}`);
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  await world.worker.stop();
  for (let n = 0; n < 5; n += 1) await write(`waits ${n}`);
  sink.received.length = 0;
  sink.answer = status(204);
  const admin = world.world.as({ credential: operator });
  const reply = await admin.post('/admin/v1/notify/redrive', { body: '{"target": "hook"}' });
  expect(JSON.parse(reply.text)).toEqual({ redriven: 31, isTruncated: false });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(recordsIn(sink.received).map(({ s3 }) => s3.object.eTag)).toEqual(etags);
});
