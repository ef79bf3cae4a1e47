/** The gateway before other S3 services: the upstream's objects, and the replies to clients. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { big } from '../support/gateway-upload.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';

let upstream: UpstreamServer;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream[Symbol.asyncDispose]());

/** A gateway in front of fresh upstream buckets, which are clusters with these ids. */
async function inFrontOf(
  ids: readonly string[],
  settings = {},
): Promise<{ world: GatewayWorld; buckets: string[] }> {
  const buckets: string[] = [];
  for (const _ of ids) buckets.push(await upstream.bucket());
  const upstreams = ids.map((id, i) => ({ id, bucket: buckets[i] }));
  const world = await openGateway({
    settings: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify(upstreams),
      SVC_UPSTREAM_ENDPOINT: upstream.url,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
      ...settings,
    },
  });
  return { world, buckets };
}

/** The objects that clients of the upstream see. */
async function upstreamObjects(bucket: string) {
  const { client } = upstream.world;
  const listed = await client.get(`/${bucket}?list-type=2`);
  return Promise.all(
    listed.all('Key').map(async (key) => ({ key, answer: await client.get(`/${bucket}/${key}`) })),
  );
}

describe('objects upstream', () => {
  test('an object is one upstream object with its back-reference', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    const body = bytesOf(9 * MiB);
    await world.client.put('/bucket');
    await world.client.put('/bucket/a/key é', {
      body,
      headers: { 'content-type': 'text/x', '*-meta-a': 'b' },
    });
    const [only, ...others] = await upstreamObjects(buckets[0] ?? '');
    expect(others).toEqual([]);
    expect(only?.key).toMatch(/^sluice\/[\w.-]+\.0$/);
    expect(Buffer.compare(only?.answer.bytes ?? Buffer.of(), body)).toBe(0);
    expect(only?.answer.header('*-meta-sluice-key')).toBe('a%2Fkey%20%C3%A9');
    expect(JSON.parse(only?.answer.header('*-meta-sluice-owner') ?? '')).toMatchObject({ size: 9 * MiB });
    // The gateway keeps headers in its own metadata, not upstream.
    expect(only?.answer.header('content-type')).not.toBe('text/x');
    const read = await world.client.get('/bucket/a/key é', { headers: { range: 'bytes=5000000-5000009' } });
    expect([read.status, read.header('content-type'), read.header('*-meta-a')]).toEqual([206, 'text/x', 'b']);
    expect(Buffer.compare(read.bytes, body.subarray(5_000_000, 5_000_010))).toBe(0);
    await world.close();
  });

  test('a multipart upload becomes one upstream object; partNumber still works', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    const { client } = world;
    await client.put('/bucket');
    const uploadId = await createUpload(client, '/bucket/key');
    const bodies = [big, bytesOf(5 * MiB + 7, 3), bytesOf(1000, 4)];
    const parts = [];
    for (const number of [2, 3, 1])
      parts.push(await putPart(client, '/bucket/key', { uploadId, number, body: bodies[number - 1] ?? '' }));
    expect(await upstreamObjects(buckets[0] ?? '')).toEqual([]);
    const listed = parts.toSorted((a, b) => a.number - b.number);
    expect((await complete(client, '/bucket/key', { uploadId, parts: listed })).status).toBe(200);
    const [only, ...others] = await upstreamObjects(buckets[0] ?? '');
    expect(others).toEqual([]);
    expect(Buffer.compare(only?.answer.bytes ?? Buffer.of(), Buffer.concat(bodies))).toBe(0);
    expect(only?.answer.header('etag')).toMatch(/-3"$/);
    const second = await client.get('/bucket/key?partNumber=2');
    expect(Buffer.compare(second.bytes, bodies[1] ?? Buffer.of())).toBe(0);
    const across = await client.get('/bucket/key', { headers: { range: `bytes=${5 * MiB - 1}-${5 * MiB}` } });
    expect([...across.bytes]).toEqual([bodies[0]?.at(-1), bodies[1]?.at(0)]);
    await client.delete('/bucket/key');
    await world.gc();
    expect(await upstreamObjects(buckets[0] ?? '')).toEqual([]);
    expect(await world.stored()).toEqual([]);
    await world.close();
  });

  test('an aborted upload, and those of a deleted bucket, are aborted there', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    const { client } = world;
    await client.put('/bucket');
    const open = async () =>
      (await upstream.world.client.get(`/${buckets[0]}?uploads`)).all('UploadId').length;
    const uploadId = await createUpload(client, '/bucket/key');
    await putPart(client, '/bucket/key', { uploadId, number: 1, body: big });
    await createUpload(client, '/bucket/other');
    expect(await open()).toBe(2);
    expect((await client.delete('/bucket/key', { query: { uploadId } })).status).toBe(204);
    await world.gc();
    expect(await open()).toBe(1);
    await client.delete('/bucket');
    await world.gc();
    expect(await open()).toBe(0);
    await world.close();
  });

  test('what is encrypted is ciphertext there, whole or in parts', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    const { client } = world;
    const headers = { '*-server-side-encryption': 'AES256' };
    await client.put('/bucket');
    await client.put('/bucket/one', { body: big, headers });
    const uploadId = await createUpload(client, '/bucket/two', { headers });
    const parts = [];
    for (const number of [1, 2])
      parts.push(await putPart(client, '/bucket/two', { uploadId, number, body: big }));
    expect((await complete(client, '/bucket/two', { uploadId, parts })).status).toBe(200);
    const stored = await upstreamObjects(buckets[0] ?? '');
    expect(stored).toHaveLength(2);
    for (const { answer } of stored) expect(Buffer.from(answer.bytes).indexOf(big.subarray(0, 32))).toBe(-1);
    expect(Buffer.compare((await client.get('/bucket/one')).bytes, big)).toBe(0);
    expect(Buffer.compare((await client.get('/bucket/two')).bytes, Buffer.concat([big, big]))).toBe(0);
    const across = await client.get('/bucket/two', {
      headers: { range: `bytes=${5 * MiB - 3}-${5 * MiB + 2}` },
    });
    expect([...across.bytes]).toEqual([...big.subarray(-3), ...big.subarray(0, 3)]);
    await world.close();
  });

  test('an upload of more parts than a row names is one object too, encrypted or not', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    const { client } = world;
    await client.put('/bucket');
    for (const headers of [{}, { '*-server-side-encryption': 'AES256' }]) {
      const uploadId = await createUpload(client, '/bucket/key', { headers });
      const parts = [];
      for (let number = 1; number <= 34; number += 1)
        parts.push(
          await putPart(client, '/bucket/key', { uploadId, number, body: number < 34 ? big : 'the end' }),
        );
      expect((await complete(client, '/bucket/key', { uploadId, parts })).status).toBe(200);
      expect(await (await client.get('/bucket/key', { headers: { range: 'bytes=-7' } })).text).toBe(
        'the end',
      );
      const late = await client.get('/bucket/key', {
        headers: { range: `bytes=${30 * 5 * MiB - 2}-${30 * 5 * MiB + 1}` },
      });
      expect([...late.bytes]).toEqual([...big.subarray(-2), ...big.subarray(0, 2)]);
      await world.gc();
      expect(await world.stored()).toEqual(await world.owned('bucket'));
      expect(await world.stored()).toHaveLength(1);
    }
    await client.delete('/bucket/key');
    await world.gc();
    expect(await upstreamObjects(buckets[0] ?? '')).toEqual([]);
    await world.close();
  });

  test('what others keep in the bucket is never taken for ours', async () => {
    const { world, buckets } = await inFrontOf(['default']);
    await upstream.world.client.put(`/${buckets[0]}/sluice/theirs.0`, { body: 'theirs' });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'ours' });
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect(await upstreamObjects(buckets[0] ?? '')).toHaveLength(2);
    await world.close();
  });
});

test('objects of several upstreams are written, read, copied, listed and deleted as if there were one', async () => {
  const { world, buckets } = await inFrontOf(['one', 'two'], { SVC_STORAGE_CLASSES: 'standard-ia@two' });
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await client.put('/bucket/pinned', { body: 'first', headers: { '*-storage-class': 'STANDARD_IA' } });
  expect(await upstreamObjects(buckets[1] ?? '')).toHaveLength(1);
  for (let i = 0; i < 12; i += 1) await client.put(`/bucket/key-${i}`, { body: `body ${i}` });
  for (const bucket of buckets) expect((await upstreamObjects(bucket)).length).toBeGreaterThan(0);
  await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/pinned' } });
  expect((await client.get('/bucket/copy')).text).toBe('first');
  expect((await client.get('/bucket/key-7')).text).toBe('body 7');
  expect((await client.get('/bucket?list-type=2')).all('Key')).toHaveLength(14);
  for (const key of (await client.get('/bucket?list-type=2')).all('Key'))
    await client.delete(`/bucket/${key}`);
  for (const version of (await client.get('/bucket?versions')).all('VersionId')) {
    const keys = (await client.get('/bucket?versions')).all('Key');
    for (const key of new Set(keys)) await client.delete(`/bucket/${key}`, { query: { versionId: version } });
  }
  await world.gc();
  for (const bucket of buckets) expect(await upstreamObjects(bucket)).toEqual([]);
  await world.close();
});

test('a part without a length is refused, an object is taken', async () => {
  const { world } = await inFrontOf(['default']);
  const { client } = world;
  await client.put('/bucket');
  const { bytes } = world.context;
  const source = (size: number) =>
    (async function* () {
      yield bytesOf(size);
    })();
  const owner = { bucketId: 'b', key: 'k' };
  const held = await bytes.uploads?.begin({ cluster: 'default', id: 'op.0', owner });
  if (held === undefined) throw new Error('an upstream holds uploads');
  await expect(bytes.uploads?.writePart(source(10), { upload: held, part: 1 })).rejects.toMatchObject({
    code: 'MissingContentLength',
  });
  expect(await bytes.write(source(12 * MiB), { cluster: 'default', id: 'op.1', owner })).toMatchObject({
    size: 12 * MiB,
  });
  await world.close();
});
