/** Events that could not be delivered: operators deliver them again, or discard them. */
import { expect, test, vi } from 'vitest';
import { beginBounds, boundQueues } from '../../src/domain/event-deliveries/queue-retention.ts';
import { hourlyQueues } from '../../src/metadata/records/queues.ts';
import { type MetadataStore, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { faulty } from '../support/faulty.ts';
import { operator } from '../support/gateway.ts';
import { keysIn, openNotifyWorld, rule, targetsAt, until } from '../support/notify-world.ts';
import { auditRows } from '../support/recorded.ts';
import { openWebhookSink, status, type WebhookSink } from '../support/webhook-sink.ts';

/** A world with two targets that refuse every event: their events are dead letters. */
async function openRefused(one: WebhookSink, two: WebhookSink) {
  one.answer = status(400);
  two.answer = status(422);
  const world = await openNotifyWorld({
    targets: targetsAt({ one, two }),
    rules: [rule('one', { prefix: 'one' }), rule('two', { prefix: 'two' })],
  });
  for (const key of ['one a/ä', 'one-b', 'two-a'])
    await world.client.put(`/bucket/${encodeURIComponent(key)}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  for (const sink of [one, two]) {
    sink.received.length = 0;
    sink.answer = status(200);
  }
  const admin = world.world.as({ credential: operator });
  const call = async (path: string, body: object) =>
    JSON.parse((await admin.post(`/admin/v1/notify/${path}`, { body: JSON.stringify(body) })).text);
  return Object.assign(world, { admin, call });
}

test('dead letters of a target are delivered again by redrive, and those of other targets stay', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openRefused(one, two);
  expect(await world.letters()).toHaveLength(5);
  expect(await world.call('redrive', { target: 'one' })).toEqual({ redriven: 3, isTruncated: false });
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect([...keysIn(one.received)].sort()).toEqual(['one+a/%C3%A4', 'one-b']);
  expect(two.received).toEqual([]);
  expect(await world.letters()).toHaveLength(2);
  const audit = (await auditRows(world.world.context)).filter(({ action }) =>
    action.includes('Notifications'),
  );
  expect(audit).toMatchObject([
    { action: 'admin:RedriveNotifications', resource: 'notify:one', status: 200 },
  ]);
});

test('dead letters are chosen by id, bucket and time, and discarded ones are gone', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openRefused(one, two);
  const [id = ''] = (await world.admin.get('/?notify-dlq')).all('Id');
  expect(await world.call('discard', { id })).toEqual({ discarded: 1, isTruncated: false });
  expect(await world.call('discard', { bucket: 'other' })).toEqual({ discarded: 0, isTruncated: false });
  expect(await world.call('discard', { until: '2020-01-01T00:00:00Z' })).toEqual({
    discarded: 0,
    isTruncated: false,
  });
  expect(await world.call('discard', { bucket: 'bucket', since: '2020-01-01T00:00:00Z' })).toEqual({
    discarded: 4,
    isTruncated: false,
  });
  expect(await world.letters()).toEqual([]);
});

test('a redrive or discard that names no letters, or no time, is refused', async () => {
  await using one = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ one }), rules: [rule('one')] });
  const admin = world.world.as({ credential: operator });
  for (const body of ['{}', '{"since": "yesterday"}', '{"since": "2026-13-01T00:00:00Z"}', '{"sink": "one"}'])
    for (const path of ['redrive', 'discard'])
      expect((await admin.post(`/admin/v1/notify/${path}`, { body })).status).toBe(400);
  expect((await world.client.post('/admin/v1/notify/discard', { body: '{"target": "one"}' })).status).toBe(
    403,
  );
});

test('the operator sees how many events wait for each target, and how many are dead letters', async () => {
  await using one = await openWebhookSink();
  await using two = await openWebhookSink();
  await using world = await openRefused(one, two);
  await world.worker.stop();
  await world.client.put('/bucket/one-c', { body: 'x' });
  world.clock.hurry(5_000);
  const { targets } = JSON.parse((await world.admin.get('/admin/v1/notify/targets')).text);
  expect(targets).toEqual([
    {
      id: 'one',
      type: 'webhook',
      envelope: 's3',
      accounts: ['*'],
      state: 'ok',
      refused: { objects: 0, reasons: [] },
      queued: 1,
      oldestSeconds: expect.any(Number),
      perSecond: 0,
      deadLetters: 3,
    },
    {
      id: 'two',
      type: 'webhook',
      envelope: 's3',
      accounts: ['*'],
      state: 'ok',
      refused: { objects: 0, reasons: [] },
      queued: 0,
      oldestSeconds: 0,
      perSecond: 0,
      deadLetters: 2,
    },
  ]);
  expect(targets[0].oldestSeconds).toBeGreaterThanOrEqual(5);
  const measured = await boundQueues(world.world.context, beginBounds(), new AbortController().signal);
  expect(measured.targets).toEqual([
    { target: 'one', rows: 1, oldestSeconds: expect.any(Number) },
    { target: 'two', rows: 0, oldestSeconds: 0 },
  ]);
  expect(measured.targets[0]?.oldestSeconds).toBeGreaterThanOrEqual(5);
});

test('the operator sees that a target fails, since when and why, also after a restart, until it takes events again', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(503);
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const operate = world.world.as({ credential: operator });
  const shown = async () => JSON.parse((await operate.get('/admin/v1/notify/targets')).text).targets[0];
  world.worker.start();
  await vi.waitFor(async () => expect(await shown()).toMatchObject({ state: 'failing', failures: 1 }), until);
  expect((await shown()).lastError).toEqual({
    at: expect.any(String),
    message: expect.stringContaining('503'),
  });
  await world.worker.stop();
  sink.answer = status(200);
  world.worker.start();
  await vi.waitFor(async () => expect(await shown()).toMatchObject({ state: 'ok', queued: 0 }), until);
});

test('the operator sees how many events a target takes a second, and none once the worker stands still', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const operate = world.world.as({ credential: operator });
  const rate = async () =>
    JSON.parse((await operate.get('/admin/v1/notify/targets')).text).targets[0].perSecond as number;
  for (let n = 0; n < 20; n += 1) await world.client.put(`/bucket/k${n}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  world.clock.hurry(10_000);
  await vi.waitFor(async () => expect(await rate()).toBeGreaterThan(0), until);
  // Twenty events and the test event in ten seconds and a little.
  expect(await rate()).toBeLessThanOrEqual(2.1);
  world.clock.hurry(10_000);
  await vi.waitFor(async () => expect(await rate()).toBe(0), until);
});

test('an event is one dead letter, also where the store does not say whether the letter was written', async () => {
  await using sink = await openWebhookSink();
  const unknown = { left: 2 };
  await using world = await openNotifyWorld({
    targets: targetsAt({ sink }),
    wrap(context) {
      const { metadata } = context;
      const apply: typeof metadata.apply = async (changes) => {
        await metadata.apply(changes);
        const isLetter = changes.some((change) => 'put' in change && isOfLetters(change.put));
        if (!isLetter || unknown.left === 0) return;
        unknown.left -= 1;
        throw new StoreUnavailable('no answer');
      };
      return { ...context, metadata: Object.create(metadata, { apply: { value: apply } }) };
    },
  });
  sink.answer = status(400);
  for (; unknown.left > 0; world.clock.hurry(1_000)) {
    const before = unknown.left;
    await expect(
      deliverNotifications(world.world.context)(new AbortController().signal),
    ).rejects.toBeInstanceOf(StoreUnavailable);
    expect(unknown.left).toBe(before - 1);
  }
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  // Of the test event, which is the only one.
  expect(await world.letters()).toHaveLength(1);
});

const isOfLetters = (row: object): boolean =>
  'queue' in row && typeof row.queue === 'string' && row.queue.startsWith('notify-dlq');

test('an event that an operator delivers again, between its letter and the removal of its row, is delivered', async () => {
  await using sink = await openWebhookSink();
  let redrive: (() => Promise<unknown>) | undefined;
  await using world = await openNotifyWorld({
    targets: targetsAt({ one: sink }),
    wrap: (context) => {
      const { metadata } = context;
      const apply: MetadataStore['apply'] = async (changes) => {
        const removesRow = changes.some((change) => 'remove' in change && change.at.table === hourlyQueues);
        const strike = removesRow ? redrive : undefined;
        if (strike !== undefined) redrive = undefined;
        await strike?.();
        return metadata.apply(changes);
      };
      return { ...context, metadata: faulty(metadata, { apply }) };
    },
  });
  const admin = world.world.as({ credential: operator });
  // The test event of the configuration.
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  await world.worker.stop();
  sink.answer = status(400);
  redrive = async () => {
    sink.answer = status(200);
    const answer = await admin.post('/admin/v1/notify/redrive', { body: '{"target": "one"}' });
    expect(JSON.parse(answer.text)).toEqual({ redriven: 1, isTruncated: false });
  };
  await world.client.put('/bucket/key', { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  expect(redrive).toBeUndefined();
  expect(keysIn(sink.received)).toEqual(['key', 'key']);
  expect(await world.letters()).toEqual([]);
});
