/** The logs, counters and durations of the service, through one port. */
import type { Awaitable } from '../base/awaitable.ts';
import type { DiskState } from './chunk-store.ts';
import type { KeyFailureReason } from './key-provider.ts';

export type LogLevel = 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
export type Fields = Readonly<Record<string, unknown>>;

/** The objects and bytes of a bucket in a storage class. */
export interface BucketClass {
  readonly bucket: string;
  readonly storageClass: string;
  readonly bytes: number;
  readonly objects: number;
}

/** How full one limit of a quota is: 1 is full. */
export interface QuotaUse {
  readonly of: 'bucket' | 'account' | 'user';
  /** The bucket, the account, or `<account>/<IAM user>`. */
  readonly name: string;
  readonly limit: string;
  readonly ratio: number;
}

/** The passes of lifecycle that have begun. */
export interface LifecyclePasses {
  readonly count: number;
  /** How long the oldest of them has run. */
  readonly oldestSeconds: number;
}
/** The backlog of a background queue. */
export interface QueueBacklog {
  readonly queue: string;
  readonly rows: number;
  /** The waiting time of the oldest row. */
  readonly oldestSeconds: number;
}

/** The events that wait for a target. */
export interface TargetBacklog {
  readonly target: string;
  readonly rows: number;
  /** The waiting time of the oldest row. */
  readonly oldestSeconds: number;
}

export interface ScrubTelemetry {
  readonly oldestUncheckedSeconds: number;
  /** Versions and parts. */
  readonly damaged: number;
}

/** Why a call to a backend failed. */
export type BackendFault =
  | 'timeout'
  | 'unavailable'
  | 'refused'
  | 'full'
  | 'read-only'
  | 'damaged'
  | 'missing'
  | 'other';

/** The signing keys of buckets, by what SVC_KEY_MAX_AGE says of them. */
export interface SigningKeyAges {
  readonly valid: number;
  readonly expiring: number;
  readonly expired: number;
  readonly oldestSeconds: number;
}

/** A data cluster as a probe of storage health found it. */
export interface ClusterMeasure {
  readonly cluster: string;
  readonly isUp: boolean;
  readonly pools: readonly {
    readonly pool: string;
    readonly usedBytes: number;
    readonly freeBytes?: number | undefined;
  }[];
}

/** The least severe lines that this process writes. */
export interface LogLevelControl {
  get(): LogLevel;
  set(level: LogLevel): void;
}

export interface ReplicationWait {
  readonly destination: string;
  readonly waiting: number;
  readonly bytes: number;
  readonly oldestSeconds: number;
}

export interface Telemetry {
  /** @param kind lines of one level, message and kind within a minute are counted, and only the first is written */
  log(level: LogLevel, message: string, fields?: Fields, kind?: string): void;
  /** One answered request. */
  request(observed: {
    readonly operation: string;
    readonly method: string;
    readonly status: number;
    readonly code: string | undefined;
    readonly durationMs: number;
    readonly requestId?: string;
    readonly traceId?: string | undefined;
    /** Bytes of its body that were read. */
    readonly receivedBytes?: number;
    /** The bucket that it is about, if it exists. */
    readonly bucket?: { readonly name: string; readonly owner: string } | undefined;
  }): void;
  /** Requests whose reply has not begun: 1 when one arrives, -1 when its reply begins. */
  requestsInFlight(change: 1 | -1): void;
  /** Bytes of the body of a reply, once they were read. */
  bytesSent(bytes: number, bucket?: string): void;
  /** One call to a backend, for example `metadata.commit` or `data.write`. */
  backend(call: string, durationMs: number): void;
  /** Such a call failed, and not by the fault of a client. */
  backendFailed(call: string, why: BackendFault): void;
  /** Calls the function whenever metrics are about to be read; it must be quick. */
  onRead(sample: () => Awaitable<void>): void;
  /** The memory for bodies that are read whole. */
  bodyMemory(memory: { readonly usedBytes: number; readonly limitBytes: number }): void;
  /** The data clusters; replaces the former values. */
  clusters(clusters: readonly ClusterMeasure[]): void;
  /** The signing keys of buckets; undefined when this process does not lead the worker that counts them. */
  signingKeys(ages: SigningKeyAges | undefined): void;
  /** A refusal that has no separate row in the audit log, but is counted in one. */
  refusalCounted(error: string): void;
  /** A key provider was asked to unwrap the key of an object or of a bucket; `expired`: it was not asked, because the bucket's key is too old. */
  keyUnwrapped(outcome: 'ok' | 'unavailable' | 'denied' | 'tampered' | 'expired'): void;
  /** A request that a rate limit refused. */
  requestLimited(scope: 'account' | 'bucket' | 'anonymous'): void;
  /** What became of a request to the operator API with an Idempotency-Key. */
  idempotencyKey(outcome: 'kept' | 'not-kept' | 'replayed' | 'other-request' | 'unanswered' | 'full'): void;
  /** A call to a key provider outside of this process, with each attempt; `refused`: its open circuit refused the call. */
  keyCall(provider: string, call: string, outcome: KeyFailureReason | 'ok' | 'refused'): void;
  /** The circuit of a key provider opened, or closed; it begins closed. */
  keyCircuit(provider: string, state: 'open' | 'closed'): void;
  workerPanicked(worker: string, shard: string): void;
  workerLeads(worker: string, leads: boolean): void;
  /** A unit of a worker has ended, at this time (ms). */
  workerUnitEnded(worker: string, at: number): void;
  workerFailed(worker: string): void;
  /** An operator has paused or resumed a worker. */
  workerPaused(worker: string, isPaused: boolean): void;
  /** What a worker has done since it last said so, counted in `of`, and what it has left; undefined where that is not known. */
  workerProgressed(
    worker: string,
    progress: {
      readonly of: string;
      readonly done: number;
      readonly left?: number | undefined;
      readonly oldestSeconds?: number | undefined;
    },
  ): void;
  /** A worker no longer runs in this process. */
  workerEnded(worker: string): void;
  /** How many extents wait to be deleted, by cluster; replaces the former values. */
  gcBacklog(extents: ReadonlyMap<string, number>): void;
  /** The backlogs of the queues; replaces the former values. */
  queueBacklogs(backlogs: readonly QueueBacklog[]): void;
  /** The events that wait, by target; replaces the former values. */
  eventBacklogs(backlogs: readonly TargetBacklog[]): void;
  /** Rows of a queue that were deleted unread: too old (`age`), or too many (`rows`). */
  queueDropped(queue: string, why: 'age' | 'rows', rows: number): void;
  /** An access log object with so many lines was written. */
  accessLogDelivered(lines: number): void;
  /** A target bucket did not take the lines of a log in this pass. */
  accessLogRetained(why: string): void;
  /** So many events were delivered to a target. */
  eventsDelivered(target: string, events: number): void;
  /** A target refused an event for good (`refused`) or for now (`failed`), or took none (`unavailable`). */
  eventFailed(target: string, why: 'refused' | 'failed' | 'unavailable'): void;
  /** The objects whose events or versions wait, because their target refuses them; replaces the former values of the queue. */
  deliveriesRefused(
    queue: string,
    refused: readonly { readonly target: string; readonly objects: number }[],
  ): void;
  /** An event became a dead letter. */
  eventDeadLettered(target: string): void;
  /** A version arrived at a destination, so long after its task was queued. */
  replicated(destination: string, sent: { readonly bytes: number; readonly lagSeconds: number }): void;
  /** An attempt failed, and follows again. */
  replicationFailed(destination: string, why: string): void;
  /** A version was given up. */
  replicationAbandoned(destination: string, why: string): void;
  /** The peers that replication may send to. */
  peersKnown(peers: readonly string[]): void;
  /** What waits for replication; none where this process does not lead the replicator. */
  replicationWaits(waits: readonly ReplicationWait[]): void;
  /** A run of an inventory ended; `rows` is 0 where it failed. */
  inventoryEnded(outcome: 'written' | 'failed', rows: number): void;
  /** Actions of lifecycle rules, by kind. */
  lifecycleActions(action: string, count: number): void;
  /** The passes over buckets that are under way; undefined when this process does not lead them. */
  lifecyclePasses(passes: LifecyclePasses | undefined): void;
  /** Chunks and bytes that the scrub has read and verified. */
  scrubbed(read: { readonly chunks: number; readonly bytes: number }): void;
  /** The state of the scrub; undefined when this process does not lead it. */
  scrubState(state: ScrubTelemetry | undefined): void;
  /** The contents of the largest buckets by storage class; replaces the former values. */
  bucketClasses(classes: readonly BucketClass[]): void;
  /** The fullest quotas. */
  quotaUse(fullest: readonly QuotaUse[]): void;
  /** The drift of the byte counters that a walk last found, by bucket; replaces the former values. */
  usageDrifts(drifts: ReadonlyMap<string, number>): void;
  /** The free space of a component's disk. */
  diskSpace(state: DiskState): void;
  /** What became of spans: the collector took them, they did not fit into the queue (`full`), or it did not take them (`refused`). */
  spans(outcome: 'exported' | 'full' | 'refused', spans: number): void;
  /** The text of `/metrics`, in the Prometheus exposition format or in OpenMetrics. */
  metrics(format?: 'text' | 'openmetrics'): Promise<string>;
}

/** Discards everything; for embedding and tests. */
export const silentTelemetry: Telemetry = {
  log: () => {},
  request: () => {},
  requestsInFlight: () => {},
  bytesSent: () => {},
  backend: () => {},
  backendFailed: () => {},
  onRead: () => {},
  bodyMemory: () => {},
  clusters: () => {},
  signingKeys: () => {},
  refusalCounted: () => {},
  keyUnwrapped: () => {},
  requestLimited: () => {},
  idempotencyKey: () => {},
  keyCall: () => {},
  keyCircuit: () => {},
  workerPanicked: () => {},
  workerLeads: () => {},
  workerUnitEnded: () => {},
  workerFailed: () => {},
  workerPaused: () => {},
  workerProgressed: () => {},
  workerEnded: () => {},
  gcBacklog: () => {},
  queueBacklogs: () => {},
  eventBacklogs: () => {},
  queueDropped: () => {},
  accessLogDelivered: () => {},
  accessLogRetained: () => {},
  eventsDelivered: () => {},
  eventFailed: () => {},
  deliveriesRefused: () => {},
  eventDeadLettered: () => {},
  replicated: () => {},
  replicationFailed: () => {},
  replicationAbandoned: () => {},
  peersKnown: () => {},
  replicationWaits: () => {},
  inventoryEnded: () => {},
  lifecycleActions: () => {},
  lifecyclePasses: () => {},
  scrubbed: () => {},
  scrubState: () => {},
  bucketClasses: () => {},
  quotaUse: () => {},
  usageDrifts: () => {},
  diskSpace: () => {},
  spans: () => {},
  metrics: async () => '',
};
