/** Clusters that are drained, reweighted or emptied under load, and transitions between them: nothing is lost or refused. */
import { describe, expect, test, vi } from 'vitest';
import { inParallel } from '../../src/base/concurrency.ts';
import { emptyBuckets } from '../../src/workers/buckets.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { contentOf, inPieces } from '../contract/chunk-store.ts';
import { evacuate, extentsOn, fsckOf, openPair } from '../support/clusters.ts';
import { customer, encryptingSettings, modes } from '../support/encryption.ts';
import { type CephCluster, noCeph } from '../support/engines/ceph.ts';
import { cephPair } from '../support/engines/ceph-pair.ts';
import { faulty } from '../support/faulty.ts';
import type { GatewayWorld, GatewayWorldOptions } from '../support/gateway.ts';
import { complete, createUpload, MiB, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';
import { movesAfterADay } from '../support/lifecycle-rules.ts';

const sizes = [10, 4096, 70_000, 5_000_000];
const clients = 4;
const keysPerClient = 4;
const turnsMax = 10;
const dayMs = 86_400_000;
const never = new AbortController().signal;

/** A client with its own keys, which works until it is stopped and compares every answer with its model. */
async function load(
  { client }: GatewayWorld,
  name: string,
  isOver: () => boolean,
): Promise<Map<string, Uint8Array>> {
  const kept = new Map<string, Uint8Array>();
  for (let round = 0; !isOver() || round < keysPerClient; round += 1) {
    const path = `/bucket/${name}-${round % keysPerClient}`;
    const before = kept.get(path);
    if (before !== undefined) await expectKept(client, path, before);
    if (round % 7 === 6) {
      expect((await client.delete(path)).status).toBe(204);
      kept.delete(path);
      continue;
    }
    const body = contentOf(`${name}.${round}`, sizes[round % sizes.length] as number);
    expect((await client.put(path, { body })).status).toBe(200);
    kept.set(path, body);
  }
  return kept;
}

async function expectKept(client: GatewayWorld['client'], path: string, body: Uint8Array): Promise<void> {
  const { status, bytes } = await client.get(path);
  expect(status).toBe(200);
  expect(Buffer.compare(bytes, body), `${path} is as it was put`).toBe(0);
}

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  const clusters = cephPair();

  /** Two clusters `a` and `b`, in a namespace of their own; fresh writes go to `a`. */
  async function openOn(namespace: string, settings: GatewayWorldOptions['settings'] = {}) {
    const pools = clusters.map(({ conf }, at) => ({ id: 'ab'[at], conf, pool: 'chunks', namespace }));
    const pair = await openPair('memory', {
      settings: { ...settings, SVC_DATA_BACKEND: 'cluster-pool', SVC_POOL_CLUSTERS: JSON.stringify(pools) },
    });
    await pair.world.client.put('/bucket');
    return { ...pair, names: async (at: 0 | 1) => namesOn(clusters[at], namespace) };
  }

  /** Expects that everything has moved from `a` to `b`, by Ceph's own statistics, and that no orphan is left. */
  async function expectEvacuated({ world, clock, names }: Awaited<ReturnType<typeof openOn>>): Promise<void> {
    for (let turn = 0; turn < turnsMax && (await extentsOn(world, 'a')) > 0; turn += 1)
      await evacuate(world.context, clock);
    expect(await names(0)).toEqual([]);
    await world.gc();
    expect(await fsckOf(world)).toEqual([]);
  }

  test('an evacuation under load loses and refuses nothing, and leaves the cluster empty', async () => {
    const pair = await openOn('load');
    const { world, drain, clock } = pair;
    await using _ = world;
    const still = new Map(
      Array.from({ length: 16 }, (__, n) => [
        `/bucket/still-${n}`,
        contentOf(`still-${n}`, sizes[n % sizes.length] as number),
      ]),
    );
    for (const [path, body] of still) await world.client.put(path, { body });
    expect(await extentsOn(world, 'a')).toBe(still.size);

    let isOver = false;
    const loads = Promise.all(
      Array.from({ length: clients }, (__, n) => load(world, `client${n}`, () => isOver)),
    );
    await drain();
    for (let turn = 0; turn < turnsMax && (await extentsOn(world, 'a')) > 0; turn += 1) {
      await Promise.race([evacuate(world.context, clock), loads]);
    }
    isOver = true;
    for (const kept of [still, ...(await loads)]) {
      for (const [path, body] of kept) await expectKept(world.client, path, body);
    }
    await expectEvacuated(pair);
  });

  test('an evacuation copies encrypted bytes unchanged, and they are readable with their key only', async () => {
    const pair = await openOn('encrypted', await encryptingSettings());
    const { world, drain, names } = pair;
    await using _ = world;
    const { client } = world;
    const bodies = { small: contentOf('sealed', 5000), large: contentOf('sealed', 9 * MiB) };
    const last = contentOf('last', 70_000);
    for (const { name, write } of modes) {
      for (const [size, body] of Object.entries(bodies))
        expect((await client.put(`/bucket/${name}/${size}`, { body, headers: write })).status).toBe(200);
      const path = `/bucket/${name}/parts`;
      const uploadId = await createUpload(client, path, { headers: write });
      // Every part needs the customer's key.
      const headers = name === 'SSE-C' ? write : {};
      const parts = [
        await putPart(client, path, { uploadId, number: 1, body: bodies.large, headers }),
        await putPart(client, path, { uploadId, number: 2, body: last, headers }),
      ];
      expect((await complete(client, path, { uploadId, parts })).status).toBe(200);
    }
    const onA = (await names(0)).length;
    await drain();
    await expectEvacuated(pair);
    expect(await names(1)).toHaveLength(onA);

    for (const { name, read, shown } of modes) {
      for (const [size, body] of Object.entries({ ...bodies, parts: Buffer.concat([bodies.large, last]) })) {
        const path = `/bucket/${name}/${size}`;
        const got = await client.get(path, { headers: read });
        expect([path, got.status, Buffer.compare(got.bytes, body)]).toEqual([path, 200, 0]);
        for (const [header, value] of Object.entries(shown)) expect(got.header(header)).toBe(value);
        const range = `bytes=${body.length - 4100}-${body.length - 5}`;
        const { bytes } = await client.get(path, { headers: { ...read, range } });
        expect(Buffer.compare(bytes, body.subarray(-4100, -4))).toBe(0);
      }
    }
    expect((await client.get('/bucket/SSE-C/large')).status).toBe(400);
    expect((await client.get('/bucket/SSE-C/large', { headers: customer(2) })).status).toBe(403);
    for (const size of Object.keys(bodies)) await client.delete(`/bucket/SSE-KMS/${size}`);
    await world.gc();
    expect(await fsckOf(world)).toEqual([]);
  });

  test('SVC_REBALANCE_WEIGHTS moves stored bytes until they are distributed by weight', async () => {
    const pair = await openOn('weights', { SVC_REBALANCE_WEIGHTS: 'on' });
    const { world, admin, clock, names } = pair;
    await using _ = world;
    const kept = new Map<string, Uint8Array>();
    const count = 60;
    for (let n = 0; n < count; n += 1) {
      const body = contentOf(`weighed-${n}`, n % 20 === 0 ? 5 * MiB : 4096);
      kept.set(`/bucket/${n}`, body);
      await world.client.put(`/bucket/${n}`, { body });
    }
    const chunks = count + 3;
    expect([(await names(0)).length, (await names(1)).length]).toEqual([chunks, 0]);
    const weighed = async (id: 'a' | 'b', weight: number): Promise<void> => {
      await admin.must('PUT', `/clusters/${id}/weight`, { weight });
      // Other processes cache the old state for half a minute, and the worker checks once an hour.
      await clock.advance(3_700_000);
      await evacuate(world.context, clock);
      for (const [path, body] of kept) await expectKept(world.client, path, body);
      expect(await fsckOf(world)).toEqual([]);
    };
    await weighed('b', 100);
    const [onA, onB] = [await names(0), await names(1)];
    expect(onA.length + onB.length).toBe(chunks);
    expect(Math.abs(onA.length - onB.length)).toBeLessThan(40);
    await weighed('b', 100);
    expect([await names(0), await names(1)]).toEqual([onA, onB]);
    await weighed('a', 0);
    expect([(await names(0)).length, (await names(1)).length]).toEqual([0, chunks]);
  });

  test('a large bucket is emptied page by page, says how far that is, and leaves no chunk behind', async () => {
    const pair = await openOn('emptied');
    const { world, admin, names } = pair;
    await using _ = world;
    const { client } = world;
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    await setVersioning(client, 'bucket', 'Enabled');
    const keys = 500;
    await inParallel(8, [...Array(keys).keys()], async (n) => {
      await client.put(`/bucket/${n}`, { body: contentOf(`v1 ${n}`, n % 100 === 0 ? 5 * MiB : 100) });
      await client.put(`/bucket/${n}`, { body: contentOf(`v2 ${n}`, 100) });
      if (n % 5 === 0) await client.delete(`/bucket/${n}`);
    });
    const uploadId = await createUpload(client, '/bucket/parts');
    await putPart(client, '/bucket/parts', { uploadId, number: 1, body: contentOf('part', 70_000) });
    expect((await names(0)).length + (await names(1)).length).toBe(2 * keys + 5 + 1);
    expect((await client.delete('/bucket')).code).toBe('BucketNotEmpty');

    const at = '/buckets/bucket/force-empty';
    expect(await admin.must('POST', at)).toMatchObject({ state: 'running', deleted: { versions: 0 } });
    const unit = emptyBuckets(world.context);
    const seen: number[] = [];
    while ((await unit(never)) === 'busy') {
      const { deleted } = await admin.must('GET', at);
      seen.push((deleted as { readonly versions: number }).versions);
    }
    expect(seen).toEqual(seen.toSorted((one, other) => one - other));
    expect(new Set(seen).size, 'it was seen on its way').toBeGreaterThan(3);
    expect(await admin.must('GET', at)).toMatchObject({
      state: 'done',
      empty: true,
      kept: 0,
      deleted: { versions: 2 * keys, markers: keys / 5, uploads: 1 },
    });
    await world.gc();
    expect([await names(0), await names(1)]).toEqual([[], []]);
    expect(await fsckOf(world)).toEqual([]);
    expect((await client.delete('/bucket')).status).toBe(204);
  });

  /** Class GLACIER_IR is stored on `b`; objects of a bucket with Object Lock get it after a day. */
  async function openClasses(namespace: string) {
    const pair = await openOn(namespace, {
      SVC_STORAGE_CLASSES: 'default@a,GLACIER_IR@b',
      SVC_LIFECYCLE_RATE: '1000000',
      SVC_LIFECYCLE_BYTES_RATE: '1TiB',
    });
    const { client } = pair.world;
    await client.put('/locked', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    const body = movesAfterADay('GLACIER_IR');
    expect((await client.put('/locked?lifecycle', { body })).status).toBe(200);
    const pass = async (context = pair.world.context): Promise<void> => {
      const unit = carryOutLifecycles(context);
      while ((await unit(never)) === 'busy');
    };
    return { ...pair, pass };
  }

  const classOf = async ({ client }: GatewayWorld, path: string): Promise<string | undefined> =>
    (await client.head(path)).header('*-storage-class');

  test('a transition copies every version to the cluster of its class, also under Object Lock, and deletes the old chunks', async () => {
    const { world, clock, names, pass } = await openClasses('transitions');
    await using _ = world;
    const { client } = world;
    const kept = new Map<string, Uint8Array>();
    for (const [n, size] of sizes.entries()) {
      const path = `/locked/${n}`;
      const body = contentOf(path, size);
      kept.set(path, body);
      expect((await client.put(path, { body })).status).toBe(200);
    }
    const until = new Date(clock.now() + 90 * dayMs).toISOString().replace(/\.\d+/, '');
    const lock = { '*-object-lock-mode': 'COMPLIANCE', '*-object-lock-retain-until-date': until };
    const first = await client.put('/locked/versions', { body: contentOf('first', 70_000), headers: lock });
    const second = contentOf('second', 70_000);
    kept.set('/locked/versions', second);
    await client.put('/locked/versions', { body: second });
    const chunks = (await names(0)).length;
    expect([chunks, (await names(1)).length]).toEqual([7, 0]);
    clock.jump(2 * dayMs);
    await pass();
    await world.gc();
    expect([(await names(0)).length, (await names(1)).length]).toEqual([0, chunks]);
    for (const [path, body] of kept) {
      await expectKept(client, path, body);
      expect(await classOf(world, path)).toBe('GLACIER_IR');
    }
    const query = { versionId: first.header('*-version-id') ?? '' };
    const old = await client.get('/locked/versions', { query });
    expect(Buffer.compare(old.bytes, contentOf('first', 70_000))).toBe(0);
    expect([old.header('*-storage-class'), old.header('*-object-lock-mode')]).toEqual([
      'GLACIER_IR',
      'COMPLIANCE',
    ]);
    expect((await client.delete('/locked/versions', { query })).code).toBe('AccessDenied');
    expect(await fsckOf(world)).toEqual([]);
  });

  test.each([
    ['the bytes', 1],
    ['the class', 2],
  ])(
    'a write or a hold that comes just before a transition commits %s wins, and no chunk is left behind',
    async (_, nth) => {
      const { world, clock, names, pass } = await openClasses(`transition-${nth}`);
      await using __ = world;
      const { client } = world;
      const hold = '<LegalHold><Status>ON</Status></LegalHold>';
      const strikes: readonly (readonly [string, () => Promise<{ readonly status: number }>])[] = [
        ['written', () => client.put('/locked/written', { body: 'new' })],
        ['held', () => client.put('/locked/held?legal-hold', { body: hold })],
      ];
      const versions = new Map<string, string>();
      for (const [key] of strikes) {
        const { header } = await client.put(`/locked/${key}`, { body: contentOf(key, 70_000) });
        versions.set(key, header('*-version-id') ?? '');
      }
      clock.jump(2 * dayMs);
      const commits = new Map<string, number>();
      const { metadata } = world.context;
      const commit: typeof metadata.commit = async (at, changes, options) => {
        const text = JSON.stringify(changes);
        for (const [key, strike] of strikes) {
          if (at.table.name !== 'objects' || !text.includes(`"key":"${key}"`)) continue;
          commits.set(key, (commits.get(key) ?? 0) + 1);
          if (commits.get(key) === nth) expect((await strike()).status).toBe(200);
        }
        return metadata.commit(at, changes, options);
      };
      await pass({ ...world.context, metadata: faulty(metadata, { commit }) });
      expect((await client.get('/locked/written')).text).toBe('new');
      expect(await classOf(world, '/locked/written')).toBeUndefined();
      expect((await client.get('/locked/held?legal-hold')).text).toContain('ON');
      // The next day the former versions are moved too, with their hold.
      clock.jump(2 * dayMs);
      await pass();
      await world.gc();
      for (const [key, versionId] of versions) {
        const found = await client.get(`/locked/${key}`, { query: { versionId } });
        expect(Buffer.compare(found.bytes, contentOf(key, 70_000))).toBe(0);
        expect(found.header('*-storage-class')).toBe('GLACIER_IR');
      }
      expect((await client.get('/locked/held?legal-hold')).text).toContain('ON');
      expect([await names(0), (await names(1)).length]).toEqual([[], 3]);
      expect(await fsckOf(world)).toEqual([]);
    },
  );

  test('an evacuation that begins during a PUT lets it finish on its cluster, and then moves its bytes', async () => {
    const pair = await openOn('middle-of-put');
    const { world, drain, names } = pair;
    await using _ = world;
    const body = contentOf('late', 9 * MiB);
    async function* arriving() {
      yield* inPieces(body.subarray(0, 5 * MiB), 256 * 1024);
      await drain();
      await vi.waitFor(async () => expect((await names(0)).length).toBeGreaterThan(0), { timeout: 120_000 });
      expect((await world.client.put('/bucket/fresh', { body: 'fresh' })).status).toBe(200);
      // The evacuation does not see a write before its commit.
      await evacuate(world.context, pair.clock);
      yield* inPieces(body.subarray(5 * MiB), 256 * 1024);
    }
    expect((await world.client.put('/bucket/late', { body, arriving })).status).toBe(200);
    expect([(await names(0)).length, (await names(1)).length]).toEqual([3, 1]);
    await expectEvacuated(pair);
    expect(await names(1)).toHaveLength(4);
    await expectKept(world.client, '/bucket/late', body);
    expect((await world.client.get('/bucket/fresh')).text).toBe('fresh');
  });

  test('an evacuation that begins during a multipart upload lets it complete on its cluster, and refuses new uploads without another cluster', async () => {
    const pair = await openOn('middle-of-upload');
    const { world, admin, drain, clock, names } = pair;
    await using _ = world;
    const { client } = world;
    await client.put('/strict');
    await admin.must('PUT', '/buckets/strict/placement', { placement: { a: 1 }, mode: 'strict' });
    const uploadId = await createUpload(client, '/bucket/parts');
    const body = contentOf('parts', 12 * MiB);
    const pieces = [
      body.subarray(0, 5 * MiB),
      body.subarray(5 * MiB, 10 * MiB),
      body.subarray(10 * MiB),
    ] as const;
    const first = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: pieces[0] });
    async function* arriving() {
      yield pieces[1].subarray(0, MiB);
      await drain();
      yield pieces[1].subarray(MiB);
    }
    const query = { uploadId, partNumber: '2' };
    const second = await client.put('/bucket/parts', { query, body: pieces[1], arriving });
    expect(second.status).toBe(200);
    const third = await putPart(client, '/bucket/parts', { uploadId, number: 3, body: pieces[2] });
    expect([(await names(0)).length, (await names(1)).length]).toEqual([5, 0]);

    isRefused(await client.put('/strict/key', { body: 'fresh' }));
    isRefused(await client.post('/strict/key?uploads'));
    const elsewhere = await createUpload(client, '/bucket/elsewhere');
    await putPart(client, '/bucket/elsewhere', { uploadId: elsewhere, number: 1, body: 'elsewhere' });
    expect([(await names(0)).length, (await names(1)).length]).toEqual([5, 1]);
    await evacuate(world.context, clock);
    expect(await names(0), 'an open upload stays').toHaveLength(5);

    const parts = [first, { number: 2, etag: second.header('etag') ?? '' }, third];
    expect((await complete(client, '/bucket/parts', { uploadId, parts })).status).toBe(200);
    await expectEvacuated(pair);
    await expectKept(client, '/bucket/parts', body);
  });
});

const isRefused = (answer: Answer): void =>
  expect([answer.status, answer.code, answer.header('retry-after')]).toEqual([503, 'DrainRefused', '300']);

const namesOn = async (cluster: CephCluster | undefined, namespace: string): Promise<string[]> =>
  ((await cluster?.rados('-p', 'chunks', '-N', namespace, 'ls')) ?? '')
    .split('\n')
    .filter((line) => line !== '');
