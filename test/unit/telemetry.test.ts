/** Logs are JSON lines without secrets; metrics are the table's, for one process and for a node. */
import { beforeEach, describe, expect, it } from 'vitest';
import { metricTable } from '../../src/metrics/metrics.ts';
import type { Metrics } from '../../src/ports/telemetry.ts';
import { configureLog, createLog } from '../../src/telemetry/log.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';

describe('a log', () => {
  let lines: string[] = [];
  const last = (): Record<string, unknown> => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>;
  const log = createLog(() => Date.UTC(2026, 0, 2, 3, 4, 5, 6));
  beforeEach(() => {
    lines = [];
    configureLog({ level: 'DEBUG', write: (line) => lines.push(line) });
  });

  it('is one JSON object a line, with time, level, message and the fields', () => {
    log('INFO', 'a {brace} and a\nnewline', { requestId: 'r-1', duration_ms: 3 });
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain('\n');
    expect(last()).toEqual({
      time: '2026-01-02T03:04:05.006Z',
      level: 'INFO',
      message: 'a {brace} and a\nnewline',
      request_id: 'r-1',
      duration_ms: 3,
    });
  });

  it.each([
    ['DEBUG', 4],
    ['INFO', 3],
    ['WARN', 2],
    ['ERROR', 1],
  ] as const)('from level %s writes %i of four', (level, count) => {
    configureLog({ level, write: (line) => lines.push(line) });
    for (const each of ['DEBUG', 'INFO', 'WARN', 'ERROR'] as const) log(each, each);
    expect(lines.map((line) => (JSON.parse(line) as { level: string }).level)).toEqual(
      ['DEBUG', 'INFO', 'WARN', 'ERROR'].slice(4 - count),
    );
  });

  it('never shows a secret, however deep its field is', () => {
    log('WARN', 'x', {
      secretKey: 'hidden',
      SVC_METRICS_TOKEN: 'hidden',
      headers: { Authorization: 'hidden', cookie: 'hidden', 'x-amz-security-token': 'hidden', host: 'shown' },
      list: [{ sessionToken: 'hidden' }],
      target: '/b/k?X-Amz-Signature=hidden&X-Store-Security-Token=hidden&partNumber=1',
      error: new Error('GET /?Signature=hidden'),
    });
    expect(lines[0]).not.toContain('hidden');
    expect(last()).toMatchObject({ headers: { host: 'shown' } });
    expect(last()['target']).toContain('&partNumber=1');
  });

  it('shows what only looks like a secret', () => {
    log('INFO', 'x', { continuationToken: 'page', accessKey: 'AKID', key: 'a/b' });
    expect(last()).toMatchObject({ continuation_token: 'page', access_key: 'AKID', key: 'a/b' });
  });

  it('logs the causes of an error', () => {
    log('ERROR', 'x', {
      cause: new Error('outer', { cause: Object.assign(new Error('inner'), { code: 'EIO' }) }),
    });
    expect(last()).toMatchObject({ cause: { message: 'outer', cause: { message: 'inner', code: 'EIO' } } });
  });

  it('logs any value, within bounds', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    const fields = {
      circle,
      big: 1n,
      bytes: new Uint8Array(3),
      long: 'x'.repeat(100_000),
      many: Array(1000).fill(1),
    };
    log('INFO', 'x', { ...fields, none: undefined, when: new Date(Number.NaN), map: new Map([['a', 1]]) });
    expect((lines[0] ?? '').length).toBeLessThan(12_000);
    expect(last()).toMatchObject({ big: '1', bytes: '<3 bytes>', when: 'Invalid Date', map: { a: 1 } });
  });

  it('keeps its own names for itself', () => {
    log('INFO', 'said', { message: 'field', level: 7 });
    expect(last()).toMatchObject({ message: 'said', level: 'INFO', message_: 'field', level_: 7 });
  });
});

describe('metrics', () => {
  const quiet = { version: '1', runtime: 'test' } as const;
  /** As the gateway counts an answer: one object has the labels of several metrics. */
  const answered = (metrics: Metrics, code: string): void => {
    const labels = { operation: 'GetObject', code, ignored: 'x' };
    metrics.count('svc_http_requests_total', labels);
    metrics.observe('svc_http_request_duration_seconds', labels, 0.004);
  };

  it('count requests by status, refusals by code and durations by operation', async () => {
    const telemetry = createMetricRegistry(quiet);
    answered(telemetry, '200');
    answered(telemetry, '403');
    telemetry.count('svc_http_refusals_total', { error: 'AccessDenied' });
    telemetry.observe('svc_backend_duration_seconds', { call: 'metadata.commit' }, 0.002);
    const text = await telemetry.metrics();
    expect(text).toContain('svc_http_requests_total{code="200"} 1\n');
    expect(text).toContain('svc_http_requests_total{code="403"} 1\n');
    expect(text).toContain('svc_http_refusals_total{error="AccessDenied"} 1\n');
    expect(text).toContain('svc_http_request_duration_seconds_count{operation="GetObject"} 2\n');
    expect(text).toContain('svc_http_request_duration_seconds_bucket{le="0.005",operation="GetObject"} 2\n');
    expect(text).toContain('svc_backend_duration_seconds_sum{call="metadata.commit"} 0.002\n');
  });

  it('count panics by worker and shard, and say who leads', async () => {
    const telemetry = createMetricRegistry(quiet);
    telemetry.count('svc_worker_panic_total', { worker: 'gc', shard: '3' });
    telemetry.set('svc_worker_leader', { worker: 'gc' }, 1);
    expect(await telemetry.metrics()).toContain('svc_worker_leader{worker="gc"} 1\n');
    telemetry.set('svc_worker_leader', { worker: 'gc' }, 0);
    expect(await telemetry.metrics()).toContain('svc_worker_leader{worker="gc"} 0\n');
    expect(await telemetry.metrics()).toContain('svc_worker_panic_total{worker="gc",shard="3"} 1\n');
  });

  it('of two instances do not mix', async () => {
    const [one, other] = [createMetricRegistry(quiet), createMetricRegistry(quiet)];
    answered(one, '200');
    expect(await other.metrics()).not.toMatch(/svc_http_requests_total\{.* [1-9]/);
    //');
  });

  it('of a node are the sum of its processes, and its leaders not added up', async () => {
    const peer = createMetricRegistry(quiet);
    const asked = createMetricRegistry({ ...quiet, gather: async (own) => [own, await peer.own()] });
    for (const metrics of [peer, asked]) {
      answered(metrics, '200');
      metrics.set('svc_worker_leader', { worker: 'gc' }, 1);
    }
    const text = await asked.metrics();
    expect(text).toContain('svc_http_requests_total{code="200"} 2\n');
    expect(text).toContain('svc_http_request_duration_seconds_count{operation="GetObject"} 2\n');
    expect(text).toContain('svc_worker_leader{worker="gc"} 1\n');
    expect(text).toContain('svc_build_info{version="1",runtime="test"} 1\n');
  });

  it('are all declared with a name and a sentence', async () => {
    const text = await createMetricRegistry(quiet).metrics();
    for (const [name, { doc }] of Object.entries(metricTable))
      expect(text).toContain(`# HELP ${name} ${doc}\n`);
  });
});
