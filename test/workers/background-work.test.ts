/** What the Durable Object does by alarms: events to webhooks, access logs, inventories, and the history of storage's health. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Send, sender } from '../runtimes/client.ts';
import { startWorkerd, type Workerd } from '../runtimes/workerd.ts';
import { logging } from '../support/delivered-logs.ts';
import { inventoryConfiguration } from '../support/inventory-lists.ts';
import { rule } from '../support/notify-world.ts';
import { openWebhookSink, status, type WebhookSink } from '../support/webhook-sink.ts';

const patience = { timeout: 180_000, interval: 250 };
const target = (fields: object) => ({ type: 'webhook', accounts: ['*'], ...fields });

describe.each(['1', '3'])('with the metadata in %s objects', (shards) => {
  let sink: WebhookSink;
  let worker: Workerd;
  let send: Send;

  beforeAll(async () => {
    sink = await openWebhookSink();
    const targets = [
      target({ id: 'hook', url: sink.url, token: 'a-token', secret: 'a-secret' }),
      target({ id: 'private', url: 'http://10.0.0.1/hook', validate: true }),
    ];
    worker = await startWorkerd({
      isDurable: true,
      settings: {
        SLUICE_SHARDS: shards,
        SVC_NOTIFY_TARGETS: JSON.stringify(targets),
        SVC_NOTIFY_INTERVAL: '100ms',
        SVC_EGRESS_ALLOW: '127.0.0.0/8',
        SVC_ACCESSLOG_INTERVAL: '1s',
        SVC_INVENTORY_INTERVAL: '1s',
      },
    });
    send = sender(worker);
  });
  afterAll(async () => {
    await worker?.stop();
    await sink?.[Symbol.asyncDispose]();
  });

  async function must(...request: Parameters<Send>): Promise<string> {
    const { status, text } = await send(...request);
    expect([200, 204], text).toContain(status);
    return text;
  }

  /** The keys of a bucket, once there are some. */
  const keysOf = (bucket: string, end = '') =>
    vi.waitFor(async () => {
      const text = await must('GET', `/${bucket}?list-type=2`);
      const keys = [...text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = '']) => key);
      const found = keys.filter((key) => key.endsWith(end));
      expect(found.length).toBeGreaterThan(0);
      return found;
    }, patience);

  const servicePolicy = (bucket: string, service: string): string =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: {
        Effect: 'Allow',
        Principal: { Service: service },
        Action: 's3:PutObject',
        Resource: `arn:aws:s3:::${bucket}/*`,
      },
    });

  /** An ARN without an account, because the Worker has an account with the number of the rule. */
  const notifying = (id: string): string =>
    `<NotificationConfiguration>${rule(id).replace('123456789012', '')}</NotificationConfiguration>`;

  test('an event arrives at a webhook with its token and signature, and again after the sink has refused it', async () => {
    sink.answer = status(503);
    await must('PUT', '/watched');
    await must('PUT', '/watched?notification', { body: notifying('hook') });
    await must('PUT', '/watched/a%20cat', { body: 'meow' });
    const refused = await vi.waitFor(() => {
      const found = sink.received.find(({ body }) => body.includes('ObjectCreated:Put'));
      if (found === undefined) throw new Error('no event arrived');
      return found;
    }, patience);
    sink.answer = status(204);
    const id = refused.headers['webhook-id'];
    const again = () => sink.received.filter(({ headers }) => headers['webhook-id'] === id);
    await vi.waitFor(() => expect(again().length).toBeGreaterThan(1), patience);
    const { headers, body, url } = again().at(-1) ?? refused;
    expect(url).toBe('/hook?from=sluice');
    expect(headers).toMatchObject({
      authorization: 'Bearer a-token',
      'webhook-signature': expect.stringMatching(/^v1,[\w+/]{43}=$/),
    });
    const [record] = JSON.parse(body).Records;
    expect(record).toMatchObject({
      eventName: 'ObjectCreated:Put',
      s3: { object: { key: 'a+cat', size: 4 } },
    });
  });

  test('a configuration whose target has a private address is refused where the target is to take a test event', async () => {
    await must('PUT', '/private');
    const { status, text } = await send('PUT', '/private?notification', { body: notifying('private') });
    expect([status, text]).toEqual([400, expect.stringContaining('Unable to validate')]);
    expect(worker.log()).toContain('10.0.0.1 is an address of a private network');
  });

  test('access logs and an inventory are delivered to their buckets, and the history of health has an entry', async () => {
    await must('PUT', '/source');
    await must('PUT', '/source/k', { body: 'k' });
    for (const [bucket, service] of [
      ['logs', 'logging.s3.amazonaws.com'],
      ['lists', 's3.amazonaws.com'],
    ] as const) {
      await must('PUT', `/${bucket}`);
      await must('PUT', `/${bucket}?policy`, { body: servicePolicy(bucket, service) });
    }
    await must('PUT', '/source?logging', { body: logging() });
    await must('PUT', '/source?inventory&id=all', { body: inventoryConfiguration({}) });
    await must('GET', '/source/k');
    // An alarm between two requests delivers the lines of the earlier one in a log object of its own.
    await vi.waitFor(async () => {
      const logs = await Promise.all((await keysOf('logs')).map((key) => must('GET', `/logs/${key}`)));
      expect(logs.join('')).toContain('REST.GET.OBJECT k');
    }, patience);
    const [manifest = ''] = await keysOf('lists', 'manifest.json');
    expect(JSON.parse(await must('GET', `/lists/${manifest}`))).toMatchObject({ sourceBucket: 'source' });
    const history = await must('GET', '/admin/v1/storage/health/history');
    expect(JSON.parse(history).changes).toMatchObject([{ ok: true }]);
  });
});

test.each([
  [
    { type: 'nats', url: 'nats://10.0.0.1', subject: 's' },
    'is of type nats, and this runtime has webhook and queue only',
  ],
  [{ caFile: '/ca.pem', url: 'https://x' }, 'has caFile, and this runtime has no files'],
])('a Worker with the target %o answers 500, and its log has the reason', async (fields, reason) => {
  const targets = JSON.stringify([target({ id: 'bus', ...fields })]);
  const refused = await startWorkerd({ isDurable: true, settings: { SVC_NOTIFY_TARGETS: targets } });
  try {
    expect((await sender(refused)('GET', '/')).status).toBe(500);
    await vi.waitFor(() => expect(refused.log()).toContain(`the target bus ${reason}`), patience);
  } finally {
    await refused.stop();
  }
});
