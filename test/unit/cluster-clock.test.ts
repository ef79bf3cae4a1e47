/** Timestamps of two gateways with different error bounds follow the order of their writes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ClusterClock } from '../../src/backends/metadata/wide-column/session.ts';

/** A clock of a cluster that is `aheadMs` ahead; a request takes `thereMs` and its reply `backMs`. */
const clockBehind = ({ aheadMs, thereMs, backMs }: { aheadMs: number; thereMs: number; backMs: number }) =>
  new ClusterClock(async () => {
    await sleep(thereMs);
    const ms = Math.floor(performance.now() + aheadMs);
    await sleep(backMs);
    return ms;
  });

test('a stamp that was waited for is earlier than whatever another gateway draws afterwards', async () => {
  const aheadMs = 7 * 60_000;
  const slowThere = clockBehind({ aheadMs, thereMs: 20, backMs: 0 });
  const slowBack = clockBehind({ aheadMs, thereMs: 0, backMs: 20 });
  await Promise.all([slowThere.now(), slowBack.now()]);
  for (let turn = 0; turn < 10; turn += 1) {
    const [first, second] = turn % 2 === 0 ? [slowThere, slowBack] : [slowBack, slowThere];
    const early = await first.stamp();
    await first.passed(early);
    expect(await second.stamp()).toBeGreaterThan(early);
  }
});

test('the stamps of one gateway only grow', async () => {
  const clock = clockBehind({ aheadMs: -60_000, thereMs: 0, backMs: 0 });
  const stamps: bigint[] = [];
  for (let turn = 0; turn < 1000; turn += 1) stamps.push(await clock.stamp());
  expect(stamps).toEqual([...stamps].sort((a, b) => (a < b ? -1 : 1)));
  expect(new Set(stamps).size).toBe(stamps.length);
});

test('the clock is within the time that a question takes', async () => {
  const aheadMs = 3 * 60_000;
  const clock = clockBehind({ aheadMs, thereMs: 5, backMs: 5 });
  const before = performance.now() + aheadMs;
  const now = await clock.now();
  const after = performance.now() + aheadMs;
  const took = after - before + 1;
  expect(now).toBeGreaterThan(before - took);
  expect(now).toBeLessThan(after + took);
});

test('a cluster that does not answer is reported, and asked again', async () => {
  let fails = true;
  const clock = new ClusterClock(async () => {
    if (fails) throw new Error('away');
    return Math.floor(performance.now());
  });
  await expect(clock.stamp()).rejects.toThrow('away');
  fails = false;
  expect(await clock.stamp()).toBeGreaterThan(0n);
});
