/** The queues of events, replication and access logs stay within their bounds, and what is dropped is counted. @storage */
import { describe, expect, test } from 'vitest';
import { boundQueues } from '../../src/domain/queue-retention.ts';
import { type HourlyQueue, hourMs, hourOf, hoursOf, queuedByHour } from '../../src/metadata/hourly-queues.ts';
import { type QueueBacklog, silentTelemetry } from '../../src/ports/telemetry.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { tasksOf } from '../support/recorded.ts';

const never = new AbortController().signal;

function watch() {
  const dropped: string[] = [];
  const logged: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    queueDropped: (queue: string, why: string, rows: number) => void dropped.push(`${queue} ${why} ${rows}`),
    log: (level: string, message: string) => void logged.push(`${level} ${message}`),
  };
  return { dropped, logged, telemetry };
}

/** Rows as writers of earlier hours left them. */
async function queueAt(
  { context }: GatewayWorld,
  queue: HourlyQueue,
  { hoursAgo, count }: { hoursAgo: number; count: number },
) {
  const due = (await context.metadata.now()) - hoursAgo * hourMs;
  for (let n = 0; n < count; n += 1) {
    const options = { task: { n }, id: `${hoursAgo}-${n}`, due, requestId: 'request' };
    await context.metadata.apply([
      await queuedByHour(context.metadata, { queue, slotKey: `key ${n}` }, options),
    ]);
  }
}

const of = (backlogs: readonly QueueBacklog[], queue: string) =>
  backlogs.find((each) => each.queue === queue);

describe.each(backends)('on %s', (backend) => {
  test('rows of hours beyond the retention go, counted and logged; younger ones stay', async () => {
    const { dropped, logged, telemetry } = watch();
    await using world = await openGateway({ backend, telemetry, settings: { SVC_QUEUE_RETENTION: '3h' } });
    for (const hoursAgo of [10, 5, 2, 0]) await queueAt(world, 'notify', { hoursAgo, count: 20 });
    await queueAt(world, 'access-log', { hoursAgo: 9, count: 3 });
    const backlogs = await boundQueues(world.context, never);
    expect(dropped.sort()).toEqual(['access-log age 3', 'notify age 40']);
    expect(logged.filter((line) => line === 'WARN queued tasks were dropped')).toHaveLength(2);
    expect(of(backlogs, 'notify')?.rows).toBe(40);
    expect(of(backlogs, 'notify')?.oldestSeconds).toBeGreaterThan(3600);
    expect(await tasksOf(world.context, 'notify')).toHaveLength(40);
    expect(of(backlogs, 'replication')).toEqual({ queue: 'replication', rows: 0, oldestSeconds: 0 });
    // A second look finds the same, and drops nothing more.
    expect(of(await boundQueues(world.context, never), 'notify')?.rows).toBe(40);
    expect(dropped).toHaveLength(2);
    const hours: number[] = [];
    for await (const { hour } of hoursOf(world.context.metadata, 'notify')) hours.push(hour);
    expect(Math.min(...hours)).toBeGreaterThanOrEqual(hourOf(await world.context.metadata.now()) - 3);
  });

  test('the row of an event is in its hour in the commit of the change', async () => {
    await using world = await openGateway({
      backend,
      settings: { SVC_NOTIFY_TARGETS: '[{"id":"here","type":"queue","url":"redis://example.com"}]' },
    });
    const { client } = world;
    await client.put('/bucket');
    const body =
      '<NotificationConfiguration><QueueConfiguration><Id>i</Id><Queue>arn:aws:sqs:default:123456789012:here</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>';
    expect((await client.put('/bucket?notification', { body })).status).toBe(200);
    const before = (await tasksOf(world.context, 'notify')).length;
    for (let n = 0; n < 5; n += 1) await client.put(`/bucket/${n}`, { body: 'x' });
    expect((await tasksOf(world.context, 'notify')).length - before).toBe(5);
    expect(of(await boundQueues(world.context, never), 'notify')?.rows).toBe(before + 5);
  });
});

test('beyond its rows a queue loses its oldest hours, and never one of the last two', async () => {
  const { dropped, telemetry } = watch();
  await using world = await openGateway({ telemetry, settings: { SVC_QUEUE_ROWS_MAX: '1000' } });
  for (const hoursAgo of [9, 7, 5]) await queueAt(world, 'replication', { hoursAgo, count: 300 });
  for (const hoursAgo of [1, 0]) await queueAt(world, 'replication', { hoursAgo, count: 600 });
  const backlogs = await boundQueues(world.context, never);
  expect(dropped).toEqual(['replication rows 900']);
  expect(of(backlogs, 'replication')?.rows).toBe(1200);
  expect(await tasksOf(world.context, 'replication')).toHaveLength(1200);
});
