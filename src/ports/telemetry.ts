/** What the service says about itself: logs, counters and durations, all through one port. */
import type { RoomState } from './storage/storage-room.ts';

export type LogLevel = 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
export type Fields = Readonly<Record<string, unknown>>;

/** What a bucket holds of a storage class. */
export interface BucketClass {
  readonly bucket: string;
  readonly storageClass: string;
  readonly bytes: number;
  readonly objects: number;
}

/** What waits in a queue that is worked off in the background. */
export interface QueueBacklog {
  readonly queue: string;
  readonly rows: number;
  /** For how long the oldest one has waited. */
  readonly oldestSeconds: number;
}

export interface ScrubTelemetry {
  readonly oldestUncheckedSeconds: number;
  /** Versions and parts. */
  readonly damaged: number;
}

export interface Telemetry {
  log(level: LogLevel, message: string, fields?: Fields): void;
  /** One answered request. */
  request(observed: {
    readonly operation: string;
    readonly method: string;
    readonly status: number;
    readonly code: string | undefined;
    readonly durationMs: number;
  }): void;
  /** One call to a backend, for example `metadata.commit` or `data.write`. */
  backend(call: string, durationMs: number): void;
  /** A refusal of an unknown caller that was counted in the audit log instead of having a row of its own. */
  refusalCounted(error: string): void;
  /** A key provider received a request to unwrap the key of an object. */
  keyUnwrapped(outcome: 'ok' | 'unavailable' | 'denied' | 'tampered'): void;
  workerPanicked(worker: string, shard: string): void;
  workerLeads(worker: string, leads: boolean): void;
  /** How many extents wait to be deleted, by cluster, in place of the former values. */
  gcBacklog(extents: ReadonlyMap<string, number>): void;
  /** What waits in the queues, in place of the former values. */
  queueBacklogs(backlogs: readonly QueueBacklog[]): void;
  /** Rows of a queue that were deleted unread: too old (`age`), or too many (`rows`). */
  queueDropped(queue: string, why: 'age' | 'rows', rows: number): void;
  /** What the scrub has read and found whole. */
  scrubbed(read: { readonly chunks: number; readonly bytes: number }): void;
  /** Where the scrub stands; undefined where this process does not lead it. */
  scrubState(state: ScrubTelemetry | undefined): void;
  /** What the largest buckets hold by class, in place of the former values. */
  bucketClasses(classes: readonly BucketClass[]): void;
  /** How much room the disk of a component has. */
  diskRoom(state: RoomState): void;
  /** The text of `/metrics`, in the Prometheus exposition format. */
  metrics(): Promise<string>;
}

/** Says nothing; for embedding and tests that do not look. */
export const silentTelemetry: Telemetry = {
  log: () => {},
  request: () => {},
  backend: () => {},
  refusalCounted: () => {},
  keyUnwrapped: () => {},
  workerPanicked: () => {},
  workerLeads: () => {},
  gcBacklog: () => {},
  queueBacklogs: () => {},
  queueDropped: () => {},
  scrubbed: () => {},
  scrubState: () => {},
  bucketClasses: () => {},
  diskRoom: () => {},
  metrics: async () => '',
};
