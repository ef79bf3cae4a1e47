/** What the metrics and traces of the replicator and of the lifecycle worker say, with values. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';
import { configureLog, createLog } from '../../src/telemetry/log.ts';
import { createMetricRegistry, type MetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { openGateway } from '../support/gateway.ts';
import {
  link,
  never,
  openSite,
  refusal,
  run,
  settings,
  settled,
  until,
} from '../support/replication-sites.ts';
import { virtualClock } from '../support/virtual-clock.ts';

function openMetrics() {
  configureLog({ level: 'ERROR', write: () => {} });
  const metrics = createMetricRegistry({ version: '1', runtime: 'node' });
  return { metrics, telemetry: { ...metrics, log: createLog() } };
}

/** The samples of a metric: labels and value. */
async function samplesOf(metrics: MetricRegistry, name: string): Promise<readonly [string, number][]> {
  const lines = (await metrics.metrics()).split('\n');
  return lines.flatMap((line): [string, number][] => {
    const [, labels = '', value] = new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`).exec(line) ?? [];
    return value === undefined ? [] : [[labels, Number(value)]];
  });
}

test('the gauges of the replicator show what waits for each peer, and are gone when it stops', async () => {
  const { metrics, telemetry } = openMetrics();
  let aheadMs = -90_000;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const [near, far] = [await openSite({ telemetry, clock }), await openSite()];
  far.instead = () => refusal(503, 'SlowDown');
  await link(near, far);
  await near.world.client.put('/bucket/a', { body: 'x'.repeat(1000) });
  aheadMs = 0;
  await near.world.client.put('/bucket/b', { body: 'x'.repeat(234) });
  await near.world.client.delete('/bucket/b');
  const names = ['versions', 'bytes'].map((what) => `svc_replication_pending_${what}`);
  const gauges = () => Promise.all(names.map((name) => samplesOf(metrics, name)));
  const oldest = () => samplesOf(metrics, 'svc_replication_oldest_pending_seconds');
  expect(await gauges()).toEqual([[], []]);
  const running = startWorkers(near.world.context, ['replicator'], never);
  onTestFinished(() => running.stop());
  const about = 'peer="far"';
  await vi.waitFor(async () => expect(await gauges()).toEqual([[[about, 3]], [[about, 1234]]]), until);
  const [[label, seconds] = ['', 0]] = await oldest();
  expect(label).toBe(about);
  expect(seconds).toBeGreaterThanOrEqual(90);
  expect(seconds).toBeLessThan(90 + 60);
  await running.stop();
  expect([...(await gauges()), await oldest()]).toEqual([[], [], []]);
});

test('the gauges of the lifecycle worker show passes that go on, and how long the oldest has run', async () => {
  const { metrics, telemetry } = openMetrics();
  const virtual = virtualClock();
  // Each look at the clock takes so long that a unit ends after its first steps.
  let elapsed = 0;
  const clock = { ...virtual, elapsed: () => (elapsed += 3_000) };
  await using world = await openGateway({
    clock,
    telemetry,
    settings: { SVC_LIFECYCLE_RATE: '1000000' },
  });
  const rules =
    '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
  for (const name of ['one', 'two']) {
    await world.client.put(`/${name}`);
    await world.client.put(`/${name}?lifecycle`, { body: rules });
  }
  const gauges = () =>
    Promise.all(
      ['svc_lifecycle_passes', 'svc_lifecycle_oldest_pass_seconds'].map((name) => samplesOf(metrics, name)),
    );
  const stopping = new AbortController();
  const unit = carryOutLifecycles(world.context);
  expect(await gauges()).toEqual([[['', 0]], [['', 0]]]);
  expect(await unit(stopping.signal)).toBe('busy');
  expect(await gauges()).toEqual([[['', 2]], [['', 0]]]);
  virtual.jump(100_000);
  expect(await unit(stopping.signal)).toBe('busy');
  expect(await gauges()).toEqual([[['', 2]], [['', 100]]]);
  while ((await unit(stopping.signal)) === 'busy');
  expect(await gauges()).toEqual([[['', 0]], [['', 0]]]);
  stopping.abort();
  // Another process may lead now.
  expect(await gauges()).toEqual([[], []]);
});

test('the trace of a replication is linked to the request that queued it', async () => {
  const { exported, wrap } = exportingTracer();
  const near = await openSite({ settings, wrap });
  const far = await openSite();
  await link(near, far);
  run(near);
  const put = await near.world.client.put('/bucket/a', { body: 'x' });
  await settled(near, '/bucket/a', 'COMPLETED');
  const requestId = put.header('*-request-id');
  const named = (operation: string) =>
    exported.find((each) => each.requestId === requestId && each.operation === operation);
  await vi.waitFor(() => expect(named('worker:replicator')).toBeDefined(), until);
  const [request, delivery] = [named('PutObject'), named('worker:replicator')];
  expect(delivery?.links).toEqual([expect.stringContaining(`-${request?.traceId}-`)]);
  expect(delivery).toMatchObject({ bucket: 'bucket', key: 'a' });
  expect(delivery?.attributes).toMatchObject({
    'sluice.target': 'far/bucket',
    'messaging.destination.name': 'replication',
  });
});
