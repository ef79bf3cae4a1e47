/** A node of two real processes: its spans at a real collector, its trace browser, and the level of its log. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { attributeOf, type Collector, noCollector, startCollector } from '../support/engines/otelcol.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts';
import { type Send, sender } from './client.ts';

const patience = { timeout: 180_000, interval: 100 };
const callerTrace = '4bf92f3577b34da6a3ce929d0e0e4736';
const callerSpan = '00f067aa0ba902b7';

interface Line {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

describe.skipIf(noCollector !== undefined)('a node of two processes', () => {
  let collector: Collector;
  let sink: WebhookSink;
  let server: TestServer;
  let send: Send;

  beforeAll(async () => {
    [collector, sink] = await Promise.all([startCollector(), openWebhookSink()]);
    server = await startServer({
      env: {
        SVC_PROCESSES: '2',
        SVC_TRACE_SAMPLE: '0',
        SVC_OTLP_ENDPOINT: collector.url,
        SVC_OTLP_HEADERS: 'authorization=Bearer%20a-token-of-the-collector',
        SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', accounts: ['*'], type: 'webhook', url: sink.url }]),
        SVC_EGRESS_ALLOW: '127.0.0.0/8',
        SVC_NOTIFY_INTERVAL: '50ms',
        SVC_LOG_LEVEL: 'INFO',
      },
    });
    send = sender({ url: server.url, ...testCredentials.root });
    await send('PUT', '/bucket');
  });

  afterAll(async () => {
    await server?.stop();
    await Promise.all([collector?.[Symbol.asyncDispose](), sink?.[Symbol.asyncDispose]()]);
  });

  const lines = (): Line[] =>
    server
      .log()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Line);

  test('the collector gets the spans of a request below those of its caller, and a delivery that is linked to it', async () => {
    const rules =
      '<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:root-account:hook</Queue></QueueConfiguration></NotificationConfiguration>';
    expect((await send('PUT', '/bucket?notification=', { body: rules })).status).toBe(200);
    const traceparent = `00-${callerTrace}-${callerSpan}-01`;
    const put = await send('PUT', '/bucket/an/object', { body: 'hello', headers: { traceparent } });
    const requestId = String(put.headers['x-amz-request-id']);
    await vi.waitFor(() => {
      const all = collector.spans();
      expect(all.some(({ name }) => name === 'S3.PutObject')).toBe(true);
      expect(all.some(({ name }) => name === 'POST hook')).toBe(true);
    }, patience);
    const spans = collector.spans();
    const root = spans.find(({ name }) => name === 'S3.PutObject');
    expect(root).toMatchObject({ traceId: callerTrace, parentSpanId: callerSpan, kind: 2 });
    if (root === undefined) throw new Error('no span');
    const shown = Object.fromEntries(
      [
        'http.request.method',
        'http.response.status_code',
        'aws.s3.bucket',
        'aws.s3.key',
        'aws.request_id',
        'server.address',
        'server.port',
      ].map((name) => [name, attributeOf(root, name)]),
    );
    expect(shown).toEqual({
      'http.request.method': 'PUT',
      'http.response.status_code': '200',
      'aws.s3.bucket': 'bucket',
      'aws.s3.key': 'an/object',
      'aws.request_id': requestId,
      'server.address': '127.0.0.1',
      'server.port': new URL(server.url).port,
    });
    const handle = spans.find(
      ({ traceId, name, parentSpanId }) =>
        traceId === callerTrace && name === 'handle' && parentSpanId === root.spanId,
    );
    const commit = spans.find(
      (span) =>
        span.parentSpanId === handle?.spanId &&
        span.name === 'metadata.commit' &&
        attributeOf(span, 'db.collection.name') === 'objects',
    );
    expect(commit?.kind).toBe(3);
    expect(commit && attributeOf(commit, 'db.system.name')).toBe('lmdb');
    for (const span of spans.filter(({ traceId }) => traceId === callerTrace)) {
      expect(BigInt(span.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(root.startTimeUnixNano));
      expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
    }
    // Only what callers sampled is exported, and what it caused.
    const delivery = spans.find(({ links = [] }) => links.some(({ spanId }) => spanId === root.spanId));
    expect(delivery).toMatchObject({ name: 'POST hook', kind: 4 });
    expect(delivery && attributeOf(delivery, 'messaging.system')).toBe('webhook');
    expect(delivery?.traceId).not.toBe(callerTrace);
    const message = sink.received.find(({ body }) => body.includes('an/object'));
    expect(message?.headers['traceparent']).toBe(`00-${delivery?.traceId}-${delivery?.spanId}-01`);
    // The request id leads to both.
    const { traces } = JSON.parse((await send('GET', `/admin/v1/traces/${requestId}`)).text);
    expect(traces.map(({ operation }: { operation: string }) => operation)).toEqual([
      'PutObject',
      'worker:notify',
    ]);
  });

  test('every process answers for the node about a request that either of them refused', async () => {
    const refused = await send('GET', '/bucket/missing');
    const id = String(refused.headers['x-amz-request-id']);
    const found = new Set<string>();
    // Connections are spread over the processes.
    for (let n = 0; n < 12; n += 1) {
      const reply = await send('GET', `/admin/v1/traces/${id}`, { headers: { connection: 'close' } });
      expect(reply.status).toBe(200);
      for (const { process } of JSON.parse(reply.text).traces) found.add(process);
    }
    const own = await send('GET', '/admin/v1/traces?operation=admin:GetTrace&limit=500');
    const asked = new Set(JSON.parse(own.text).traces.map(({ process }: { process: string }) => process));
    expect(asked.size).toBe(2);
    expect(found.size).toBe(1);
    const [line] = lines().filter(({ request_id }) => request_id === id);
    expect(line).toMatchObject({ level: 'INFO', operation: 'GetObject', code: 'NoSuchKey', status: 404 });
  });

  test('the level of the log changes in all processes: by the operator API, and by SIGUSR2', async () => {
    const answered = async (): Promise<number> => {
      const ids = new Set<string>();
      for (let n = 0; n < 8; n += 1)
        ids.add(String((await send('HEAD', '/bucket')).headers['x-amz-request-id']));
      await new Promise((resolve) => setTimeout(resolve, 20));
      return lines().filter((line) => ids.has(String(line['request_id']))).length;
    };
    expect(await answered()).toBe(0);
    const put = await send('PUT', '/admin/v1/log-level', { body: '{"level":"DEBUG"}' });
    expect([put.status, JSON.parse(put.text)]).toEqual([200, { level: 'DEBUG', processes: 'all' }]);
    await vi.waitFor(async () => expect(await answered()).toBe(8), patience);
    // DEBUG is on: the signal returns to what is configured.
    server.process.kill('SIGUSR2');
    await vi.waitFor(async () => expect(await answered()).toBe(0), patience);
    server.process.kill('SIGUSR2');
    await vi.waitFor(async () => expect(await answered()).toBe(8), patience);
    expect(JSON.parse((await send('GET', '/admin/v1/log-level')).text)).toEqual({ level: 'DEBUG' });
    const wrong = await send('PUT', '/admin/v1/log-level', { body: '{"level":"LOUD"}' });
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining('DEBUG, INFO, WARN, ERROR')]);
    expect((await send('PUT', '/admin/v1/log-level', { body: '{"level":"INFO"}' })).status).toBe(200);
  });
});
