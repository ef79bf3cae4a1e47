/** Operators run, pause and resume background workers. */
import { expect, test } from 'vitest';
import { type RunningWorkers, startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

interface WorkerJson {
  readonly worker: string;
  readonly state: string;
  readonly units?: number;
  readonly paused?: { readonly by: string; readonly at: number; readonly reason?: string };
}

async function findWorker(world: GatewayWorld, name: string): Promise<WorkerJson | undefined> {
  const { workers } = await operatorOf(world).must('GET', '/workers');
  return (workers as readonly WorkerJson[]).find(({ worker }) => worker === name);
}
const findTask = async (world: GatewayWorld) => {
  const { tasks } = await operatorOf(world).must('GET', '/tasks');
  return (tasks as readonly Readonly<Record<string, unknown>>[])[0];
};

const start = (world: GatewayWorld, process: string): RunningWorkers =>
  startWorkers(world.context, ['force-empty', 'bucket-stats'], never, { process });

async function openFull(clock = virtualClock()) {
  const world = await openGateway({ clock, settings: { SVC_BUCKETSTATS_INTERVAL: '1h' } });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  return { clock, world };
}

test('a paused worker does nothing in any process, also after a restart, and goes on when it is resumed', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  const admin = operatorOf(world);
  const first = start(world, 'host:1');
  const other = start(world, 'host:2');
  await clock.advance(10_000);
  const reason = 'the bucket is under investigation';
  const paused = await admin.must('POST', '/workers/force-empty/pause', { reason });
  expect(paused).toMatchObject({
    worker: 'force-empty',
    paused: { by: expect.stringContaining('arn:'), reason },
  });
  await clock.advance(10_000);
  await admin.must('POST', '/buckets/bucket/force-empty');
  await clock.advance(60_000);
  expect(await findWorker(world, 'force-empty')).toMatchObject({ state: 'paused', paused: { reason } });
  expect(await findWorker(world, 'bucket-stats')).toMatchObject({ state: 'idle' });
  expect(await findTask(world)).toMatchObject({ state: 'paused', why: expect.stringContaining(reason) });
  await Promise.all([first.stop(), other.stop()]);
  const restarted = start(world, 'host:3');
  await clock.advance(60_000);
  expect((await world.client.get('/bucket/key')).text).toBe('content');
  // A second pause keeps who paused it first.
  expect(await admin.must('POST', '/workers/force-empty/pause', { reason: 'again' })).toEqual({
    ...paused,
    isRunning: false,
  });

  expect(await admin.must('POST', '/workers/force-empty/resume')).not.toHaveProperty('paused');
  await clock.advance(60_000);
  expect(await findTask(world)).toMatchObject({ state: 'done', done: { count: 1 } });
  expect((await world.client.get('/bucket/key')).status).toBe(404);
  expect(await findWorker(world, 'force-empty')).toMatchObject({ state: 'idle', process: 'host:3' });
  await restarted.stop();
});

test('a worker that is asked to run begins within two seconds, whatever its interval', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  const running = start(world, 'host:1');
  await clock.advance(10_000);
  const before = (await findWorker(world, 'bucket-stats'))?.units ?? 0;
  const asked = await operatorOf(world).ask('POST', '/workers/bucket-stats/run', {});
  expect(asked).toMatchObject({ status: 202, json: { worker: 'bucket-stats', isRunning: true } });
  await clock.advance(2_000);
  await running.stop();
  expect((await findWorker(world, 'bucket-stats'))?.units).toBe(before + 1);
});

test('a worker that fails is tried again at once when it is asked to run', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  let isBroken = true;
  const { metadata } = world.context;
  const broken: typeof metadata = Object.create(metadata, {
    scan: {
      value: (...call: Parameters<typeof metadata.scan>) => {
        if (isBroken && call[0].table.name === 'buckets_all') throw new Error('refused');
        return metadata.scan(...call);
      },
    },
  });
  const running = startWorkers({ ...world.context, metadata: broken }, ['bucket-stats'], never, {
    process: 'p',
  });
  await clock.advance(60_000);
  expect(await findWorker(world, 'bucket-stats')).toMatchObject({ state: 'failing' });
  isBroken = false;
  await operatorOf(world).must('POST', '/workers/bucket-stats/run', {});
  await clock.advance(2_000);
  await running.stop();
  expect(await findWorker(world, 'bucket-stats')).toMatchObject({ failures: 0 });
});

test('requests to workers say where no process runs one, which names there are, and that a paused one does not run', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  const admin = operatorOf(world);
  expect(await admin.ask('POST', '/workers/gc/run')).toMatchObject({
    status: 202,
    json: { isRunning: false },
  });
  const unknown = await admin.ask('POST', '/workers/gcc/pause', {});
  expect(unknown.status).toBe(404);
  expect(JSON.stringify(unknown.json)).toContain('There is no worker gcc. There are: gc, ');
  await admin.must('POST', '/workers/gc/pause', {});
  expect((await admin.ask('POST', '/workers/gc/run')).status).toBe(400);
  expect(await findWorker(world, 'gc')).toMatchObject({ state: 'paused' });
  await clock.advance(1_000);
  const actions = (await auditRows(world.context)).map(({ action }) => action);
  expect(actions).toContain('admin:PauseWorker');
});

test('the health of the installation warns of a worker that has been paused for an hour, until it is resumed', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  const admin = operatorOf(world);
  await admin.must('POST', '/workers/gc/pause', { reason: 'a copy is made by hand' });
  await clock.advance(59 * 60_000);
  expect(await admin.must('GET', '/storage/health')).toMatchObject({ ok: true });
  await clock.advance(2 * 60_000);
  const health = await admin.must('GET', '/storage/health');
  expect(health).toMatchObject({ ok: false, source: 'workers' });
  expect(String(health['warnings'])).toMatch(
    /^the worker gc has been paused for 1 h by arn:.+: a copy is made by hand$/,
  );
  await admin.must('POST', '/workers/gc/resume', {});
  expect(await admin.must('GET', '/storage/health')).toMatchObject({ ok: true });
});
