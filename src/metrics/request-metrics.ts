/** Metrics of requests: how many, how fast, by whom. */
import type { MetricRows } from './metric-row.ts';

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export const requests = {
  svc_http_requests_total: {
    kind: 'counter',
    labels: ['code'],
    doc: 'Answered requests by HTTP status, without `/healthz`, `/readyz` and `/metrics`.',
    act: 'More 5xx: look at `svc_backend_errors_total` and `/readyz`. More 4xx: `svc_http_refusals_total` names the error.',
    from0: { code: ['200', '500', '503', '504', '507'] },
  },
  svc_http_operations_total: {
    kind: 'counter',
    labels: ['operation', 'code'],
    doc: 'Answered requests by operation and HTTP status.',
    act: 'Shows which operation a rise of `svc_http_requests_total` comes from.',
  },
  svc_http_refusals_total: {
    kind: 'counter',
    labels: ['error'],
    doc: 'Refused requests by error code, such as NoSuchKey.',
    act: '`AccessDenied`: ask `POST /admin/v1/why`. `SlowDown`, `ServiceUnavailable`, `InternalError`: the log has the cause under the request id.',
  },
  svc_limited_requests_total: {
    kind: 'counter',
    labels: ['scope'],
    doc: 'Requests that a rate limit refused with 503 SlowDown: of an `account`, a `bucket`, or an `anonymous` source.',
    act: '`GET /admin/v1/limits` shows the limits, `svc_bucket_requests_total` the busiest buckets. Raise the limit, or ask the tenant to slow down.',
    from0: { scope: ['account', 'bucket', 'anonymous'] },
  },
  svc_http_request_duration_seconds: {
    kind: 'histogram',
    labels: ['operation'],
    doc: 'From the head of a request to the head of its reply, by operation. Buckets carry exemplars in the OpenMetrics format.',
    act: 'Compare with `svc_backend_duration_seconds`: a slow backend, or a busy event loop (`svc_event_loop_lag_seconds`). An exemplar names one request of the bucket by `trace_id` and `request_id`: `sluice admin traces <id>`.',
    buckets: seconds,
    from0: {
      operation: ['GetObject', 'HeadObject', 'ListObjects', 'ListObjectsV2', 'DeleteObject', 'DeleteObjects'],
    },
  },
  svc_http_requests_in_flight: {
    kind: 'gauge',
    labels: [],
    doc: 'Requests whose reply has not begun.',
    act: 'Grows while the request rate does not: requests wait for a backend, see `svc_backend_duration_seconds`.',
  },
  svc_http_received_bytes_total: {
    kind: 'counter',
    labels: [],
    doc: 'Bytes of bodies that clients sent.',
    act: 'Compare with the capacity of the network and with `svc_disk_free_bytes`.',
  },
  svc_http_sent_bytes_total: {
    kind: 'counter',
    labels: [],
    doc: 'Bytes of bodies that were sent to clients.',
    act: 'Compare with the capacity of the network; `svc_bucket_sent_bytes_total` names the bucket.',
  },
  svc_bucket_requests_total: {
    kind: 'counter',
    labels: ['bucket', 'account'],
    doc: 'Requests to one of the busiest buckets, with the account that owns it. Each process counts the SVC_BUCKETSTATS_TOPN busiest; a bucket that takes the place of another one begins with its count, so compare rates.',
    act: 'Names the tenant that makes the load. Set a quota, or move the bucket to another cluster by its placement.',
    rankedBy: 'svc_bucket_requests_total',
  },
  svc_bucket_received_bytes_total: {
    kind: 'counter',
    labels: ['bucket', 'account'],
    doc: 'Bytes that were sent to one of these buckets.',
    act: 'Names the tenant that fills the disks: see `PUT /admin/v1/buckets/{name}/quota`.',
    rankedBy: 'svc_bucket_requests_total',
  },
  svc_bucket_sent_bytes_total: {
    kind: 'counter',
    labels: ['bucket', 'account'],
    doc: 'Bytes that were read from one of these buckets.',
    act: 'Names the tenant that uses the network.',
    rankedBy: 'svc_bucket_requests_total',
  },
  svc_trace_spans_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Spans for the collector of SVC_OTLP_ENDPOINT: `exported`; `full`: dropped, because the queue was full; `refused`: dropped, because the collector did not take them.',
    act: '`full`: lower SVC_TRACE_SAMPLE, or give the collector more CPU. `refused`: the log says what the collector answered.',
  },
  svc_audit_counted_total: {
    kind: 'counter',
    labels: ['error'],
    doc: 'Refusals beyond SVC_AUDIT_REFUSALS of an account, or SVC_AUDIT_UNKNOWN_CALLERS of unknown callers: counted in one audit row a minute for each operation and error code.',
    act: 'A client is refused in a loop, or an attacker tries keys: the audit log names the account or the address.',
  },
  svc_late_rows_lost_total: {
    kind: 'counter',
    labels: ['why'],
    doc: 'Rows that are written up to a second after their request, and were lost: lines of access logs, counts of refusals in the audit log, last uses of access keys. `row`: the store refused this row alone; `store`: the store failed.',
    act: '`row`: a defect of this version; the WARN in the log has the cause, please report it. `store`: as `svc_backend_errors_total`.',
    from0: { why: ['row', 'store'] },
  },
  svc_idempotency_keys_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Requests to the operator API with an Idempotency-Key: `kept`: executed, and the answer was kept; `not-kept`: executed or refused, and no answer was kept; `replayed`: the answer of the first request was given again; `other-request`: refused, because the key belongs to another request; `unanswered`: refused, because the first request has no answer yet; `full`: refused, because the account has used all its keys of a day.',
    act: '`full`: a program sends a key with every request; send one only where a repetition would do harm. `unanswered` that goes on: a gateway died while it executed the request; GET the state of what it began. `other-request`: a program uses a key twice.',
  },
  svc_kms_decrypt_total: {
    kind: 'counter',
    labels: ['outcome'],
    doc: 'Keys of objects and signing keys of buckets that the key provider was asked to unwrap: `ok`, `unavailable`, `denied` or `tampered`; `expired`: requests that were refused because the signing key of their bucket is older than SVC_KEY_MAX_AGE.',
    act: '`unavailable`: the key provider is away, or takes no more calls for now (`svc_key_calls_total` shows which). `denied`: its policy changed. `tampered`: treat it as an incident. `expired`: rotate the signing key of the bucket.',
    from0: { outcome: ['ok', 'unavailable', 'denied', 'tampered', 'expired'] },
  },
  svc_key_calls_total: {
    kind: 'counter',
    labels: ['provider', 'call', 'outcome'],
    doc: 'Calls to a key provider outside of the process, with each attempt: `ok`, `unknown-key`, `denied`, `tampered`, `throttled` (the provider takes no more calls for now), `key-unavailable` (one key), `unavailable`; `refused`: the open circuit refused the call, the key failed a moment ago, or the call got no turn.',
    act: '`throttled`: raise the limit of the provider, or find the account that asks so much (`svc_bucket_requests_total`). `unknown-key`: a client names keys that do not exist. `unavailable`: the provider or the network.',
    from0: {
      provider: 'known',
      call: ['generate', 'wrap', 'unwrap'],
      outcome: ['ok', 'denied', 'tampered', 'throttled', 'unavailable'],
    },
  },
  svc_key_circuit_open: {
    kind: 'gauge',
    labels: ['provider'],
    doc: '1 while the circuit of the key provider is open: a process refuses calls to it without asking, after five failures in a row.',
    act: 'Requests that need a key get 503 `KMSUnavailable`: reach the provider again. `GET /admin/v1/keys/provider` and the log have the reason.',
    across: 'max',
  },
  svc_key_circuit_opened_total: {
    kind: 'counter',
    labels: ['provider'],
    doc: 'How often the circuit of the key provider opened.',
    act: 'Rises again and again: the provider or the network to it comes and goes.',
    from0: { provider: 'known' },
  },
  svc_signing_keys: {
    kind: 'gauge',
    labels: ['state'],
    doc: 'Buckets with a signing key of their own, where bucket-stats leads: `valid`, `expiring` within 14 days, or `expired` (SVC_KEY_MAX_AGE).',
    act: '`expiring`: rotate those keys (`POST /admin/v1/buckets/{name}/signing-key/rotate`) and give clients the new secret. `expired`: requests to those buckets are refused with 401.',
    across: 'max',
  },
  svc_signing_key_oldest_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'Age of the oldest signing key of a bucket, where bucket-stats leads; 0 where there is none.',
    act: 'Rotate the key before its age reaches SVC_KEY_MAX_AGE.',
    across: 'max',
  },
} as const satisfies MetricRows;
