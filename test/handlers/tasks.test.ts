/** GET /admin/v1/tasks: how far long tasks are, when they end, and why one does not go on. */
import { expect, test } from 'vitest';
import { emptyBuckets } from '../../src/workers/buckets.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { slowTasks } from '../support/slow-tasks.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

interface Amount {
  readonly count: number;
  readonly bytes?: number;
}
interface TaskJson {
  readonly kind: string;
  readonly name: string;
  readonly bucket?: string;
  readonly state: string;
  readonly why?: string;
  readonly done: Amount;
  readonly left?: Amount;
  readonly etaSeconds?: number;
  readonly startedAt: number;
  readonly finishedAt?: number;
  readonly lastError?: { readonly message: string };
}

async function listTasks(world: GatewayWorld, query = ''): Promise<readonly TaskJson[]> {
  const { tasks } = await operatorOf(world).must('GET', `/tasks${query}`);
  return tasks as readonly TaskJson[];
}

/** @returns the only task */
async function onlyTask(world: GatewayWorld, query = ''): Promise<TaskJson> {
  const tasks = await listTasks(world, query);
  expect(tasks).toHaveLength(1);
  return tasks[0] as TaskJson;
}

async function fill(world: GatewayWorld, bucket: string, objects: number): Promise<void> {
  await world.client.put(`/${bucket}`);
  for (let n = 0; n < objects; n += 1) await world.client.put(`/${bucket}/${n}`, { body: '0123456789' });
}

test('a task waits, and says why, while no process runs its worker', async () => {
  await using world = await openGateway();
  await fill(world, 'bucket', 3);
  await operatorOf(world).must('POST', '/buckets/bucket/force-empty');
  expect(await onlyTask(world)).toMatchObject({
    kind: 'force-empty',
    bucket: 'bucket',
    state: 'waiting',
    why: 'No process runs the worker force-empty: see SVC_WORKERS.',
    worker: 'force-empty',
    of: 'versions',
    done: { count: 0, bytes: 0 },
    left: { count: 3, bytes: 30 },
  });
});

test('while a bucket is emptied, done grows, left falls, the end comes nearer, and the task ends', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  await fill(world, 'bucket', 600);
  await operatorOf(world).must('POST', '/buckets/bucket/force-empty');
  const running = startWorkers(slowTasks(world), ['force-empty'], never, { process: 'host:1' });
  const seen: TaskJson[] = [];
  for (let steps = 0; seen.at(-1)?.state !== 'done' && steps < 60; steps += 1) {
    await clock.advance(1_000);
    seen.push(await onlyTask(world));
  }
  await running.stop();
  for (const [n, task] of seen.entries()) {
    const before = seen[n - 1];
    expect(task.done.count).toBeGreaterThanOrEqual(before?.done.count ?? 0);
    expect(task.left?.count).toBeLessThanOrEqual(before?.left?.count ?? 600);
    expect(task.startedAt).toBe(seen[0]?.startedAt);
  }
  const estimates = seen.flatMap(({ etaSeconds }) => etaSeconds ?? []);
  expect(estimates.length).toBeGreaterThan(1);
  expect(estimates).toEqual(estimates.toSorted((a, b) => b - a));
  expect(new Set(seen.map(({ state }) => state))).toEqual(new Set(['running', 'done']));
  expect(seen.at(-1)).toMatchObject({
    state: 'done',
    done: { count: 600, bytes: 6_000 },
    left: { count: 0, bytes: 0 },
  });
  expect(seen.at(-1)?.finishedAt).toBeGreaterThanOrEqual(seen[0]?.startedAt ?? Number.POSITIVE_INFINITY);
});

test('a process that dies leaves the progress, and its successor continues it', async () => {
  await using world = await openGateway();
  await fill(world, 'bucket', 600);
  await operatorOf(world).must('POST', '/buckets/bucket/force-empty');
  const first = emptyBuckets(world.context);
  // A unit for the uploads, one for the history, one for the first page of live versions.
  for (let units = 0; units < 3; units += 1) await first(never);
  const left = await onlyTask(world);
  expect(left).toMatchObject({ state: 'waiting', done: { count: 256 }, left: { count: 344 } });
  const second = emptyBuckets(world.context);
  await second(never);
  expect(await onlyTask(world)).toMatchObject({
    startedAt: left.startedAt,
    done: { count: 512 },
    left: { count: 88 },
  });
  while ((await second(never)) === 'busy');
  expect(await onlyTask(world)).toMatchObject({ state: 'done', done: { count: 600 } });
});

test('a bucket that cannot be emptied has the error on its own task, and the others end', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const { context } = world;
  for (const bucket of ['bad', 'good']) {
    await fill(world, bucket, 2);
    await operatorOf(world).must('POST', `/buckets/${bucket}/force-empty`);
  }
  const bad = (await onlyTask(world, '?bucket=bad')).name;
  const metadata: typeof context.metadata = Object.create(context.metadata, {
    scan: {
      value: (...call: Parameters<typeof context.metadata.scan>) => {
        if (call[0].table.name === 'objects' && (call[0].in as { bucketId: string }).bucketId === bad)
          throw new Error('the shard does not answer');
        return context.metadata.scan(...call);
      },
    },
  });
  const running = startWorkers({ ...context, metadata }, ['force-empty'], never, { process: 'p' });
  await clock.advance(120_000);
  await running.stop();
  const good = await onlyTask(world, '?bucket=good');
  expect(good).toMatchObject({ state: 'done', done: { count: 2 } });
  expect(good).not.toHaveProperty('lastError');
  const failing = await onlyTask(world, '?state=active');
  expect(failing).toMatchObject({ bucket: 'bad', left: { count: 2 } });
  expect(failing.lastError?.message).toContain('the shard does not answer');
});

test('tasks come in pages, and by kind, state and bucket', async () => {
  await using world = await openGateway();
  for (const bucket of ['aaa', 'bbb', 'ccc']) {
    await fill(world, bucket, 1);
    await operatorOf(world).must('POST', `/buckets/${bucket}/force-empty`);
  }
  await operatorOf(world).must('POST', '/buckets/aaa/reshard', { shards: 64 });
  const seen: TaskJson[] = [];
  let after = '';
  for (let pages = 0; pages < 10; pages += 1) {
    const page = await operatorOf(world).must('GET', `/tasks?limit=1${after}`);
    seen.push(...(page['tasks'] as readonly TaskJson[]));
    if (page['next'] === undefined) break;
    after = `&after=${encodeURIComponent(String(page['next']))}`;
  }
  expect(seen.map(({ kind }) => kind)).toEqual(['force-empty', 'force-empty', 'force-empty', 'reshard']);
  expect(seen.map(({ bucket }) => bucket).toSorted()).toEqual(['aaa', 'aaa', 'bbb', 'ccc']);
  expect(await onlyTask(world, '?kind=reshard')).toMatchObject({ bucket: 'aaa', state: 'done' });
  expect(await listTasks(world, '?state=ended')).toHaveLength(1);
  expect(await listTasks(world, '?bucket=aaa')).toHaveLength(2);
});
