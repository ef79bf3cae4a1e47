/** Requests and what refuses them, in metrics. */
import type { Telemetry } from '../../ports/telemetry.ts';
import { BusiestBuckets } from '../meters/busiest.ts';
import { requestMeters } from '../meters/request-meters.ts';
import type { Metrics } from '../metrics.ts';

type Told =
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

export function requestTelemetry(metrics: Metrics, busiestMax: number): Pick<Telemetry, Told> {
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
