/** Metrics of requests as `/metrics` shows them, through the front door. */
import { describe, expect, it } from 'vitest';
import { fail } from '../../src/base/errors.ts';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { usageChanges } from '../../src/metadata/buckets/usage.ts';
import { keysOfAccountMax, putAnswer } from '../../src/metadata/idempotency.ts';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { ChunkDamaged, DataUnavailable } from '../../src/ports/object-bytes.ts';
import type { Telemetry } from '../../src/ports/telemetry.ts';
import { rootArn } from '../../src/protocol/arns.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { classifyFault, timedBytes } from '../../src/telemetry/timed-backends.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;

const measured = (busiestMax = 100): Telemetry => ({
  ...createMetricRegistry({ version: '1', runtime: 'test', rankedMax: busiestMax }),
  log: () => {},
});

const open = (options: GatewayWorldOptions = {}) => openGateway({ telemetry: measured(), ...options });
type World = Awaited<ReturnType<typeof open>>;

const scrape = async (world: World, accept?: string): Promise<string> => {
  const headers = accept === undefined ? {} : { accept };
  const reply = await world.as({ credential: operator }).get('/metrics', { headers });
  expect(reply.status).toBe(200);
  return reply.text;
};
const lineOf = (text: string, start: string): string | undefined =>
  text.split('\n').find((line) => line.startsWith(start));
const readingOf = (text: string, start: string): number => Number(lineOf(text, start)?.split(' ').at(-1));

describe('metrics of requests', () => {
  it('count what became of requests with an Idempotency-Key', async () => {
    await using world = await open();
    const { metadata, hasher } = world.context;
    const admin = world.as({ credential: operator });
    await world.client.put('/photos');
    const start = (key: string, path = '/buckets/photos/force-empty') =>
      admin.post(`/admin/v1${path}`, { headers: { 'idempotency-key': key } });
    const statuses = [
      await start('once'),
      await start('once'),
      await start('once', '/fsck'),
      await start('none', '/buckets/none/force-empty'),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([202, 202, 422, 404]);
    const expiresAt = (await metadata.now()) + 60_000;
    const seed = async (n: number, request: string) => {
      const id = hasher.sha256Hex(JSON.stringify([operator.owner, rootArn(operator.owner), `seeded-${n}`]));
      const row = { id, request, status: 0, body: '' };
      await putAnswer(metadata, { row, account: operator.owner }, { expect: 'absent', expiresAt });
    };
    // The row of a request that is still executed.
    const request = hasher.sha256Hex(
      JSON.stringify([
        JSON.stringify(['ForceEmptyBucket', 'buckets/photos/force-empty', {}]),
        hasher.sha256Hex(''),
      ]),
    );
    await seed(0, request);
    expect((await start('seeded-0')).status).toBe(409);
    for (let n = 1; n < keysOfAccountMax; n += 1) await seed(n, 'other');
    expect((await start('one-too-many')).text).toContain('LimitExceeded');
    const counted = (await scrape(world)).match(/(?<=svc_idempotency_keys_total\{outcome=").*/g);
    expect(counted?.sort()).toEqual(
      ['full', 'kept', 'not-kept', 'other-request', 'replayed', 'unanswered'].map(
        (outcome) => `${outcome}"} 1`,
      ),
    );
  });

  it('count operations by status, and the bytes of bodies in both directions', async () => {
    await using world = await open();
    await world.client.put('/photos');
    await world.client.put('/photos/a', { body: 'x'.repeat(1000) });
    expect((await world.client.get('/photos/a')).text.length).toBe(1000);
    expect((await world.client.get('/photos/b')).status).toBe(404);
    const before = await scrape(world);
    expect(before).toContain('svc_http_operations_total{operation="PutObject",code="200"} 1\n');
    expect(before).toContain('svc_http_operations_total{operation="GetObject",code="200"} 1\n');
    expect(before).toContain('svc_http_operations_total{operation="GetObject",code="404"} 1\n');
    expect(before).toContain('svc_http_requests_total{code="404"} 1\n');
    expect(readingOf(before, 'svc_http_received_bytes_total')).toBe(1000);
    expect(readingOf(before, 'svc_http_sent_bytes_total')).toBeGreaterThanOrEqual(1000);
    expect(before).toContain(`svc_bucket_requests_total{bucket="photos",account="${alice.owner}"} 3\n`);
    expect(before).toContain(
      `svc_bucket_received_bytes_total{bucket="photos",account="${alice.owner}"} 1000\n`,
    );
    expect(
      readingOf(before, `svc_bucket_sent_bytes_total{bucket="photos",account="${alice.owner}"}`),
    ).toBeGreaterThanOrEqual(1000);
    // The request that asks for metrics.
    expect(before).toContain('svc_http_requests_in_flight 1\n');
  });

  it('give no label to buckets that do not exist, and keep as many buckets as SVC_BUCKETSTATS_TOPN', async () => {
    await using world = await open({ telemetry: measured(2) });
    expect((await world.client.get('/no-such-bucket/a')).status).toBe(404);
    for (const bucket of ['one', 'two', 'three']) {
      await world.client.put(`/${bucket}`);
      for (let n = 0; n < (bucket === 'one' ? 5 : 1); n += 1) await world.client.get(`/${bucket}?location`);
    }
    const text = await scrape(world);
    const shown = [...text.matchAll(/^svc_bucket_requests_total\{bucket="([^"]+)"/gm)].map(
      ([, name]) => name,
    );
    expect(shown.toSorted()).toEqual(['one', 'three']);
    expect(readingOf(text, 'svc_bucket_requests_total{bucket="one"')).toBe(5);
  });

  it('are in the OpenMetrics format for those who accept it, with the request id as exemplar', async () => {
    await using world = await open();
    const reply = await world.client.put('/photos');
    const id = reply.header('x-amz-request-id') ?? '';
    const text = await scrape(world, 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5');
    expect(text.endsWith('# EOF\n')).toBe(true);
    expect(text).toContain('# TYPE svc_http_requests counter\n');
    expect(text).toContain('svc_http_requests_total{code="200"} 1\n');
    expect(text).toMatch(
      new RegExp(
        `svc_http_request_duration_seconds_bucket\\{[^}]*operation="CreateBucket"\\} 1 # \\{request_id="${id}"\\} `,
      ),
    );
    expect(await scrape(world)).not.toContain(id);
  });

  it('count lookups in caches, memory for bodies and the state of clusters', async () => {
    await using world = await open();
    await world.client.put('/photos');
    for (let n = 0; n < 3; n += 1) await world.client.get('/photos?location');
    const text = await scrape(world);
    expect(readingOf(text, 'svc_cache_hits_total{cache="signing-keys"}')).toBeGreaterThan(0);
    expect(readingOf(text, 'svc_body_memory_bytes{kind="limit"}')).toBe(
      world.context.config.SVC_MEMORY_MAX / 8,
    );
    expect(readingOf(text, 'svc_body_memory_bytes{kind="used"}')).toBe(0);
    expect(text).toContain('svc_cluster_up{cluster="default"} 1\n');
  });
});

describe('metrics of backends', () => {
  it('count a call that fails by its reason', async () => {
    await using world = await open();
    await world.client.put('/photos');
    const away = async (): Promise<boolean> => {
      throw new DataUnavailable('no answer in time');
    };
    const bytes = timedBytes(faulty(world.context.bytes, { holdsAnything: away }), world.context);
    await expect(bytes.holdsAnything('default')).rejects.toThrow();
    expect(await scrape(world)).toContain(
      'svc_backend_errors_total{call="data.holdsAnything",why="timeout"} 1\n',
    );
  });

  it('count a damaged block wherever it is in a read', async () => {
    await using world = await open();
    for (const piecesBefore of [0, 1, 3]) {
      async function* damagedAfterwards(): AsyncGenerator<Uint8Array> {
        for (let n = 0; n < piecesBefore; n += 1) yield new Uint8Array(4);
        throw new ChunkDamaged('block 11 does not match its checksum');
      }
      const bytes = timedBytes(faulty(world.context.bytes, { read: damagedAfterwards }), world.context);
      const readAll = async (): Promise<void> => {
        for await (const _ of bytes.read({ id: 'x', cluster: 'default', size: 16 }));
      };
      await expect(readAll()).rejects.toThrow(ChunkDamaged);
    }
    expect(await scrape(world)).toContain('svc_backend_errors_total{call="data.read",why="damaged"} 3\n');
  });

  it.each([
    [new StoreUnavailable('node is down'), 'unavailable'],
    [
      new StoreUnavailable('x', { cause: Object.assign(new Error('connect'), { code: 'ETIMEDOUT' }) }),
      'timeout',
    ],
    [new StorageFull('no room'), 'full'],
    [new Error('surprise'), 'other'],
    [Object.assign(new Error('gone'), { name: 'AbortError' }), undefined],
    [fail('IncompleteBody'), undefined],
  ])('%s is counted as %s', (cause, why) => expect(classifyFault(cause)).toBe(why));
});

describe('metrics of workers', () => {
  it('show what each worker has done and left, and nothing of it once it has stopped', async () => {
    const clock = virtualClock();
    await using world = await open({ clock });
    await world.client.put('/photos');
    for (const key of ['a', 'b']) {
      await world.client.put(`/photos/${key}`, { body: 'content' });
      await world.client.delete(`/photos/${key}`);
    }
    const running = startWorkers(world.context, ['gc', 'bucket-stats'], never, { process: 'host:1' });
    await clock.advance(world.context.config.SVC_GC_GRACE + 60_000);
    const text = await scrape(world);
    expect(text).toContain('svc_worker_done_total{worker="gc",of="rows"} 2\n');
    expect(text).toContain('svc_worker_backlog{worker="gc"} 0\n');
    expect(text).toContain('svc_gc_backlog{cluster="default"} 0\n');
    expect(text).toContain('svc_worker_oldest_seconds{worker="gc"} 0\n');
    expect(readingOf(text, 'svc_worker_units_total{worker="bucket-stats"}')).toBeGreaterThan(0);
    const last = readingOf(text, 'svc_worker_last_unit_timestamp_seconds{worker="bucket-stats"}');
    expect(last * 1000).toBeGreaterThan(clock.now() - 120_000);
    await running.stop();
    const after = await scrape(world);
    expect(after).toContain('svc_worker_leader{worker="bucket-stats"} 0\n');
    expect(after).not.toContain('svc_worker_backlog{');
    expect(after).not.toContain('svc_worker_last_unit_timestamp_seconds{');
    expect(after).toContain('svc_worker_done_total{worker="gc",of="rows"} 2\n');
  });

  it('show since when a worker hangs in its first unit', async () => {
    const clock = virtualClock();
    await using world = await open({ clock });
    const hang = Promise.withResolvers<boolean>();
    const bytes = faulty(world.context.bytes, { compact: () => hang.promise });
    const begunAt = clock.now();
    const running = startWorkers({ ...world.context, bytes }, ['gc'], never, { process: 'host:1' });
    await clock.advance(3_600_000);
    const text = await scrape(world);
    expect(lineOf(text, 'svc_worker_units_total{worker="gc"}')).toBeUndefined();
    const last = readingOf(text, 'svc_worker_last_unit_timestamp_seconds{worker="gc"}');
    expect(last).toBeCloseTo(begunAt / 1000, -1);
    hang.resolve(false);
    await running.stop();
  });

  it('show how old the signing keys of buckets are, against SVC_KEY_MAX_AGE', async () => {
    const clock = virtualClock();
    await using world = await open({ clock, settings: { SVC_KEY_MAX_AGE: '720h' } });
    const { metadata } = world.context;
    for (const [bucket, days] of [
      ['young', 1],
      ['aging', 20],
      ['old', 31],
      ['none', 0],
    ] as const) {
      await world.client.put(`/${bucket}`);
      const found = await findBucket(metadata, bucket);
      if (found === undefined || days === 0) continue;
      const signingKey = { keyId: 'k', wrapped: 'w', createdAt: clock.now() - days * dayMs };
      await replaceBucket(metadata, found, { ...found.row, signingKey });
    }
    const running = startWorkers(world.context, ['bucket-stats'], never, { process: 'host:1' });
    await clock.advance(1_000);
    const text = await scrape(world);
    for (const state of ['valid', 'expiring', 'expired'])
      expect(text).toContain(`svc_signing_keys{state="${state}"} 1\n`);
    expect(readingOf(text, 'svc_signing_key_oldest_seconds')).toBeCloseTo((31 * dayMs) / 1000, -2);
    await running.stop();
    expect(await scrape(world)).not.toContain('svc_signing_keys{');
  });

  it('count refusals by quotas as 403, and show drift of counters: positive where one is too low', async () => {
    const clock = virtualClock();
    await using world = await open({ clock });
    const { metadata } = world.context;
    for (const [bucket, bytes] of [
      ['exact', 0],
      ['low', -4],
      ['high', 6],
    ] as const) {
      await world.client.put(`/${bucket}`);
      await world.client.put(`/${bucket}/key`, { body: 'ten bytes.' });
      const id = (await findBucket(metadata, bucket))?.row.id ?? '';
      await metadata.apply(usageChanges({ id }, 'op', [{ storageClass: 'STANDARD', bytes, objects: 0 }]));
    }
    const body = JSON.stringify({ maxBytes: 1, maxObjects: 0, maxBytesPerObject: 0 });
    const admin = world.as({ credential: operator });
    expect((await admin.put('/admin/v1/buckets/exact/quota', { body })).status).toBe(204);
    const before = readingOf(await scrape(world), 'svc_http_requests_total{code="403"}') || 0;
    expect((await world.client.put('/exact/more', { body: 'x' })).status).toBe(403);
    expect(readingOf(await scrape(world), 'svc_http_requests_total{code="403"}')).toBe(before + 1);
    const running = startWorkers(world.context, ['quota-reconcile'], never, { process: 'host:1' });
    await clock.advance(1_000);
    await clock.settle();
    const text = await scrape(world);
    for (const [bucket, drift] of [
      ['exact', 0],
      ['low', 4],
      ['high', -6],
    ] as const)
      expect(text).toContain(`svc_quota_reconcile_drift_bytes{bucket="${bucket}"} ${drift}\n`);
    // Far below the thresholds: shown, and not corrected.
    expect((await world.usage('low')).bytes).toBe(6);
    await running.stop();
    expect(await scrape(world)).not.toContain('svc_quota_reconcile_drift_bytes{');
  });
});
