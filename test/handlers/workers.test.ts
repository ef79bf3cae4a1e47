/** GET /admin/v1/workers: what operators learn about the background workers. */
import { expect, test } from 'vitest';
import { writeInventories } from '../../src/workers/inventory.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { deadAfter } from '../support/dead-writer.ts';
import { openLogs } from '../support/delivered-logs.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { openLists } from '../support/inventory-lists.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

interface WorkerJson {
  readonly worker: string;
  readonly state: string;
  readonly process?: string;
  readonly generation?: number;
  readonly since?: number;
  readonly beatAt?: number;
  readonly units?: number;
  readonly lastUnit?: { readonly endedAt: number; readonly tookMs: number; readonly outcome: string };
  readonly failures?: number;
  readonly lastError?: { readonly at: number; readonly message: string };
  readonly progress?: Readonly<Record<string, unknown>>;
}

async function listWorkers(world: GatewayWorld): Promise<ReadonlyMap<string, WorkerJson>> {
  const { workers } = (await operatorOf(world).must('GET', '/workers')) as {
    readonly workers: readonly WorkerJson[];
  };
  return new Map(workers.map((each) => [`${each.worker}`, each]));
}

test('workers that never ran are listed as such, and nothing else is known of them', async () => {
  await using world = await openGateway();
  expect((await listWorkers(world)).get('lifecycle')).toEqual({ worker: 'lifecycle', state: 'never-ran' });
});

test('GET /workers tells the process that leads, its last unit, its rate and what is left', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  await world.client.put('/bucket');
  for (const key of ['a', 'b', 'c']) {
    await world.client.put(`/bucket/${key}`, { body: 'content' });
    await world.client.delete(`/bucket/${key}`);
  }
  const host = { process: 'host:1' };
  const running = startWorkers(world.context, ['gc', 'bucket-stats'], never, host);
  await clock.advance(world.context.config.SVC_GC_GRACE + 60_000);
  const workers = await listWorkers(world);
  expect(workers.get('bucket-stats')).toMatchObject({
    state: 'idle',
    process: 'host:1',
    generation: 1,
    failures: 0,
    lastUnit: { outcome: 'idle' },
    progress: { of: 'buckets', done: 1 },
  });
  const gc = workers.get('gc');
  expect(gc).toMatchObject({ process: 'host:1', progress: { of: 'rows', done: 3, backlog: 0 } });
  expect(gc).not.toHaveProperty('generation');
  expect(gc?.beatAt).toBeGreaterThan(gc?.since ?? Number.POSITIVE_INFINITY);
  await running.stop();
  expect((await listWorkers(world)).get('bucket-stats')?.state).toBe('stopped');
});

test('a worker that fails shows how often in a row, and its last error without secrets, until a unit succeeds', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  let isBroken = true;
  const metadata: typeof world.context.metadata = Object.create(world.context.metadata, {
    scan: {
      value: (...call: Parameters<typeof world.context.metadata.scan>) => {
        if (isBroken && call[0].table.name === 'buckets_all')
          throw new Error('refused: https://store/?X-Amz-Signature=c0ffee&x=1');
        return world.context.metadata.scan(...call);
      },
    },
  });
  const running = startWorkers({ ...world.context, metadata }, ['bucket-stats'], never, { process: 'p' });
  await clock.advance(8_000);
  const failing = (await listWorkers(world)).get('bucket-stats');
  expect(failing).toMatchObject({ state: 'failing', failures: 3 });
  expect(failing?.lastError?.message).toContain('refused: https://store/');
  expect(JSON.stringify(failing)).not.toContain('c0ffee');
  isBroken = false;
  await clock.advance(60_000);
  const healed = (await listWorkers(world)).get('bucket-stats');
  expect(healed).toMatchObject({ state: 'idle', failures: 0 });
  expect(healed?.lastError).toEqual(failing?.lastError);
  await running.stop();
});

test('a process that dies is shown as silent, and then its successor is shown', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const dead = new AbortController();
  const dying = deadAfter(dead.signal, world.context.metadata);
  startWorkers({ ...world.context, metadata: dying }, ['bucket-stats'], never, { process: 'first' });
  await clock.advance(1_000);
  expect((await listWorkers(world)).get('bucket-stats')).toMatchObject({ process: 'first', state: 'idle' });
  dead.abort();
  await clock.advance(5 * 60_000);
  expect((await listWorkers(world)).get('bucket-stats')).toMatchObject({ process: 'first', state: 'silent' });
  const successor = startWorkers(world.context, ['bucket-stats'], never, { process: 'second' });
  await clock.advance(5 * 60_000);
  const second = (await listWorkers(world)).get('bucket-stats');
  expect(second).toMatchObject({ process: 'second', state: 'idle', generation: 2 });
  await successor.stop();
});

test('the backlog of the lifecycle worker is what the passes that run have left, counted when it is asked for', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  await using world = await openGateway({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  const { client, context } = world;
  await client.put('/bucket');
  const rule =
    '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule>';
  await client.put('/bucket?lifecycle', { body: `<LifecycleConfiguration>${rule}</LifecycleConfiguration>` });
  const running = startWorkers(context, ['lifecycle'], never, { process: 'p' });
  await clock.advance(1_000);
  for (let n = 0; n < 5; n += 1) await client.put(`/bucket/${n}`, { body: '' });
  clock.jump(2 * 86_400_000);
  const shown = async () => (await listWorkers(world)).get('lifecycle')?.progress;
  expect(await shown()).toMatchObject({ of: 'actions', backlog: 0 });
  // Another leader begins the pass, and its process dies at the first deletion.
  const metadata: typeof context.metadata = Object.create(context.metadata, {
    commit: {
      value: (...call: Parameters<typeof context.metadata.commit>) =>
        call[0].table.name === 'objects'
          ? Promise.reject(new Error('dead'))
          : context.metadata.commit(...call),
    },
  });
  const stop = new AbortController();
  const dying: typeof context.telemetry = { ...context.telemetry, log: () => stop.abort() };
  const unit = carryOutLifecycles({ ...context, metadata, telemetry: dying }, 99);
  await unit(stop.signal);
  clock.jump(5_000);
  expect(await shown()).toMatchObject({ of: 'actions', backlog: 5, oldestSeconds: 5 });
  await running.stop();
});

test('the backlog of the inventory worker is estimated from the versions of the buckets that it lists', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '2' });
  const { world, clock } = lists;
  const running = startWorkers(world.context, ['inventory'], never, { process: 'p' });
  await clock.advance(3_000);
  for (let n = 0; n < 5; n += 1) await world.client.put(`/bucket/${n}`, { body: '' });
  await lists.configure({});
  await running.stop();
  const unit = writeInventories(world.context, 99);
  await unit(never);
  clock.jump(1_000);
  expect((await listWorkers(world)).get('inventory')?.progress).toMatchObject({ of: 'rows', backlog: 3 });
  const { etaSeconds } = await operatorOf(world).must('GET', '/buckets/bucket/inventory/all/run');
  expect(etaSeconds).toBe(2);
});

test('the backlog of a worker that drains a queue is that of its queue', async () => {
  await using logs = await openLogs('memory', { settings: { SVC_ACCESSLOG_INTERVAL: '3600s' } });
  const { world, clock } = logs;
  const running = startWorkers(world.context, ['queue-retention', 'access-log'], never, { process: 'p' });
  await clock.advance(1_000);
  await logs.ask(7);
  await clock.advance(120_000);
  const backlog = (await listWorkers(world)).get('access-log')?.progress?.['backlog'];
  expect(backlog).toBe((await logs.queued()).length);
  expect(backlog).toBeGreaterThanOrEqual(7);
  await running.stop();
});
