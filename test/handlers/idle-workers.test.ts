/**
 * Idle workers: they read nothing while nothing is committed, and begin requested work as early as workers that look
 * for it all the time.
 */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { WorkerName } from '../../src/config/workers.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { rule } from '../support/notify-world.ts';
import { tasksOf } from '../support/recorded.ts';
import { drained, link, openSite, statusOf, until } from '../support/replication-sites.ts';
import { virtualClock } from '../support/virtual-clock.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

const never = new AbortController().signal;
const minute = 60_000;
const hour = 60 * minute;
/** Long enough for all first passes to end. Peers accept requests whose date is up to 15 minutes away. */
const idleMs = 5 * minute;

function run(world: GatewayWorld, ...names: WorkerName[]): void {
  const local = { identity: 'p', place: 0, places: 1, hasEnded: () => false };
  const running = startWorkers(world.context, names, never, { process: 'p', local });
  onTestFinished(() => running.stop());
}

async function openIdle(options: GatewayWorldOptions, ...names: WorkerName[]) {
  const clock = virtualClock(Date.now());
  const world = await openGateway({ ...options, clock });
  onTestFinished(() => world.close());
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  run(world, ...names);
  await clock.advance(idleMs);
  return { world, clock, admin: operatorOf(world) };
}

const polling: readonly WorkerName[] = [
  'force-empty',
  'fsck',
  'inventory',
  'notify',
  'replicator',
  'reshard',
  'rewrap',
  'scrub',
  'usage-rollup',
];

test('idle workers look for work when something was committed, and not otherwise', async () => {
  const { world, clock } = await openIdle({}, ...polling);
  const get = vi.spyOn(world.context.metadata, 'get');
  const scan = vi.spyOn(world.context.metadata, 'scan');
  const looks = (): number => get.mock.calls.length + scan.mock.calls.length;
  await clock.advance(2 * minute);
  const before = looks();
  await clock.advance(30 * minute);
  // The heartbeats of each minute are commits. Looks at intervals of a second or two would be some 10,000 reads.
  expect(looks() - before).toBeLessThan(30 * polling.length * 6);
  expect(looks() - before).toBeGreaterThan(0);
});

test('a request to empty a bucket is served by an idle worker within two seconds', async () => {
  const { world, clock, admin } = await openIdle({}, 'force-empty');
  await admin.must('POST', '/buckets/bucket/force-empty');
  await clock.advance(2_000);
  expect((await world.client.get('/bucket')).all('Key')).toEqual([]);
});

test.each(['fsck', 'scrub'] as const)(
  'a run of %s that an operator asks for begins within two seconds, and a scheduled one at its time',
  async (worker) => {
    const setting = worker === 'fsck' ? 'SVC_FSCK_INTERVAL' : 'SVC_SCRUB_INTERVAL';
    const { clock, admin } = await openIdle({ settings: { [setting]: '1h' } }, worker);
    const startedAt = async (): Promise<number> => {
      const run = await admin.must('GET', `/${worker}`);
      return Date.parse(String(run['startedAt'] ?? run['started'])) || Number(run['startedAt']) * 1000;
    };
    const first = await startedAt();
    await clock.advance(hour);
    const scheduled = await startedAt();
    expect(scheduled).toBeGreaterThanOrEqual(first + hour);
    expect(scheduled).toBeLessThan(first + hour + 5_000);
    await clock.advance(10 * minute);
    const asked = clock.now();
    await admin.must('POST', `/${worker}`);
    await clock.advance(2_000);
    expect(await startedAt()).toBeGreaterThanOrEqual(Math.floor(asked / 1000) * 1000);
  },
);

test('an event is delivered by an idle worker within SVC_NOTIFY_INTERVAL, and a refused one is retried after its rest', async () => {
  await using sink = await openWebhookSink();
  const target = { id: 'hook', type: 'webhook', accounts: ['*'], url: sink.url };
  const settings = { SVC_NOTIFY_TARGETS: JSON.stringify([target]), SVC_EGRESS_ALLOW: '127.0.0.0/8' };
  const { world, clock } = await openIdle({ settings }, 'notify');
  const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
  expect((await world.client.put('/bucket?notification', { body })).status).toBe(200);
  /** Time passes while no delivery is under way, because its time limits are those of the test's clock. */
  const delivered = async (...keys: readonly string[]): Promise<void> => {
    await clock.advance(1_000);
    await vi.waitFor(async () => expect(await tasksOf(world.context, 'notify')).toEqual([]), until);
    expect(keysOf(sink.received)).toEqual(keys);
  };
  await delivered();
  await clock.advance(idleMs);
  await world.client.put('/bucket/one', { body: 'content' });
  await delivered('one');
  await clock.advance(idleMs);
  sink.answer = status(500);
  await world.client.put('/bucket/two', { body: 'content' });
  await clock.advance(1_000);
  await vi.waitFor(() => expect(keysOf(sink.received)).toEqual(['one', 'two']), until);
  sink.answer = status(204);
  await vi.waitFor(async () => {
    await clock.advance(500);
    expect(keysOf(sink.received).length).toBeGreaterThan(2);
  }, until);
});

const keysOf = (received: readonly { readonly body: string }[]): readonly string[] =>
  received.flatMap(({ body }) => [...body.matchAll(/"key":"([^"]*)"/g)].map(([, key = '']) => key));

test('a version is sent by an idle replicator within SVC_REPLICATION_INTERVAL', async () => {
  const clock = virtualClock(Date.now());
  const near = await openSite({ clock, settings: { SVC_EGRESS_ALLOW: '127.0.0.1' } });
  const far = await openSite();
  await link(near, far);
  run(near.world, 'replicator');
  for (const key of ['one', 'two']) {
    await clock.advance(idleMs / 2);
    await near.world.client.put(`/bucket/${key}`, { body: 'content' });
    await clock.advance(1_000);
    await vi.waitFor(async () => expect(await statusOf(near, `/bucket/${key}`)).toBe('COMPLETED'), until);
    await drained(near);
  }
});
