/**
 * The connections of an event target, and the slots of its lane, are shared among accounts, also where the target is
 * slow for one of them.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { bob } from '../support/gateway.ts';
import { keysIn, openNotifyWorld, rule, targetsAt, until } from '../support/notify-world.ts';
import { openSlowRedis, type SlowRedis } from '../support/slow-redis.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

const ok = status(204);
const slowMs = 100;

/** Events of objects `slow-…` in buckets of bob. */
async function queueOfBob(
  { world }: Pick<Awaited<ReturnType<typeof openNotifyWorld>>, 'world'>,
  { target, backlog }: { readonly target: string; readonly backlog: number },
): Promise<void> {
  const bobs = world.as({ credential: bob });
  const buckets = Array.from({ length: 12 }, (_, n) => `slow-${n}`);
  for (const name of buckets) {
    await bobs.put(`/${name}`);
    const body = `<NotificationConfiguration>${rule(target)}</NotificationConfiguration>`;
    expect((await bobs.put(`/${name}?notification`, { body })).status).toBe(200);
  }
  for (let n = 0; n < backlog; n += 1)
    await bobs.put(`/${buckets[n % buckets.length]}/slow-${n}`, { body: 'x' });
}

test('events for which a receiver needs long do not delay the events of another account', async () => {
  await using sink = await openWebhookSink();
  sink.answer = (reply, request) => {
    const isSlow = request.body.includes('"key":"slow-');
    setTimeout(() => ok(reply, request), isSlow ? slowMs : 0);
  };
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const backlog = 3_000;
  await queueOfBob(world, { target: 'hook', backlog });
  const slow = (): number => keysIn(sink.received).filter((key) => key.startsWith('slow')).length;
  world.worker.start();
  await vi.waitFor(() => expect(slow()).toBeGreaterThan(30), until);
  const good = Array.from({ length: 20 }, (_, n) => `good-${n}`);
  const before = slow();
  for (const name of good) await world.client.put(`/bucket/${name}`, { body: 'x' });
  await vi.waitFor(() => expect(keysIn(sink.received)).toEqual(expect.arrayContaining(good)), until);
  expect(slow() - before).toBeLessThan(backlog / 4);
});

/** Targets of one broker: streams with these names, which are their ids. */
const streamsAt = ({ port }: SlowRedis, ...names: readonly string[]) =>
  names.map((id) => ({ id, type: 'redis', url: `redis://127.0.0.1:${port}`, key: id }));

test('events that one account sends to a slow broker delay an event of another account by a few of them', async () => {
  await using broker = await openSlowRedis();
  broker.answer = async (batch) => {
    await sleep(slowMs * batch.length);
    return undefined;
  };
  await using world = await openNotifyWorld({
    targets: streamsAt(broker, 'events'),
    // What waits for thirty events before it is late.
    settings: { SVC_NOTIFY_TIMEOUT: `${30 * slowMs}ms` },
  });
  await queueOfBob(world, { target: 'events', backlog: 600 });
  const taken = () => keysIn(broker.taken);
  world.worker.start();
  // The sizes of deliveries are found meanwhile.
  await vi.waitFor(() => expect(taken().length).toBeGreaterThan(120), until);
  const connections = broker.connections;
  const delays: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const before = taken().length;
    await world.client.put(`/bucket/good-${n}`, { body: 'x' });
    await vi.waitFor(() => expect(taken()).toContain(`good-${n}`), until);
    delays.push(taken().length - before);
  }
  // The first one may meet deliveries of a size that was chosen before the broker was known to be slow.
  expect(Math.max(...delays.slice(1)), String(delays)).toBeLessThan(20);
  expect(broker.connections).toBe(connections);
});

test.each([
  ['never answers', () => new Promise<never>(() => undefined)],
  ['refuses', async () => 'WRONGTYPE Operation against a key holding the wrong kind of value'],
])('a stream that %s delays no event to another stream of its broker', async (_, answer) => {
  await using broker = await openSlowRedis();
  broker.answer = async ([first]) => (first?.stream === 'bad' ? answer() : undefined);
  const targets = streamsAt(broker, 'events', 'bad');
  // Longer than the test waits: a delivery that never ends has to delay nothing.
  const settings = { SVC_NOTIFY_TIMEOUT: '5m' };
  await using world = await openNotifyWorld({ targets, rules: [rule('events')], settings });
  await queueOfBob(world, { target: 'bad', backlog: 200 });
  world.worker.start();
  await vi.waitFor(() => expect(broker.connections).toBeGreaterThan(0), until);
  const good = Array.from({ length: 20 }, (_, n) => `good-${n}`);
  for (const name of good) await world.client.put(`/bucket/${name}`, { body: 'x' });
  await vi.waitFor(() => expect(keysIn(broker.taken)).toEqual(expect.arrayContaining(good)), until);
});

test('a broker that is silent fails the deliveries that wait for their turn together with those that have one', async () => {
  await using broker = await openSlowRedis();
  broker.isSilent = true;
  await using world = await openNotifyWorld({
    targets: streamsAt(broker, 'events'),
    settings: { SVC_NOTIFY_TIMEOUT: '5s' },
  });
  await queueOfBob(world, { target: 'events', backlog: 200 });
  world.worker.start();
  // One for each slot.
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThanOrEqual(16), until);
  expect(broker.connections).toBe(1);
});

test('a webhook that cannot be reached fails the deliveries that wait for their turn together with those that have one', async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => {});
    // An answer without TLS, by which the connect fails.
    setTimeout(() => socket.end('no TLS here'), 10 * slowMs);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  // The cast: a server of TCP has a port.
  const { port } = server.address() as AddressInfo;
  const targets = targetsAt({ hook: { url: `https://127.0.0.1:${port}` } });
  await using world = await openNotifyWorld({ targets });
  await queueOfBob(world, { target: 'hook', backlog: 200 });
  for (let n = 0; n < 200; n += 1) await world.client.put(`/bucket/good-${n}`, { body: 'x' });
  world.worker.start();
  // Each slot has a delivery for each account, 32 together: more than the target has turns.
  await vi.waitFor(() => expect(world.warned.length).toBeGreaterThan(21), until);
  expect(connections).toBeLessThanOrEqual(21);
});
