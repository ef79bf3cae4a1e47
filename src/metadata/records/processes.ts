/** The records of leases, heartbeats and gateways, and of messages between nodes. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

// The record of a lease.

/** `generation` grows with every new holder and fences the writes of former holders. */
export const leases = table({
  name: 'leases',
  kind: 'conditional',
  isExported: false,
  partition: ['name'],
  sort: [],
  columns: {
    name: text(),
    holder: text(),
    generation: int(),
    expires: int(),
    /** Names the process of the holder, where other processes of its machine can see whether it has ended. */
    process: optional(text()),
  },
});
export interface LeaseRow extends RowOf<typeof leases> {}

// The record of a background worker that runs in a process: what it did last, and what it has left.
export interface LastUnit {
  readonly endedAt: number;
  readonly tookMs: number;
  readonly outcome: 'busy' | 'idle';
}
export interface LastError {
  readonly at: number;
  readonly message: string;
}
/** The backlog of a background queue. */
export interface QueueBacklog {
  readonly queue: string;
  readonly rows: number;
  /** The waiting time of the oldest row. */
  readonly oldestSeconds: number;
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

export const heartbeats = table({
  name: 'worker_heartbeats',
  kind: 'plain',
  isExported: false,
  partition: ['slot'],
  sort: ['worker', 'process'],
  columns: {
    /** Always 0: one scan reads them all. */
    slot: int(),
    /** Empty in the row of the process itself, whose `beatAt` holds for all its workers that have not ended. */
    worker: text(),
    /** The host and process id. */
    process: text(),
    /** Of the worker's lease; 0 for a worker that runs in every process. */
    generation: int(),
    /** When the worker began in this process, by the clock of the process (ms), as all times here but `beatAt`. */
    since: int(),
    /** Store time (ms) of the last write of this row; a row that has little news is written less often than that of its process. */
    beatAt: int(),
    endedAt: optional(int()),
    /** Units of work that have ended. */
    units: int(),
    lastUnit: optional(json<LastUnit>()),
    /** Failures in a row. */
    failures: int(),
    lastError: optional(json<LastError>()),
    progress: optional(json<HeartbeatProgress>()),
  },
});
export interface HeartbeatRow extends RowOf<typeof heartbeats> {}

// The record of a gateway process that serves: what it is, since when, and what it was asked last.

/** Requests of the storage protocol over the last one to two minutes. */
export interface GatewayRequests {
  readonly seconds: number;
  readonly requests: number;
  /** 4xx */
  readonly refused: number;
  /** 5xx */
  readonly failed: number;
}

export const gateways = table({
  name: 'gateways',
  kind: 'plain',
  isExported: false,
  partition: ['slot'],
  sort: ['node', 'place'],
  columns: {
    /** Always 0: one scan reads them all. */
    slot: int(),
    /** The host and the address that it serves: the processes of a node have the same one. */
    node: text(),
    /** Among the processes of its node, from 0. A process that replaces a dead one has its place. */
    place: int(),
    /** `host:pid`, as in the heartbeats of workers. */
    process: text(),
    address: text(),
    version: text(),
    /** Such as `node 24.1.0`. */
    runtime: text(),
    /** The processes of its node, by its settings. */
    processes: int(),
    /** By the clock of the process (ms). */
    startedAt: int(),
    /** How long it has served, by its monotonic clock (ms). */
    uptimeMs: int(),
    /** Store time (ms) of the last write of this row. */
    beatAt: int(),
    requests: json<GatewayRequests>(),
  },
});
export interface GatewayRow extends RowOf<typeof gateways> {}

/** A question to the processes of other nodes, or the answer of one of them. */
export const nodeMessages = table({
  name: 'node_messages',
  kind: 'plain',
  isExported: false,
  partition: ['box'],
  sort: ['id'],
  columns: {
    /** Whose messages the partition has: the questions of a minute, or the answers to a question. */
    box: text(),
    /** Of a question, drawn; of an answer, the process that gives it. */
    id: text(),
    /** The node that sends it. */
    node: text(),
    topic: text(),
    text: text(),
  },
});
export interface NodeMessageRow extends RowOf<typeof nodeMessages> {}
