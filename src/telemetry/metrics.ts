/** What is measured, as a table; and how the rest of telemetry asks for it. */

export interface Measurement {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly doc: string;
  /** Upper bounds of a histogram, in seconds. */
  readonly buckets?: readonly number[];
  /** How the values of several processes become the node's; `sum` when absent. */
  readonly across?: 'sum' | 'max' | 'first';
}

const requestSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const replicationSeconds = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400];
const backendSeconds = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30,
];

export const measurements = {
  svc_http_requests_total: {
    kind: 'counter',
    labels: ['code'],
    doc: 'Answered requests by HTTP status.',
  },
  svc_http_refusals_total: {
    kind: 'counter',
    labels: ['error'],
    doc: 'Refused requests by error code, such as NoSuchKey.',
  },
  svc_http_request_duration_seconds: {
    kind: 'histogram',
    labels: ['operation'],
    doc: 'From the head of a request to the head of its reply, by operation.',
    buckets: requestSeconds,
  },
  svc_backend_duration_seconds: {
    kind: 'histogram',
    labels: ['call'],
    doc: 'Calls to the metadata and data backends.',
    buckets: backendSeconds,
  },
  svc_audit_counted_total: {
    kind: 'counter',
    labels: ['error'],
    doc: 'Refusals beyond SVC_AUDIT_REFUSALS of an account, or SVC_AUDIT_UNKNOWN_CALLERS of unknown callers: counted in one audit row a minute for each operation and error code.',
  },
  svc_kms_decrypt_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Keys of objects and signing keys of buckets that the key provider was asked to unwrap: `ok`, `unavailable`, `denied` or `tampered`; `expired`: requests that were refused because the signing key of their bucket is older than SVC_KEY_MAX_AGE.',
  },
  svc_worker_panic_total: {
    kind: 'counter',
    labels: ['worker', 'shard'],
    doc: 'Panics of background workers that were recovered.',
  },
  svc_worker_leader: {
    kind: 'gauge',
    labels: ['worker'],
    doc: '1 where a process of this node leads the worker, else 0.',
    across: 'max',
  },
  svc_gc_backlog: {
    kind: 'gauge',
    labels: ['cluster'],
    doc: 'Extents that wait to be deleted, counted in the first 10,000 rows of the queue.',
    across: 'max',
  },
  svc_queue_rows: {
    kind: 'gauge',
    labels: ['queue'],
    doc: 'Tasks that wait in the queues of events, replication and access logs, where queue-retention leads; of each slot of the last two hours at most 10,000 are counted.',
    across: 'max',
  },
  svc_queue_oldest_seconds: {
    kind: 'gauge',
    labels: ['queue'],
    doc: 'How long the oldest task of a queue has waited, to the hour where that is over.',
    across: 'max',
  },
  svc_queue_dropped_total: {
    kind: 'counter',
    labels: ['queue', 'why'],
    doc: 'Tasks that were dropped unread: older than SVC_QUEUE_RETENTION (`age`), or more than SVC_QUEUE_ROWS_MAX (`rows`).',
  },
  svc_lifecycle_actions_total: {
    kind: 'counter',
    labels: ['action'],
    doc: 'Versions and uploads on which lifecycle rules acted: `expired`, `noncurrent`, `markers`, `aborted`, `transitioned`, `restored`; `held` by Object Lock; `undone`, which a later pass tries again.',
  },
  svc_access_log_objects_total: {
    kind: 'counter',
    labels: [],
    doc: 'Access log objects that were written into target buckets.',
  },
  svc_access_log_lines_total: {
    kind: 'counter',
    labels: [],
    doc: 'Lines in these objects.',
  },
  svc_access_log_kept_total: {
    kind: 'counter',
    labels: ['why'],
    doc: 'Passes in which a target bucket did not take the lines of a log: `no-bucket`, `other-owner`, `other-region`, `object-lock`, `key-too-long`, `denied` or `error`. The lines stay queued until SVC_QUEUE_RETENTION.',
  },
  svc_notify_delivered_total: {
    kind: 'counter',
    labels: ['target'],
    doc: 'Events that a target has acknowledged.',
  },
  svc_notify_failures_total: {
    kind: 'counter',
    labels: ['target', 'why'],
    doc: 'Deliveries that failed: the target refused the event (`refused`), or took none (`unavailable`).',
  },
  svc_notify_dead_letters_total: {
    kind: 'counter',
    labels: ['target'],
    doc: 'Events that became dead letters, because the target refused them or SVC_NOTIFY_RETRY_MAX was over.',
  },
  svc_replication_versions_total: {
    kind: 'counter',
    labels: ['peer'],
    doc: 'Versions that were sent to a replication peer.',
  },
  svc_replication_bytes_total: {
    kind: 'counter',
    labels: ['peer'],
    doc: 'Bytes of these versions.',
  },
  svc_replication_lag_seconds: {
    kind: 'histogram',
    labels: ['peer'],
    doc: 'From the commit of a version to its arrival at a replication peer.',
    buckets: replicationSeconds,
  },
  svc_replication_failures_total: {
    kind: 'counter',
    labels: ['peer', 'why'],
    doc: 'Attempts at which a peer took no version (`unavailable`), and versions that were given up (`given-up`): see GET /admin/v1/replication/failed.',
  },
  svc_inventory_runs_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Runs of inventories: `written`, or `failed` because the destination did not take them.',
  },
  svc_inventory_rows_total: {
    kind: 'counter',
    labels: [],
    doc: 'Rows of the inventories that were written.',
  },
  svc_scrub_bytes_total: {
    kind: 'counter',
    labels: [],
    doc: 'Stored bytes that the scrub read and compared with their checksums.',
  },
  svc_scrub_chunks_total: {
    kind: 'counter',
    labels: [],
    doc: 'Chunks that the scrub read to their end and found whole.',
  },
  svc_scrub_oldest_unchecked_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'Upper bound of the age of the oldest unchecked chunk, where scrub leads, else 0: seconds since the last pass began that read everything; before there is one, since the first pass began.',
    across: 'max',
  },
  svc_scrub_damaged: {
    kind: 'gauge',
    labels: [],
    doc: 'Versions and parts of open uploads with a damaged or missing chunk, by the last pass of the scrub, where it leads, else 0.',
    across: 'max',
  },
  svc_quota_reconcile_drift_bytes: {
    kind: 'gauge',
    labels: ['bucket'],
    doc: 'The last observed drift of the byte counter of a bucket, where quota-reconcile leads: positive when the counter is too low, negative when it is too high.',
    across: 'max',
  },
  svc_storage_class_bytes: {
    kind: 'gauge',
    labels: ['bucket', 'class'],
    doc: 'Bytes of a storage class in one of the SVC_BUCKETSTATS_TOPN largest buckets, where bucket-stats leads.',
    across: 'max',
  },
  svc_storage_class_objects: {
    kind: 'gauge',
    labels: ['bucket', 'class'],
    doc: 'Objects and versions of a storage class in one of those buckets.',
    across: 'max',
  },
  svc_cache_entries: {
    kind: 'gauge',
    labels: ['cache'],
    doc: 'Entries in a cache of this node.',
  },
  svc_cache_bytes: {
    kind: 'gauge',
    labels: ['cache'],
    doc: 'Estimated bytes that a cache holds; 0 where the number of its entries alone bounds it.',
  },
  svc_memory_bytes: {
    kind: 'gauge',
    labels: ['kind'],
    doc: 'Memory by kind: `heap` of JavaScript, `external` buffers, and on Linux resident `anonymous` memory, `mapped_files` and `shared` memory.',
  },
  svc_disk_free_bytes: {
    kind: 'gauge',
    labels: ['component'],
    doc: 'Free bytes of the disk under `metadata` (embedded) and `data:<cluster>` (file), looked at every two seconds.',
    across: 'max',
  },
  svc_disk_refuses_writes: {
    kind: 'gauge',
    labels: ['component'],
    doc: '1 while that disk is below SVC_DISK_RESERVE or met its end, and data is refused with 507; else 0.',
    across: 'max',
  },
  svc_build_info: {
    kind: 'gauge',
    labels: ['version', 'runtime'],
    doc: 'Always 1; the labels say what runs.',
    across: 'first',
  },
} as const satisfies Readonly<Record<string, Measurement>>;

export type MetricName = keyof typeof measurements;
export type NameOf<K extends Measurement['kind']> = {
  [N in MetricName]: (typeof measurements)[N]['kind'] extends K ? N : never;
}[MetricName];

/** Label values in the order of the table. */
export interface Metrics {
  /** @param amount 1 unless given */
  add(name: NameOf<'counter'>, labels: readonly string[], amount?: number): void;
  set(name: NameOf<'gauge'>, labels: readonly string[], value: number): void;
  /** Sets a gauge for these labels and no others. */
  replace(name: NameOf<'gauge'>, values: readonly (readonly [readonly string[], number])[]): void;
  observe(name: NameOf<'histogram'>, labels: readonly string[], seconds: number): void;
  /** The exposition of the whole node. */
  text(): Promise<string>;
}

/** Where prom-client does not load. */
export const noMetrics: Metrics = {
  add: () => {},
  set: () => {},
  replace: () => {},
  observe: () => {},
  text: async () => '# metrics are not collected on this runtime\n',
};
