/** Measurements of background workers and their queues. */
import type { Measurements } from './measurement.ts';

export const workers = {
  svc_worker_panic_total: {
    kind: 'counter',
    labels: ['worker', 'shard'],
    doc: 'Panics of background workers that were recovered.',
    act: '`GET /admin/v1/workers` has the last error of the worker; the log has its stack.',
  },
  svc_worker_leader: {
    kind: 'gauge',
    labels: ['worker'],
    doc: '1 where a process of this node leads the worker, else 0.',
    act: 'No node leads a worker for a minute: check that SVC_WORKERS of some node names it and that the metadata store takes writes.',
    across: 'max',
  },
  svc_worker_units_total: {
    kind: 'counter',
    labels: ['worker'],
    doc: 'Units of work that a worker has ended.',
    act: 'Stands still while the worker leads: it hangs in a unit, `GET /admin/v1/workers` shows since when.',
  },
  svc_worker_done_total: {
    kind: 'counter',
    labels: ['worker', 'of'],
    doc: 'What a worker has done; `of` says what is counted, such as `objects` or `events`.',
    act: 'Its rate, beside `svc_worker_backlog`, says when the backlog will be gone.',
  },
  svc_worker_failures_total: {
    kind: 'counter',
    labels: ['worker'],
    doc: 'Attempts of a worker that failed; it pauses longer after each.',
    act: '`GET /admin/v1/workers` has the last error.',
  },
  svc_worker_last_unit_timestamp_seconds: {
    kind: 'gauge',
    labels: ['worker'],
    doc: 'When the last unit of a worker ended, as Unix time, where it runs.',
    act: 'Much older than the interval of the worker: it hangs. Restart that process and report the support bundle.',
    across: 'max',
  },
  svc_worker_backlog: {
    kind: 'gauge',
    labels: ['worker'],
    doc: 'What a worker has left, as far as it counts it, where it runs.',
    act: 'Grows for an hour: the worker is slower than the load, see `svc_worker_done_total` and its rate limits in the settings.',
    across: 'max',
  },
  svc_worker_oldest_seconds: {
    kind: 'gauge',
    labels: ['worker'],
    doc: 'How long the oldest of it has waited.',
    act: 'As `svc_worker_backlog`.',
    across: 'max',
  },
  svc_queue_rows: {
    kind: 'gauge',
    labels: ['queue'],
    doc: 'Tasks that wait in the queues of events, replication and access logs, where queue-retention leads; of each slot of the last two hours at most 10,000 are counted.',
    act: 'Grows: the target or peer takes too little (`GET /admin/v1/notify/targets`, `GET /admin/v1/replication/status`).',
    across: 'max',
  },
  svc_queue_oldest_seconds: {
    kind: 'gauge',
    labels: ['queue'],
    doc: 'How long the oldest task of a queue has waited, to the hour where that is over.',
    act: 'At SVC_QUEUE_RETENTION tasks are dropped: mend the target before.',
    across: 'max',
  },
  svc_queue_dropped_total: {
    kind: 'counter',
    labels: ['queue', 'why'],
    doc: 'Tasks that were dropped unread: older than SVC_QUEUE_RETENTION (`age`), or more than SVC_QUEUE_ROWS_MAX (`rows`).',
    act: 'Something is lost. Replication: start a resync. Events and access logs: they cannot be had back.',
  },
  svc_lifecycle_actions_total: {
    kind: 'counter',
    labels: ['action'],
    doc: 'Versions and uploads on which lifecycle rules acted: `expired`, `noncurrent`, `markers`, `aborted`, `transitioned`, `restored`; `held` by Object Lock; `undone`, which a later pass tries again.',
    act: '`undone` keeps growing: the log has a WARN with bucket, key and cause.',
  },
  svc_access_log_objects_total: {
    kind: 'counter',
    labels: [],
    doc: 'Access log objects that were written into target buckets.',
    act: 'Stands still while logged buckets are used: see `svc_access_log_kept_total`.',
  },
  svc_access_log_lines_total: {
    kind: 'counter',
    labels: [],
    doc: 'Lines in these objects.',
    act: 'As `svc_access_log_objects_total`.',
  },
  svc_access_log_kept_total: {
    kind: 'counter',
    labels: ['why'],
    doc: 'Passes in which a target bucket did not take the lines of a log: `no-bucket`, `other-owner`, `other-region`, `object-lock`, `key-too-long`, `denied` or `error`. The lines stay queued until SVC_QUEUE_RETENTION.',
    act: 'Correct the target bucket or its policy as docs/operations.md says for each reason.',
  },
  svc_inventory_runs_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Runs of inventories: `written`, or `failed` because the destination did not take them.',
    act: '`failed`: `GET /admin/v1/buckets/{name}/inventory/{id}/run` has the reason.',
  },
  svc_inventory_rows_total: {
    kind: 'counter',
    labels: [],
    doc: 'Rows of the inventories that were written.',
    act: 'Shows how far a long run is.',
  },
} as const satisfies Measurements;
