/** Several processes on one port: a primary that starts them, starts them again when they die, and stops them. */
import cluster, { type Worker } from 'node:cluster';
import { availableParallelism } from 'node:os';
import { backendsCanShare } from '../../config/checks.ts';
import type { Config } from '../../config.ts';
import type { Announcement } from '../../ports/siblings.ts';
import type { Log } from '../../telemetry/log.ts';
import { expecting } from '../expected-installation.ts';
import type { ConnectionSpread } from './connection-spread.ts';
import { MemoryFaults } from './memory-faults.ts';
import { relayMetrics } from './node-metrics.ts';
import { relayAnnouncements } from './node-siblings.ts';
import { endAtOnce, killAfterMs } from './process-exit.ts';

/** One per core, where processes can share the backends; otherwise one. */
export function processCount(config: Config): number {
  if (config.SVC_PROCESSES !== 'auto') return config.SVC_PROCESSES;
  return backendsCanShare(config) ? availableParallelism() : 1;
}

const placeVariable = 'SLUICE_PROCESS_PLACE';

/** The place of this process among those of its node, from 0; a process that replaces a dead one has its place. */
export const processPlace = (): number => Number(process.env[placeVariable] ?? 0);

/**
 * A young generation of a quarter of what Node chooses where there is much memory: a process takes some 200 MiB less for 3 % more CPU
 * (docs/benchmarks.md). What an operator sets comes behind it, and holds.
 */
const memoryOptions = '--max-semi-space-size=16';

/** A process that served for less is restarted more slowly each time. */
const quickDeathMs = 10_000;
const restartMs = [0, 1_000, 2_000, 5_000, 15_000, 30_000] as const;
/** The longest pause while no other process serves: clients wait for all of it. */
const lonePauseMs = 1_000;

interface ProcessesOptions {
  readonly count: number;
  readonly log: Log;
  readonly shutdownTimeoutMs: number;
  /** The metadata file that the processes map. */
  readonly mappedFile?: string | undefined;
  /** Called once, when all of them serve. */
  readonly onReady: (url: string) => void;
  /** Called with every announcement of a process. */
  readonly hear?: (announcement: Announcement) => void;
  /** Which process gets a connection. Absent: they take turns. */
  readonly spread?: ConnectionSpread | undefined;
  /** Called once, with the first reason that a process gave for not starting. */
  readonly onRefused: (why: string) => void;
}

interface End {
  readonly code: number | null;
  readonly signal: string | null;
  readonly livedMs: number;
}

/** A slot for one process. Each slot counts its own deaths, so that one faulty process does not delay the restart of others. */
interface Place {
  readonly index: number;
  quickDeaths: number;
}

/** For one of several: without a primary nothing would stop it, so it ends before Node has it exit, which may never finish. */
export function endWithPrimary(): void {
  cluster.worker?.once('disconnect', () => {
    if (cluster.worker?.exitedAfterDisconnect !== true) endAtOnce();
  });
}

/** Resolves with the exit code of the node, when its last process has ended. */
export function superviseProcesses(options: ProcessesOptions): Promise<number> {
  relayMetrics();
  relayAnnouncements(options.hear);
  return new Promise((resolve) => new Processes(options, resolve).start());
}

/** A class because it has a lifetime: from the first fork to the last exit. */
class Processes {
  readonly #options: ProcessesOptions;
  readonly #end: (code: number) => void;
  readonly #faults: MemoryFaults;
  readonly #ready = new Set<number>();
  /** The installation that the first process found; later ones must find the same. */
  #installation: string | undefined;
  #announced = false;
  #refused = false;
  #stopping = false;
  #exitCode = 0;

  constructor(options: ProcessesOptions, end: (code: number) => void) {
    this.#options = options;
    this.#end = end;
    this.#faults = new MemoryFaults(options.log, options.mappedFile);
  }

  start(): void {
    for (let index = 0; index < this.#options.count; index += 1) this.#fork({ index, quickDeaths: 0 });
    onStopSignals(
      () => this.#stop(),
      () => this.#kill('SIGKILL'),
    );
  }

  #fork(place: Place): void {
    let startedAt = performance.now();
    const worker = cluster.fork({
      ...expecting(this.#installation),
      [placeVariable]: String(place.index),
      NODE_OPTIONS: `${memoryOptions} ${process.env['NODE_OPTIONS'] ?? ''}`,
    });
    handOver(worker, place, this.#options.spread);
    worker.on('message', (message: unknown) => {
      this.#options.spread?.hear(worker, message);
      if (isReady(message)) {
        // A slow start does not make a death any less quick.
        startedAt = performance.now();
        this.#options.spread?.add(place.index, worker);
        this.#take(worker, message);
      } else if (isRefused(message)) this.#refuse(message.why);
    });
    // The worker leaves the list only now, after its exit.
    worker.on('disconnect', () => {
      if (this.#stopping) this.#endWhenEmpty();
    });
    worker.on(
      'exit',
      (code, signal) =>
        void this.#ended(worker, place, { code, signal, livedMs: performance.now() - startedAt }),
    );
  }

  #take(
    worker: Worker,
    { url, installation }: { readonly url: string; readonly installation?: string },
  ): void {
    this.#installation ??= installation;
    this.#ready.add(worker.id);
    if (this.#announced || this.#ready.size < this.#options.count) return;
    this.#announced = true;
    this.#options.onReady(url);
  }

  #refuse(why: string): void {
    if (this.#refused) return;
    this.#refused = true;
    this.#options.onRefused(why);
  }

  async #ended(worker: Worker, place: Place, end: End): Promise<void> {
    const wasReady = this.#ready.delete(worker.id);
    this.#options.spread?.remove(place.index);
    const { isExplained, isHopeless } = await this.#faults.note({
      pid: worker.process.pid,
      signal: end.signal,
    });
    if (this.#stopping) {
      this.#endWhenEmpty();
    } else if ((wasReady || this.#announced) && !isHopeless) {
      this.#restart(worker, place, { ...end, isExplained });
    } else {
      // A process that cannot start would fail again: the address is in use, or a file belongs to another user or is damaged.
      this.#exitCode = end.code || 1;
      this.#stop();
    }
  }

  #restart(worker: Worker, place: Place, end: End & { readonly isExplained: boolean }): void {
    place.quickDeaths = end.livedMs < quickDeathMs && !end.isExplained ? place.quickDeaths + 1 : 0;
    const backoffMs = restartMs[Math.min(place.quickDeaths, restartMs.length - 1)] ?? 0;
    const pauseMs = this.#ready.size === 0 ? Math.min(backoffMs, lonePauseMs) : backoffMs;
    this.#options.log('ERROR', 'a process died and is started again', {
      pid: worker.process.pid,
      code: end.code,
      signal: end.signal,
      pauseMs,
    });
    setTimeout(() => {
      if (!this.#stopping) this.#fork(place);
    }, pauseMs);
  }

  #stop(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    setTimeout(() => this.#kill('SIGKILL'), this.#options.shutdownTimeoutMs + killAfterMs).unref();
    this.#kill('SIGTERM');
    this.#endWhenEmpty();
  }

  /** Not by `kill` of the worker's process: on Deno (2.9) that also closes its channel, and without one a worker ends immediately. */
  #kill(signal: NodeJS.Signals): void {
    for (const worker of Object.values(cluster.workers ?? {})) {
      const { pid, exitCode, signalCode } = worker?.process ?? {};
      if (pid === undefined || exitCode !== null || signalCode !== null) continue;
      try {
        process.kill(pid, signal);
      } catch {
        // It has ended, and its exit event follows.
      }
    }
  }

  #endWhenEmpty(): void {
    // The exit event comes before the worker leaves the list.
    setImmediate(() => {
      if (Object.keys(cluster.workers ?? {}).length === 0) this.#end(this.#exitCode);
    });
  }
}

interface HandedConnection {
  readonly act: 'newconn';
  readonly seq: number;
  /** Of the listener. */
  readonly key: string;
}
const isHandedConnection = (message: unknown): message is HandedConnection =>
  (message as Partial<HandedConnection> | null)?.act === 'newconn';

interface Acknowledgement {
  readonly ack?: number;
  /** False where the process has closed the listener. */
  readonly accepted?: boolean;
}

type Send = (message: unknown, handle?: unknown, ...rest: unknown[]) => boolean;

/** The way from the primary to a process. */
interface Channel {
  readonly send: Send;
  /** Connections that it has not acknowledged, by the number of their message. */
  readonly handed: Map<number, Handed>;
}
interface Handed {
  readonly connection: { close(): void };
  /** Of its listener. */
  readonly key: string;
  /** The process whose turn it was. */
  readonly turn: Worker;
}
const channels = new WeakMap<Worker, Channel>();

/** Whether a process has acknowledged all connections of a listener, each of which has its own turns. */
function hasTaken(worker: Worker, key: string): boolean {
  for (const each of channels.get(worker)?.handed.values() ?? []) if (each.key === key) return false;
  return true;
}

/**
 * The primary accepts connections and sends each to a process, which acknowledges it. `node:cluster` lets the processes
 * take turns. The spread may send a connection to another process than the one whose turn it is, which gets its next
 * turn with the acknowledgement all the same.
 *
 * Node keeps a connection open for ever where the process dies before that, so its client would wait for ever. Here the
 * connection is closed then: the client gets a reset. No other process gets it, because the dead one may have read of
 * it. The messages are internal ones of
 * `node:cluster`; `process-restarts.test.ts` shows that they are as here.
 */
function handOver(worker: Worker, place: Place, spread: ConnectionSpread | undefined): void {
  const { process } = worker;
  const own: Channel = { send: process.send.bind(process) as Send, handed: new Map() };
  channels.set(worker, own);
  process.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
    if (!isHandedConnection(message)) return own.send(message, handle, ...rest);
    const { seq, key } = message;
    const target = spread?.route(worker, (each) => hasTaken(each, key)) ?? worker;
    const { send, handed } = channels.get(target) ?? own;
    handed.set(seq, { connection: handle as { close(): void }, key, turn: worker });
    return send(message, handle, ...rest);
  };
  // Before Node's own listener, which sends the next connection immediately.
  process.prependListener('internalMessage', ({ ack, accepted }: Acknowledgement) => {
    if (ack === undefined || !own.handed.delete(ack)) return;
    // It has closed its listeners, and Node offers the connection again: without this it would be offered to the same process.
    if (accepted === false) spread?.remove(place.index);
  });
  // Not `disconnect`, which Node does not emit while it waits for an acknowledgement.
  process.once('exit', () => {
    for (const [ack, { connection, turn }] of own.handed)
      if (turn === worker) connection.close();
      // As if the dead process had acknowledged it: Node then closes the connection, and the other process gets its next turn.
      else turn.process.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: true });
    own.handed.clear();
  });
}

// The messages of a starting process to its primary.

const isReady = (message: unknown): message is { readonly url: string; readonly installation?: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:ready';

const isRefused = (message: unknown): message is { readonly why: string } =>
  (message as { type?: unknown } | null)?.type === 'sluice:refused';

/** Reports why this process cannot start, so that the primary prints it once for all of them. */
export function reportRefused(why: string): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve();
    else process.send({ type: 'sluice:refused', why }, undefined, undefined, () => resolve());
  });
}

/** Reports that this process serves. */
export function reportReady(url: string, installation: string | undefined): void {
  process.send?.({ type: 'sluice:ready', url, installation });
}

// The signals that stop a process.

/** A terminal signals the whole group, and npm and a primary send it on: the same Ctrl-C arrives several times. */
const sameMs = 1_000;

/**
 * @param stop called with the first signal
 * @param again called with each signal that comes at least a second after the first one: the operator does not want to wait any more
 */
export function onStopSignals(stop: () => void, again: () => void): void {
  let firstAt: number | undefined;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      const now = performance.now();
      if (firstAt === undefined) {
        firstAt = now;
        stop();
      } else if (now - firstAt >= sameMs) again();
    });
  }
}
