/** A leader that was paused while its successor worked writes nothing when it resumes (src/metadata/background/leases.ts). */

import { expect, test } from 'vitest';
import { rebalanceRows } from '../../../src/metadata/background/clusters.ts';
import { acquireLease, LeaseLost, leaderLease } from '../../../src/metadata/background/leases.ts';
import { bucketSlotOf } from '../../../src/metadata/buckets/buckets.ts';
import { sampleBuckets } from '../../../src/workers/buckets.ts';
import { compareAll } from '../../../src/workers/fsck.ts';
import { leaseTtlMs } from '../../../src/workers/leadership.ts';
import { rebalance } from '../../../src/workers/rebalance.ts';
import { supervise } from '../../../src/workers/supervisor.ts';
import type { Unit } from '../../../src/workers/worker.ts';
import { extentsOn, openPair, operatorOf } from '../../support/clusters.ts';
import { openGateway } from '../../support/gateway.ts';
import { onCount } from '../../support/metric-calls.ts';
import { pausedProcess } from '../../support/paused-process.ts';
import { steppingClock } from '../../support/recorded.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

const never = new AbortController().signal;

async function toTheEnd(unit: Unit): Promise<void> {
  for (let turn = 0; turn < 100 && (await unit(never)) === 'busy'; turn += 1);
}

for (const [method, when] of [
  ['get', 'before it reads the sample of its successor'],
  ['commit', 'before it writes its own'],
] as const)
  test(`bucket-stats that was paused ${when} does not replace that sample`, async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'one' });
    const former = pausedProcess(world.context);
    // The first calls to `tasks` begin the leader's term.
    const unit = sampleBuckets(former.context, 1);
    await toTheEnd(unit);
    former.pauseBefore(method, 'tasks');
    const late = unit(never).then(
      () => 'written',
      (cause: unknown) => cause,
    );
    await former.stands;
    await world.client.put('/bucket/key', { body: 'a longer one' });
    await toTheEnd(sampleBuckets(world.context, 2));
    const sample = await admin.must('GET', '/storage/classes');
    former.goOn();
    expect(await late).toBeInstanceOf(LeaseLost);
    expect(await admin.must('GET', '/storage/classes')).toEqual(sample);
    expect(JSON.stringify(sample)).toContain(`${'a longer one'.length}`);
  });

test('bucket-stats that was paused is refused as soon as its successor has begun', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const former = pausedProcess(world.context);
  const unit = sampleBuckets(former.context, 1);
  await toTheEnd(unit);
  const sample = await admin.must('GET', '/storage/classes');
  await world.client.put('/bucket');
  former.pauseBefore('get', 'tasks');
  const late = unit(never).catch((cause: unknown) => cause);
  await former.stands;
  const stop = new AbortController();
  stop.abort();
  await sampleBuckets(world.context, 2)(stop.signal).catch(() => undefined);
  former.goOn();
  expect(await late).toBeInstanceOf(LeaseLost);
  expect(await admin.must('GET', '/storage/classes')).toEqual(sample);
});

test('fsck that was paused does not reset its successor’s position', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  for (let i = 0; i < 3; i += 1) {
    await world.client.put(`/bucket${i}`);
    await world.client.put(`/bucket${i}/key`, { body: 'x' });
  }
  await admin.must('POST', '/fsck', {});
  const former = pausedProcess(world.context);
  const slow = { ...former.context, clock: steppingClock(150) };
  const unit = compareAll(slow, 1);
  await unit(never);
  const successor = compareAll(world.context, 2);
  former.pauseBefore('get', 'tasks');
  const late = unit(never).catch((cause: unknown) => cause);
  await former.stands;
  for (let turn = 0; turn < 200 && (await admin.must('GET', '/fsck'))['state'] !== 'done'; turn += 1)
    await successor(never);
  const done = await admin.must('GET', '/fsck');
  expect(done['state']).toBe('done');
  former.goOn();
  expect(await late).toBeInstanceOf(LeaseLost);
  expect(await admin.must('GET', '/fsck')).toEqual(done);
});

test('rebalance that was paused does not reopen the pass that its successor has ended', async () => {
  const { world, admin, clock, drain } = await openPair();
  await using _ = world;
  await world.client.put('/bucket');
  for (let i = 0; i < 5; i += 1) await world.client.put(`/bucket/${i}`, { body: `${i}` });
  await drain();
  const former = pausedProcess(world.context);
  // The pass writes a claim and an end for each slot without a bucket, and has written twice for the slot with one.
  former.pauseBefore('commit', 'rebalance_slots', 2 * bucketSlotOf('bucket') + 2);
  const late = rebalance(former.context)(never);
  await former.stands;
  expect((await rebalanceRows(world.context.metadata)).some(({ open }) => open !== undefined)).toBe(true);
  await clock.advance(leaseTtlMs + 1);
  const successor = rebalance(world.context);
  for (let turn = 0; turn < 20; turn += 1) {
    await successor(never);
    await clock.advance(100);
  }
  expect(await extentsOn(world, 'b')).toBe(5);
  const before = await admin.must('GET', '/clusters/a/drain-progress');
  const rows = await rebalanceRows(world.context.metadata);
  expect(rows.filter(({ open }) => open !== undefined)).toEqual([]);
  former.goOn();
  await late;
  expect(await rebalanceRows(world.context.metadata)).toEqual(rows);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toEqual(before);
});

test('a worker whose write was fenced becomes a standby without a panic', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const panics: string[] = [];
  const telemetry = {
    ...world.context.telemetry,
    ...onCount({ svc_worker_panic_total: ({ worker }) => void panics.push(worker) }),
  };
  const stop = new AbortController();
  const generations: number[] = [];
  const running = supervise(
    { ...world.context, telemetry },
    {
      name: 'w',
      leased: true,
      everyMs: 1_000,
      start(generation) {
        generations.push(generation);
        return () => {
          throw new LeaseLost('a task', generation);
        };
      },
    },
    stop.signal,
  );
  await clock.advance(6_000);
  stop.abort();
  await running;
  expect(panics).toEqual([]);
  // Each term has a new lease, and so a greater generation.
  expect(generations).toEqual([1, 2]);
  const wanted = { name: leaderLease('w'), holder: 'h', ttlMs: leaseTtlMs };
  expect(await acquireLease(world.context.metadata, wanted)).toMatchObject({ generation: 3 });
});
