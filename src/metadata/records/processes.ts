/** The records of leases, heartbeats and gateways, and of messages between nodes. */
import { table } from '../../ports/metadata-store.ts';
import type { QueueBacklog } from '../../ports/telemetry.ts';

// The record of a lease.

/** `generation` grows with every new holder and fences the writes of former holders. */
export interface LeaseRow {
  readonly name: string;
  readonly holder: string;
  readonly generation: number;
  readonly expires: number;
  /** Names the process of the holder, where other processes of its machine can see whether it has ended. */
  readonly process?: string;
}
export const leases = table<LeaseRow>()({
  name: 'leases',
  kind: 'conditional',
  partition: ['name'],
  sort: [],
  columns: { name: 'text', holder: 'text', generation: 'int', expires: 'int', process: 'text' },
});

// The record of a background worker that runs in a process: what it did last, and what it has left.

export interface HeartbeatRow {
  /** Always 0: one scan reads them all. */
  readonly slot: number;
  /** Empty in the row of the process itself, whose `beatAt` holds for all its workers that have not ended. */
  readonly worker: string;
  /** The host and process id. */
  readonly process: string;
  /** Of the worker's lease; 0 for a worker that runs in every process. */
  readonly generation: number;
  /** When the worker began in this process, by the clock of the process (ms), as all times here but `beatAt`. */
  readonly since: number;
  /** Store time (ms) of the last write of this row; a row that has little news is written less often than that of its process. */
  readonly beatAt: number;
  readonly endedAt?: number;
  /** Units of work that have ended. */
  readonly units: number;
  readonly lastUnit?: LastUnit;
  /** Failures in a row. */
  readonly failures: number;
  readonly lastError?: LastError;
  readonly progress?: HeartbeatProgress;
}
export interface LastUnit {
  readonly endedAt: number;
  readonly tookMs: number;
  readonly outcome: 'busy' | 'idle';
}
export interface LastError {
  readonly at: number;
  readonly message: string;
}
export interface HeartbeatProgress {
  /** What is counted, for example `objects`. */
  readonly of: string;
  readonly done: number;
  /** Over the last minute. */
  readonly perSecond: number;
  readonly left?: number;
  /** How long the oldest of them has waited. */
  readonly oldestSeconds?: number;
  /** Of `queue-retention`, which counts the rows of every queue. */
  readonly queues?: readonly QueueBacklog[];
}
export const heartbeats = table<HeartbeatRow>()({
  name: 'worker_heartbeats',
  kind: 'plain',
  partition: ['slot'],
  sort: ['worker', 'process'],
  columns: {
    slot: 'int',
    worker: 'text',
    process: 'text',
    generation: 'int',
    since: 'int',
    beatAt: 'int',
    endedAt: 'int',
    units: 'int',
    lastUnit: 'json',
    failures: 'int',
    lastError: 'json',
    progress: 'json',
  },
});

// The record of a gateway process that serves: what it is, since when, and what it was asked last.

export interface GatewayRow {
  /** Always 0: one scan reads them all. */
  readonly slot: number;
  /** The host and the address that it serves: the processes of a node have the same one. */
  readonly node: string;
  /** Among the processes of its node, from 0. A process that replaces a dead one has its place. */
  readonly place: number;
  /** `host:pid`, as in the heartbeats of workers. */
  readonly process: string;
  readonly address: string;
  readonly version: string;
  /** Such as `node 24.1.0`. */
  readonly runtime: string;
  /** The processes of its node, by its settings. */
  readonly processes: number;
  /** By the clock of the process (ms). */
  readonly startedAt: number;
  /** How long it has served, by its monotonic clock (ms). */
  readonly uptimeMs: number;
  /** Store time (ms) of the last write of this row. */
  readonly beatAt: number;
  readonly requests: GatewayRequests;
}

/** Requests of the storage protocol over the last one to two minutes. */
export interface GatewayRequests {
  readonly seconds: number;
  readonly requests: number;
  /** 4xx */
  readonly refused: number;
  /** 5xx */
  readonly failed: number;
}

export const gateways = table<GatewayRow>()({
  name: 'gateways',
  kind: 'plain',
  partition: ['slot'],
  sort: ['node', 'place'],
  columns: {
    slot: 'int',
    node: 'text',
    place: 'int',
    process: 'text',
    address: 'text',
    version: 'text',
    runtime: 'text',
    processes: 'int',
    startedAt: 'int',
    uptimeMs: 'int',
    beatAt: 'int',
    requests: 'json',
  },
});

/** A question to the processes of other nodes, or the answer of one of them. */
export interface NodeMessageRow {
  /** Whose messages the partition has: the questions of a minute, or the answers to a question. */
  readonly box: string;
  /** Of a question, drawn; of an answer, the process that gives it. */
  readonly id: string;
  /** The node that sends it. */
  readonly node: string;
  readonly topic: string;
  readonly text: string;
}

export const nodeMessages = table<NodeMessageRow>()({
  name: 'node_messages',
  kind: 'plain',
  partition: ['box'],
  sort: ['id'],
  columns: { box: 'text', id: 'text', node: 'text', topic: 'text', text: 'text' },
});
