/** Logs and metrics behind the one port that the service speaks to. */
import type { Telemetry } from '../ports/telemetry.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';

export function createTelemetry({
  log,
  metrics,
}: {
  readonly log: Log;
  readonly metrics: Metrics;
}): Telemetry {
  return {
    log,
    request: ({ operation, status, code, durationMs }) => {
      metrics.add('svc_http_requests_total', [String(status)]);
      metrics.observe('svc_http_request_duration_seconds', [operation], durationMs / 1000);
      if (code !== undefined) metrics.add('svc_http_refusals_total', [code]);
    },
    backend: (call, durationMs) => metrics.observe('svc_backend_duration_seconds', [call], durationMs / 1000),
    refusalCounted: (error) => metrics.add('svc_audit_counted_total', [error]),
    keyUnwrapped: (outcome) => metrics.add('svc_kms_decrypt_total', [outcome]),
    workerPanicked: (worker, shard) => metrics.add('svc_worker_panic_total', [worker, shard]),
    workerLeads: (worker, leads) => metrics.set('svc_worker_leader', [worker], leads ? 1 : 0),
    gcBacklog: (extents) =>
      metrics.replace(
        'svc_gc_backlog',
        [...extents].map(([cluster, count]) => [[cluster], count] as const),
      ),
    queueBacklogs: (backlogs) => {
      const of = (value: 'rows' | 'oldestSeconds') =>
        backlogs.map((each) => [[each.queue], each[value]] as const);
      metrics.replace('svc_queue_rows', of('rows'));
      metrics.replace('svc_queue_oldest_seconds', of('oldestSeconds'));
    },
    queueDropped: (queue, why, rows) => metrics.add('svc_queue_dropped_total', [queue, why], rows),
    accessLogDelivered: (lines) => {
      metrics.add('svc_access_log_objects_total', []);
      metrics.add('svc_access_log_lines_total', [], lines);
    },
    accessLogKept: (why) => metrics.add('svc_access_log_kept_total', [why]),
    eventsDelivered: (target, events) => metrics.add('svc_notify_delivered_total', [target], events),
    eventFailed: (target, why) => metrics.add('svc_notify_failures_total', [target, why]),
    eventGivenUp: (target) => metrics.add('svc_notify_dead_letters_total', [target]),
    replicated: (peer, { bytes, lagSeconds }) => {
      metrics.add('svc_replication_versions_total', [peer]);
      metrics.add('svc_replication_bytes_total', [peer], bytes);
      metrics.observe('svc_replication_lag_seconds', [peer], lagSeconds);
    },
    replicationFailed: (peer, why) => metrics.add('svc_replication_failures_total', [peer, why]),
    inventoryEnded: (outcome, rows) => {
      metrics.add('svc_inventory_runs_total', [outcome]);
      metrics.add('svc_inventory_rows_total', [], rows);
    },
    lifecycleActions: (action, count) => metrics.add('svc_lifecycle_actions_total', [action], count),
    scrubbed: ({ chunks, bytes }) => {
      metrics.add('svc_scrub_chunks_total', [], chunks);
      metrics.add('svc_scrub_bytes_total', [], bytes);
    },
    scrubState: (state) => {
      const one = (value: number | undefined) => (value === undefined ? [] : [[[], value] as const]);
      metrics.replace('svc_scrub_oldest_unchecked_seconds', one(state?.oldestUncheckedSeconds));
      metrics.replace('svc_scrub_damaged', one(state?.damaged));
    },
    bucketClasses: (classes) => {
      const of = (value: 'bytes' | 'objects') =>
        classes.map((each) => [[each.bucket, each.storageClass], each[value]] as const);
      metrics.replace('svc_storage_class_bytes', of('bytes'));
      metrics.replace('svc_storage_class_objects', of('objects'));
    },
    usageDrifts: (drifts) =>
      metrics.replace(
        'svc_quota_reconcile_drift_bytes',
        [...drifts].map(([bucket, bytes]) => [[bucket], bytes] as const),
      ),
    diskRoom: ({ component, freeBytes, complaint }) => {
      metrics.set('svc_disk_free_bytes', [component], freeBytes);
      metrics.set('svc_disk_refuses_writes', [component], complaint === undefined ? 0 : 1);
    },
    metrics: () => metrics.text(),
  };
}
