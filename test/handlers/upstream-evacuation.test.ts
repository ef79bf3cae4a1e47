/** An evacuation from one upstream to another: stored bytes, ciphertext included, move unchanged and are read as before. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { evacuate, extentsOn, fsckOf, openClusters } from '../support/clusters.ts';
import { encryptingSettings, modes } from '../support/encryption.ts';
import { alice } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, md5, putPart } from '../support/gateway-bodies.ts';
import { imported } from '../support/import.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** The upstream has the same clock, because it refuses requests that were signed at another time. */
const clock = virtualClock();
let upstream: UpstreamServer;
beforeAll(async () => {
  upstream = await startUpstream({ clock });
});
afterAll(() => upstream[Symbol.asyncDispose]());

/** Two buckets of the upstream as the clusters `a` and `b`; fresh writes go to `a`. */
async function openUpstreamPair() {
  const buckets = { a: await upstream.bucket(), b: await upstream.bucket() };
  const { world, admin } = await openClusters('a,b', {
    clock,
    settings: {
      SVC_REBALANCE_RATE: '1TiB',
      ...(await encryptingSettings()),
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify(Object.entries(buckets).map(([id, bucket]) => ({ id, bucket }))),
      SVC_UPSTREAM_ENDPOINT: upstream.url,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
    },
  });
  await admin.must('PUT', '/clusters/b/weight', { weight: 0 });
  const drain = async () => {
    await admin.must('PUT', '/clusters/b/weight', { weight: 100 });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  };
  await world.client.put('/bucket');
  const { client } = upstream.world;
  const names = async (id: 'a' | 'b') => (await client.get(`/${buckets[id]}?list-type=2`)).all('Key').length;
  const open = async (id: 'a' | 'b') => (await client.get(`/${buckets[id]}?uploads`)).all('UploadId').length;
  return { world, admin, drain, names, open, buckets };
}

const kinds = [{ name: 'plain', write: {}, read: {} }, ...modes];

test('plain and encrypted objects, whole or in parts, move and are read unchanged', async () => {
  const { world, admin, drain, names } = await openUpstreamPair();
  await using _ = world;
  const { client } = world;
  const large = bytesOf(11 * MiB, 3);
  for (const { name, write, read } of kinds) {
    await client.put(`/bucket/${name}/small`, { body: 'small', headers: write });
    await client.put(`/bucket/${name}/large`, { body: large, headers: write });
    const path = `/bucket/${name}/parts`;
    const uploadId = await createUpload(client, path, { headers: write });
    const parts = [];
    for (const [i, body] of [large.subarray(0, 5 * MiB), large.subarray(5 * MiB)].entries()) {
      const query = { uploadId, partNumber: String(i + 1) };
      const put = await client.put(path, { query, body, headers: read });
      parts.push({ number: i + 1, etag: put.header('etag') ?? '' });
    }
    expect((await complete(client, path, { uploadId, parts })).status).toBe(200);
  }
  const asRead = async () => {
    const seen: [string, string, number, string, unknown][] = [];
    for (const { name, read } of kinds) {
      for (const key of ['small', 'large', 'parts', 'parts?partNumber=2']) {
        const { status, bytes, headers } = await client.get(`/bucket/${name}/${key}`, { headers: read });
        const kept = headers.filter(([header]) => /etag|modified|encryption/i.test(header));
        seen.push([name, key, status, md5(bytes), kept]);
      }
      const range = `bytes=${5 * MiB - 3}-${5 * MiB + 2}`;
      const across = await client.get(`/bucket/${name}/parts`, { headers: { ...read, range } });
      expect([name, across.status, [...across.bytes]]).toEqual([
        name,
        206,
        [...large.subarray(5 * MiB - 3, 5 * MiB + 3)],
      ]);
    }
    return seen;
  };
  const before = await asRead();
  expect(new Set(before.map(([, , status]) => status))).toEqual(new Set([200, 206]));
  expect([await names('a'), await names('b')]).toEqual([12, 0]);

  await drain();
  await evacuate(world.context, clock);
  expect([await names('a'), await names('b')]).toEqual([0, 12]);
  expect(await asRead()).toEqual(before);
  expect(await fsckOf(world)).toEqual([]);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: true });
  // Move the objects back: a moved object can be moved again.
  await admin.must('POST', '/clusters/a/undrain');
  await admin.must('POST', '/clusters/b/drain', { mode: 'evacuate' });
  await evacuate(world.context, clock);
  expect([await names('a'), await names('b')]).toEqual([12, 0]);
  expect(await asRead()).toEqual(before);
});

test('an upload that is open there keeps the upstream until it is over, and then moves', async () => {
  const { world, admin, drain, names, open } = await openUpstreamPair();
  await using _ = world;
  const { client } = world;
  const uploadId = await createUpload(client, '/bucket/key');
  const one = await putPart(client, '/bucket/key', { uploadId, number: 1, body: bytesOf(5 * MiB, 1) });
  await drain();
  await evacuate(world.context, clock);
  expect([await open('a'), await open('b')]).toEqual([1, 0]);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({
    openUploads: 1,
    deregisterReady: false,
  });
  const two = await putPart(client, '/bucket/key', { uploadId, number: 2, body: 'two' });
  expect((await complete(client, '/bucket/key', { uploadId, parts: [one, two] })).status).toBe(200);
  await evacuate(world.context, clock);
  expect([await names('a'), await names('b'), await extentsOn(world, 'a')]).toEqual([0, 1, 0]);
  expect((await client.get('/bucket/key')).bytes.length).toBe(5 * MiB + 3);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: true });
});

test('an imported object moves; the upstream object stays, also when the imported one is deleted', async () => {
  const { world, drain, names, buckets } = await openUpstreamPair();
  await using _ = world;
  const { client } = world;
  const there = `/${buckets.a}/key`;
  await upstream.world.client.put(there, { body: 'text', headers: { '*-meta-a': 'b' } });
  expect(await imported(world, { cluster: 'a' })).toEqual({ imported: 1 });
  await drain();
  await evacuate(world.context, clock);
  expect([await names('a'), await names('b')]).toEqual([1, 1]);
  const read = await client.get('/bucket/key');
  expect([read.text, read.header('*-meta-a')]).toEqual(['text', 'b']);
  expect(await fsckOf(world)).toEqual([]);
  expect(await imported(world, { cluster: 'a' })).toEqual({ present: 1 });

  expect((await client.delete('/bucket/key')).status).toBe(204);
  await clock.advance(31_000);
  await world.gc();
  expect([await names('a'), await names('b')]).toEqual([1, 0]);
  expect((await upstream.world.client.get(there)).text).toBe('text');
  expect(await imported(world, { cluster: 'a' })).toEqual({ released: 1 });
});

test('an import from an upstream that was emptied is refused, and makes no row, until the upstream is undrained', async () => {
  const { world, admin, drain, buckets } = await openUpstreamPair();
  await using _ = world;
  await world.client.put('/bucket/own', { body: 'own' });
  await drain();
  await evacuate(world.context, clock);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: true });
  await upstream.world.client.put(`/${buckets.a}/key`, { body: 'text' });
  await expect(imported(world, { cluster: 'a' })).rejects.toThrow('a was drained, and is empty');
  expect((await world.client.get('/bucket/key')).code).toBe('NoSuchKey');
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: true });
  await admin.must('POST', '/clusters/a/undrain');
  expect(await imported(world, { cluster: 'a' })).toEqual({ imported: 1 });
  expect((await world.client.get('/bucket/key')).text).toBe('text');
});
