/** Metrics of deliveries to other systems: notification targets and replication peers. */
import type { MetricRows } from './metric-row.ts';

const lagSeconds = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400];

export const deliveries = {
  svc_replication_versions_total: {
    kind: 'counter',
    labels: ['peer'],
    doc: 'Versions that were sent to a replication peer.',
    act: 'Stands still while `svc_queue_rows{queue="replication"}` grows: check the peer.',
  },
  svc_replication_bytes_total: {
    kind: 'counter',
    labels: ['peer'],
    doc: 'Bytes of these versions.',
    act: 'At the `bandwidth` of the peer: raise it, or accept the lag.',
  },
  svc_replication_lag_seconds: {
    kind: 'histogram',
    labels: ['peer'],
    doc: 'From the commit of a version to its arrival at a replication peer.',
    act: 'Beyond 15 minutes: `GET /admin/v1/replication/status` shows what waits, `POST /admin/v1/replication/peers/{id}/check` why.',
    buckets: lagSeconds,
    from0: { peer: 'known' },
  },
  svc_replication_failures_total: {
    kind: 'counter',
    labels: ['peer', 'why'],
    doc: 'Attempts that failed and are repeated, by cause: `no-answer`, `not-s3`, `unavailable` (5xx), `no-bucket`, `no-versioning`, `denied`, `credentials`, `quota`, `clock`, `refused`; `source` where this site cannot read the version; `no-peer` and `sealed-keys` where the peer is not configured.',
    act: 'The cause says what to do (docs/operations/replication.md); `GET /admin/v1/replication/status` has the last error.',
  },
  svc_replication_given_up_total: {
    kind: 'counter',
    labels: ['peer', 'why'],
    doc: 'Versions that became FAILED, by cause: as above, `overdue` after SVC_REPLICATION_RETRY_MAX, `not-allowed` (by the accounts of the peer or the role of the rule), `client-key` (SSE-C), `superseded` by a newer version at a service that cannot take older ones.',
    act: '`GET /admin/v1/replication/failed` lists them. Remove the cause, then `POST /admin/v1/replication/retry`.',
    from0: {
      peer: 'known',
      why: ['client-key', 'denied', 'no-peer', 'overdue', 'refused', 'sealed-keys', 'source', 'superseded'],
    },
  },
  svc_replication_refused_objects: {
    kind: 'gauge',
    labels: ['peer'],
    doc: 'Objects whose versions wait, because their destination refuses one of them, or it cannot be read here; versions of other objects pass. Of the process that leads `replicator`.',
    act: 'Not 0: `GET /admin/v1/replication/status` has the reasons.',
    across: 'max',
  },
  svc_replication_pending_versions: {
    kind: 'gauge',
    labels: ['peer'],
    doc: 'Versions that wait to be sent to a peer, where the replicator leads; at most 20,000 of all peers are counted, every 30 s.',
    act: 'Grows: the peer takes less than clients write, or nothing. `GET /admin/v1/replication/status` has the last error of each destination.',
    across: 'max',
  },
  svc_replication_pending_bytes: {
    kind: 'gauge',
    labels: ['peer'],
    doc: 'The contents of these versions.',
    act: 'Divided by the rate of `svc_replication_bytes_total`: the time until all have arrived.',
    across: 'max',
  },
  svc_replication_oldest_pending_seconds: {
    kind: 'gauge',
    labels: ['peer'],
    doc: 'How long the oldest of these versions has waited.',
    act: 'At SVC_REPLICATION_RETRY_MAX versions become FAILED: repair the destination before.',
    across: 'max',
  },
  svc_notify_queued: {
    kind: 'gauge',
    labels: ['target'],
    doc: 'Events that wait for a target, counted like `svc_queue_rows`.',
    act: 'Grows: the target takes too little. `GET /admin/v1/notify/targets` has the last error.',
    across: 'max',
  },
  svc_notify_oldest_seconds: {
    kind: 'gauge',
    labels: ['target'],
    doc: 'How long the oldest event of a target has waited.',
    act: 'At SVC_NOTIFY_RETRY_MAX its events become dead letters: repair the target before.',
    across: 'max',
  },
  svc_notify_delivered_total: {
    kind: 'counter',
    labels: ['target'],
    doc: 'Events that a target has acknowledged.',
    act: 'Stands still while events are queued: `GET /admin/v1/notify/targets` has the last error.',
  },
  svc_notify_failures_total: {
    kind: 'counter',
    labels: ['target', 'why'],
    doc: 'Deliveries that failed: the target refused the event for good (`refused`) or for now (`failed`), or took none (`unavailable`).',
    act: '`unavailable`: the target does not answer, and its events wait. `failed`: the events of some objects wait, those of others pass. `refused`: the event is a dead letter.',
  },
  svc_notify_refused_objects: {
    kind: 'gauge',
    labels: ['target'],
    doc: 'Objects whose events wait, because the target refuses one of them; events of other objects pass. Of the process that leads `notify`.',
    act: 'Not 0: `GET /admin/v1/notify/targets` has the reasons. Correct the receiver, or let the events become dead letters.',
    across: 'max',
  },
  svc_notify_dead_letters_total: {
    kind: 'counter',
    labels: ['target'],
    doc: 'Events that became dead letters, because the target refused them or SVC_NOTIFY_RETRY_MAX was over.',
    act: 'Repair the target, then `POST /admin/v1/notify/redrive`.',
    from0: { target: 'known' },
  },
} as const satisfies MetricRows;
