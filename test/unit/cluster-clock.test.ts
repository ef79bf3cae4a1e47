/** Timestamps of two gateways with different error bounds follow the order of their writes, also while a node has a wrong clock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ClusterClock, describeWrongClocks } from '../../src/backends/metadata/wide-column/cluster-clock.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';

/** A clock of a cluster that is `aheadMs` ahead; a request takes `thereMs` and its reply `backMs`. */
const clockBehind = ({ aheadMs, thereMs, backMs }: { aheadMs: number; thereMs: number; backMs: number }) =>
  clockOf(async () => {
    await sleep(thereMs);
    const ms = Math.floor(performance.now() + aheadMs);
    await sleep(backMs);
    return ms;
  });

const clockOf = (read: () => Promise<number>): ClusterClock =>
  new ClusterClock(() => [{ node: 'one', read }]);

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
  const clock = clockBehind({ aheadMs: 60_000, thereMs: 0, backMs: 0 });
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
  const clock = clockOf(async () => {
    if (fails) throw new Error('away');
    return Math.floor(performance.now());
  });
  await expect(clock.stamp()).rejects.toThrow('away');
  fails = false;
  expect(await clock.stamp()).toBeGreaterThan(0n);
});

const hourMs = 60 * 60_000;

/** Nodes whose clocks are ahead of this process's by these ms; a node without a number does not answer. Time passes as the test says. */
function ring(aheadMs: Record<string, number | undefined>) {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const clocks = () =>
    Object.keys(aheadMs).map((node) => ({
      node,
      read: async () => {
        const ahead = aheadMs[node];
        if (ahead === undefined) throw new StoreUnavailable(`${node} does not answer`);
        return Math.floor(performance.now() + ahead);
      },
    }));
  const clock = new ClusterClock(clocks);
  /** The clock's error, after a while in which it was asked often. */
  const errorAfter = async (seconds: number): Promise<number> => {
    for (let step = 0; step < seconds; step += 1) {
      await clock.now();
      await vi.advanceTimersByTimeAsync(1000);
    }
    return Math.abs((await clock.now()) - performance.now());
  };
  return { clock, clocks, errorAfter };
}

const microsecondsNow = (): number => performance.now() * 1000;

test.each([hourMs, -hourMs, 30_000])(
  'a node whose clock is wrong by %s ms shifts no stamp and delays no commit',
  async (wrongMs) => {
    const nodes: Record<string, number> = { a: 0, b: 0, c: 0 };
    const { clock, clocks, errorAfter } = ring(nodes);
    expect(await errorAfter(3)).toBeLessThan(50);
    nodes['a'] = wrongMs;
    expect(await errorAfter(30)).toBeLessThan(50);
    const stamp = await clock.stamp();
    expect(Math.abs(Number(stamp) - microsecondsNow())).toBeLessThan(50_000);
    const passed = clock.passed(stamp);
    await vi.advanceTimersByTimeAsync(100);
    await passed;
    expect(describeWrongClocks(clock.wrongClocks())).toEqual([
      expect.stringContaining('the clock of node a is '),
    ]);
    // A gateway that starts now takes the time of the majority, too.
    expect(Math.abs((await new ClusterClock(clocks).now()) - performance.now())).toBeLessThan(50);
    nodes['a'] = 0;
    expect(await errorAfter(5)).toBeLessThan(50);
    expect(clock.wrongClocks().size).toBe(0);
  },
);

test.each([hourMs, -hourMs])(
  'while other nodes restart, a node whose clock is wrong by %s ms shifts nothing',
  async (wrongMs) => {
    const nodes: Record<string, number | undefined> = { a: 0, b: 0, c: 0 };
    const { errorAfter } = ring(nodes);
    await errorAfter(3);
    nodes['a'] = wrongMs;
    nodes['b'] = undefined;
    expect(await errorAfter(60)).toBeLessThan(50);
    nodes['c'] = undefined;
    expect(await errorAfter(60)).toBeLessThan(50);
  },
);

test.each([hourMs, -hourMs])(
  'of two nodes, the one whose clock becomes wrong by %s ms shifts nothing',
  async (wrongMs) => {
    for (const node of ['a', 'b']) {
      const nodes: Record<string, number> = { a: 0, b: 0 };
      const { errorAfter } = ring(nodes);
      await errorAfter(3);
      nodes[node] = wrongMs;
      expect(await errorAfter(60)).toBeLessThan(50);
    }
  },
);

test('when the clock of the only node was set, the gateway follows it after some seconds, not at the first answer', async () => {
  const nodes = { a: 0 };
  const { clock, errorAfter } = ring(nodes);
  await errorAfter(3);
  nodes.a = hourMs;
  expect(await errorAfter(5)).toBeLessThan(50);
  nodes.a = 0;
  expect(await errorAfter(30)).toBeLessThan(50);
  nodes.a = hourMs;
  expect(Math.abs((await errorAfter(30)) - hourMs)).toBeLessThan(50);
  await clock.stamp();
});

test('after a pause of the gateway it follows the nodes at once, because they agree', async () => {
  const nodes = { a: 0, b: 0, c: 0 };
  const { errorAfter } = ring(nodes);
  await errorAfter(3);
  for (const node of ['a', 'b', 'c'] as const) nodes[node] = hourMs;
  expect(Math.abs((await errorAfter(5)) - hourMs)).toBeLessThan(50);
});

test('a clock that went back far refuses writes as unavailable until it is near again, and keeps none waiting', async () => {
  const nodes = { a: hourMs };
  const { clock, errorAfter } = ring(nodes);
  const early = await clock.stamp();
  nodes.a = 0;
  await errorAfter(30);
  await expect(clock.passed(early)).rejects.toThrow(/3\d\d\d s behind the stamp of a write/);
  await expect(clock.stamp()).rejects.toBeInstanceOf(StoreUnavailable);
  await vi.advanceTimersByTimeAsync(hourMs);
  expect(await errorAfter(3)).toBeLessThan(50);
  expect(await clock.stamp()).toBeGreaterThan(early);
});

test('where no node answers, the time is that of the last answers, and an old estimate is not used', async () => {
  const nodes: Record<string, number | undefined> = { a: 0, b: 0 };
  const { clock, errorAfter } = ring(nodes);
  await errorAfter(3);
  nodes['a'] = nodes['b'] = undefined;
  expect(await errorAfter(60)).toBeLessThan(50);
  await vi.advanceTimersByTimeAsync(hourMs);
  await expect(clock.now()).rejects.toThrow('does not answer');
});
