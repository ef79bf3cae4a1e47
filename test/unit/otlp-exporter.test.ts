/** What leaves the process by OTLP: the bounded queue, retries, and the connection that the settings describe. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import { type Config, type SettingName, settings } from '../../src/config.ts';
import type { SpanDocument, TraceDocument } from '../../src/ports/trace.ts';
import { describeSystems, nodeTracing } from '../../src/runtime/processes/node-telemetry.ts';
import { configureLog, createLog } from '../../src/telemetry/log.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { OtlpExporter } from '../../src/telemetry/otlp.ts';
import { onCount } from '../support/metric-calls.ts';
import { one, two } from '../support/server-tls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** A trace with 63 spans beside its own. */
const document: TraceDocument = {
  requestId: '0123456789ABCDEF',
  traceId: 'a'.repeat(32),
  spanId: 'b'.repeat(16),
  kept: 'sample',
  kind: 'server',
  operation: 'GetObject',
  bucket: 'bucket',
  key: 'key',
  startedAt: '2026-01-02T03:04:05.006Z',
  durationMs: 1,
  process: 'here:1',
  attributes: {},
  links: [],
  leftOut: 0,
  spans: Array.from({ length: 63 }, (_, n) => ({
    name: 'metadata.get',
    about: 'objects',
    id: String(n).padStart(16, '1'),
    parent: 'b'.repeat(16),
    startMs: 0,
    durationMs: 1,
  })),
};
const spansOfDocument = 64;
const queuedMax = 16_384;

type Answer =
  | ((body: string) => number)
  | number
  | 'no answer'
  | { readonly status: number; readonly retryAfter: number };

function openExporter(...answers: readonly Answer[]) {
  return openExporterOf(configWith({}), ...answers);
}

function openExporterOf(config: Config, ...answers: readonly Answer[]) {
  const clock = virtualClock();
  const counted = { exported: 0, refused: 0, full: 0 };
  const logged: unknown[] = [];
  const bodies: string[] = [];
  const exporter = new OtlpExporter({
    clock,
    source: { resource: {}, systems: describeSystems(config) },
    telemetry: {
      ...onCount({
        svc_trace_spans_total({ outcome }, spans) {
          counted[outcome as keyof typeof counted] += spans;
        },
      }),
      log: (...line) => void logged.push(line),
    },
    poster: {
      async post(body) {
        bodies.push(body);
        const answer =
          answers[bodies.length - 1] ?? answers.find((each) => typeof each === 'function') ?? 200;
        if (typeof answer === 'function') return { status: answer(body), retryAfter: undefined };
        if (answer === 'no answer') throw new Error('connect ECONNREFUSED');
        return typeof answer === 'number' ? { status: answer, retryAfter: undefined } : answer;
      },
      close: async () => undefined,
    },
  });
  return { clock, counted, logged, bodies, exporter };
}

describe('the queue', () => {
  test('takes no more spans than its limit; further ones are counted as dropped, and the others arrive', async () => {
    const { clock, counted, bodies, exporter } = openExporter();
    const further = 10;
    for (let n = 0; n < queuedMax / spansOfDocument + further; n += 1) exporter.add(document);
    expect(counted).toEqual({ exported: 0, refused: 0, full: further * spansOfDocument });
    await clock.advance(60_000);
    expect(counted).toEqual({ exported: queuedMax, refused: 0, full: further * spansOfDocument });
    expect(bodies.join('').match(/"spanId"/g)).toHaveLength(queuedMax);
    for (const body of bodies) expect(body.match(/"spanId"/g)?.length).toBeLessThanOrEqual(2_048);
    // There is room again.
    exporter.add(document);
    await clock.advance(2_000);
    expect(counted.exported).toBe(queuedMax + spansOfDocument);
  });

  test('does not grow while the collector does not answer', async () => {
    const { clock, counted, exporter } = openExporter(...Array<Answer>(100).fill('no answer'));
    for (let n = 0; n < 1_000; n += 1) {
      exporter.add(document);
      if (n % 100 === 0) await clock.advance(100);
    }
    // One batch is under way.
    const waiting = 1_000 * spansOfDocument - counted.full - counted.refused;
    expect(waiting).toBeLessThanOrEqual(queuedMax + 2_048);
    expect(counted.exported).toBe(0);
  });
});

/** A configuration with these settings, whatever else they would need to be complete. */
function configOf(given: Partial<Record<SettingName, string>>): Config {
  const read = Object.entries(given).map(([name, text]) => [name, settings[name as SettingName].read(text)]);
  return {
    ...configWith({}),
    ...Object.fromEntries(read.map(([name, found]) => [name, (found as { value: unknown }).value])),
  } as Config;
}

/** Of the conventions at https://opentelemetry.io/docs/specs/semconv/. */
const cassandra = {
  SVC_META_BACKEND: 'wide-column',
  SVC_WIDECOL_KEYSPACE: 'objects',
};
const upstream = {
  SVC_DATA_BACKEND: 'upstream-store',
  SVC_UPSTREAMS: '[{"id":"here","bucket":"bytes","endpoint":"https://store.example:8443"}]',
};
const kms = { SVC_KEY_PROVIDER: 'cloud-kms', SVC_KMS_ENDPOINT: 'https://kms.example' };
const vault = { SVC_KEY_PROVIDER: 'transit', SVC_TRANSIT_ADDR: 'http://127.0.0.1:8200' };
const aws = { 'rpc.system': 'aws-api', 'rpc.system.name': 'aws-api' };

test.each<[string, string, Partial<Record<SettingName, string>>, Record<string, string | number>]>([
  [
    'metadata.get',
    'objects',
    {},
    { 'db.system.name': 'memory', 'db.operation.name': 'get', 'db.collection.name': 'objects' },
  ],
  [
    'metadata.commit',
    'objects',
    cassandra,
    {
      'db.system.name': 'cassandra',
      'db.namespace': 'objects',
      'db.operation.name': 'commit',
      'db.collection.name': 'objects',
    },
  ],
  ['metadata.begin', 'here', {}, { 'db.system.name': 'memory', 'db.operation.name': 'begin' }],
  [
    'data.read',
    'here',
    { SVC_DATA_BACKEND: 'noop' },
    {
      'rpc.system': 'noop',
      'rpc.system.name': 'noop',
      'rpc.service': 'data',
      'rpc.method': 'read',
      'sluice.cluster': 'here',
    },
  ],
  [
    'data.write',
    'here',
    upstream,
    {
      ...aws,
      'rpc.service': 'S3',
      'rpc.method': 'PutObject',
      'sluice.cluster': 'here',
      'server.address': 'store.example',
      'server.port': 8443,
    },
  ],
  [
    'keys.unwrap',
    'provider',
    kms,
    {
      ...aws,
      'rpc.service': 'KMS',
      'rpc.method': 'Decrypt',
      'server.address': 'kms.example',
      'server.port': 443,
    },
  ],
  [
    'keys.unwrap',
    'provider',
    vault,
    {
      'rpc.system': 'vault',
      'rpc.system.name': 'vault',
      'rpc.service': 'keys',
      'rpc.method': 'unwrap',
      'server.address': '127.0.0.1',
      'server.port': 8200,
    },
  ],
  [
    'peer.PUT',
    'https://[2001:db8::1]/',
    {},
    {
      ...aws,
      'rpc.service': 'S3',
      'http.request.method': 'PUT',
      'server.address': '2001:db8::1',
      'server.port': 443,
    },
  ],
])(
  'the span %s of %s has the attributes of what is called (case %#)',
  async (name, about, given, expected) => {
    const { clock, bodies, exporter } = openExporterOf(configOf(given));
    exporter.add({ ...document, spans: [{ ...(document.spans[0] as SpanDocument), name, about }] });
    await clock.advance(2_000);
    const { attributes } = JSON.parse(bodies[0] ?? '').resourceSpans[0].scopeSpans[0].spans[1];
    type Given = { readonly key: string; readonly value: { stringValue?: string; intValue?: string } };
    const shown = Object.fromEntries(
      (attributes as readonly Given[]).map(({ key, value }) => [
        key,
        value.stringValue ?? Number(value.intValue),
      ]),
    );
    expect(shown).toEqual(expected);
  },
);

describe('a batch that is not taken', () => {
  test.each<Answer>([503, 429, 502, 504, 'no answer'])('is sent again after %s', async (answer) => {
    const { clock, counted, bodies, exporter, logged } = openExporter(answer, answer, 200);
    exporter.add(document);
    await clock.advance(1_000);
    expect(bodies).toHaveLength(1);
    await clock.advance(1_000);
    expect(bodies).toHaveLength(2);
    await clock.advance(1_999);
    expect(bodies).toHaveLength(2);
    await clock.advance(1);
    expect(new Set(bodies).size).toBe(1);
    expect(bodies).toHaveLength(3);
    expect(counted).toEqual({ exported: spansOfDocument, refused: 0, full: 0 });
    expect(logged).toEqual([]);
  });

  test('waits for as long as Retry-After says', async () => {
    const { clock, bodies, exporter } = openExporter({ status: 503, retryAfter: 7 });
    exporter.add(document);
    await clock.advance(7_999);
    expect(bodies).toHaveLength(1);
    await clock.advance(1);
    expect(bodies).toHaveLength(2);
  });

  test('without the one trace that the collector refuses arrives, in a bounded number of attempts', async () => {
    const { clock, counted, bodies, exporter } = openExporter((body) =>
      body.includes('poison') ? 400 : 200,
    );
    const small = { ...document, spans: [] };
    for (let n = 0; n < 1_000; n += 1)
      exporter.add(n === 333 ? { ...small, attributes: { 'url.path': 'poison' } } : small);
    await clock.advance(60_000);
    expect(counted).toEqual({ exported: 999, refused: 1, full: 0 });
    expect(bodies.length).toBeLessThan(25);
  });

  test('that is too large for the collector is sent in parts', async () => {
    const { clock, counted, exporter } = openExporter((body) => (body.length > 100_000 ? 413 : 200));
    for (let n = 0; n < 30; n += 1) exporter.add(document);
    await clock.advance(60_000);
    expect(counted).toEqual({ exported: 30 * spansOfDocument, refused: 0, full: 0 });
  });

  test.each([400, 413])(
    'of which the collector takes no part, with %i, costs a bounded number of attempts',
    async (status) => {
      const { clock, counted, bodies, exporter } = openExporter(() => status);
      for (let n = 0; n < 2_000; n += 1) exporter.add({ ...document, spans: [] });
      await clock.advance(60_000);
      expect(counted).toEqual({ exported: 0, refused: 2_000, full: 0 });
      expect(bodies.length).toBeLessThanOrEqual(129);
    },
  );

  test('is well-formed, whatever texts of clients are cut in the middle of a character', async () => {
    const { clock, bodies, exporter } = openExporter();
    exporter.add({ ...document, attributes: { 'user_agent.original': 'agent \ud834' } });
    await clock.advance(2_000);
    expect(bodies.join('')).not.toMatch(/\\ud[89a-f]/i);
    expect(bodies.join('')).toContain('agent \ufffd');
  });

  test('is not sent again after 400, and is counted and logged', async () => {
    const { clock, counted, bodies, exporter, logged } = openExporter(400);
    exporter.add(document);
    await clock.advance(120_000);
    expect(bodies).toHaveLength(1);
    expect(counted).toEqual({ exported: 0, refused: spansOfDocument, full: 0 });
    expect(logged).toEqual([
      ['WARN', expect.any(String), { error: 'the collector answered 400', spans: spansOfDocument }],
    ]);
  });

  test('is given up after five attempts, and the next one is sent', async () => {
    const { clock, counted, bodies, exporter } = openExporter(...Array<Answer>(5).fill(503));
    exporter.add(document);
    await clock.advance(60_000);
    exporter.add(document);
    await clock.advance(60_000);
    expect(bodies).toHaveLength(6);
    expect(counted).toEqual({ exported: spansOfDocument, refused: spansOfDocument, full: 0 });
  });

  test('does not hold up the end of a process', async () => {
    const { counted, bodies, exporter } = openExporter(503, 503);
    exporter.add(document);
    await exporter.close();
    expect(bodies).toHaveLength(1);
    expect(counted.refused).toBe(spansOfDocument);
  });
});

describe('the connection', () => {
  const received: { readonly path: string | undefined; readonly headers: IncomingHttpHeaders }[] = [];
  const state = { status: 200 };
  const collector = createServer(one, (asked, answer) => {
    received.push({ path: asked.url, headers: asked.headers });
    asked.resume();
    asked.on('end', () => answer.writeHead(state.status).end());
  });
  let directory: string;
  let url: string;
  const lines: string[] = [];
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sluice-otlp-'));
    await writeFile(join(directory, 'one.pem'), one.cert);
    await writeFile(join(directory, 'two.pem'), two.cert);
    await writeFile(
      join(directory, 'headers'),
      'authorization=Bearer%20secret-of-the-file\nx-team=storage\n',
    );
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    url = `https://127.0.0.1:${(collector.address() as AddressInfo).port}`;
    configureLog({ level: 'DEBUG', write: (line) => lines.push(line) });
  });
  afterAll(async () => {
    collector.closeAllConnections();
    collector.close();
    await rm(directory, { recursive: true });
  });

  /** Exports the trace of one request, and ends like a process. */
  async function exportOne(settings: Partial<Record<SettingName, string>>) {
    const metrics = createMetricRegistry({ version: '1', runtime: 'node' });
    const telemetry = { ...metrics, log: createLog() };
    const config = configWith({ SVC_OTLP_ENDPOINT: url, SVC_TRACE_SAMPLE: '1', ...settings });
    const { tracer, close } = await nodeTracing(config, telemetry);
    const before = received.length;
    tracer
      ?.begin({
        subject: { requestId: '0123456789ABCDEF', operation: 'GetObject' },
        kind: 'server',
        describe: () => ({}),
      })
      ?.end();
    await close();
    return { got: received.slice(before), metrics: await metrics.metrics(), log: lines.splice(0).join('\n') };
  }

  test.each([
    ['SVC_OTLP_HEADERS', (): string => 'authorization=Bearer%20secret-of-the-file, x-team=storage'],
    ['SVC_OTLP_HEADERS_FILE', (): string => join(directory, 'headers')],
  ] as const)('trusts SVC_OTLP_CA_FILE, and sends the headers of %s', async (name, value) => {
    const { got, metrics, log } = await exportOne({
      SVC_OTLP_CA_FILE: join(directory, 'one.pem'),
      [name]: value(),
    });
    expect(got).toEqual([
      {
        path: '/v1/traces',
        headers: expect.objectContaining({
          authorization: 'Bearer secret-of-the-file',
          'x-team': 'storage',
          'content-type': 'application/json',
        }),
      },
    ]);
    expect(metrics).toContain('svc_trace_spans_total{outcome="exported"} 1\n');
    expect(log).toBe('');
  });

  test.each([
    ['other authorities than that of the collector', (): string => join(directory, 'two.pem')],
    ['none', (): undefined => undefined],
  ] as const)('sends nothing with %s, and says why without the headers', async (_, ca) => {
    const file = ca();
    const { got, metrics, log } = await exportOne({
      ...(file === undefined ? {} : { SVC_OTLP_CA_FILE: file }),
      SVC_OTLP_HEADERS_FILE: join(directory, 'headers'),
    });
    expect(got).toEqual([]);
    expect(metrics).toContain('svc_trace_spans_total{outcome="refused"} 1\n');
    expect(log).toMatch(/spans were not exported.*certificate/);
    expect(log).not.toMatch(/secret-of-the-file|Bearer/);
  });

  test('a refusal of the collector is logged without the headers', async () => {
    state.status = 401;
    const { log } = await exportOne({
      SVC_OTLP_CA_FILE: join(directory, 'one.pem'),
      SVC_OTLP_HEADERS: 'authorization=Bearer%20secret-of-the-file',
    });
    state.status = 200;
    expect(log).toContain('the collector answered 401');
    expect(log).not.toMatch(/secret-of-the-file|Bearer/);
  });
});
