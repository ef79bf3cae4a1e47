/** Operators run, pause and resume background workers. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { workerNames } from '../../src/config/workers.ts';
import { runWorker } from '../../src/domain/common/workers.ts';
import { type RunningWorkers, startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { flipText } from '../support/damage-metadata.ts';
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
  const status = await admin.must('GET', '/status');
  expect(status).toMatchObject({ ok: false, warnings: health['warnings'] });
  await admin.must('POST', '/workers/gc/resume', {});
  expect(await admin.must('GET', '/storage/health')).toMatchObject({ ok: true });
});

test('every worker is paused, refuses to run meanwhile, and runs again when it is resumed and when it is asked to', async () => {
  const { clock, world } = await openFull();
  await using _ = world;
  const admin = operatorOf(world);
  const every = [...workerNames, 'sweep'].sort();
  const statesOf = async (): Promise<Readonly<Record<string, string>>> => {
    const { workers } = await admin.must('GET', '/workers');
    return Object.fromEntries((workers as readonly WorkerJson[]).map(({ worker, state }) => [worker, state]));
  };
  const all = (state: unknown) => Object.fromEntries(every.map((name) => [name, state]));
  expect(await statesOf()).toEqual(all('never-ran'));
  const running = startWorkers(world.context, workerNames, never, { process: 'host:1' });
  await clock.advance(60_000);
  expect(await statesOf()).toEqual(all('idle'));
  for (const name of every) await admin.must('POST', `/workers/${name}/pause`, { reason: 'all rest' });
  await clock.advance(10_000);
  expect(await statesOf()).toEqual(all('paused'));
  for (const name of every)
    expect([name, (await admin.ask('POST', `/workers/${name}/run`)).status]).toEqual([name, 400]);
  for (const name of every) await admin.must('POST', `/workers/${name}/resume`);
  await clock.advance(60_000);
  expect(await statesOf()).toEqual(all('idle'));
  for (const name of every)
    expect(await admin.must('POST', `/workers/${name}/run`)).toMatchObject({ worker: name, isRunning: true });
  await running.stop();
});

test('sweep is paused and run in a process that names no worker', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock, settings: { SVC_INTENT_TTL: '1h' } });
  const admin = operatorOf(world);
  const running = startWorkers(world.context, [], never, { process: 'host:1' });
  await clock.advance(5 * 60_000);
  const before = (await findWorker(world, 'sweep'))?.units ?? 0;
  await admin.must('POST', '/workers/sweep/run');
  await clock.advance(5 * 60_000);
  expect((await findWorker(world, 'sweep'))?.units).toBe(before + 1);
  await admin.must('POST', '/workers/sweep/pause', { reason: 'a cluster is moved' });
  await clock.advance(3 * 60 * 60_000);
  // It did nothing for so long that its heartbeat is removed.
  const paused = await findWorker(world, 'sweep');
  expect(paused).toMatchObject({ state: 'paused' });
  expect(paused).not.toHaveProperty('units');
  expect(String((await admin.must('GET', '/storage/health'))['warnings'])).toContain(
    'the worker sweep has been paused',
  );
  await admin.must('POST', '/workers/sweep/resume');
  await clock.advance(5 * 60_000);
  expect(await findWorker(world, 'sweep')).toMatchObject({ state: 'idle', units: expect.any(Number) });
  await running.stop();
});

test('a worker whose control is damaged in the file is paused until an operator resumes it, and the others run', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const settings = { SVC_DATA_DIR: directory, SVC_BUCKETSTATS_INTERVAL: '1h' };
  const clock = virtualClock();
  {
    await using world = await openGateway({ clock, settings });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    await operatorOf(world).must('POST', '/workers/force-empty/pause', { reason: 'it is investigated' });
  }
  await flipText(join(directory, 'metadata', 'data.mdb'), 'it is investigated');
  await using world = await openGateway({ clock, settings });
  const admin = operatorOf(world);
  const workers = start(world, 'host:1');
  // The store really writes, so the time of leases passes only as fast as it does.
  const eventually = (check: () => Promise<void>): Promise<void> =>
    vi.waitFor(
      async () => {
        await clock.advance(500);
        await check();
      },
      { timeout: 60_000, interval: 20 },
    );
  const passMinute = async (): Promise<void> => {
    const end = clock.elapsed() + 60_000;
    await eventually(async () => expect(clock.elapsed()).toBeGreaterThanOrEqual(end));
  };
  // A request for the workers would write the damaged row again before they do.
  await passMinute();
  await admin.must('POST', '/buckets/bucket/force-empty');
  await passMinute();
  expect((await world.client.get('/bucket/key')).text).toBe('content');
  expect(await findWorker(world, 'force-empty')).toMatchObject({
    state: 'paused',
    paused: { by: 'sluice', reason: 'the row of its pause was damaged' },
  });
  await eventually(async () =>
    expect(await findWorker(world, 'bucket-stats')).toMatchObject({ state: 'idle' }),
  );
  await admin.must('POST', '/workers/force-empty/resume');
  await eventually(async () => expect((await world.client.get('/bucket/key')).status).toBe(404));
  await workers.stop();
});

test('a run that is asked for beside a damaged control is no pause', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const settings = { SVC_DATA_DIR: directory };
  {
    await using world = await openGateway({ settings });
    await operatorOf(world).must('POST', '/workers/force-empty/pause', { reason: 'it is investigated' });
  }
  await flipText(join(directory, 'metadata', 'data.mdb'), 'it is investigated');
  await using world = await openGateway({ settings });
  await runWorker(world.context, 'fsck', undefined);
  expect(await findWorker(world, 'fsck')).not.toHaveProperty('paused');
});
