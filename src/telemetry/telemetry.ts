/** Logs and metrics behind the one port that the service speaks to. */
import type { Telemetry } from '../ports/telemetry.ts';
import type { Log } from './log.ts';
import type { Meter, Metrics, TallyMeter } from './metrics.ts';

interface TelemetryParts {
  readonly log: Log;
  readonly metrics: Metrics;
  /** How many buckets have labels of their own, as SVC_BUCKETSTATS_TOPN. */
  readonly busiestMax?: number;
}

export const createTelemetry = ({ log, metrics, busiestMax = 100 }: TelemetryParts): Telemetry => ({
  log,
  ...requestTelemetry(metrics, busiestMax),
  ...engineTelemetry(metrics),
  ...storageTelemetry(metrics),
  ...workerTelemetry(metrics),
  ...deliveryTelemetry(metrics),
});

// Requests and what refuses them, in metrics.

type RequestCalls =
  | 'request'
  | 'requestsInFlight'
  | 'bytesSent'
  | 'refusalCounted'
  | 'keyUnwrapped'
  | 'idempotencyKey'
  | 'requestLimited'
  | 'keyCall'
  | 'keyCircuit'
  | 'signingKeys'
  | 'spans';

function requestTelemetry(metrics: Metrics, busiestMax: number): Pick<Telemetry, RequestCalls> {
  const meters = requestMeters(metrics);
  const busiest = new BusiestBuckets(metrics, busiestMax);
  const received = metrics.meter('svc_http_received_bytes_total', []);
  const sent = metrics.meter('svc_http_sent_bytes_total', []);
  const inFlight = metrics.meter('svc_http_requests_in_flight', []);
  return {
    request: ({ operation, status, code, durationMs, requestId, traceId, receivedBytes = 0, bucket }) => {
      const { total, operation: byOperation, duration } = meters(operation, status);
      total.value += 1;
      byOperation.value += 1;
      duration.observe(durationMs / 1000, requestId, traceId);
      received.value += receivedBytes;
      if (code !== undefined) metrics.add('svc_http_refusals_total', [code]);
      if (bucket !== undefined) busiest.answered(bucket.name, bucket.owner, receivedBytes);
    },
    requestsInFlight: (change) => {
      inFlight.value += change;
    },
    bytesSent: (bytes, bucket) => {
      sent.value += bytes;
      if (bucket !== undefined) busiest.sent(bucket, bytes);
    },
    refusalCounted: (error) => metrics.add('svc_audit_counted_total', [error]),
    keyUnwrapped: (outcome) => metrics.add('svc_kms_decrypt_total', [outcome]),
    requestLimited: (scope) => metrics.add('svc_limited_requests_total', [scope]),
    idempotencyKey: (outcome) => metrics.add('svc_idempotency_keys_total', [outcome]),
    keyCall: (provider, call, outcome) => metrics.add('svc_key_calls_total', [provider, call, outcome]),
    keyCircuit: (provider, state) => {
      metrics.know('provider', provider);
      metrics.set('svc_key_circuit_open', [provider], state === 'open' ? 1 : 0);
      if (state === 'open') metrics.add('svc_key_circuit_opened_total', [provider]);
    },
    spans: (outcome, spans) => metrics.add('svc_trace_spans_total', [outcome], spans),
    signingKeys: (ages) => {
      const states = ['valid', 'expiring', 'expired'] as const;
      metrics.replace('svc_signing_keys', ages ? states.map((state) => [[state], ages[state]]) : []);
      metrics.replace('svc_signing_key_oldest_seconds', ages ? [[[], ages.oldestSeconds]] : []);
    },
  };
}

// The lives of background workers, in metrics.

type WorkerCalls =
  | 'workerPanicked'
  | 'workerLeads'
  | 'workerUnitEnded'
  | 'workerFailed'
  | 'workerPaused'
  | 'workerProgressed'
  | 'workerEnded';

const workerTelemetry = (metrics: Metrics): Pick<Telemetry, WorkerCalls> => ({
  workerPanicked: (worker, shard) => metrics.add('svc_worker_panic_total', [worker, shard]),
  workerLeads: (worker, leads) => {
    metrics.know('worker', worker);
    metrics.set('svc_worker_leader', [worker], leads ? 1 : 0);
  },
  workerUnitEnded: (worker, at) => {
    metrics.add('svc_worker_units_total', [worker]);
    metrics.set('svc_worker_last_unit_timestamp_seconds', [worker], at / 1000);
  },
  workerPaused: (worker, isPaused) => metrics.set('svc_worker_paused', [worker], isPaused ? 1 : 0),
  workerFailed: (worker) => metrics.add('svc_worker_failures_total', [worker]),
  workerProgressed: (worker, { of, done, left, oldestSeconds }) => {
    metrics.add('svc_worker_done_total', [worker, of], done);
    if (left !== undefined) metrics.set('svc_worker_backlog', [worker], left);
    if (oldestSeconds !== undefined) metrics.set('svc_worker_oldest_seconds', [worker], oldestSeconds);
  },
  // Another process shows the values of the worker now.
  workerEnded: (worker) => {
    metrics.remove('svc_worker_backlog', [worker]);
    metrics.remove('svc_worker_oldest_seconds', [worker]);
    metrics.remove('svc_worker_last_unit_timestamp_seconds', [worker]);
  },
});

// What is stored, in metrics.

type StorageCalls =
  | 'clusters'
  | 'gcBacklog'
  | 'scrubbed'
  | 'scrubState'
  | 'bucketClasses'
  | 'quotaUse'
  | 'usageDrifts'
  | 'diskSpace';

const storageTelemetry = (metrics: Metrics): Pick<Telemetry, StorageCalls> => ({
  clusters: (clusters) => {
    metrics.replace(
      'svc_cluster_up',
      clusters.map(({ cluster, isUp }) => [[cluster], isUp ? 1 : 0] as const),
    );
    metrics.replace(
      'svc_cluster_used_bytes',
      clusters.flatMap(({ cluster, pools }) =>
        pools.map(({ pool, usedBytes }) => [[cluster, pool], usedBytes] as const),
      ),
    );
    metrics.replace(
      'svc_cluster_free_bytes',
      clusters.flatMap(({ cluster, pools }) =>
        pools.flatMap(({ pool, freeBytes }) =>
          freeBytes === undefined ? [] : [[[cluster, pool], freeBytes] as const],
        ),
      ),
    );
  },
  gcBacklog: (extents) =>
    metrics.replace(
      'svc_gc_backlog',
      [...extents].map(([cluster, count]) => [[cluster], count] as const),
    ),
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
  quotaUse: (fullest) =>
    metrics.replace(
      'svc_quota_used_ratio',
      fullest.map(({ of, name, limit, ratio }) => [[of, name, limit], ratio] as const),
    ),
  usageDrifts: (drifts) =>
    metrics.replace(
      'svc_quota_reconcile_drift_bytes',
      [...drifts].map(([bucket, bytes]) => [[bucket], bytes] as const),
    ),
  diskSpace: ({ component, freeBytes, sizeBytes, warning }) => {
    if (sizeBytes !== undefined) metrics.set('svc_disk_size_bytes', [component], sizeBytes);
    metrics.set('svc_disk_free_bytes', [component], freeBytes);
    metrics.set('svc_disk_refuses_writes', [component], warning === undefined ? 0 : 1);
  },
});

// The process and the engines behind it, in metrics.

type EngineCalls = 'backend' | 'backendFailed' | 'onRead' | 'bodyMemory' | 'metrics';

function engineTelemetry(metrics: Metrics): Pick<Telemetry, EngineCalls> {
  /** Found once for each call: there are some of them in every request. */
  const tallies = new Map<string, TallyMeter>();
  const tallyOf = (call: string): TallyMeter => {
    const found = tallies.get(call);
    if (found !== undefined) return found;
    const made = metrics.tally('svc_backend_duration_seconds', [call]);
    tallies.set(call, made);
    return made;
  };
  return {
    backend: (call, durationMs) => tallyOf(call).observe(durationMs / 1000),
    backendFailed: (call, why) => metrics.add('svc_backend_errors_total', [call, why]),
    onRead: (sample) => metrics.onRead(sample),
    bodyMemory: ({ usedBytes, limitBytes }) => {
      metrics.set('svc_body_memory_bytes', ['used'], usedBytes);
      metrics.set('svc_body_memory_bytes', ['limit'], limitBytes);
    },
    metrics: (format) => metrics.text(format),
  };
}

// Queues, and what workers deliver from them, in metrics.

type DeliveryCalls =
  | 'queueBacklogs'
  | 'eventBacklogs'
  | 'queueDropped'
  | 'accessLogDelivered'
  | 'accessLogRetained'
  | 'eventsDelivered'
  | 'eventFailed'
  | 'deliveriesRefused'
  | 'eventDeadLettered'
  | 'replicated'
  | 'replicationFailed'
  | 'replicationAbandoned'
  | 'peersKnown'
  | 'replicationWaits'
  | 'inventoryEnded'
  | 'lifecycleActions'
  | 'lifecyclePasses';

const deliveryTelemetry = (metrics: Metrics): Pick<Telemetry, DeliveryCalls> => ({
  queueBacklogs: (backlogs) => {
    const of = (value: 'rows' | 'oldestSeconds') =>
      backlogs.map((each) => [[each.queue], each[value]] as const);
    metrics.replace('svc_queue_rows', of('rows'));
    metrics.replace('svc_queue_oldest_seconds', of('oldestSeconds'));
  },
  eventBacklogs: (backlogs) => {
    const of = (value: 'rows' | 'oldestSeconds') =>
      backlogs.map((each) => [[each.target], each[value]] as const);
    metrics.replace('svc_notify_queued', of('rows'));
    metrics.replace('svc_notify_oldest_seconds', of('oldestSeconds'));
  },
  queueDropped: (queue, why, rows) => metrics.add('svc_queue_dropped_total', [queue, why], rows),
  accessLogDelivered: (lines) => {
    metrics.add('svc_access_log_objects_total', []);
    metrics.add('svc_access_log_lines_total', [], lines);
  },
  accessLogRetained: (why) => metrics.add('svc_access_log_kept_total', [why]),
  eventsDelivered: (target, events) => metrics.add('svc_notify_delivered_total', [target], events),
  eventFailed: (target, why) => metrics.add('svc_notify_failures_total', [target, why]),
  deliveriesRefused: (queue, refused) =>
    metrics.replace(
      queue === 'notify' ? 'svc_notify_refused_objects' : 'svc_replication_refused_objects',
      refused.map(({ target, objects }) => [[target], objects] as const),
    ),
  eventDeadLettered: (target) => metrics.add('svc_notify_dead_letters_total', [target]),
  replicated: (peer, { bytes, lagSeconds }) => {
    metrics.add('svc_replication_versions_total', [peer]);
    metrics.add('svc_replication_bytes_total', [peer], bytes);
    metrics.observe('svc_replication_lag_seconds', [peer], lagSeconds);
  },
  replicationFailed: (peer, why) => metrics.add('svc_replication_failures_total', [peer, why]),
  replicationAbandoned: (peer, why) => metrics.add('svc_replication_given_up_total', [peer, why]),
  peersKnown: (peers) => {
    for (const peer of peers) metrics.know('peer', peer);
  },
  replicationWaits: (waits) => {
    const of = (value: 'waiting' | 'bytes' | 'oldestSeconds') =>
      waits.map((each) => [[each.destination], each[value]] as const);
    metrics.replace('svc_replication_pending_versions', of('waiting'));
    metrics.replace('svc_replication_pending_bytes', of('bytes'));
    metrics.replace('svc_replication_oldest_pending_seconds', of('oldestSeconds'));
  },
  inventoryEnded: (outcome, rows) => {
    metrics.add('svc_inventory_runs_total', [outcome]);
    metrics.add('svc_inventory_rows_total', [], rows);
  },
  lifecycleActions: (action, count) => metrics.add('svc_lifecycle_actions_total', [action], count),
  lifecyclePasses: (passes) => {
    const one = (value: number | undefined) => (value === undefined ? [] : [[[], value] as const]);
    metrics.replace('svc_lifecycle_passes', one(passes?.count));
    metrics.replace('svc_lifecycle_oldest_pass_seconds', one(passes?.oldestSeconds));
  },
});

// The meters of requests, found once for each operation and status: then a request costs a few additions.

interface RequestMeters {
  readonly total: Meter;
  readonly operation: Meter;
  readonly duration: TallyMeter;
}

/** Operations and statuses come from tables, so their number is bounded. */
function requestMeters(metrics: Metrics): (operation: string, status: number) => RequestMeters {
  const known = new Map<string, Map<number, RequestMeters>>();
  return (operation, status) => {
    let byStatus = known.get(operation);
    if (byStatus === undefined) {
      byStatus = new Map();
      known.set(operation, byStatus);
    }
    let found = byStatus.get(status);
    if (found === undefined) {
      const code = String(status);
      found = {
        total: metrics.meter('svc_http_requests_total', [code]),
        operation: metrics.meter('svc_http_operations_total', [operation, code]),
        duration: metrics.tally('svc_http_request_duration_seconds', [operation]),
      };
      byStatus.set(status, found);
    }
    return found;
  };
}

// The busiest buckets, with a bounded number of labels (the algorithm "space saving"): a bucket that is new takes the place of the least busy
// one and begins with its count, so that a busy newcomer soon stands above the others, and rates of buckets that stay are exact.

const names = [
  'svc_bucket_requests_total',
  'svc_bucket_received_bytes_total',
  'svc_bucket_sent_bytes_total',
] as const;

interface Place {
  readonly labels: readonly string[];
  readonly requests: Meter;
  readonly received: Meter;
  readonly sent: Meter;
}

class BusiestBuckets {
  readonly #metrics: Metrics;
  readonly #max: number;
  readonly #places = new Map<string, Place>();

  /** @param max the number of buckets with labels of their own; 0: none is counted */
  constructor(metrics: Metrics, max: number) {
    this.#metrics = metrics;
    this.#max = max;
  }

  answered(bucket: string, account: string, receivedBytes: number): void {
    const place = this.#places.get(bucket) ?? this.#place(bucket, account);
    if (place === undefined) return;
    place.requests.value += 1;
    place.received.value += receivedBytes;
  }

  /** Bytes of a reply that goes on after its request was counted. */
  sent(bucket: string, bytes: number): void {
    const place = this.#places.get(bucket);
    if (place !== undefined) place.sent.value += bytes;
  }

  #place(bucket: string, account: string): Place | undefined {
    if (this.#max === 0) return undefined;
    const former = this.#places.size < this.#max ? undefined : this.#leastBusy();
    const labels = [bucket, account];
    const [requests, received, sent] = names.map((name) => this.#metrics.meter(name, labels)) as [
      Meter,
      Meter,
      Meter,
    ];
    if (former !== undefined) {
      requests.value = former[1].requests.value;
      received.value = former[1].received.value;
      sent.value = former[1].sent.value;
      this.#places.delete(former[0]);
      for (const name of names) this.#metrics.remove(name, former[1].labels);
    }
    const place = { labels, requests, received, sent };
    this.#places.set(bucket, place);
    return place;
  }

  #leastBusy(): [string, Place] | undefined {
    let least: [string, Place] | undefined;
    for (const each of this.#places)
      if (least === undefined || each[1].requests.value < least[1].requests.value) least = each;
    return least;
  }
}
