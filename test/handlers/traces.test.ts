/** Traces that a gateway keeps: which, what they show, and who may read them. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import type { TraceDocument, TraceSummary } from '../../src/ports/trace.ts';
import { createTracer, type TracerOptions } from '../../src/telemetry/tracer.ts';
import { alice, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import { createUpload } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';

const options = (more: Partial<TracerOptions> = {}): TracerOptions => ({
  clock: systemClock,
  random: systemRandom(),
  process: 'here:1',
  sample: 0,
  browser: true,
  ...more,
});

async function openTraced(given: GatewayWorldOptions = {}, more: Partial<TracerOptions> = {}) {
  const tracer = createTracer(options(more));
  const wrap = (context: Context): Context =>
    given.wrap?.({ ...context, ...(tracer === undefined ? {} : { tracer }) }) ?? {
      ...context,
      ...(tracer === undefined ? {} : { tracer }),
    };
  const world = await openGateway({ ...given, wrap });
  const admin = world.as({ credential: operator });
  const json = async (path: string) => {
    const reply = await admin.get(path);
    return { status: reply.status, body: JSON.parse(reply.text) };
  };
  return Object.assign(world, {
    json,
    list: async (query = ''): Promise<readonly TraceSummary[]> =>
      (await json(`/admin/v1/traces${query === '' ? '' : `?${query}`}`)).body.traces,
    find: async (id: string): Promise<readonly TraceDocument[]> =>
      (await json(`/admin/v1/traces/${id}`)).body.traces,
  });
}

const requestId = (reply: Answer): string => reply.header('*-request-id') ?? '';

describe('GET /admin/v1/traces/{id}', () => {
  test('shows the stages of a PutObject and, inside of them, the calls of the backends', async () => {
    await using world = await openTraced();
    await world.client.put('/bucket');
    const put = await world.client.put('/bucket/key', { body: 'hello' });
    const [trace] = await world.find(requestId(put));
    expect(trace?.traceId).toMatch(new RegExp(`^[0-9a-f]{16}${requestId(put).toLowerCase()}$`));
    expect(trace).toMatchObject({
      operation: 'PutObject',
      bucket: 'bucket',
      key: 'key',
      status: 200,
      attributes: {
        'http.request.method': 'PUT',
        'aws.s3.bucket': 'bucket',
        'aws.s3.key': 'key',
        'aws.request_id': requestId(put),
      },
    });
    const stages = trace?.spans.filter(({ about }) => about === '') ?? [];
    expect(stages.map(({ name }) => name)).toEqual(['identify', 'select', 'bucket', 'authorize', 'handle']);
    const handle = stages.find(({ name }) => name === 'handle');
    const inHandle = trace?.spans.filter(({ parent }) => parent === handle?.id) ?? [];
    expect(inHandle.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['data.write', 'metadata.commit']),
    );
    for (const span of trace?.spans ?? []) expect(span.durationMs).toBeGreaterThanOrEqual(0);
  });

  test.each([
    ['store.example:9000', { 'server.address': 'store.example', 'server.port': 9000 }],
    ['store.example', { 'server.address': 'store.example', 'server.port': 80 }],
    ['[2001:db8::1]:9000', { 'server.address': '2001:db8::1', 'server.port': 9000 }],
    ['not a host:x', {}],
  ] as const)('names the server of Host: %s by the semantic conventions', async (host, expected) => {
    await using world = await openTraced();
    const reply = await world.as({ host }).get('/bucket', { headers: { 'user-agent': 'agent/1' } });
    expect(reply.status).toBeGreaterThanOrEqual(400);
    const [trace] = await world.find(requestId(reply));
    const { attributes = {} } = trace ?? {};
    expect(attributes).toMatchObject({ ...expected, 'user_agent.original': 'agent/1', 'url.scheme': 'http' });
    expect('server.port' in attributes).toBe('server.port' in expected);
  });

  test('part numbers of uploads are numbers, and methods that the conventions do not know are _OTHER', async () => {
    await using world = await openTraced();
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, '/bucket/key');
    const sent = await world.client.put(`/bucket/key?partNumber=7&uploadId=${uploadId}`, { body: 'x' });
    expect(sent.status).toBe(200);
    const attributesOf = async (reply: Answer) => (await world.find(requestId(reply)))[0]?.attributes;
    expect(await attributesOf(sent)).toMatchObject({ 'aws.s3.part_number': 7, 'aws.s3.upload_id': uploadId });
    const wrong = await world.client.put(`/bucket/key?partNumber=x&uploadId=${uploadId}`, { body: 'x' });
    expect(wrong.status).toBe(400);
    expect(await attributesOf(wrong)).not.toHaveProperty(['aws.s3.part_number']);
    const read = await world.client.get('/bucket/none?partNumber=1');
    expect(await attributesOf(read)).not.toHaveProperty(['aws.s3.part_number']);
    const strange = await world.client.send('BREW', '/bucket');
    expect(await attributesOf(strange)).toMatchObject({
      'http.request.method': '_OTHER',
      'http.request.method_original': 'BREW',
    });
  });

  test('shows the read of a GetObject, which ends with the body of its reply', async () => {
    await using world = await openTraced();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'hello' });
    const got = await world.client.get('/bucket/key');
    expect(got.text).toBe('hello');
    const [trace] = await world.find(requestId(got));
    expect(trace?.spans.map(({ name }) => name)).toContain('data.read');
    expect(trace?.durationMs).toBeGreaterThanOrEqual(trace?.headMs ?? Number.POSITIVE_INFINITY);
  });

  test('names the id where no process keeps the trace', async () => {
    await using world = await openTraced();
    const reply = await world.as({ credential: operator }).get('/admin/v1/traces/ABCDEF0123456789');
    expect(reply.status).toBe(404);
    expect(reply.text).toContain('ABCDEF0123456789');
  });

  test('a failed call shows its error', async () => {
    const failing = (context: Context): Context => ({
      ...context,
      metadata: {
        ...context.metadata,
        get: () => Promise.reject(new URIError('a bug')),
      } as unknown as MetadataStore,
    });
    await using world = await openTraced({ wrap: failing });
    const put = await world.client.put('/bucket/key', { body: 'hello' });
    expect(put.status).toBe(500);
    const [trace] = await world.find(requestId(put));
    expect(trace).toMatchObject({ kept: 'failed', status: 500, code: 'InternalError' });
    expect(trace?.spans.find(({ name }) => name === 'metadata.get')?.error).toBe('URIError');
  });

  test('is for operators', async () => {
    await using world = await openTraced();
    for (const path of ['/admin/v1/traces', '/admin/v1/traces/x', '/admin/v1/log-level']) {
      expect((await world.client.get(path)).status).toBe(403);
      expect((await world.anonymous.get(path)).status).toBe(403);
    }
  });
});

describe('GET /admin/v1/traces', () => {
  test('finds refused requests by operation, bucket, status, class and code', async () => {
    await using world = await openTraced();
    await world.client.put('/bucket');
    const missing = await world.client.get('/bucket/none');
    const denied = await world.bob.get('/bucket/none');
    expect([missing.status, denied.status]).toEqual([404, 403]);
    const ids = async (query: string) => (await world.list(query)).map((each) => each.requestId);
    expect(await ids('status=404')).toEqual([requestId(missing)]);
    expect(await ids('status=AccessDenied')).toEqual([requestId(denied)]);
    expect(await ids('status=4xx&operation=GetObject&bucket=bucket')).toEqual([
      requestId(denied),
      requestId(missing),
    ]);
    expect(await ids('status=5xx')).toEqual([]);
    expect(await ids('bucket=other')).toEqual([]);
    expect(await ids(`id=${requestId(missing)}`)).toEqual([requestId(missing)]);
    expect(await ids('minMs=100000')).toEqual([]);
    expect(await ids('operation=GetObject&belowMs=0')).toEqual([]);
    expect(await ids('operation=GetObject&status=4xx&minMs=0&belowMs=100000')).toHaveLength(2);
    expect(await ids('limit=1')).toHaveLength(1);
  });

  test('a tenant that is refused again and again removes no trace of another tenant', async () => {
    await using world = await openTraced();
    await world.client.put('/alices');
    await world.bob.put('/bobs');
    const missing = await world.client.get('/alices/none');
    for (let n = 0; n < 1_000; n += 1) await world.bob.get(`/bobs/${String(n).padStart(1_000, 'x')}`);
    expect(await world.find(requestId(missing))).toHaveLength(1);
    expect((await world.list('status=NoSuchKey&limit=500')).length).toBeGreaterThan(100);
  });

  test('shows a running request with its stage and the call that it waits for', async () => {
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const slow = (context: Context): Context => {
      const { commit } = context.metadata;
      const waiting: MetadataStore['commit'] = async (at, changes, more) => {
        if (at.table.name !== 'objects') return commit(at, changes, more);
        reached.resolve();
        await held.promise;
        return commit(at, changes, more);
      };
      return { ...context, metadata: { ...context.metadata, commit: waiting } };
    };
    await using world = await openTraced({ wrap: slow });
    await world.client.put('/bucket');
    const putting = world.client.put('/bucket/key', { body: 'hello' });
    await reached.promise;
    const [running] = await world.list('running=true');
    expect(running).toMatchObject({ operation: 'PutObject', key: 'key', stage: 'handle', kept: 'running' });
    const [trace] = await world.find(running?.requestId ?? '');
    const commit = trace?.spans.find(({ name, about }) => name === 'metadata.commit' && about === 'objects');
    expect(commit).toBeDefined();
    expect(commit).not.toHaveProperty('durationMs');
    held.resolve();
    await putting;
    expect(await world.list('running=true&operation=PutObject')).toEqual([]);
  });

  test.each(['colour=red', 'running=maybe', 'limit=501', 'minMs=-1', 'belowMs=1.5', 'limit=x'])(
    'refuses the filter %s, and says what is right',
    async (query) => {
      await using world = await openTraced();
      const reply = await world.as({ credential: operator }).get(`/admin/v1/traces?${query}`);
      expect(reply.status).toBe(400);
      expect(reply.text).toContain('InvalidArgument');
    },
  );

  test('answers 501 where traces are off', async () => {
    await using world = await openTraced({}, { browser: false });
    expect(world.context.tracer).toBeUndefined();
    expect((await world.as({ credential: operator }).get('/admin/v1/traces')).status).toBe(501);
  });
});

test('a bucket that one view deletes is gone for the caches of all others', async () => {
  const distant = (context: Context): Context => ({
    ...context,
    metadata: { ...context.metadata, isDistant: true },
  });
  await using world = await openTraced({ wrap: distant, settings: { SVC_CONFIG_CACHE_TTL: '1m' } });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'hello' });
  expect((await world.client.get('/bucket/key')).status).toBe(200);
  await world.client.delete('/bucket/key');
  expect((await world.client.delete('/bucket')).status).toBe(204);
  expect((await world.client.get('/bucket/key')).text).toContain('NoSuchBucket');
});

test('calls of backends are spans of requests to the operator API, IAM and STS too', async () => {
  await using world = await openTraced();
  await world.client.put('/bucket');
  const callsOf = async (reply: Answer) => {
    const [trace] = await world.find(requestId(reply));
    return trace?.spans.filter(({ name }) => name.startsWith('metadata.')).map(({ name }) => name);
  };
  const admin = world.as({ credential: operator });
  expect(await callsOf(await admin.get('/admin/v1/buckets/bucket'))).toContain('metadata.get');
  const quota = JSON.stringify({ maxBytes: 1, maxObjects: 0, maxBytesPerObject: 0 });
  const put = await admin.put('/admin/v1/buckets/bucket/quota', {
    body: quota,
    headers: { 'content-type': 'application/json' },
  });
  expect(put.status).toBeLessThan(300);
  expect(await callsOf(put)).toContain('metadata.commit');
  const act = (service: 'iam' | 'sts', body: string) =>
    world.as({ service }).post('/', {
      body,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
  const created = await act('iam', 'Action=CreateUser&Version=2010-05-08&UserName=bob');
  expect(created.status).toBe(200);
  expect(await callsOf(created)).toContain('metadata.commit');
  // A session of a user: the user is read, and its session is drawn.
  const made = await act('iam', 'Action=CreateAccessKey&Version=2010-05-08&UserName=bob');
  const credential = {
    ...alice,
    accessKey: /<AccessKeyId>(\w+)</.exec(made.text)?.[1] ?? '',
    secretKey: /<SecretAccessKey>([^<]+)</.exec(made.text)?.[1] ?? '',
  };
  const session = await world.as({ service: 'sts', credential }).post('/', {
    body: 'Action=GetSessionToken&Version=2011-06-15',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  expect(session.status).toBe(200);
  const [{ spans }] = (await world.find(requestId(session))) as [TraceDocument];
  const identify = spans.find(({ name }) => name === 'identify');
  const inIdentify = spans.filter(({ parent }) => parent === identify?.id);
  expect(inIdentify.map(({ name, about }) => `${name} ${about}`)).toContain('metadata.get iam');
  const told = await act('sts', 'Action=GetCallerIdentity&Version=2011-06-15');
  expect([told.status, (await world.find(requestId(told)))[0]?.operation]).toEqual([
    200,
    'GetCallerIdentity',
  ]);
});

describe('traceparent', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const parent = `00-${traceId}-b7ad6b7169203331-01`;

  test('a trace goes on from the header of its caller, and follows the decision of the caller', async () => {
    const sent: TraceDocument[] = [];
    await using world = await openTraced({}, { export: (document) => sent.push(document) });
    await world.client.put('/bucket');
    await world.client.put('/bucket/a', { body: '', headers: { traceparent: parent } });
    await world.client.put('/bucket/b', { body: '', headers: { traceparent: parent.replace(/1$/, '0') } });
    expect(sent.map(({ key }) => key)).toEqual(['a']);
    expect(sent[0]).toMatchObject({ traceId, parent: 'b7ad6b7169203331' });
  });

  test.each([
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
    `00-${traceId}-0000000000000000-01`,
    `ff-${traceId}-b7ad6b7169203331-01`,
    `00-${traceId}-b7ad6b7169203331-01-more`,
    `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
    'x'.repeat(10_000),
  ])('malformed header %# begins a new trace', async (header) => {
    await using world = await openTraced();
    await world.client.put('/bucket');
    const reply = await world.client.put('/bucket/a', { body: '', headers: { traceparent: header } });
    const [trace] = await world.find(requestId(reply));
    expect(trace?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(trace?.traceId).not.toBe(traceId);
    expect(trace).not.toHaveProperty('parent');
  });

  test.each([0, 0.25, 1])('without the header the share %d of the requests is sampled', (sample) => {
    let sent = 0;
    const tracer = createTracer(options({ sample, export: () => (sent += 1) }));
    for (let n = 0; n < 1_000; n += 1) {
      const requestId = `00000000${Math.floor((n / 1_000) * 2 ** 32)
        .toString(16)
        .padStart(8, '0')}`;
      const subject = { requestId, operation: 'GetObject' };
      tracer?.begin({ subject, kind: 'server', describe: () => ({}) })?.end();
    }
    expect(sent).toBe(sample * 1_000);
  });

  test('callers force at most 100 samples in a second', async () => {
    let sent = 0;
    const clock = { ...systemClock, elapsed: () => 5 };
    const tracer = createTracer(options({ clock, export: () => (sent += 1) }));
    for (let n = 0; n < 1_000; n += 1)
      tracer
        ?.begin({
          subject: { requestId: '0000000000000000', operation: 'GetObject' },
          kind: 'server',
          describe: () => ({}),
          parent,
        })
        ?.end();
    expect(sent).toBe(100);
  });

  test.each([true, false])(
    'an account that forces samples leaves some to others (traces kept in memory: %s)',
    async (browser) => {
      const sent: TraceDocument[] = [];
      const clock = { ...systemClock, elapsed: () => 5 };
      const send = (document: TraceDocument) => sent.push(document);
      await using world = await openTraced({}, { clock, browser, export: send });
      const headers = { traceparent: parent };
      const keysOf = (bucket: string) => sent.filter((each) => each.bucket === bucket).length;
      for (const client of [world.anonymous, world.client])
        for (let n = 0; n < 200; n += 1) await client.get('/alice/key', { headers });
      await world.bob.get('/bob/key', { headers });
      expect(keysOf('bob')).toBe(1);
      expect(keysOf('alice')).toBeGreaterThan(100);
      expect(sent.length).toBeLessThanOrEqual(134);
    },
  );
});
