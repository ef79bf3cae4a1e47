/** Each kind of long task in GET /admin/v1/tasks: done grows, left falls, and the task ends. */
import { expect, test, vi } from 'vitest';
import type { WorkerName } from '../../src/config/workers.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { openPair, operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { openLists } from '../support/inventory-lists.ts';
import { link, openSite, run, until } from '../support/replication-sites.ts';
import { slowTasks } from '../support/slow-tasks.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;

interface Amount {
  readonly count: number;
  readonly bytes?: number;
}
interface TaskJson {
  readonly state: string;
  readonly done: Amount;
  readonly left?: Amount;
  readonly startedAt: number;
  readonly finishedAt?: number;
}

async function findTask(world: GatewayWorld, kind: string): Promise<TaskJson | undefined> {
  const { tasks } = await operatorOf(world).must('GET', `/tasks?kind=${kind}`);
  return (tasks as readonly TaskJson[]).at(-1);
}

/** Follows the task to its end. @returns every state that was seen */
async function followed(
  { world, clock }: { readonly world: GatewayWorld; readonly clock: VirtualClock },
  { kind, workers }: { readonly kind: string; readonly workers: readonly WorkerName[] },
): Promise<readonly TaskJson[]> {
  const running = startWorkers(slowTasks(world), workers, never, { process: 'host:1' });
  const seen: TaskJson[] = [];
  for (let steps = 0; seen.at(-1)?.finishedAt === undefined && steps < 600; steps += 1) {
    await clock.advance(1_000);
    const task = await findTask(world, kind);
    if (task !== undefined) seen.push(task);
  }
  const stopped = running.stop();
  // The last unit may wait for its save.
  await clock.advance(60_000);
  await stopped;
  for (const [n, task] of seen.entries()) {
    const before = seen[n - 1];
    expect(task.done.count).toBeGreaterThanOrEqual(before?.done.count ?? 0);
    expect(task.done.bytes ?? 0).toBeGreaterThanOrEqual(before?.done.bytes ?? 0);
    if (before?.left !== undefined) expect(task.left?.count).toBeLessThanOrEqual(before.left.count);
  }
  expect(new Set(seen.map(({ state }) => state))).toEqual(new Set(['running', 'done']));
  expect(seen.at(-1)?.left?.count).toBe(0);
  return seen;
}

async function fill(world: GatewayWorld, bucket: string, objects: number): Promise<void> {
  await world.client.put(`/${bucket}`);
  for (let n = 0; n < objects; n += 1) await world.client.put(`/${bucket}/${n}`, { body: '0123456789' });
}

async function openFilled(settings: Readonly<Record<string, string>>) {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const world = await openGateway({ clock, settings });
  for (const bucket of ['one', 'two', 'three']) await fill(world, bucket, 4);
  // The totals of all buckets, by which the walks over all of them know what they have left.
  const sampling = startWorkers(world.context, ['bucket-stats'], never, { process: 'sampler' });
  await clock.advance(1_000);
  await sampling.stop();
  return { world, clock };
}

test('a scrub counts versions and bytes, and knows what is left', async () => {
  const opened = await openFilled({ SVC_SCRUB_RATE: '40', SVC_SCRUB_INTERVAL: '10d' });
  await using world = opened.world;
  await operatorOf(world).must('POST', '/scrub');
  const seen = await followed(opened, { kind: 'scrub', workers: ['scrub'] });
  expect(seen.some(({ state, left }) => state === 'running' && (left?.bytes ?? 0) > 0)).toBe(true);
  expect(seen.at(-1)).toMatchObject({ done: { count: 12, bytes: 120 }, left: { bytes: 0 } });
});

test('a scrub that is asked to run now begins although its interval is not over', async () => {
  const { world: opened, clock } = await openFilled({ SVC_SCRUB_RATE: '1MiB', SVC_SCRUB_INTERVAL: '10d' });
  await using world = opened;
  const running = startWorkers(world.context, ['scrub', 'fsck'], never, { process: 'host:1' });
  await clock.advance(60_000);
  const before = { scrub: await findTask(world, 'scrub'), fsck: await findTask(world, 'fsck') };
  expect(before.scrub).toMatchObject({ state: 'done' });
  await clock.advance(60_000);
  await operatorOf(world).must('POST', '/workers/scrub/run');
  await operatorOf(world).must('POST', '/workers/fsck/run');
  await clock.advance(60_000);
  await running.stop();
  for (const kind of ['scrub', 'fsck'] as const) {
    const after = await findTask(world, kind);
    expect(after).toMatchObject({ state: 'done' });
    expect(after?.startedAt).toBeGreaterThan((before[kind]?.startedAt ?? 0) + 60);
  }
});

test('fsck counts versions and extents', async () => {
  const opened = await openFilled({});
  await using world = opened.world;
  await operatorOf(world).must('POST', '/fsck');
  const seen = await followed(opened, { kind: 'fsck', workers: ['fsck'] });
  expect(seen.at(-1)?.done.count).toBeGreaterThanOrEqual(12);
});

test('a pass of the lifecycle counts entries of the age index', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  await using world = await openGateway({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  await fill(world, 'bucket', 5);
  const rule =
    '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule>';
  await world.client.put('/bucket?lifecycle', {
    body: `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`,
  });
  clock.jump(3 * dayMs);
  const seen = await followed({ world, clock }, { kind: 'lifecycle', workers: ['lifecycle'] });
  expect(seen.some(({ state, left }) => state === 'running' && left?.count === 5)).toBe(true);
  expect(seen.at(-1)).toMatchObject({ done: { count: 5 } });
});

test('an inventory counts rows, also within a data file, and its result stays', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '1000' });
  const { world, clock } = lists;
  for (let n = 0; n < 6; n += 1) await world.client.put(`/bucket/${n}`, { body: 'x' });
  await lists.configure({});
  await operatorOf(world).must('POST', '/buckets/bucket/inventory/all/run');
  expect(await findTask(world, 'inventory')).toMatchObject({ state: 'waiting', left: { count: 6 } });
  const seen = await followed({ world, clock }, { kind: 'inventory', workers: ['inventory'] });
  expect(seen.at(-1)).toMatchObject({ done: { count: 6 } });
});

test('a resync counts the versions that it reads', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  for (let n = 0; n < 3; n += 1) await near.world.client.put(`/bucket/${n}`, { body: 'x' });
  const admin = operatorOf(near.world);
  await admin.must('POST', '/replication/resync/bucket', { status: 'all' });
  expect(await findTask(near.world, 'resync')).toMatchObject({ state: 'waiting', left: { count: 3 } });
  run(near);
  await vi.waitFor(
    async () =>
      expect(await findTask(near.world, 'resync')).toMatchObject({ state: 'done', done: { count: 3 } }),
    until,
  );
});

test('an evacuation counts chunks and bytes, also before a worker has seen it, and one that is stopped says so', async () => {
  const { world, admin, clock, drain } = await openPair('memory', {
    settings: { SVC_GC_GRACE: '0s', SVC_GC_INTERVAL: '1s', SVC_REBALANCE_INTERVAL: '1s' },
  });
  await using _ = world;
  await fill(world, 'bucket', 6);
  await drain();
  const before = await findTask(world, 'evacuation');
  expect(before).toMatchObject({ state: 'waiting', done: { count: 0 }, left: { count: 6, bytes: 60 } });
  const running = startWorkers(world.context, ['rebalance', 'gc'], never, { process: 'host:1' });
  const seen: TaskJson[] = [];
  for (let steps = 0; seen.at(-1)?.finishedAt === undefined && steps < 300; steps += 1) {
    await clock.advance(5_000);
    const task = await findTask(world, 'evacuation');
    if (task !== undefined) seen.push(task);
  }
  expect(seen.at(-1)).toMatchObject({ state: 'done', done: { count: 6, bytes: 60 }, left: { count: 0 } });
  await admin.must('POST', '/clusters/a/undrain');
  await admin.must('POST', '/clusters/b/drain', { mode: 'evacuate' });
  await clock.advance(10_000);
  await admin.must('POST', '/clusters/b/undrain');
  await clock.advance(10_000);
  await running.stop();
  expect(await findTask(world, 'evacuation')).toMatchObject({
    state: 'failed',
    why: expect.stringMatching(/^The drain was stopped: the cluster is /),
  });
});
