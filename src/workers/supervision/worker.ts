/** A background worker: it does one bounded unit of work at a time. */
import type { HeartbeatProgress } from '../../metadata/records/processes.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Gate } from './controls.ts';
import type { IdleRest } from './idle-rest.ts';

/** Does one bounded unit; 'busy' if there is more to do now. Ends early when the signal aborts. */
export type Unit = (signal: AbortSignal) => Promise<'busy' | 'idle'>;

/** What a worker has done since its last report, and what it has left. */
export interface Progress extends Partial<Pick<HeartbeatProgress, 'left' | 'oldestSeconds' | 'queues'>> {
  readonly done?: number;
}

/** Gets the events of a worker's life. */
export interface Watch {
  began(generation: number): void;
  unitEnded(outcome: 'busy' | 'idle', tookMs: number): void;
  failed(cause: unknown): void;
  ended(): void;
  report(progress: Progress): void;
}

/** What the process gives to the units of a worker. */
export interface WorkerServices {
  report(progress: Progress): void;
  /** For a unit that runs as long as its lease: each of its rounds counts as a unit, so that operators see whether it goes on. */
  roundEnded(tookMs: number): void;
  /** Resolves when the clients of this process leave room for background work. Call it before each short piece of a long unit. */
  yieldToClients(signal: AbortSignal): Promise<void>;
  /** Store time (ms) of the last request of an operator to run now: a pass is due where the last one began before it. */
  runAt(): number | undefined;
  /** The rests between units, for a unit that knows what it waits for; and between the rounds of one that runs as long as its lease. */
  readonly idle?: IdleRest;
}

/** For a worker without a supervisor. */
export const unsupervised: WorkerServices = {
  report() {},
  roundEnded() {},
  async yieldToClients() {},
  runAt: () => undefined,
};

export interface Worker {
  readonly name: string;
  /** Leader-elected on `<name>-leader`. `gc` is not: it leases its slots itself. */
  readonly leased: boolean;
  /** The rest after an idle unit, in ms. */
  readonly everyMs: number;
  /**
   * Called for every run, so that a panic leaves no state behind in memory.
   * @param generation of the lease that it runs under, the fencing token of its writes; 0 without a lease
   * @param idle the rests between the units of this run
   */
  start(generation: number, idle: IdleRest): Unit;
  readonly watch?: Watch;
  /** Absent: operators do not control it. */
  readonly gate?: Gate;
}

/** Thrown by a unit that works on several shards, so that the panic is counted for the right one. */
export class ShardPanic extends Error {
  readonly shard: string;
  constructor(shard: string, cause: unknown) {
    super(`shard ${shard} failed`, { cause });
    this.shard = shard;
  }
}

// Derives the progress of workers from what they tell telemetry anyway.

const sum = (counts: Iterable<number>): number => {
  let total = 0;
  for (const count of counts) total += count;
  return total;
};

export const reportingTelemetry = (telemetry: Telemetry, report: WorkerServices['report']): Telemetry => ({
  ...telemetry,
  lifecycleActions(action, count) {
    telemetry.lifecycleActions(action, count);
    report({ done: count });
  },
  eventsDelivered(target, events) {
    telemetry.eventsDelivered(target, events);
    report({ done: events });
  },
  replicated(peer, sent) {
    telemetry.replicated(peer, sent);
    report({ done: 1 });
  },
  replicationWaits(waits) {
    telemetry.replicationWaits(waits);
    const oldestSeconds = Math.max(0, ...waits.map((wait) => wait.oldestSeconds));
    report({ left: sum(waits.map(({ waiting }) => waiting)), oldestSeconds });
  },
  accessLogDelivered(lines) {
    telemetry.accessLogDelivered(lines);
    report({ done: lines });
  },
  scrubbed(read) {
    telemetry.scrubbed(read);
    report({ done: read.bytes });
  },
  gcBacklog(extents) {
    telemetry.gcBacklog(extents);
    report({ left: sum(extents.values()) });
  },
  queueBacklogs(queues) {
    telemetry.queueBacklogs(queues);
    const oldestSeconds = Math.max(0, ...queues.map((queue) => queue.oldestSeconds));
    report({ left: sum(queues.map(({ rows }) => rows)), oldestSeconds, queues });
  },
});
