/** Events to a Cloudflare Queue by the alarms of the Durable Object, with a real producer binding and consumer of miniflare. */
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Send, sender } from '../runtimes/client.ts';
import { durableBindings, startWorkerd, workerdFlags } from '../runtimes/workerd.ts';
import { rule } from '../support/notify-world.ts';
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts';
import { bundleWorker } from './bundle.ts';
import { clientOf } from './gateways.ts';

const patience = { timeout: 180_000, interval: 250 };
const targets = JSON.stringify([{ id: 'jobs', type: 'queue', binding: 'EVENTS', accounts: ['*'] }]);
/** An ARN without an account, because the Worker has an account with the number of the rule. */
const notifying = `<NotificationConfiguration>${rule('jobs').replace('123456789012', '')}</NotificationConfiguration>`;

let consumed: WebhookSink;
let worker: Miniflare;
let send: Send;

beforeAll(async () => {
  consumed = await openWebhookSink();
  worker = new Miniflare({
    modules: [
      {
        type: 'ESModule',
        path: 'queue.js',
        contents: await bundleWorker(join(import.meta.dirname, 'failing-queue.ts')),
      },
    ],
    ...workerdFlags,
    ...durableBindings,
    bindings: {
      ...durableBindings.bindings,
      SVC_NOTIFY_TARGETS: targets,
      SVC_NOTIFY_INTERVAL: '100ms',
      CONSUMED: consumed.url,
    },
    queueProducers: { EVENTS: 'events' },
    queueConsumers: { events: { maxBatchSize: 10, maxBatchTimeout: 0 } },
    handleStructuredLogs: () => {},
  });
  send = await clientOf(worker);
});
afterAll(async () => {
  await worker?.dispose();
  await consumed?.[Symbol.asyncDispose]();
});

/** @returns the numbers of messages of the calls since the last one */
const refuse = async (text: string): Promise<readonly number[]> =>
  (await worker.dispatchFetch(`http://x/?refuse-events=${text}`)).json() as Promise<number[]>;

const consumedKeys = (): readonly string[] =>
  consumed.received.flatMap(({ body }) =>
    (JSON.parse(body).Records ?? []).map(
      ({ s3 }: { readonly s3: { readonly object: { readonly key: string } } }) => s3.object.key,
    ),
  );

async function must(...request: Parameters<Send>): Promise<string> {
  const { status, text } = await send(...request);
  expect([200, 204], text).toContain(status);
  return text;
}

test('events arrive at the consumer of a queue, and one that the queue refuses delays no event of another object', async () => {
  await must('PUT', '/watched');
  await must('PUT', '/watched?notification', { body: notifying });
  await must('PUT', '/watched/first', { body: 'x' });
  await vi.waitFor(() => expect(consumedKeys()).toEqual(['first']), patience);
  await refuse('dislik');
  const keys = ['a', 'disliked', 'b', 'c', 'd'];
  for (const key of keys) await must('PUT', `/watched/${key}`, { body: 'x' });
  const others = ['first', 'a', 'b', 'c', 'd'];
  await vi.waitFor(() => expect([...new Set(consumedKeys())].sort()).toEqual(others.sort()), patience);
  const queued = async () => JSON.parse(await must('GET', '/admin/v1/notify/targets')).targets[0];
  await vi.waitFor(
    async () =>
      expect(await queued()).toMatchObject({
        type: 'queue',
        refused: {
          objects: 1,
          reasons: [{ error: expect.stringContaining('the queue did not take the message') }],
        },
      }),
    patience,
  );
  await refuse('none');
  await vi.waitFor(() => expect(consumedKeys()).toContain('disliked'), patience);
  expect(await queued()).toMatchObject({ deadLetters: 0 });
});

test('while the queue takes nothing, events stay queued, and all of them arrive when it takes them again', async () => {
  await must('PUT', '/paused');
  await must('PUT', '/paused?notification', { body: notifying });
  await vi.waitFor(
    () => expect(consumed.received.filter(({ body }) => body.includes('paused'))).toHaveLength(1),
    patience,
  );
  await refuse('');
  for (const key of ['one', 'two']) await must('PUT', `/paused/${key}`, { body: 'x' });
  await vi.waitFor(async () => expect(await refuse('')).not.toEqual([]), patience);
  expect(consumedKeys().filter((key) => ['one', 'two'].includes(key))).toEqual([]);
  await refuse('none');
  await vi.waitFor(() => expect(consumedKeys()).toEqual(expect.arrayContaining(['one', 'two'])), patience);
});

test.each([
  ['150 messages take two calls', Array(150).fill(10), { delivered: 150, calls: [100, 50] }],
  ['5 messages of 100 kB take three calls', Array(5).fill(100_000), { delivered: 5, calls: [2, 2, 1] }],
  ['a message below 128 kB is taken', [127_800], { delivered: 1, calls: [1] }],
  [
    'a message above 128 kB is refused for good, behind those before it',
    [10, 128_000, 10],
    {
      delivered: 1,
      calls: [1],
      failure: { kind: 'refused', error: 'the message is longer than the 128000 bytes that a queue takes' },
    },
  ],
])('%s', async (_, sizes, expected) => {
  const reply = await worker.dispatchFetch(`http://x/?deliver-sizes=${sizes.join()}`);
  expect(await reply.json()).toEqual(expected);
});

test('a Worker without the binding of its queue answers 500, and its log says what to add', async () => {
  const unbound = await startWorkerd({ isDurable: true, settings: { SVC_NOTIFY_TARGETS: targets } });
  try {
    expect((await sender(unbound)('GET', '/')).status).toBe(500);
    const reason = 'the target jobs needs a queue under the binding EVENTS: add [[queues.producers]]';
    await vi.waitFor(() => expect(unbound.log()).toContain(reason), patience);
  } finally {
    await unbound.stop();
  }
});
