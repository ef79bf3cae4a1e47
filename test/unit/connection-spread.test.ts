/** Where the connections of a node with `SVC_PROCESSES=auto` go, as its load changes. */
import { expect, test } from 'vitest';
import { ConnectionSpread } from '../../src/runtime/processes/connection-spread.ts';

const reportMs = 250;

/** A node of `count` processes on a machine that `step` moves by the time of one report. */
function nodeOf(count: number) {
  const machine = { now: 0, idle: 0, used: 0 };
  /** What a process had used before it joined the node. */
  const usedBefore = new Map<number, number>();
  const spread = new ConnectionSpread<FakeProcess>(count, {
    now: () => machine.now,
    idleMs: () => machine.idle,
    usedMs: (pid) => (usedBefore.get(pid) ?? 0) + machine.used,
  });
  const processes = Array.from({ length: count }, (_, place) => new FakeProcess(place));
  for (const each of processes) spread.add(each.place, each);
  const takesAll = () => true;
  return {
    spread,
    processes,
    /** Another process takes the place of one that has ended. */
    restart(place: number, { usedMs }: { readonly usedMs: number }): void {
      const process = new FakeProcess(place, 100 + usedBefore.size);
      usedBefore.set(process.process.pid, usedMs);
      spread.remove(place);
      spread.add(place, process);
      processes[place] = process;
    },
    /** The places that get the next connections, by turns. */
    places: (connections: number, hasTaken: (each: FakeProcess) => boolean = takesAll) =>
      Array.from({ length: connections }, (_, n) => {
        const turn = processes[n % count] as FakeProcess;
        return spread.route(turn, hasTaken).place;
      }),
    step(
      loads: readonly Partial<{ share: number; answers: number; connections: number }>[],
      { idle = 0, background = 0 } = {},
    ): void {
      machine.now += reportMs;
      machine.idle += idle * reportMs;
      machine.used += background * reportMs;
      for (const [place, load] of loads.entries())
        spread.hear(processes[place] as FakeProcess, {
          type: 'sluice:load',
          ...{ share: 0, answers: 0, connections: 0 },
          ...load,
        });
      spread.check();
    },
  };
}

class FakeProcess {
  readonly place: number;
  readonly process: { readonly pid: number };
  /** The shares of its connections that it was told to end. */
  readonly shed: number[] = [];
  constructor(place: number, pid = place) {
    this.place = place;
    this.process = { pid };
  }
  isConnected(): boolean {
    return true;
  }
  send(message: unknown): boolean {
    this.shed.push((message as { share: number }).share);
    return true;
  }
}

const small = { share: 0.95, answers: 2_000, connections: 16 };
const medium = { share: 0.95, answers: 500, connections: 16 };
const large = { share: 0.95, answers: 100, connections: 16 };

/** Two reports are needed, and a first one to compare the idle time with. */
const run = (
  node: ReturnType<typeof nodeOf>,
  load: typeof small,
  machine: { idle?: number; background?: number },
) => {
  for (let n = 0; n < 3; n += 1) node.step([load], machine);
};

test('all connections of a small load go to the first process', () => {
  const node = nodeOf(2);
  expect(node.places(4)).toEqual([0, 0, 0, 0]);
  run(node, { ...small, share: 0.7 }, { idle: 1.3 });
  expect(node.places(4)).toEqual([0, 0, 0, 0]);
});

test('a busy first process gives away its share when processors are idle', () => {
  const node = nodeOf(4);
  run(node, small, { idle: 0.8 });
  expect(node.processes.map(({ shed }) => shed)).toEqual([[0.75], [1], [1], [1]]);
  // Until the clients have come back, the other processes get the new connections.
  expect(node.places(12).filter((place) => place === 0)).toEqual([]);
});

test('small requests stay where hardly a processor is idle, large ones go to both processes', () => {
  const node = nodeOf(2);
  run(node, small, { idle: 0.7 });
  expect(node.places(2)).toEqual([0, 0]);
  run(node, large, { idle: 0.2 });
  expect(node.places(2)).toEqual([0, 0]);
  run(node, large, { idle: 0.3 });
  expect(node.places(2)).toEqual([1, 1]);
});

test('the first requests of a process are small, unless they take long: its code is not compiled yet', () => {
  const node = nodeOf(2);
  for (let n = 0; n < 10; n += 1) node.step([medium], { idle: 0.3 });
  expect(node.places(2)).toEqual([0, 0]);
  for (let n = 0; n < 10; n += 1) node.step([small], { idle: 0 });
  for (let n = 0; n < 5; n += 1) node.step([medium], { idle: 0.3 });
  expect(node.places(2)).toEqual([1, 1]);
});

test('small requests that some reports take for medium ones stay where hardly a processor is idle', () => {
  const node = nodeOf(2);
  for (let n = 0; n < 11; n += 1) node.step([small], { idle: 0 });
  for (let n = 0; n < 24; n += 1) node.step([n % 4 === 3 ? small : medium], { idle: 0.6 });
  expect(node.places(2)).toEqual([0, 0]);
});

test('background work of the other processes keeps no connection away from them', () => {
  const node = nodeOf(2);
  run(node, small, { idle: 0, background: 0.9 });
  expect(node.places(2)).toEqual([1, 1]);
});

test('what a process used before it joined is no idle time beside the first one', () => {
  const node = nodeOf(2);
  node.step([small]);
  node.restart(1, { usedMs: 5_000 });
  node.step([small], { idle: 0 });
  node.step([small], { idle: 0.8 });
  expect(node.places(2)).toEqual([0, 0]);
  node.step([small], { idle: 0.8 });
  expect(node.places(2)).toEqual([1, 1]);
});

test('a process that ends takes no idle time from the first one', () => {
  const node = nodeOf(3);
  node.restart(1, { usedMs: 5_000 });
  node.step([small]);
  node.step([small], { idle: 0.8 });
  expect(node.places(2)).toEqual([0, 0]);
  node.spread.remove(1);
  node.step([small], { idle: 0.8 });
  expect(node.places(2)).not.toContain(0);
});

test('one large request does not spread the connections', () => {
  const node = nodeOf(2);
  node.step([small], { idle: 1 });
  node.step([large], { idle: 1 });
  node.step([{ share: 0.1 }], { idle: 1 });
  node.step([large], { idle: 1 });
  expect(node.places(2)).toEqual([0, 0]);
});

test('spread connections go to the process with the fewest', () => {
  const node = nodeOf(2);
  run(node, small, { idle: 1 });
  node.step([
    { ...small, connections: 8 },
    { ...small, connections: 4 },
  ]);
  expect(node.places(8).filter((place) => place === 1)).toHaveLength(6);
});

test('while connections are spread, no process that hangs gets a connection, be it its own turn or that of another', () => {
  const node = nodeOf(3);
  run(node, small, { idle: 1 });
  node.step([
    { ...small, connections: 8 },
    { ...small, connections: 4 },
    { ...small, connections: 0 },
  ]);
  expect(node.places(6, ({ place }) => place !== 2)).toEqual([1, 1, 1, 1, 1, 0]);
  // Each has one that it has not acknowledged: the turns stay as they are.
  expect(node.places(3, () => false)).toEqual([0, 1, 2]);
});

test('connections are not gathered in a first process that hangs', () => {
  const node = nodeOf(2);
  run(node, small, { idle: 1 });
  let hasFirstTaken = false;
  node.places(1, ({ place }) => place > 0 || hasFirstTaken);
  const calm = [{ share: 0 }, { share: 0.2 }];
  for (let n = 0; n < 20; n += 1) node.step(calm);
  expect(node.places(2, ({ place }) => place > 0 || hasFirstTaken)).toEqual([1, 1]);
  hasFirstTaken = true;
  node.step(calm);
  expect(node.places(2)).toEqual([0, 0]);
});

test('a process that is closing gets no connection, and what it reports later counts for nothing', () => {
  const node = nodeOf(2);
  node.step([small]);
  node.spread.remove(0);
  node.step([{ ...small, connections: 0 }]);
  const [first, other] = node.processes as [FakeProcess, FakeProcess];
  expect(node.spread.route(other, () => true)).toBe(other);
  node.spread.remove(1);
  // No load of the former processes is known, so both are as at the start.
  node.spread.add(0, first);
  node.spread.add(1, other);
  expect(node.places(2)).toEqual([0, 0]);
});

test('connections are gathered again after two calm seconds', () => {
  const node = nodeOf(2);
  run(node, small, { idle: 1 });
  const halves = [{ share: 0.3 }, { share: 0.3 }];
  for (let n = 0; n < 20; n += 1) node.step(halves);
  expect(node.processes[1]?.shed).toEqual([1]);
  const calm = [{ share: 0.2 }, { share: 0.2 }];
  for (let n = 0; n < 8; n += 1) node.step(calm);
  expect(node.processes[1]?.shed).toEqual([1]);
  node.step(calm);
  expect(node.processes[1]?.shed).toEqual([1, 1]);
  expect(node.places(2)).toEqual([0, 0]);
});

test('without the first process the others get the connections, and it gets them again once it serves', () => {
  const node = nodeOf(2);
  node.step([small]);
  const [first, other] = node.processes as [FakeProcess, FakeProcess];
  node.spread.remove(0);
  expect(node.spread.route(other, () => true)).toBe(other);
  node.spread.add(0, first);
  for (let n = 0; n < 10; n += 1) node.step([]);
  expect(node.spread.route(other, () => true)).toBe(first);
});
