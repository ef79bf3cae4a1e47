/** The queues of events, replication and access logs stay within their limits, and dropped rows are counted. @storage */

import { describe, expect, test } from 'vitest';
import { beginBounds, boundQueues } from '../../src/domain/event-deliveries/queue-retention.ts';
import {
  dueRowsOfHour,
  finishHourlyRows,
  listDueHours,
} from '../../src/metadata/background/hourly-consumer.ts';
import {
  type HourlyQueue,
  hourMs,
  placementsEndMs,
  queuedByHour,
  queueHour,
  scanHours,
} from '../../src/metadata/background/hourly-queues.ts';
import type { QueueBacklog } from '../../src/metadata/records/processes.ts';
import type { QueueHour } from '../../src/metadata/records/queues.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { onCount } from '../support/metric-calls.ts';
import { tasksOf } from '../support/recorded.ts';

const never = new AbortController().signal;

function watch() {
  const dropped: string[] = [];
  const logged: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    ...onCount({
      svc_queue_dropped_total: ({ queue, why }, rows) => void dropped.push(`${queue} ${why} ${rows}`),
    }),
    log: (level: string, message: string) => void logged.push(`${level} ${message}`),
  };
  return { dropped, logged, telemetry };
}

/** The system's clock with a monotonic time that the test can advance. */
function skippingClock(): Clock & { skip(ms: number): void } {
  let skipped = 0;
  return {
    ...systemClock,
    elapsed: () => systemClock.elapsed() + skipped,
    skip: (ms) => {
      skipped += ms;
    },
  };
}

/** The leader's checks of the queues; `bound` first lets the time pass for which an hour stays closed before it is cleared. */
function leaderOf({ context }: Pick<GatewayWorld, 'context'>, clock: { skip(ms: number): void }) {
  const saved = beginBounds();
  const look = async (): Promise<readonly QueueBacklog[]> =>
    (await boundQueues(context, saved, never)).queues;
  return {
    look,
    async bound(): Promise<readonly QueueBacklog[]> {
      await look();
      clock.skip(placementsEndMs);
      return look();
    },
  };
}

/** Another process over the same store, without the caches of the first one. */
const processOf = ({ context }: Pick<GatewayWorld, 'context'>): Pick<GatewayWorld, 'context'> => ({
  context: { ...context, metadata: { ...context.metadata } },
});

/** Queues rows in an earlier hour, as writers did then, or as a process does whose clock is behind. */
async function queueAt(
  { context }: Pick<GatewayWorld, 'context'>,
  queue: HourlyQueue,
  {
    hoursAgo,
    count,
    name = '',
    account,
  }: { hoursAgo: number; count: number; name?: string; account?: string },
) {
  const due = (await context.metadata.now()) - hoursAgo * hourMs;
  for (let n = 0; n < count; n += 1) {
    const options = {
      task: { n, bucket: 'gone', bucketId: 'gone', key: `${n}`, ...(account && { account }) },
      id: `${name}${hoursAgo}-${n}`,
      due,
      requestId: 'request',
    };
    await context.metadata.apply([await queuedByHour(context, { queue, slotKey: `key ${n}` }, options)]);
  }
}

const of = (backlogs: readonly QueueBacklog[], queue: string) =>
  backlogs.find((each) => each.queue === queue);

describe.each(backends)('on %s', (backend) => {
  test('rows of hours beyond the retention go, counted and logged; younger ones stay', async () => {
    const { dropped, logged, telemetry } = watch();
    const clock = skippingClock();
    await using world = await openGateway({
      backend,
      clock,
      telemetry,
      settings: { SVC_QUEUE_RETENTION: '3h' },
    });
    const leader = leaderOf(world, clock);
    for (const hoursAgo of [10, 5, 2, 0]) await queueAt(world, 'notify', { hoursAgo, count: 20 });
    await queueAt(world, 'access-log', { hoursAgo: 9, count: 3 });
    const backlogs = await leader.bound();
    expect(dropped.sort()).toEqual(['access-log age 3', 'notify age 40']);
    expect(logged.filter((line) => line === 'WARN queued tasks were dropped')).toHaveLength(2);
    expect(of(backlogs, 'notify')?.rows).toBe(40);
    expect(of(backlogs, 'notify')?.oldestSeconds).toBeGreaterThan(3600);
    expect(await tasksOf(world.context, 'notify')).toHaveLength(40);
    expect(of(backlogs, 'replication')).toEqual({ queue: 'replication', rows: 0, oldestSeconds: 0 });
    // A second check counts the same rows and drops no more.
    expect(of(await leader.look(), 'notify')?.rows).toBe(40);
    expect(dropped).toHaveLength(2);
    const hours: number[] = [];
    for await (const { hour } of scanHours(world.context.metadata, 'notify')) hours.push(hour);
    expect(Math.min(...hours)).toBeGreaterThanOrEqual(queueHour(await world.context.metadata.now()) - 3);
  });

  test('rows that a consumer has finished are not counted any more, in hours that are over too', async () => {
    const clock = skippingClock();
    await using world = await openGateway({ backend, clock });
    const { context } = world;
    const leader = leaderOf(world, clock);
    for (const hoursAgo of [5, 3]) await queueAt(world, 'notify', { hoursAgo, count: 20 });
    expect(of(await leader.bound(), 'notify')?.rows).toBe(40);
    const now = await context.metadata.now();
    const finish = async (hours: readonly QueueHour[]): Promise<void> => {
      for (const hour of hours)
        for await (const row of dueRowsOfHour(context, hour, { now }))
          await finishHourlyRows(context.metadata, [row]);
    };
    const hours = await listDueHours(context, 'notify', now);
    await finish(hours.filter(({ hour }) => hour === queueHour(now) - 5));
    const left = of(await leader.look(), 'notify');
    expect(left?.rows).toBe(20);
    expect(left?.oldestSeconds).toBeGreaterThan(2 * 3600);
    expect(left?.oldestSeconds).toBeLessThan(4 * 3600);
    await finish(hours);
    expect(of(await leader.look(), 'notify')).toEqual({ queue: 'notify', rows: 0, oldestSeconds: 0 });
  });

  test('the row of an event is in its hour in the commit of the change', async () => {
    await using world = await openGateway({
      backend,
      settings: {
        SVC_NOTIFY_TARGETS:
          '[{"id":"here","accounts":["*"],"type":"redis","url":"redis://example.com","key":"events"}]',
      },
    });
    const { client } = world;
    await client.put('/bucket');
    const body =
      '<NotificationConfiguration><QueueConfiguration><Id>i</Id><Queue>arn:aws:sqs:default:123456789012:here</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>';
    expect((await client.put('/bucket?notification', { body })).status).toBe(200);
    const before = (await tasksOf(world.context, 'notify')).length;
    for (let n = 0; n < 5; n += 1) await client.put(`/bucket/${n}`, { body: 'x' });
    expect((await tasksOf(world.context, 'notify')).length - before).toBe(5);
    const { queues } = await boundQueues(world.context, beginBounds(), never);
    expect(of(queues, 'notify')?.rows).toBe(before + 5);
  });
});

test('beyond its rows a queue loses its oldest hours, and never one of the last two', async () => {
  const { dropped, telemetry } = watch();
  const clock = skippingClock();
  await using world = await openGateway({ clock, telemetry, settings: { SVC_QUEUE_ROWS_MAX: '1000' } });
  for (const hoursAgo of [9, 7, 5]) await queueAt(world, 'replication', { hoursAgo, count: 300 });
  for (const hoursAgo of [1, 0]) await queueAt(world, 'replication', { hoursAgo, count: 600 });
  const backlogs = await leaderOf(world, clock).bound();
  expect(dropped).toEqual(['replication rows 900']);
  expect(of(backlogs, 'replication')?.rows).toBe(1200);
  expect(await tasksOf(world.context, 'replication')).toHaveLength(1200);
});

test('beyond its rows a queue drops tasks of the account that fills it, and none of another one', async () => {
  const { dropped, logged, telemetry } = watch();
  const clock = skippingClock();
  await using world = await openGateway({ clock, telemetry, settings: { SVC_QUEUE_ROWS_MAX: '1000' } });
  // The oldest rows are those of the account whose target is away.
  for (const hoursAgo of [9, 8])
    await queueAt(world, 'notify', { hoursAgo, count: 30, account: 'small', name: 'small ' });
  for (const hoursAgo of [7, 6, 5])
    await queueAt(world, 'notify', { hoursAgo, count: 400, account: 'large', name: 'large ' });
  await queueAt(world, 'notify', { hoursAgo: 0, count: 100, account: 'middle', name: 'middle ' });
  const leader = leaderOf(world, clock);
  const backlogs = await leader.look();
  // 1,000 rows less 60 and 100 are left to the account with the most.
  expect(dropped).toEqual(['notify rows 360']);
  expect(logged.filter((line) => line === 'WARN queued tasks were dropped')).toHaveLength(1);
  expect(of(backlogs, 'notify')?.rows).toBe(1000);
  const accounts = async () => {
    const tasks = (await tasksOf(world.context, 'notify')) as readonly { account?: string }[];
    const groups = Object.groupBy(tasks, ({ account }) => account ?? '');
    return Object.fromEntries(Object.entries(groups).map(([account, rows]) => [account, rows?.length]));
  };
  expect(await accounts()).toEqual({ small: 60, large: 840, middle: 100 });
  // A second look counts the same rows and drops no more.
  expect(of(await leader.bound(), 'notify')?.rows).toBe(1000);
  expect(dropped).toHaveLength(1);
});

test('an account that fills the running hour drops no older task of another one', async () => {
  const { dropped, telemetry } = watch();
  const clock = skippingClock();
  await using world = await openGateway({ clock, telemetry, settings: { SVC_QUEUE_ROWS_MAX: '1000' } });
  await queueAt(world, 'replication', { hoursAgo: 9, count: 20, account: 'small', name: 'small ' });
  await queueAt(world, 'replication', { hoursAgo: 0, count: 1200, account: 'large', name: 'large ' });
  await leaderOf(world, clock).bound();
  expect(dropped).toEqual([]);
});

test('an account with more rows in the running hour costs another one none of its older tasks, and loses its own later', async () => {
  const { dropped, telemetry } = watch();
  const clock = skippingClock();
  const max = 1000;
  await using world = await openGateway({ clock, telemetry, settings: { SVC_QUEUE_ROWS_MAX: `${max}` } });
  await queueAt(world, 'notify', { hoursAgo: 6, count: 800, account: 'small', name: 'small ' });
  await queueAt(world, 'notify', { hoursAgo: 5, count: 50, account: 'large', name: 'closed ' });
  await queueAt(world, 'notify', { hoursAgo: 0, count: 2000, account: 'large', name: 'open ' });
  const backlogs = await leaderOf(world, clock).bound();
  expect(dropped).toEqual(['notify rows 50']);
  expect(of(backlogs, 'notify')?.rows).toBe(2800);
  const tasks = (await tasksOf(world.context, 'notify')) as readonly { account?: string }[];
  expect(tasks.filter(({ account }) => account === 'small')).toHaveLength(800);
});

describe.each(backends)('a process whose clock lags, on %s', (backend) => {
  const settings = { SVC_QUEUE_RETENTION: '3h' };

  test('queues no task into an hour that another process has deleted', async () => {
    const { dropped, telemetry } = watch();
    const clock = skippingClock();
    await using world = await openGateway({ backend, clock, telemetry, settings });
    const leader = leaderOf(world, clock);
    const lagging = processOf(world);
    const behind = { hoursAgo: 6, count: 20 };
    await queueAt(lagging, 'notify', { ...behind, name: 'early ' });
    await leader.bound();
    expect(dropped).toEqual(['notify age 20']);
    await queueAt(lagging, 'notify', { ...behind, name: 'late ' });
    expect(await tasksOf(world.context, 'notify')).toHaveLength(20);
    for (let pass = 0; pass < 3; pass += 1) expect(of(await leader.bound(), 'notify')?.rows).toBe(20);
    expect(dropped).toEqual(['notify age 20']);
  });

  test('may still queue tasks into an hour that is closed; they are counted before it is deleted', async () => {
    const { dropped, telemetry } = watch();
    const clock = skippingClock();
    await using world = await openGateway({ backend, clock, telemetry, settings });
    const leader = leaderOf(world, clock);
    const lagging = processOf(world);
    const behind = { hoursAgo: 6, count: 3 };
    await queueAt(lagging, 'notify', { ...behind, name: 'early ' });
    await leader.look();
    await queueAt(lagging, 'notify', { ...behind, name: 'late ' });
    expect(dropped).toEqual([]);
    clock.skip(placementsEndMs);
    await leader.look();
    expect(dropped).toEqual(['notify age 6']);
    expect(await tasksOf(world.context, 'notify')).toEqual([]);
  });

  test('adds to an hour that was counted: the count is corrected', async () => {
    const clock = skippingClock();
    await using world = await openGateway({ backend, clock });
    const leader = leaderOf(world, clock);
    const lagging = processOf(world);
    const behind = { hoursAgo: 4, count: 10 };
    const rows = async (): Promise<number | undefined> => of(await leader.look(), 'notify')?.rows;
    await queueAt(lagging, 'notify', { ...behind, name: 'first ' });
    expect(await rows()).toBe(10);
    // The lagging process had announced its hour before the count, so its rows are counted.
    await queueAt(lagging, 'notify', { ...behind, name: 'second ' });
    clock.skip(placementsEndMs);
    expect(await rows()).toBe(20);
    // The lagging process announces its hour again.
    await queueAt(lagging, 'notify', { ...behind, name: 'third ' });
    expect(await rows()).toBe(30);
    // A new leader finds the counts that its predecessor stored.
    const next = leaderOf(world, clock);
    expect(of(await next.look(), 'notify')?.rows).toBe(30);
    await queueAt(lagging, 'notify', { ...behind, name: 'fourth ' });
    expect(of(await next.bound(), 'notify')?.rows).toBe(40);
  });
});
