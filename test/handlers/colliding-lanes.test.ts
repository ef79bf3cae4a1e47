/**
 * Targets whose names have the same hash share a lane, and tenants a waiting lane. A target that takes nothing, or a tenant whose rows are
 * refused, delays no row of the other, however many rows it has.
 */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { everyResync, stepResync } from '../../src/domain/replication/resync.ts';
import { hashToLane, waitingSlot } from '../../src/metadata/background/hourly-queues.ts';
import { queueSlot } from '../../src/metadata/background/queues.ts';
import { hourlyQueues } from '../../src/metadata/records/queues.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { countRows, type SeenRows } from '../support/counted-rows.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import { hurriedClock, keysIn, openNotifyWorld, rule, targetsAt, until } from '../support/notify-world.ts';
import { makeRole } from '../support/replication-role.ts';
import { never } from '../support/replication-sites.ts';
import { openStubPeer, replicateToStub, stubPeerBody } from '../support/stub-peer.ts';
import { type Answer, openWebhookSink, status } from '../support/webhook-sink.ts';

/** A name with the lane of `target`, as anyone finds within milliseconds. */
function findColliding(target: string, nameOf: (n: number) => string): string {
  let n = 0;
  while (hashToLane(nameOf(n)) !== hashToLane(target)) n += 1;
  return nameOf(n);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A peer that takes some time for each version. In the end it has only the buckets whose names begin with `vic`. */
async function openPeer() {
  const arrivals = new Map<string, number>();
  const state = { hasOthers: true, isHolding: false, inFlight: 0, most: 0 };
  const isVictim = (bucket: string): boolean => bucket.startsWith('vic');
  const endpoint = await openStubPeer({
    ownerOf: (bucket) => (isVictim(bucket) ? alice : bob).owner,
    has: (bucket) => isVictim(bucket) || state.hasOthers,
    async take(bucket) {
      state.inFlight += 1;
      state.most = Math.max(state.most, state.inFlight);
      // A slot has four under way. Where more are let through, they come while the first ones are held.
      for (let waits = 0; state.isHolding && state.most < 8 && waits < 300; waits += 1) await pause(10);
      await pause(30);
      state.inFlight -= 1;
      arrivals.set(bucket, (arrivals.get(bucket) ?? 0) + 1);
    },
  });
  return { arrivals, state, endpoint };
}

test('versions for a bucket that its peer no longer has delay none for a bucket whose name has the same lane', async () => {
  const peer = await openPeer();
  const world = await openGateway({
    settings: {
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_REPLICATION_TIMEOUT: '20s',
      SVC_REPLICATION_INTERVAL: '10ms',
    },
  });
  onTestFinished(() => world.close());
  await makeRole(world, { root: alice });
  await makeRole(world, { root: bob });
  await operatorOf(world).must('PUT', '/replication/peers/far', stubPeerBody(peer.endpoint));
  const gone = findColliding('far/vic', (n) => `far/x${n}-gone`).slice('far/'.length);
  await replicateToStub(world.client, { owner: alice.owner, bucket: 'vic' });
  await replicateToStub(world.bob, { owner: bob.owner, bucket: 'att', to: gone });
  const begin = () => startWorkers(world.context, ['replicator'], never);
  const send = async (prefix: string): Promise<number> => {
    const before = peer.arrivals.get('vic') ?? 0;
    for (let n = 0; n < 200; n += 1) await world.client.put(`/vic/${prefix}${n}`, { body: 'x' });
    const began = performance.now();
    await vi.waitFor(() => expect(peer.arrivals.get('vic')).toBe(before + 200), until);
    return performance.now() - began;
  };
  const alone = begin();
  const aloneMs = await send('alone');
  await alone.stop();
  peer.state.hasOthers = false;
  for (let n = 0; n < 2_000; n += 1) await world.bob.put(`/att/k${n}`, { body: 'x' });
  // A leader that knows no target yet.
  const running = begin();
  onTestFinished(() => running.stop());
  await pause(1_500);
  // The lane is looked at every 2 s while its only known target rests.
  expect(await send('k')).toBeLessThan(6_000 + 10 * aloneMs);
  Object.assign(peer.state, { isHolding: true, most: 0 });
  await send('later');
  expect(peer.state.most).toBeGreaterThanOrEqual(8);
});

test('a resync goes on while versions of another account wait in its lane, and those that wait share one count', async () => {
  const endpoint = await openStubPeer({
    ownerOf: (bucket) => (bucket === 'vic' ? alice : bob).owner,
    take: async () => {},
  });
  // Time passes with the pages that are read.
  const clock = hurriedClock(1_000);
  const seen: SeenRows = { rows: 0, onPage: () => clock.hurry(1) };
  await using world = await openGateway({
    clock,
    settings: { SVC_EGRESS_ALLOW: '127.0.0.1' },
    wrap: (context) => ({
      ...context,
      metadata: countRows(context.metadata, hourlyQueues.name, seen).metadata,
    }),
  });
  await makeRole(world, { root: alice });
  await makeRole(world, { root: bob });
  const admin = operatorOf(world);
  await admin.must('PUT', '/replication/peers/far', stubPeerBody(endpoint));
  const to = findColliding('far/vic', (n) => `far/x${n}-gone`).slice('far/'.length);
  await replicateToStub(world.client, { owner: alice.owner, bucket: 'vic' });
  await world.client.put('/vic/key', { body: 'x' });
  const others = Array.from({ length: 8 }, (_, n) => `att-${n}`);
  for (const bucket of others) await replicateToStub(world.bob, { owner: bob.owner, bucket, to });
  const backlog = 2_000;
  for (let n = 0; n < backlog; n += others.length)
    await Promise.all(others.map((bucket) => world.bob.put(`/${bucket}/k${n}`, { body: 'x' })));
  for (const bucket of [...others, 'vic'])
    await admin.must('POST', `/replication/resync/${bucket}`, { status: 'all' });
  for await (const task of everyResync(world.context)) await stepResync(world.context, task);
  expect(await admin.must('GET', '/replication/resync/vic')).toMatchObject({ read: 1, queued: 1 });
  for (const bucket of others)
    expect(await admin.must('GET', `/replication/resync/${bucket}`)).toMatchObject({ read: 0 });
  // One for each account.
  expect(seen.rows).toBeLessThan(2 * (backlog + 10));
});

test('a backlog of a target that is away is read once, while events of a target in the same lane are delivered', async () => {
  await using down = await openWebhookSink();
  await using sink = await openWebhookSink();
  const name = findColliding('hook', (n) => `hook-${n}`);
  const seen: SeenRows = { rows: 0, onPage: () => {} };
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: countRows(context.metadata, hourlyQueues.name, seen).metadata,
  });
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: down, [name]: sink }),
    rules: [rule('hook')],
    slower: 1_000,
    wrap,
  });
  const { client, clock } = world;
  await client.put('/other');
  const body = `<NotificationConfiguration>${rule(name)}</NotificationConfiguration>`;
  expect((await client.put('/other?notification', { body })).status).toBe(200);
  await down[Symbol.asyncDispose]();
  for (let n = 0; n < 8_000; n += 1) await client.put(`/bucket/k${n}`, { body: 'x' });
  // The rows are older than the slowest commit.
  clock.hurry(11 * 60_000);
  world.worker.start();
  await client.put('/other/first', { body: 'x' });
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('first'), until);
  await vi.waitFor(() => expect(seen.rows).toBeGreaterThan(8_000), until);
  const rounds = 60;
  const before = seen.rows;
  for (let n = 0; n < rounds; n += 1) {
    const key = `later-${n}`;
    await client.put(`/other/${key}`, { body: 'x' });
    // No rest ends meanwhile, because the clock is slow.
    await vi.waitFor(() => expect(keysIn(sink.received)).toContain(key), until);
    clock.hurry(2_000);
  }
  // A pass reads the first rows of each slot, and not all 500 of it; there may be some passes in a round.
  expect((seen.rows - before) / rounds).toBeLessThan(1_500);
  // Those, and the test event of the configuration.
  await vi.waitFor(async () => expect(await world.queued()).toHaveLength(8_001), until);
});

test('lanes of targets that are away are read for a tenth of the time at most, however many they are', async () => {
  await using down = await openWebhookSink();
  const names = Array.from({ length: 64 }, (_, n) => `hook-${n}`);
  const seen: SeenRows = { rows: 0, onPage: () => {} };
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: countRows(context.metadata, hourlyQueues.name, seen).metadata,
  });
  await using world = await openNotifyWorld({
    targets: targetsAt(Object.fromEntries(names.map((name) => [name, down]))),
    rules: names.map((name) => rule(name, { prefix: `${name}/` })),
    slower: 1_000,
    wrap,
  });
  const { client, clock } = world;
  await down[Symbol.asyncDispose]();
  for (let n = 0; n < 16; n += 1)
    await Promise.all(names.map((name) => client.put(`/bucket/${name}/k${n}`, { body: 'x' })));
  world.worker.start();
  // Until each target rests for a quarter of a minute at least.
  for (let rest = 0; rest < 6; rest += 1) await clock.pass(61_000);
  let pages = 0;
  seen.onPage = () => {
    pages += 1;
    // The time that a read takes.
    clock.hurry(1);
  };
  for (const end = clock.elapsed() + 10_000; clock.elapsed() < end; ) await clock.pass(500);
  expect(pages).toBeGreaterThan(100);
  // Besides the tenth, the lanes that are read when the time ends.
  expect(pages).toBeLessThan(10_000 / 10 + 16 * 16 * 2);
});

test('a redriven event arrives before later ones of its object, also when the hour of these has long been empty in the main lane', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }), rules: [rule('hook')] });
  const { client, clock } = world;
  const sizeIn = (text: string): number => JSON.parse(text).Records?.[0]?.s3.object.size;
  const sizes = () => sink.received.map(({ body }) => sizeIn(body));
  // The first is given up, and the others wait.
  sink.answer = (reply, request) => status(sizeIn(request.body) === 1 ? 400 : 500)(reply, request);
  world.worker.start();
  await client.put('/bucket/key', { body: '1' });
  await vi.waitFor(async () => expect(await world.letters()).toHaveLength(1), until);
  for (const body of ['22', '333']) await client.put('/bucket/key', { body });
  await vi.waitFor(() => expect(sizes()).toContain(2), until);
  for (let hour = 0; hour < 3; hour += 1) await clock.pass(60 * 60_000);
  await vi.waitFor(() => expect(sizes().filter((size) => size === 2).length).toBeGreaterThan(1), until);
  await operatorOf(world.world).must('POST', '/notify/redrive', { target: 'hook' });
  sink.received.length = 0;
  sink.answer = status(204);
  await vi.waitFor(async () => {
    await clock.pass(5_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(sizes().filter((size) => size > 0)).toEqual([1, 2, 3]);
});

test('a redriven event is delivered while a target in the same lane is away, however old the events before it are', async () => {
  await using down = await openWebhookSink();
  await using sink = await openWebhookSink();
  const name = findColliding('hook', (n) => `hook-${n}`);
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: down, [name]: sink }),
    rules: [rule('hook')],
  });
  const { client, clock } = world;
  await client.put('/other');
  const body = `<NotificationConfiguration>${rule(name)}</NotificationConfiguration>`;
  expect((await client.put('/other?notification', { body })).status).toBe(200);
  await down[Symbol.asyncDispose]();
  // Keys of one name are in one slot.
  await client.put('/bucket/k', { body: 'x' });
  const sizes = (): readonly number[] =>
    sink.received.map(({ body: text }) => JSON.parse(text).Records?.[0]?.s3.object.size);
  const answerBySize =
    (answers: Readonly<Record<number, number>>): Answer =>
    (reply, request) =>
      status(answers[JSON.parse(request.body).Records?.[0]?.s3.object.size] ?? 204)(reply, request);
  // An event that is given up, and a later one of its object that waits.
  sink.answer = answerBySize({ 1: 400, 2: 500 });
  world.worker.start();
  await client.put('/other/k', { body: '1' });
  await vi.waitFor(async () => expect(await world.letters()).toHaveLength(1), until);
  await client.put('/other/k', { body: '22' });
  await vi.waitFor(() => expect(sizes()).toContain(2), until);
  // A lane is read again in full after a while, and then on from where the slowest commit ends.
  for (let round = 0; round < 15; round += 1) {
    await clock.pass(60_000);
  }
  await operatorOf(world.world).must('POST', '/notify/redrive', { target: name });
  sink.answer = status(204);
  sink.received.length = 0;
  let rounds = 0;
  for (; rounds < 150 && !sizes().includes(1); rounds += 1) {
    await clock.pass(5_000);
  }
  expect(sizes()).toContain(1);
  // A slot with few rows is read again in full each minute.
  expect(rounds).toBeLessThan(30);
  // The target that is away still has its event, and the test event of the configuration.
  await vi.waitFor(async () => expect(await world.queued()).toHaveLength(2), until);
});

test('refused events of a bucket in any number do not hide a waiting event of a bucket in the same waiting lane', async () => {
  await using sink = await openWebhookSink();
  const seenIn = (text: string) => JSON.parse(text).Records?.[0]?.s3;
  let isTaken = false;
  sink.answer = (reply, { body }) => {
    const s3 = seenIn(body);
    const isBad = s3?.bucket.name.startsWith('bad') || (s3?.bucket.name === 'bucket' && !isTaken);
    (isBad ? status(500) : status(204))(reply, { body, headers: {}, url: '' });
  };
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const { client, clock } = world;
  const others = world.world.as({ credential: bob });
  let n = 0;
  while (waitingSlot(0, `bad-${n}`) !== waitingSlot(0, 'bucket')) n += 1;
  const bad = `bad-${n}`;
  await others.put(`/${bad}`);
  const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
  expect((await others.put(`/${bad}?notification`, { body })).status).toBe(200);
  const slot = queueSlot('poison');
  for (let key = 0, added = 0; added < 5_500; key += 1) {
    if (queueSlot(`k${key}`) !== slot) continue;
    await others.put(`/${bad}/k${key}`, { body: 'x' });
    added += 1;
  }
  await client.put('/bucket/poison', { body: 'x' });
  world.worker.start();
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('poison'), until);
  // Until all of them wait.
  for (let round = 0; round < 40; round += 1) {
    await clock.pass(2_000);
  }
  isTaken = true;
  sink.received.length = 0;
  for (let round = 0; round < 120 && !keysIn(sink.received).includes('poison'); round += 1) {
    await clock.pass(2_000);
  }
  expect(keysIn(sink.received)).toContain('poison');
});
