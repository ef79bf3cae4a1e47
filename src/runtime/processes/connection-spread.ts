/**
 * Which processes of a node get connections where `SVC_PROCESSES` is `auto`
 * (docs/adr/0054-small-loads-stay-in-one-process.md). While the first process can serve all requests, it gets all connections: each
 * flush, wake-up and turn of the event loop then serves more requests. Once it is busy and processors are idle beside it, all processes
 * get connections.
 */
import cluster, { type Worker } from 'node:cluster';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { performance } from 'node:perf_hooks';
import { readStat } from '../../backends/process-identity.ts';
import type { Gateway } from '../../gateway.ts';
import type { Serving } from '../node/node-server.ts';

/** How often a process that answers requests reports its load. */
const reportMs = 250;
/**
 * A process without a request whose event loop was active for less of that time reports nothing more until a request comes or a
 * connection ends.
 */
const idleShare = 0.05;
/** The first process is busy from this share on: its requests begin to wait for each other. */
const busyShare = 0.75;
/**
 * The sizes of requests, by the time that one occupies the event loop. A large request costs about the same in several processes, a small
 * one a third more and above.
 *
 * - `fromMs`: a request of this size occupies the event loop for at least so many milliseconds, on average.
 * - `idleMin`: so many processors must be idle, because the other processes would otherwise take them from clients and other programs.
 * - `reports`: so many reports in a row must say so. One large request can fill a whole report, and the average of small requests varies: in
 *   single reports they look like medium ones.
 */
const sizes = {
  large: { fromMs: 1, idleMin: 0.25, reports: 2 },
  medium: { fromMs: 0.45, idleMin: 0.25, reports: 4 },
  small: { fromMs: 0, idleMin: 0.75, reports: 2 },
} as const;
/** The code of a process is not compiled for long yet, so that its first small requests take as long as those of medium size. */
const coldAnswers = 20_000;
/** The processes together are so little active that one of them suffices. */
const calmShare = 0.5;
/** How long they must be so. */
const calmMs = 2_000;

/** Of a process, in the time since its last report. */
interface Load {
  /** The share of the time in which its event loop was active. */
  readonly share: number;
  readonly answers: number;
  /** Open now. */
  readonly connections: number;
}

type Message =
  /** process → primary */
  | ({ readonly type: 'sluice:load' } & Load)
  /** primary → process: this share of its connections ends, each with its next reply */
  | { readonly type: 'sluice:shed'; readonly share: number };

const isLoad = (message: unknown): message is Load =>
  (message as Partial<Message> | null)?.type === 'sluice:load';

const isShed = (message: unknown): message is { readonly share: number } =>
  (message as Partial<Message> | null)?.type === 'sluice:shed';

/** Bun and Deno do not measure the utilization of the loop. */
const hasUtilization = process.versions['bun'] === undefined && process.versions['deno'] === undefined;

/** Where a number is set, every process gets its share from the start. */
const hasSpread = (processes: number | 'auto'): boolean => processes === 'auto' && hasUtilization;

// In a process that serves.

type Handler = Pick<Gateway, 'handle'>;

export interface SpreadMember {
  /** The same gateway, whose requests are the load of this process. */
  watch(gateway: Handler): Handler;
  /** A connection has ended. The primary would otherwise count those of an idle process that have ended long ago. */
  readonly disconnected: () => void;
  /** From now on the primary may end connections. */
  follow(serving: Pick<Serving, 'countConnections' | 'shed'>): void;
}

/**
 * Reports the load of this process to the primary while it has requests, so that an idle process needs no timer. Does nothing
 * where the primary has no spread.
 */
export function joinSpread(processes: number | 'auto'): SpreadMember {
  if (!cluster.isWorker || !hasSpread(processes))
    return { watch: (gateway) => gateway, disconnected() {}, follow() {} };
  let timer: NodeJS.Timeout | undefined;
  let before = performance.eventLoopUtilization();
  // A large upload is a load long before its answer.
  let requests = 0;
  let answers = 0;
  let countConnections = (): number => 0;
  const report = (): void => {
    const now = performance.eventLoopUtilization();
    const { utilization: share } = performance.eventLoopUtilization(now, before);
    const load: Message = { type: 'sluice:load', share, answers, connections: countConnections() };
    before = now;
    answers = 0;
    if (process.connected) process.send?.(load, undefined, undefined, () => {});
    if (share >= idleShare || requests > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const start = (): void => {
    if (timer !== undefined) return;
    before = performance.eventLoopUtilization();
    timer = setInterval(report, reportMs);
    timer.unref();
  };
  return {
    watch: (gateway) => ({
      handle: async (incoming) => {
        requests += 1;
        start();
        try {
          return await gateway.handle(incoming);
        } finally {
          requests -= 1;
          answers += 1;
        }
      },
    }),
    disconnected: start,
    follow(serving) {
      countConnections = serving.countConnections;
      process.on('message', (message: unknown) => {
        if (isShed(message)) serving.shed(message.share);
      });
    },
  };
}

// In the primary.

/** What the primary knows of the machine. */
interface Machine {
  readonly now: () => number;
  /** The time (ms) that all processors together have been idle. */
  readonly idleMs: () => number;
  /** The time (ms) that a process has used of processors; undefined where the platform does not tell. */
  readonly usedMs: (pid: number) => number | undefined;
}

const thisMachine: Machine = {
  now: () => performance.now(),
  idleMs: readIdleMs,
  usedMs: readUsedMs,
};

/** Linux counts it in hundredths of a second. */
const tickMs = 10;

/** A processor is idle also while it waits for a disk. `cpus()` leaves that time out. */
function readIdleMs(): number {
  try {
    // The first line: `cpu`, and the times of all processors as user, nice, system, idle and waiting for a disk.
    const [, , , , idle, waiting] = readFileSync('/proc/stat', 'latin1').split(/\s+/, 6);
    return (Number(idle) + Number(waiting)) * tickMs;
  } catch {
    return cpus().reduce((sum, { times }) => sum + times.idle, 0);
  }
}

function readUsedMs(pid: number): number | undefined {
  try {
    const stat = readStat(pid);
    return stat && stat.usedTicks * tickMs;
  } catch {
    return undefined;
  }
}

/** The part of a `Worker` that the spread needs. */
interface Process extends Pick<Worker, 'isConnected' | 'send'> {
  readonly process: { readonly pid?: number | undefined };
}

/** What the processors had done at a time (ms). */
interface Processors<P> {
  readonly at: number;
  readonly idleMs: number;
  /** What each process has used that serves beside the first one. */
  readonly usedMs: ReadonlyMap<P, number>;
}

/** Connections are with the first process, or spread over all; they are spread until every process serves. */
export class ConnectionSpread<P extends Process = Worker> {
  readonly #count: number;
  readonly #machine: Machine;
  /** The processes that serve, by their place. */
  readonly #serving = new Map<number, P>();
  readonly #loads = new Map<P, Load & { readonly at: number }>();
  /** Connections that a process was handed since its last report. */
  readonly #handed = new Map<P, number>();
  #isGathered = false;
  /** As it was passed with the last connection. */
  #hasTaken: (process: P) => boolean = () => true;
  /** Of the first process. */
  #answers = 0;
  /** Reports in a row that the first process is busy beside enough idle processors. */
  #busyReports = 0;
  #processors: Processors<P> | undefined;
  #calmSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param count of the processes */
  constructor(count: number, machine: Machine = thisMachine) {
    this.#count = count;
    this.#machine = machine;
  }

  /** A process serves from now on. */
  add(place: number, process: P): void {
    this.#serving.set(place, process);
    if (this.#serving.size < this.#count || this.#isGathered) return;
    // At the start no process has connections yet.
    if (this.#loads.size === 0) this.#gather();
    else this.#watch();
  }

  /** A process has ended, or is closing. Without the first one, the others get connections immediately. */
  remove(place: number): void {
    const process = this.#serving.get(place);
    if (process === undefined) return;
    this.#serving.delete(place);
    this.#loads.delete(process);
    this.#handed.delete(process);
    if (place > 0) return;
    this.#isGathered = false;
    this.#answers = 0;
  }

  /** @param message any message of a process */
  hear(process: P, message: unknown): void {
    if (!isLoad(message) || !this.#isServing(process)) return;
    const at = this.#machine.now();
    this.#loads.set(process, { ...message, at });
    this.#handed.set(process, 0);
    if (process !== this.#serving.get(0)) return;
    this.#answers += message.answers;
    if (!this.#isGathered) return;
    const before = this.#processors;
    this.#processors = this.#readProcessors(at);
    const idle = before === undefined ? 0 : countIdle(before, this.#processors);
    const { idleMin, reports } = this.#sizeOf((message.share * reportMs) / message.answers);
    this.#busyReports = message.share >= busyShare && idle >= idleMin ? this.#busyReports + 1 : 0;
    if (this.#busyReports >= reports) this.#spread();
  }

  /**
   * @param turn the process whose turn it is
   * @param hasTaken whether a process has acknowledged all connections of this listener that it got. While connections are spread, one
   * that hangs gets no more, so that it withholds one turn at most. A process without unacknowledged connections is always left then,
   * because each unacknowledged one withholds a turn.
   * @returns the process that gets the next connection
   */
  route(turn: P, hasTaken: (process: P) => boolean): P {
    this.#hasTaken = hasTaken;
    const first = this.#serving.get(0);
    if (this.#isGathered && first?.isConnected() === true) return first;
    let target = hasTaken(turn) ? turn : undefined;
    for (const process of this.#serving.values())
      if (target === undefined || this.#connectionsOf(process) < this.#connectionsOf(target))
        if (process.isConnected() && hasTaken(process)) target = process;
    target ??= turn;
    this.#handed.set(target, (this.#handed.get(target) ?? 0) + 1);
    return target;
  }

  /** @param ms that a request keeps the event loop */
  #sizeOf(ms: number): (typeof sizes)[keyof typeof sizes] {
    if (ms >= sizes.large.fromMs) return sizes.large;
    return ms >= sizes.medium.fromMs && this.#answers >= coldAnswers ? sizes.medium : sizes.small;
  }

  #isServing(process: P): boolean {
    for (const each of this.#serving.values()) if (each === process) return true;
    return false;
  }

  #readProcessors(at: number): Processors<P> {
    const usedMs = new Map<P, number>();
    for (const [place, each] of this.#serving) {
      const { pid } = each.process;
      const used = place > 0 && pid !== undefined ? this.#machine.usedMs(pid) : undefined;
      if (used !== undefined) usedMs.set(each, used);
    }
    return { at, idleMs: this.#machine.idleMs(), usedMs };
  }

  #connectionsOf(process: P): number {
    return (this.#loads.get(process)?.connections ?? 0) + (this.#handed.get(process) ?? 0);
  }

  #gather(): void {
    this.#isGathered = true;
    this.#busyReports = 0;
    this.#processors = undefined;
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const [place, process] of this.#serving) if (place > 0) shed(process, 1);
  }

  #spread(): void {
    this.#isGathered = false;
    const first = this.#serving.get(0);
    if (first !== undefined) shed(first, (this.#count - 1) / this.#count);
    this.#watch();
  }

  /** Waits until one process suffices. */
  #watch(): void {
    this.#calmSince = undefined;
    this.#timer ??= setInterval(() => this.check(), reportMs);
    this.#timer.unref();
  }

  /** Gathers the connections where one process has sufficed for a while. */
  check(): void {
    const now = this.#machine.now();
    let total = 0;
    for (const { share, at } of this.#loads.values()) if (now - at < 2 * reportMs) total += share;
    if (total >= calmShare || this.#serving.size < this.#count) this.#calmSince = undefined;
    else this.#calmSince ??= now;
    if (this.#calmSince === undefined || now - this.#calmSince < calmMs) return;
    const first = this.#serving.get(0);
    // One that hangs reports no load either.
    if (first !== undefined && this.#hasTaken(first)) this.#gather();
  }
}

/**
 * The processors that were idle between two times, and those that the background work of the other processes used: it takes less where a
 * process has clients. A process that did not serve at both times counts for nothing, because it comes with what its start has used.
 */
function countIdle<P>(before: Processors<P>, now: Processors<P>): number {
  let ms = now.idleMs - before.idleMs;
  for (const [process, usedMs] of now.usedMs) ms += usedMs - (before.usedMs.get(process) ?? usedMs);
  return ms / (now.at - before.at);
}

function shed(process: Process, share: number): void {
  if (process.isConnected()) process.send({ type: 'sluice:shed', share } satisfies Message, () => {});
}

/** @returns undefined where every process gets its share from the start */
export function openSpread(processes: number | 'auto', count: number): ConnectionSpread | undefined {
  return hasSpread(processes) && count > 1 ? new ConnectionSpread(count) : undefined;
}
