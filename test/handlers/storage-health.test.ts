/** Storage health through the operator API. @storage */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { sampleBuckets } from '../../src/workers/buckets.ts';
import { keepHealthHistory } from '../../src/workers/retention.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import {
  backends,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from '../support/gateway.ts';
import { onReplace } from '../support/metric-calls.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const ask = async (world: GatewayWorld, what: string) => {
  const reply = await world.as({ credential: operator }).get(`/admin/v1/storage/${what}`);
  expect(reply.status, reply.text).toBe(200);
  return JSON.parse(reply.text);
};
const clustered = (world: GatewayWorldOptions): GatewayWorldOptions => ({
  ...world,
  settings: { ...world.settings, SVC_POOL_CLUSTERS: 'a,b' },
});
async function sample(world: GatewayWorld): Promise<void> {
  const unit = sampleBuckets(world.context);
  while ((await unit(new AbortController().signal)) === 'busy');
}

describe.each(backends)('storage health: %s', (backend) => {
  test('reports the metadata nodes', async () => {
    await using world = await openGateway({ backend });
    const { nodes, warnings, ...rest } = await ask(world, 'meta');
    expect(rest.backend).toBe(world.context.config.SVC_META_BACKEND);
    expect(nodes).toHaveLength(1);
    expect(Object.keys(nodes[0]).sort()).toEqual([
      'dataCenter',
      'name',
      'rack',
      'releaseVersion',
      'schemaVersion',
      'state',
    ]);
    expect(warnings).toEqual([]);
    if (backend === 'wide-column') expect(rest.replicationFactor).toBe(1);
  });

  test('reports the bytes and chunks of every cluster', async () => {
    await using world = await openGateway(clustered({ backend }));
    await world.client.put('/bucket');
    for (let i = 0; i < 8; i += 1) await world.client.put(`/bucket/${i}`, { body: 'x'.repeat(1000) });
    const { pools, clusters, warnings } = await ask(world, 'data');
    expect(clusters).toEqual([
      { cluster: 'a', status: 'ok' },
      { cluster: 'b', status: 'ok' },
    ]);
    expect(pools.map(({ cluster, state }: { cluster: string; state: string }) => [cluster, state])).toEqual([
      ['a', 'ok'],
      ['b', 'ok'],
    ]);
    const sum = (field: string) =>
      pools.reduce((total: number, pool: Record<string, number>) => total + (pool[field] ?? 0), 0);
    expect(sum('ChunkCount')).toBe(8);
    expect(sum('BytesUsed')).toBeGreaterThanOrEqual(8000);
    expect(warnings).toEqual([]);
  });

  test('is ok when all is well', async () => {
    await using world = await openGateway({ backend });
    expect(await ask(world, 'health')).toEqual({ ok: true, warnings: [], source: '' });
  });
});

describe('a part that is away', () => {
  test('an unreachable cluster is a warning beside the others', async () => {
    await using world = await openGateway({
      ...clustered({}),
      wrap: (context) => ({
        ...context,
        bytes: {
          ...context.bytes,
          health: async () => {
            const [a, b] = await context.bytes.health();
            return [a, { ...b, status: 'unreachable', problems: ['timed out'], pools: [] }] as never;
          },
        },
      }),
    });
    expect(await ask(world, 'health')).toEqual({
      ok: false,
      warnings: ['unreachable: timed out (cluster b)'],
      source: 'memory',
    });
    expect((await ask(world, 'data')).pools).toHaveLength(1);
    expect((await world.anonymous.get('/readyz')).status).toBe(200);
  });

  test.each([
    ['has the weight 0', ['PUT', 'weight', { weight: 0 }], ['PUT', 'weight', { weight: 1 }]],
    ['drains', ['POST', 'drain', { mode: 'readonly' }], ['POST', 'undrain', undefined]],
  ] as const)('is named where every cluster %s, because writes are refused', async (_, close, open) => {
    await using world = await openGateway(clustered({}));
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    const each = async ([method, verb, body]: typeof close | typeof open) => {
      for (const id of ['a', 'b']) await admin.must(method, `/clusters/${id}/${verb}`, body);
    };
    await each(close);
    const refused = await world.client.put('/bucket/key', { body: 'content' });
    expect([refused.status, refused.code, refused.text]).toEqual([
      503,
      'DrainRefused',
      expect.stringContaining('take no new objects'),
    ]);
    expect(await ask(world, 'health')).toMatchObject({
      ok: false,
      warnings: ['no cluster takes new objects: undrain one, or give one a weight above 0'],
    });
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 } });
    await each(open);
    expect(await ask(world, 'health')).toEqual({ ok: true, warnings: [], source: '' });
    expect((await world.client.put('/bucket/key', { body: 'content' })).status).toBe(200);
  });

  test('no cluster of weight is needed where the class of new objects is pinned to one', async () => {
    await using world = await openGateway({
      settings: { SVC_POOL_CLUSTERS: 'a,b', SVC_STORAGE_CLASSES: 'default@a' },
    });
    const admin = operatorOf(world);
    for (const id of ['a', 'b']) await admin.must('PUT', `/clusters/${id}/weight`, { weight: 0 });
    expect(await ask(world, 'health')).toEqual({ ok: true, warnings: [], source: '' });
    await admin.must('POST', '/clusters/a/drain', { mode: 'readonly' });
    expect((await ask(world, 'health')).ok).toBe(false);
  });

  test('a cluster whose directory is removed is named by a warning, and its pool is listed with state error', async () => {
    await using world = await openGateway(clustered({ backend: 'embedded+file' }));
    const { SVC_DATA_DIR: directory } = world.context.config;
    await rm(join(directory ?? '', 'chunks', 'b'), { recursive: true });
    const { pools, warnings } = await ask(world, 'data');
    expect(pools).toEqual([
      expect.objectContaining({ cluster: 'a', pool: 'file', state: 'ok' }),
      {
        cluster: 'b',
        pool: 'file',
        namespace: '',
        state: 'error',
        BytesUsed: 0,
        ChunkCount: 0,
        error: expect.stringMatching(/chunks\/b is unavailable: it is missing or not mounted/),
      },
    ]);
    expect(warnings).toEqual([expect.stringMatching(/^unreachable: .* is unavailable: .* \(cluster b\)$/)]);
    expect(await ask(world, 'health')).toEqual({ ok: false, warnings, source: 'file' });
  });

  test('unreachable metadata is a warning, not an error', async () => {
    await using world = await openGateway({
      wrap: (context) => ({
        ...context,
        metadata: { ...context.metadata, health: () => Promise.reject(new Error('no host answered')) },
      }),
    });
    const warnings = ['memory cannot be asked: no host answered'];
    expect(await ask(world, 'meta')).toMatchObject({ nodes: [], warnings });
    expect(await ask(world, 'health')).toEqual({ ok: false, warnings, source: 'memory' });
  });
});

describe('SVC_STORAGE_HEALTH_OVERRIDE', () => {
  const opened = async (text: string, logged: string[] = []) =>
    openGateway({
      settings: { SVC_STORAGE_HEALTH_OVERRIDE: text },
      telemetry: { ...silentTelemetry, log: (level, message) => void logged.push(`${level} ${message}`) },
    });

  test('is answered word for word', async () => {
    const text = '{ "ok":false,  "warnings":["a","b"], "source":"drill" }';
    await using world = await opened(text);
    const reply = await world.as({ credential: operator }).get('/admin/v1/storage/health');
    expect([reply.status, reply.text]).toEqual([200, text]);
  });

  test('that is no JSON is a WARN, and the live probe answers', async () => {
    const logged: string[] = [];
    await using world = await opened('{"ok":', logged);
    expect((await ask(world, 'health')).ok).toBe(true);
    expect(logged.filter((line) => line.startsWith('WARN SVC_STORAGE_HEALTH_OVERRIDE'))).toHaveLength(1);
  });
});

test('the disks are measured once for all pools, whose free bytes are those of their disks', async () => {
  let measured = 0;
  const wrap = (context: Context): Context => {
    const { diskSpace } = context;
    expect(diskSpace).toBeDefined();
    if (diskSpace === undefined) return context;
    const states = () => {
      measured += 1;
      return diskSpace.states();
    };
    return { ...context, diskSpace: faulty(diskSpace, { states }) };
  };
  await using world = await openGateway(clustered({ backend: 'embedded+file', wrap }));
  const { pools } = await ask(world, 'data');
  expect(pools).toHaveLength(2);
  for (const pool of pools) expect(pool.BytesFree).toBeGreaterThan(4_096);
  expect(measured).toBe(1);
});

test('only operators may read storage health', async () => {
  await using world = await openGateway();
  for (const what of ['meta', 'data', 'classes', 'health']) {
    for (const client of [world.client, world.anonymous])
      expect((await client.get(`/admin/v1/storage/${what}`)).status).toBe(403);
  }
});

describe.each(backends)('storage classes: %s', (backend) => {
  test('are summed over all buckets, while gauges tell of the largest only', async () => {
    const told: string[][] = [];
    await using world = await openGateway({
      backend,
      settings: { SVC_BUCKETSTATS_TOPN: '1' },
      telemetry: {
        ...silentTelemetry,
        ...onReplace({
          svc_storage_class_bytes: (classes) =>
            void told.push(classes.map(([labels, bytes]) => `${labels.bucket} ${labels.class} ${bytes}`)),
          svc_storage_class_objects: (classes) =>
            void told.push((told.pop() ?? []).map((line, index) => `${line} ${classes[index]?.[1]}`)),
        }),
      },
    });
    expect(await ask(world, 'classes')).toEqual({ classes: [], pools_by_class: {} });
    for (const bucket of ['small', 'large']) await world.client.put(`/${bucket}`);
    await world.client.put('/small/a', { body: 'x'.repeat(10) });
    await world.client.put('/large/a', { body: 'x'.repeat(1000) });
    await world.client.put('/large/b', {
      body: 'x'.repeat(500),
      headers: { '*-storage-class': 'STANDARD_IA' },
    });
    await sample(world);
    const { classes, pools_by_class, sampledAt } = await ask(world, 'classes');
    expect(classes).toEqual([
      { class: 'STANDARD', bytes: 1010, objects: 2 },
      { class: 'STANDARD_IA', bytes: 500, objects: 1 },
    ]);
    expect(pools_by_class).toEqual({});
    expect(sampledAt).toBeGreaterThan(0);
    expect(told.map((each) => each.toSorted())).toEqual([
      ['large STANDARD 1000 1', 'large STANDARD_IA 500 1'],
    ]);

    await world.client.delete('/large/b');
    await sample(world);
    expect((await ask(world, 'classes')).classes).toEqual([{ class: 'STANDARD', bytes: 1010, objects: 2 }]);
    expect(told.at(-1)).toEqual(['large STANDARD 1000 1']);
  });
});

test('a stopped sampler removes its metrics, because another process reports them', async () => {
  const told: number[] = [];
  await using world = await openGateway({
    telemetry: {
      ...silentTelemetry,
      ...onReplace({ svc_storage_class_bytes: (classes) => void told.push(classes.length) }),
    },
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/a', { body: 'x' });
  const leading = new AbortController();
  const unit = sampleBuckets(world.context);
  while ((await unit(leading.signal)) === 'busy');
  leading.abort();
  expect(told).toEqual([1, 0]);
});

describe.each(backends)('health history: %s', (backend) => {
  const minute = 60_000;
  const hour = 60 * minute;

  async function openHistory() {
    const clock = virtualClock();
    let warning: string | undefined;
    const wrap: NonNullable<GatewayWorldOptions['wrap']> = (context) => ({
      ...context,
      bytes: Object.assign(Object.create(context.bytes) as typeof context.bytes, {
        health: async () =>
          (await context.bytes.health()).map((each) =>
            warning === undefined ? each : { ...each, status: 'HEALTH_WARN', problems: [warning] },
          ),
      }),
    });
    const world = await openGateway({ backend, clock, wrap });
    const commit = vi.spyOn(world.context.metadata, 'commit');
    let unit = keepHealthHistory(world.context, 1);
    const signal = new AbortController().signal;
    return {
      ...{ world, clock, commit },
      [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      history: () => ask(world, 'health/history'),
      setProblem(text: string | undefined) {
        warning = text;
      },
      restart(generation: number) {
        unit = keepHealthHistory(world.context, generation);
      },
      async pass(minutes: number) {
        for (let n = 0; n < minutes; n += 1) {
          await unit(signal);
          await clock.advance(minute);
        }
      },
    };
  }

  test('has each change of state and warnings, over restarts, and costs no write while nothing changes', async () => {
    await using held = await openHistory();
    const { history, pass, setProblem, commit } = held;
    expect(await history()).toMatchObject({ changes: [], isCut: false });
    await pass(5);
    const [first] = (await history()).changes;
    expect(first).toMatchObject({ ok: true, warnings: [], source: '' });
    commit.mockClear();
    await pass(30);
    expect(commit).not.toHaveBeenCalled();
    setProblem('3 pgs degraded');
    await pass(3);
    // A count that moves is no change.
    setProblem('4 pgs degraded');
    await pass(3);
    held.restart(2);
    setProblem(undefined);
    await pass(2);
    const { changes, isCut, since, until } = await history();
    expect(changes.map(({ ok }: { ok: boolean }) => ok)).toEqual([true, false, true]);
    expect(changes[1].warnings[0]).toContain('3 pgs degraded');
    expect({ isCut, since }).toEqual({ isCut: false, since: first.at });
    expect(Date.parse(until)).toBeGreaterThanOrEqual(Date.parse(changes[2].at));
    // A leader of an earlier term writes nothing any more.
    held.restart(1);
    await expect(pass(1)).rejects.toThrow();
  });

  // Times of changes are the store's, and these stores have a time of their own, which no test advances.
  const hasOwnTime = backend === 'ordered-kv' || backend === 'wide-column';
  test.skipIf(hasOwnTime)(
    'begins with what was in force a day ago, and keeps a bounded number of changes',
    async () => {
      await using held = await openHistory();
      const { history, pass, setProblem, clock } = held;
      setProblem('x'.repeat(10_000));
      await pass(1);
      await clock.advance(30 * hour);
      setProblem(undefined);
      await pass(1);
      const day = await history();
      expect(day.changes.map(({ ok }: { ok: boolean }) => ok)).toEqual([false, true]);
      expect(Date.parse(day.until) - Date.parse(day.since)).toBe(24 * hour);
      expect(day.changes[0].warnings[0].length).toBeLessThanOrEqual(200);
      for (let n = 0; n < 200; n += 1) {
        setProblem(n % 2 === 0 ? 'flaps' : undefined);
        await pass(1);
      }
      const flapping = await history();
      expect(flapping.changes).toHaveLength(144);
      expect(flapping.isCut).toBe(true);
    },
  );
});

test('the history of health is for operators', async () => {
  await using world = await openGateway();
  expect((await world.client.get('/admin/v1/storage/health/history')).status).toBe(403);
});
