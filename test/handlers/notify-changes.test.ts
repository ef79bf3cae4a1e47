/** What becomes of queued events when targets, configurations and buckets change under the worker, and when an acknowledgement is lost. */
import { createHash } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { openSinks } from '../../src/backends/sinks/open-sinks.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { operator } from '../support/gateway.ts';
import { openClient } from '../support/gateway-client.ts';
import { keysIn, openNotifyWorld, recordsIn, rule, targetsAt, until } from '../support/notify-world.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

/** The same installation after its processes were started again with other targets. */
function restart(context: Context, targets: readonly { readonly id: string; readonly url: string }[]) {
  const { hasher, clock } = context;
  const configured = targets.map((target) => ({ type: 'webhook' as const, accounts: ['*'], ...target }));
  const next: Context = {
    ...context,
    caches: new Caches(),
    config: { ...context.config, SVC_NOTIFY_TARGETS: configured },
    sinks: openSinks(configured, { mayReach: () => true, hasher, clock, timeoutMs: 2_000 }),
  };
  const stop = new AbortController();
  const ended = deliverNotifications(next)(stop.signal);
  const admin = openClient(createGateway(next), clock, { credential: operator });
  return {
    targets: async () =>
      JSON.parse((await admin.get('/admin/v1/notify/targets')).text).targets as readonly object[],
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
      await next.sinks?.close();
    },
  };
}

test('events of a target that left the settings stay queued, are shown with what to do, and become dead letters in the end', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: targetsAt({ gone: one, kept: two }),
    rules: [rule('gone', { prefix: 'gone' }), rule('kept', { prefix: 'kept' })],
  });
  for (const key of ['gone', 'kept']) await world.client.put(`/bucket/${key}`, { body: 'x' });
  await using gateway = restart(world.world.context, [{ id: 'kept', url: two.url }]);
  await vi.waitFor(() => expect(keysIn(two.received)).toEqual(['kept']), until);
  const add = expect.stringContaining('SVC_NOTIFY_TARGETS has no target "gone": add it again');
  await vi.waitFor(
    async () =>
      expect(await gateway.targets()).toEqual([
        expect.objectContaining({ id: 'kept', type: 'webhook', state: 'ok', queued: 0 }),
        expect.objectContaining({
          id: 'gone',
          type: 'removed',
          state: 'failing',
          lastError: { at: expect.any(String), message: add },
          queued: 2,
        }),
      ]),
    until,
  );
  expect(world.warned).toContainEqual(expect.objectContaining({ target: 'gone', error: add }));
  world.clock.hurry(25 * 3_600_000);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.letters()).toHaveLength(2);
  }, until);
  expect(await world.queued()).toEqual([]);
  expect(await gateway.targets()).toContainEqual(
    expect.objectContaining({ id: 'gone', queued: 0, deadLetters: 2 }),
  );
  expect(one.received).toEqual([]);
});

test('events of a target whose URL was changed go to the new one', async () => {
  await using former = await openWebhookSink();
  await using next = await openWebhookSink();
  former.answer = status(503);
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: former }) });
  await world.client.put('/bucket/key', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(0), until);
  await world.worker.stop();
  await using _ = restart(world.world.context, [{ id: 'hook', url: next.url }]);
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(keysIn(next.received)).toEqual(['key']);
});

test('the events of a bucket that was deleted and made again are delivered, and the new bucket sends none', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(503);
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const { client } = world;
  world.worker.start();
  await client.put('/bucket/key', { body: 'x' });
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(0), until);
  await client.delete('/bucket/key');
  expect((await client.delete('/bucket')).status).toBe(204);
  expect((await client.put('/bucket')).status).toBe(200);
  await client.put('/bucket/of-the-new-bucket', { body: 'x' });
  sink.received.length = 0;
  sink.answer = status(200);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  const names = recordsIn(sink.received).map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`);
  expect(names).toEqual(['ObjectCreated:Put key', 'ObjectRemoved:Delete key']);
});

test('a changed configuration decides about later changes only', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openNotifyWorld({
    targets: targetsAt({ one, two }),
    rules: [rule('one')],
  });
  const { client } = world;
  const configure = async (body: string): Promise<void> =>
    void expect((await client.put('/bucket?notification', { body })).status).toBe(200);
  one.answer = status(503);
  world.worker.start();
  await client.put('/bucket/before', { body: 'x' });
  await configure(`<NotificationConfiguration>${rule('two')}</NotificationConfiguration>`);
  await client.put('/bucket/after', { body: 'x' });
  await configure('<NotificationConfiguration/>');
  await client.put('/bucket/without', { body: 'x' });
  one.received.length = 0;
  one.answer = status(200);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect([keysIn(one.received), keysIn(two.received)]).toEqual([['before'], ['after']]);
});

test('an event whose acknowledgement is lost comes again with its id, and those of its object stay in order', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  for (const body of ['one', 'two', 'three']) await world.client.put('/bucket/key', { body });
  const seen = new Set<string>();
  // The receiver keeps each event and loses the connection before its first answer.
  sink.answer = (reply, { headers }) => {
    const id = headers['webhook-id'] ?? '';
    if (seen.has(id)) reply.writeHead(204).end();
    else reply.socket?.destroy();
    seen.add(id);
  };
  world.worker.start();
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(world.warned.map(({ error }) => error)).toContainEqual(expect.stringContaining('cannot be reached'));
  const ids = sink.received.map(({ headers }) => headers['webhook-id']);
  expect(seen.size).toBe(4);
  for (const id of seen) expect(ids.filter((each) => each === id).length).toBeGreaterThan(1);
  const etags = recordsIn(sink.received).map(({ s3 }) => s3.object.eTag);
  const md5 = (text: string): string => createHash('md5').update(text).digest('hex');
  expect(etags.filter((etag, n) => etag !== etags[n - 1])).toEqual(['one', 'two', 'three'].map(md5));
  expect(await world.letters()).toEqual([]);
});
