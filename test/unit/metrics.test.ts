/** What becomes of metrics between the processes of a node, and what a process reads about itself. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BoundedCache } from '../../src/base/bounded-cache.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { MetricRow } from '../../src/metrics/metric-row.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { noLabels } from '../../src/ports/telemetry.ts';
import { certificateExpiries } from '../../src/runtime/processes/node-diagnostics.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { measureClusters } from '../../src/telemetry/timed-backends.ts';
import { seeded } from '../support/load-model.ts';

const quiet = { version: '1', runtime: 'test' } as const;

test('the metrics that the specification names have its types and labels', () => {
  const wanted: Record<string, readonly [string, readonly string[]]> = {
    svc_kms_decrypt_total: ['counter', ['outcome']],
    svc_worker_panic_total: ['counter', ['worker', 'shard']],
    svc_quota_reconcile_drift_bytes: ['gauge', ['bucket']],
    svc_storage_class_bytes: ['gauge', ['bucket', 'class']],
    svc_storage_class_objects: ['gauge', ['bucket', 'class']],
    svc_http_requests_total: ['counter', ['code']],
  };
  const rows: Readonly<Record<string, MetricRow>> = metricTable;
  for (const [name, [kind, labels]] of Object.entries(wanted))
    expect([name, rows[name]?.kind, rows[name]?.labels]).toEqual([name, kind, labels]);
});

test('what goes wrong in the background shows under the names and labels of the table', async () => {
  const metrics = createMetricRegistry(quiet);
  metrics.replace('svc_queue_rows', [[{ queue: 'notify' }, 2]]);
  metrics.replace('svc_queue_oldest_seconds', [[{ queue: 'notify' }, 3]]);
  metrics.replace('svc_notify_queued', [[{ target: 'hook' }, 4]]);
  metrics.replace('svc_notify_oldest_seconds', [[{ target: 'hook' }, 5]]);
  metrics.count('svc_queue_dropped_total', { queue: 'notify', why: 'age' }, 6);
  metrics.count('svc_access_log_kept_total', { why: 'AccessDenied' });
  metrics.count('svc_replication_failures_total', { why: 'no-answer', peer: 'far' });
  metrics.count('svc_replication_given_up_total', { peer: 'far', why: 'overdue' });
  const peer = 'far';
  metrics.replace('svc_replication_pending_versions', [[{ peer }, 7]]);
  metrics.replace('svc_replication_pending_bytes', [[{ peer }, 8]]);
  metrics.replace('svc_replication_oldest_pending_seconds', [[{ peer }, 9]]);
  metrics.count('svc_inventory_runs_total', { outcome: 'failed' });
  metrics.count('svc_lifecycle_actions_total', { action: 'Expiration' }, 10);
  metrics.count('svc_worker_failures_total', { worker: 'notify' });
  metrics.set('svc_worker_backlog', { worker: 'gc' }, 11);
  metrics.set('svc_worker_oldest_seconds', { worker: 'gc' }, 12);
  metrics.set('svc_scrub_damaged', noLabels, 13);
  metrics.set('svc_scrub_oldest_unchecked_seconds', noLabels, 14);
  metrics.count('svc_audit_counted_total', { error: 'AccessDenied' });
  const text = await metrics.metrics();
  const expected = [
    'svc_queue_rows{queue="notify"} 2',
    'svc_queue_oldest_seconds{queue="notify"} 3',
    'svc_notify_queued{target="hook"} 4',
    'svc_notify_oldest_seconds{target="hook"} 5',
    'svc_queue_dropped_total{queue="notify",why="age"} 6',
    'svc_access_log_kept_total{why="AccessDenied"} 1',
    'svc_replication_failures_total{peer="far",why="no-answer"} 1',
    'svc_replication_given_up_total{peer="far",why="overdue"} 1',
    'svc_replication_pending_versions{peer="far"} 7',
    'svc_replication_pending_bytes{peer="far"} 8',
    'svc_replication_oldest_pending_seconds{peer="far"} 9',
    'svc_inventory_runs_total{outcome="failed"} 1',
    'svc_lifecycle_actions_total{action="Expiration"} 10',
    'svc_worker_failures_total{worker="notify"} 1',
    'svc_worker_backlog{worker="gc"} 11',
    'svc_worker_oldest_seconds{worker="gc"} 12',
    'svc_scrub_damaged 13',
    'svc_scrub_oldest_unchecked_seconds 14',
    'svc_audit_counted_total{error="AccessDenied"} 1',
  ];
  expect(expected.filter((line) => !text.includes(`\n${line}\n`))).toEqual([]);
});

test('every metric says what to do when it moves, and counters alone end in _total', () => {
  for (const [name, { kind, act, doc }] of Object.entries<MetricRow>(metricTable)) {
    expect(act, name).toMatch(/^[A-Z`01].{10,}\.$/);
    expect(doc, name).toMatch(/\.$/);
    expect(name.endsWith('_total'), name).toBe(kind === 'counter');
  }
});

test('exemplars of another process of the node are shown too', async () => {
  const peer = createMetricRegistry(quiet);
  const asked = createMetricRegistry({ ...quiet, gather: async (own) => [own, await peer.own()] });
  const tell = (metrics: typeof peer, durationMs: number, requestId: string, traceId?: string) =>
    metrics.observe('svc_http_request_duration_seconds', { operation: 'GetObject' }, durationMs / 1000, {
      requestId,
      traceId,
    });
  tell(asked, 4, 'request-of-mine', 'its-trace');
  tell(peer, 40, 'request-of-the-peer');
  const text = await asked.metrics('openmetrics');
  expect(text).toMatch(
    /le="0.005",operation="GetObject"\} 1 # \{trace_id="its-trace",request_id="request-of-mine"\} 0.004\n/,
  );
  expect(text).toMatch(/le="0.05",operation="GetObject"\} 2 # \{request_id="request-of-the-peer"\} 0.04\n/);
});

test('clusters show what their readable pools hold, and the free bytes of pools that report them', async () => {
  const metrics = createMetricRegistry(quiet);
  const pool = { namespace: '', state: 'ok', bytesUsed: 7, chunkCount: 1 } as const;
  const health = async () => [
    {
      cluster: 'a',
      status: 'HEALTH_OK',
      problems: [],
      pools: [
        { ...pool, pool: 'chunks', bytesFree: 5 },
        { ...pool, pool: 'cold', namespace: 'ice' },
        { ...pool, pool: 'gone', state: 'error' as const, bytesUsed: 0 },
      ],
    },
  ];
  metrics.onRead(measureClusters({ bytes: { health }, clock: systemClock, telemetry: metrics }));
  const text = await metrics.metrics();
  expect(text).toContain('svc_cluster_up{cluster="a"} 0\n');
  expect(text.match(/^svc_cluster_used_bytes.*$/gm)).toEqual([
    'svc_cluster_used_bytes{cluster="a",pool="chunks"} 7',
    'svc_cluster_used_bytes{cluster="a",pool="cold/ice"} 7',
  ]);
  expect(text.match(/^svc_cluster_free_bytes.*$/gm)).toEqual([
    'svc_cluster_free_bytes{cluster="a",pool="chunks"} 5',
  ]);
});

// "Space saving" (Metwally, Agrawal and El Abbadi, 2005), compared with its own words after each request.
test.each([1, 2, 3])('a new bucket takes the place of one of the least busy (seed %i)', async (seed) => {
  const places = 20;
  const metrics = createMetricRegistry({ ...quiet, rankedMax: places });
  const draw = seeded(seed);
  const shown = async (): Promise<ReadonlyMap<string, number>> => {
    const all = await metrics.own();
    const { values = [] } = all.find(({ name }) => name === 'svc_bucket_requests_total') ?? {};
    return new Map(values.map(({ labels, value }) => [labels['bucket'] ?? '', value]));
  };
  const ascending = (counts: Iterable<number>): readonly number[] => [...counts].sort((a, b) => a - b);
  for (let n = 0, before = await shown(); n < 2000; n += 1) {
    const bucket = draw() < 0.7 ? `busy-${Math.floor(25 * draw() ** 2)}` : `once-${n}`;
    metrics.count('svc_bucket_requests_total', { bucket, account: 'alice' });
    const after = await shown();
    const former = before.get(bucket);
    const [least = 0, ...others] = ascending(before.values());
    const count = former === undefined && before.size < places ? 1 : (former ?? least) + 1;
    expect(after.get(bucket)).toBe(count);
    if (former === undefined && before.size === places)
      expect(ascending(after.values())).toEqual(ascending([...others, count]));
    before = after;
  }
});

test('a sample that fails leaves the other metrics as they are', async () => {
  const metrics = createMetricRegistry(quiet);
  metrics.onRead(() => {
    throw new Error('broken');
  });
  metrics.onRead(() => metrics.set('svc_event_loop_lag_seconds', noLabels, 7));
  expect(await metrics.metrics()).toContain('svc_event_loop_lag_seconds 7\n');
});

test('hits and misses of caches of one name are counted together, and outlive the caches', async () => {
  const name = 'of-the-metrics-test';
  for (let n = 0; n < 2; n += 1) {
    const cache = new BoundedCache<number>({ name, entriesMax: 2 });
    cache.get('a');
    cache.set('a', 1);
    cache.get('a');
    cache.get('a');
  }
  const text = await createMetricRegistry(quiet).metrics();
  expect(text).toContain(`svc_cache_hits_total{cache="${name}"} 4\n`);
  expect(text).toContain(`svc_cache_misses_total{cache="${name}"} 2\n`);
});

test('the certificate of a setting expires with the first of its file; a file that cannot be read is left out', () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-certificate-'));
  try {
    const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        key,
        '-out',
        cert,
        '-days',
        '9',
        '-subj',
        '/CN=localhost',
      ],
      { stdio: 'ignore' },
    );
    const settings = { SVC_TLS_CERT_FILE: cert, SVC_TLS_KEY_FILE: key };
    const [found, ...others] = certificateExpiries(configWith(settings))();
    expect(others).toEqual([]);
    expect(found?.setting).toBe('SVC_TLS_CERT_FILE');
    expect((found?.notAfter ?? 0) - Date.now()).toBeGreaterThan(8.9 * 86_400_000);
    expect((found?.notAfter ?? 0) - Date.now()).toBeLessThan(9.1 * 86_400_000);
    rmSync(cert);
    expect(certificateExpiries(configWith(settings))()).toEqual([]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
