/** The events of a bucket reach the webhook that its configuration names: at least once, in order, and whatever the receiver answers. */
import { createHmac } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { backends, openGateway, operator } from '../support/gateway.ts';
import { keysIn, openNotifyWorld, recordsIn, rule, targetsAt, until } from '../support/notify-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';
import { type Answer, openWebhookSink, type Received, status } from '../support/webhook-sink.ts';

describe.each(backends)('on %s', (backend) => {
  test('a webhook gets a test event and then each change of an object in order, once each', async () => {
    await using sink = await openWebhookSink();
    await using world = await openNotifyWorld({
      backend,
      targets: targetsAt({ hook: sink }),
    });
    const keys = Array.from({ length: 20 }, (_, n) => `key-${n}`);
    for (const key of keys) {
      await world.client.put(`/bucket/${key}`, { body: 'x' });
      await world.client.delete(`/bucket/${key}`);
    }
    world.worker.start();
    await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
    const [first] = sink.received.filter(({ body }) => body.includes('s3:TestEvent'));
    expect(JSON.parse(first?.body ?? '{}')).toMatchObject({ Service: 'Amazon S3', Bucket: 'bucket' });
    const records = recordsIn(sink.received);
    expect(records).toHaveLength(40);
    for (const key of keys)
      expect(records.filter(({ s3 }) => s3.object.key === key).map(({ eventName }) => eventName)).toEqual([
        'ObjectCreated:Put',
        'ObjectRemoved:Delete',
      ]);
    expect(sink.received.every(({ url }) => url === '/hook?from=sluice')).toBe(true);
  });

  test('each message of a webhook names the span of its delivery, which follows the semantic conventions', async () => {
    await using sink = await openWebhookSink();
    const { exported, wrap } = exportingTracer();
    await using world = await openNotifyWorld({ backend, targets: targetsAt({ hook: sink }), wrap });
    for (const key of ['a', 'b']) await world.client.put(`/bucket/${key}`, { body: 'x' });
    world.worker.start();
    await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
    const deliveries = exported.filter(({ operation }) => operation === 'worker:notify');
    const spans = deliveries.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`);
    const causes = sink.received.map(({ headers }) => String(headers['traceparent']));
    expect(causes).toHaveLength(3);
    expect(spans).toEqual(expect.arrayContaining([...new Set(causes)]));
    for (const { kind, attributes } of deliveries)
      expect({ kind, attributes }).toEqual({
        kind: 'producer',
        attributes: {
          'messaging.system': 'webhook',
          'messaging.operation.type': 'send',
          'messaging.operation.name': 'POST',
          // Its path is left out: it may contain a token.
          'messaging.destination.name': 'hook',
          'messaging.batch.message_count': expect.any(Number),
          'server.address': '127.0.0.1',
          'server.port': Number(new URL(sink.url).port),
          'sluice.worker': 'notify',
          'sluice.target': 'hook',
          'sluice.request_ids': expect.stringMatching(/^[0-9A-F]{16}/),
        },
      });
  });

  test('events that a stopped gateway left are delivered after its start', async () => {
    await using sink = await openWebhookSink();
    sink.answer = status(503);
    await using world = await openNotifyWorld({
      backend,
      targets: targetsAt({ hook: sink }),
    });
    await world.client.put('/bucket/key', { body: 'x' });
    world.worker.start();
    await vi.waitFor(() => expect(sink.received.length).toBeGreaterThan(0), until);
    await world.worker.stop();
    expect((await world.queued()).length).toBe(2);
    sink.answer = status(200);
    sink.received.length = 0;
    world.worker.start();
    await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
    expect(keysIn(sink.received)).toEqual(['key']);
  });
});

test('a message that is on its way when its worker stops is acknowledged and not repeated', async () => {
  await using sink = await openWebhookSink();
  const held: (() => void)[] = [];
  sink.answer = (reply) => void held.push(() => reply.writeHead(204).end());
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  await world.client.put('/bucket/key', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(keysIn(sink.received)).toEqual(['key']), until);
  const stopped = world.worker.stop();
  sink.answer = status(204);
  for (const answer of held) answer();
  await stopped;
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(keysIn(sink.received)).toEqual(['key']);
});

test('a worker stops although a receiver never answers, and the event comes again', async () => {
  await using sink = await openWebhookSink();
  sink.answer = () => {};
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  await world.client.put('/bucket/key', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(keysIn(sink.received)).toEqual(['key']), until);
  await world.worker.stop();
  sink.answer = status(204);
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(keysIn(sink.received)).toEqual(['key', 'key']);
});

test('the webhook is given a bearer token, and a signature of the id, the time and the body', async () => {
  await using sink = await openWebhookSink();
  const secret = `whsec_${Buffer.from('a secret of the target').toString('base64')}`;
  const target = { id: 'hook', url: sink.url, token: 'bearer-token', secret };
  await using world = await openNotifyWorld({ targets: [target] });
  world.worker.start();
  await vi.waitFor(() => expect(sink.received.length).toBe(1), until);
  const [{ headers, body }] = sink.received as [Received];
  const id = headers['webhook-id'];
  const time = headers['webhook-timestamp'];
  const signed = createHmac('sha256', 'a secret of the target')
    .update(`${id}.${time}.${body}`)
    .digest('base64');
  expect(headers['webhook-signature']).toBe(`v1,${signed}`);
  expect(headers['authorization']).toBe('Bearer bearer-token');
  expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(600);
});

test('a webhook with a user name gets basic authentication', async () => {
  await using sink = await openWebhookSink();
  const target = { id: 'hook', url: sink.url, username: 'user', password: 'pass:word' };
  await using world = await openNotifyWorld({ targets: [target] });
  world.worker.start();
  await vi.waitFor(() => expect(sink.received.length).toBe(1), until);
  expect(sink.received[0]?.headers['authorization']).toBe(`Basic ${btoa('user:pass:word')}`);
});

test('prefix and suffix of a filter decide which objects send events to which target', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: targetsAt({ one, two }),
    rules: [rule('one', { prefix: 'in/', suffix: '.jpg' }), rule('two', { prefix: 'out/' })],
  });
  for (const key of ['in/a.jpg', 'in/a.png', 'out/a.jpg', 'else.jpg'])
    await world.client.put(`/bucket/${key}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect([keysIn(one.received), keysIn(two.received)]).toEqual([['in/a.jpg'], ['out/a.jpg']]);
});

test.each([
  ['answers 500', status(500), /the sink answered 500/],
  ['answers 403', status(403), /the sink answered 403: check the token/],
  ['redirects', status(302, { location: 'http://169.254.169.254/' }), /redirect to .*not followed/],
  [
    'hangs in mid-body',
    (reply) => void reply.writeHead(200, { 'content-length': '10' }).write('x'),
    /within 2000 ms/,
  ],
  ['never answers', () => {}, /within 2000 ms/],
  ['answers garbage', (reply) => void reply.socket?.end('this is no HTTP\r\n\r\n'), /cannot be reached/],
] as const satisfies readonly (readonly [string, Answer, RegExp])[])(
  'a target that %s delays no other target, and its events come once it recovers',
  async (_, answer, message) => {
    await using bad = await openWebhookSink();
    await using good = await openWebhookSink();
    bad.answer = answer;
    await using world = await openNotifyWorld({
      targets: targetsAt({ bad, good }),
      rules: [rule('bad', { prefix: 'b' }), rule('good', { prefix: 'g' })],
      settings: { SVC_NOTIFY_TIMEOUT: '2s' },
    });
    world.worker.start();
    for (const key of ['b1', 'g1', 'b2', 'g2']) await world.client.put(`/bucket/${key}`, { body: 'x' });
    await vi.waitFor(() => expect([...keysIn(good.received)].sort()).toEqual(['g1', 'g2']), until);
    await vi.waitFor(
      () => expect(world.warned.map(({ error }) => error)).toContainEqual(expect.stringMatching(message)),
      until,
    );
    // A row is removed after its target has acknowledged.
    await vi.waitFor(
      async () => expect(new Set((await world.queued()).map(({ sink }) => sink))).toEqual(new Set(['bad'])),
      until,
    );
    bad.answer = status(200);
    bad.received.length = 0;
    await vi.waitFor(async () => {
      world.clock.hurry(1_000);
      expect(await world.queued()).toEqual([]);
    }, until);
    expect([...new Set(keysIn(bad.received))].sort()).toEqual(['b1', 'b2']);
    expect(await world.letters()).toEqual([]);
  },
);

test('a target whose connections are refused gets its events once it listens', async () => {
  const gone = await openWebhookSink();
  await gone[Symbol.asyncDispose]();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: gone }) });
  await world.client.put('/bucket/key', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(0), until);
  await using back = await openWebhookSink(gone.port);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(keysIn(back.received)).toEqual(['key']);
});

test('an event that its target refuses by 400 becomes a dead letter, and those behind it are delivered', async () => {
  await using sink = await openWebhookSink();
  sink.answer = (reply, { body }) => void reply.writeHead(body.includes('poison') ? 400 : 200).end();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  for (const key of ['poison', 'key']) await world.client.put(`/bucket/${key}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(keysIn(sink.received)).toContain('key');
  expect(await world.letters()).toEqual(['the sink answered 400']);
});

test('after SVC_NOTIFY_RETRY_MAX the events of a dead target are dead letters', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(500);
  const settings = { SVC_NOTIFY_RETRY_MAX: '2h' };
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: sink }),
    settings,
  });
  for (let n = 0; n < 50; n += 1) await world.client.put(`/bucket/key-${n}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(0), until);
  expect(await world.letters()).toEqual([]);
  expect(await world.queued()).toHaveLength(51);
  world.clock.hurry(2 * 3_600_000);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(new Set(await world.letters())).toEqual(new Set(['the sink answered 500']));
  expect(await world.letters()).toHaveLength(51);
});

test('events that are older than SVC_NOTIFY_RETRY_MAX when the gateway starts are not given up for one failure of their target', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: sink }),
    settings: { SVC_NOTIFY_RETRY_MAX: '2h' },
  });
  for (let n = 0; n < 50; n += 1) await world.client.put(`/bucket/key-${n}`, { body: 'x' });
  world.clock.hurry(3 * 3_600_000);
  sink.answer = status(503);
  world.worker.start();
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(0), until);
  sink.answer = status(200);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(await world.letters()).toEqual([]);
  expect(new Set(keysIn(sink.received)).size).toBe(50);
});

test('a target on loopback gets nothing unless SVC_EGRESS_ALLOW contains its address, by literal and by name', async () => {
  await using sink = await openWebhookSink();
  for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '2130706433', '0177.0.0.1']) {
    const url = `http://${host}:${sink.port}/`;
    await using world = await openNotifyWorld({
      targets: [{ id: 'hook', url }],
      rules: [rule('hook')],
      settings: { SVC_EGRESS_ALLOW: '' },
    });
    world.worker.start();
    await vi.waitFor(
      () =>
        expect(world.warned.map(({ error }) => error)).toContainEqual(
          expect.stringContaining('SVC_EGRESS_ALLOW'),
        ),
      until,
    );
  }
  expect(sink.received).toEqual([]);
});

test('CloudEvents and EventBridge are envelopes of a target', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: [
      { id: 'one', url: one.url, envelope: 'cloudevents' },
      { id: 'two', url: two.url, envelope: 'eventbridge' },
    ],
    rules: [rule('one', { prefix: 'one' }), rule('two', { prefix: 'two' })],
  });
  await world.client.put('/bucket/one', { body: 'x' });
  await world.client.put('/bucket/two%20words', { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  const events = (received: readonly Received[]) =>
    received.filter(({ body }) => !body.includes('s3:TestEvent')).map(({ body }) => JSON.parse(body));
  expect(events(one.received)).toMatchObject([
    {
      specversion: '1.0',
      id: expect.any(String),
      source: 'aws:s3.default.bucket',
      type: 'com.amazonaws.s3.ObjectCreated:Put',
      subject: 'one',
      data: { eventVersion: '2.5', s3: { object: { key: 'one', size: 1 } } },
    },
  ]);
  expect(one.received.at(-1)?.headers['content-type']).toBe('application/cloudevents+json');
  expect(events(two.received)).toMatchObject([
    {
      'detail-type': 'Object Created',
      source: 'aws.s3',
      region: 'default',
      resources: ['arn:aws:s3:::bucket'],
      detail: { bucket: { name: 'bucket' }, object: { key: 'two words', size: 1 }, reason: 'PutObject' },
    },
  ]);
});

test('events of an object within one millisecond are delivered in their order, however many there are', async () => {
  await using sink = await openWebhookSink();
  const clock = virtualClock();
  await using world = await openGateway({
    clock,
    settings: {
      SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', accounts: ['*'], type: 'webhook', url: sink.url }]),
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
    },
  });
  await world.client.put('/bucket');
  const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
  await world.client.put('/bucket?notification', { body });
  const etags: string[] = [];
  for (let n = 0; n < 100; n += 1)
    etags.push(
      (await world.client.put('/bucket/key', { body: `${n}` })).header('etag')?.replaceAll('"', '') ?? '',
    );
  const stop = new AbortController();
  const ended = deliverNotifications(world.context)(stop.signal);
  await vi.waitFor(() => expect(recordsIn(sink.received)).toHaveLength(100), until);
  stop.abort();
  await clock.advance(10_000);
  await ended;
  expect(recordsIn(sink.received).map(({ s3 }) => s3.object.eTag)).toEqual(etags);
});

describe('a target with validate', () => {
  const body = (...ids: readonly string[]) =>
    `<NotificationConfiguration>${ids.map((id, n) => rule(id, { prefix: `${n}/` })).join('')}</NotificationConfiguration>`;

  test('gets its test event before the configuration is stored, and once', async () => {
    await using sink = await openWebhookSink();
    const target = { id: 'hook', url: sink.url, validate: true, envelope: 'cloudevents' };
    await using world = await openNotifyWorld({ targets: [target] });
    expect(sink.received.map((each) => JSON.parse(each.body)['Event'])).toEqual(['s3:TestEvent']);
    expect(await world.queued()).toEqual([]);
  });

  test.each([
    ['answers 500', status(500)],
    ['redirects', status(302, { Location: 'http://127.0.0.1:1/' })],
    ['never answers', () => {}],
  ] as const)('that %s is refused by name, and the configuration stays as it was', async (_, answer) => {
    await using sink = await openWebhookSink();
    await using other = await openWebhookSink();
    await using world = await openNotifyWorld({
      targets: [
        { id: 'strict', url: sink.url, validate: true, token: 'a-secret-token' },
        { id: 'lax', url: other.url },
      ],
      rules: [rule('lax')],
      settings: { SVC_NOTIFY_TIMEOUT: '300ms' },
    });
    const before = (await world.client.get('/bucket?notification')).text;
    const queued = await world.queued();
    sink.answer = answer;
    const refused = await world.client.put('/bucket?notification', { body: body('strict', 'lax') });
    expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
    expect(refused.text).toContain('arn:aws:sqs:default:123456789012:strict');
    expect(refused.text).not.toContain(':lax');
    // Addresses and reasons are for operators.
    expect(refused.text).not.toContain('127.0.0.1');
    expect(world.warned).toContainEqual(expect.objectContaining({ target: 'strict' }));
    expect(JSON.stringify(world.warned)).not.toContain('a-secret-token');
    expect((await world.client.get('/bucket?notification')).text).toBe(before);
    expect(await world.queued()).toEqual(queued);
    // The client may skip the question; the target gets its test event later then.
    const headers = { '*-skip-destination-validation': 'true' };
    const skipped = await world.client.put('/bucket?notification', { body: body('strict', 'lax'), headers });
    expect(skipped.status, skipped.text).toBe(200);
    expect((await world.queued()).map(({ sink: to }) => to).toSorted()).toEqual(['lax', 'lax', 'strict']);
  });

  test('is not asked by a caller who may not change the configuration', async () => {
    await using sink = await openWebhookSink();
    const target = { id: 'hook', url: sink.url, validate: true };
    await using world = await openNotifyWorld({ targets: [target] });
    sink.received.length = 0;
    const refused = await world.world.bob.put('/bucket?notification', { body: body('hook') });
    expect(refused.status).toBe(403);
    expect(sink.received).toEqual([]);
  });
});

describe('a test of a target by an operator', () => {
  const openTested = async (answer: Answer, timeout = '10s') => {
    const sink = await openWebhookSink();
    sink.answer = answer;
    const world = await openNotifyWorld({
      targets: [{ id: 'hook', url: sink.url, token: 'a-secret-token' }],
      rules: [],
      settings: { SVC_NOTIFY_TIMEOUT: timeout },
    });
    const admin = world.world.as({ credential: operator });
    const ask = async (target: string, client = admin) =>
      client.post(`/admin/v1/notify/targets/${target}/test`, { body: '{}' });
    return {
      ...{ sink, world, admin, ask },
      async [Symbol.asyncDispose]() {
        await world[Symbol.asyncDispose]();
        await sink[Symbol.asyncDispose]();
      },
    };
  };

  test('sends one s3:TestEvent at once, says that it was taken, and is audited', async () => {
    await using tested = await openTested(status(204));
    const { sink, world, admin, ask } = tested;
    const answer = await ask('hook');
    expect(answer.status).toBe(200);
    const { delivered, failure, message, milliseconds } = JSON.parse(answer.text);
    expect({ delivered, failure }).toEqual({ delivered: true, failure: undefined });
    expect(milliseconds).toBeGreaterThanOrEqual(0);
    expect(sink.received.map(({ body }) => JSON.parse(body))).toEqual([message]);
    expect(message).toMatchObject({ Service: 'Amazon S3', Event: 's3:TestEvent' });
    expect(await world.queued()).toEqual([]);
    const { text } = await admin.get('/?audit');
    expect(text).toContain('admin:TestNotifyTarget');
    expect(text).toContain('notify:hook');
  });

  test.each([
    ['answers 500', status(500), 'failed', 'the sink answered 500'],
    ['answers 400', status(400), 'refused', 'the sink answered 400'],
    ['answers 401', status(401), 'failed', 'check the token'],
    ['never answers', () => {}, 'lost', 'did not answer within 300 ms'],
  ] as const)(
    'says what came back of a target that %s, and leaves its state as it was',
    async (_, answer, kind, error) => {
      await using tested = await openTested(answer, kind === 'lost' ? '300ms' : undefined);
      const { admin, ask } = tested;
      const reply = await ask('hook');
      expect(reply.status).toBe(200);
      expect(JSON.parse(reply.text)).toMatchObject({ delivered: false, failure: { kind } });
      expect(JSON.parse(reply.text).failure.error).toContain(error);
      expect(reply.text).not.toContain('a-secret-token');
      const { targets } = JSON.parse((await admin.get('/admin/v1/notify/targets')).text);
      expect(targets).toMatchObject([{ id: 'hook', state: 'ok', queued: 0 }]);
    },
  );

  test('is refused for a target that the settings do not have, and for tenants', async () => {
    await using tested = await openTested(status(200));
    const { sink, world, ask } = tested;
    expect((await ask('other')).status).toBe(404);
    expect((await ask('hook', world.client)).status).toBe(403);
    expect(sink.received).toEqual([]);
  });
});
