/** The placement of writes, and what a draining cluster refuses and accepts. @storage */
import { describe, expect, test } from 'vitest';
import { changeCluster } from '../../src/domain/clusters/cluster-states.ts';
import { changeBucket, openBucket } from '../../src/domain/common/buckets.ts';
import { clusterRows, extentsOn, openClusters } from '../support/clusters.ts';
import { backends } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';
import { auditRows, inShort } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

describe.each(backends)('on %s', (backend) => {
  test('writes follow the weights of the clusters', async () => {
    const { world, admin } = await openClusters('a,b', { backend });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    for (let i = 0; i < 20; i += 1) await client.put(`/bucket/${i}`, { body: 'x' });
    expect(await extentsOn(world, 'a')).toBeGreaterThan(0);
    expect(await extentsOn(world, 'b')).toBeGreaterThan(0);
    await admin.must('PUT', '/clusters/b/weight', { weight: 0 });
    const before = await extentsOn(world, 'b');
    for (let i = 20; i < 40; i += 1) await client.put(`/bucket/${i}`, { body: 'x' });
    expect(await extentsOn(world, 'b')).toBe(before);
    expect(await clusterRows(world)).toEqual(['a live 100', 'b live 0']);
  });

  test('a draining cluster accepts no new objects and serves everything else', async () => {
    const { world, admin } = await openClusters('a', { backend });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    const uploadId = await createUpload(client, '/bucket/parts');
    const aborted = await createUpload(client, '/bucket/aborted');
    await admin.must('POST', '/clusters/a/drain', { mode: 'readonly' });

    const fresh = [
      await client.put('/bucket/other', { body: 'x' }),
      await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } }),
      await client.post('/bucket/begun?uploads'),
    ];
    for (const refused of fresh) {
      expect([refused.status, refused.code, refused.header('retry-after')]).toEqual([
        503,
        'DrainRefused',
        '300',
      ]);
    }
    expect((await client.get('/bucket/key')).text).toBe('content');
    expect((await client.head('/bucket/key')).status).toBe(200);
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual(['key']);
    const part = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' });
    const copied = await client.put(`/bucket/parts?uploadId=${uploadId}&partNumber=2`, {
      headers: { '*-copy-source': '/bucket/key' },
    });
    expect(copied.status).toBe(200);
    expect((await client.delete(`/bucket/aborted?uploadId=${aborted}`)).status).toBe(204);
    expect((await complete(client, '/bucket/parts', { uploadId, parts: [part] })).status).toBe(200);
    expect((await client.get('/bucket/parts')).text).toBe('part');
    expect((await client.put('/bucket/key?tagging', { body: '<Tagging><TagSet/></Tagging>' })).status).toBe(
      200,
    );
    expect((await client.delete('/bucket/key')).status).toBe(204);
    expect((await client.put('/bucket2')).status).toBe(200);

    await admin.must('POST', '/clusters/a/undrain');
    expect((await client.put('/bucket/other', { body: 'x' })).status).toBe(200);
  });

  test('objects are stored by the bucket’s placement; when all of its clusters drain, elsewhere in weighted mode and nowhere in strict mode', async () => {
    const { world, admin } = await openClusters('a,b,c', { backend });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    await admin.must('PUT', '/clusters/c/weight', { weight: 0 });
    expect(await admin.must('PUT', '/buckets/bucket/placement', { placement: { c: 1 } })).toEqual({
      bucket: 'bucket',
      placement: { c: 1 },
      mode: 'weighted',
    });
    const put = async () => (await client.put('/bucket/key', { body: 'x' })).code;
    const counts = async () => [
      await extentsOn(world, 'a'),
      await extentsOn(world, 'b'),
      await extentsOn(world, 'c'),
    ];
    expect(await put()).toBe('');
    expect(await counts()).toEqual([0, 0, 1]);
    await admin.must('POST', '/clusters/c/drain', { mode: 'readonly' });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    expect(await put()).toBe('');
    expect((await counts())[1]).toBe(1);
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { c: 1, a: 5 }, mode: 'strict' });
    expect(await put()).toBe('DrainRefused');
    await admin.must('DELETE', '/buckets/bucket/placement');
    expect((await admin.ask('GET', '/buckets/bucket/placement')).json['code']).toBe('NoSuchBucketPlacement');
    expect(await put()).toBe('');
  });

  test('a storage class may be pinned to clusters, and is the bucket’s default where the write names none', async () => {
    const settings = { SVC_STORAGE_CLASSES: 'default,standard-ia@b,archive@c' };
    const { world, admin } = await openClusters('a,b,c', { backend, settings });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 } });
    const classOf = async () => (await client.head('/bucket/key')).header('*-storage-class');
    await client.put('/bucket/key', { body: 'x', headers: { '*-storage-class': 'GLACIER' } });
    expect([await extentsOn(world, 'c'), await classOf()]).toEqual([1, 'GLACIER']);
    expect(await admin.must('GET', '/buckets/bucket/default-class')).toEqual({
      bucket: 'bucket',
      defaultClass: 'STANDARD',
      isSet: false,
    });
    await admin.must('PUT', '/buckets/bucket/default-class', { defaultClass: 'standard-ia' });
    await client.put('/bucket/key', { body: 'x' });
    expect([await extentsOn(world, 'b'), await classOf()]).toEqual([1, 'STANDARD_IA']);
    await admin.must('POST', '/clusters/b/drain', { mode: 'evacuate' });
    expect((await client.put('/bucket/key', { body: 'x' })).code).toBe('DrainRefused');
    await admin.must('DELETE', '/buckets/bucket/default-class');
    expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
    expect([await extentsOn(world, 'a'), await classOf()]).toEqual([1, undefined]);
  });

  test('a class that is pinned to several clusters goes to all of them, and to no other', async () => {
    const settings = { SVC_STORAGE_CLASSES: 'default,archive@b,archive@c' };
    const { world, admin } = await openClusters('a,b,c', { backend, settings });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    const headers = { '*-storage-class': 'GLACIER' };
    for (let n = 0; n < 40; n += 1) await client.put(`/bucket/${n}`, { body: 'x', headers });
    const [a, b, c] = [await extentsOn(world, 'a'), await extentsOn(world, 'b'), await extentsOn(world, 'c')];
    expect([a, b + c, b > 0, c > 0]).toEqual([0, 40, true, true]);
    await admin.must('POST', '/clusters/b/drain', { mode: 'readonly' });
    await client.put('/bucket/key', { body: 'x', headers });
    expect([await extentsOn(world, 'b'), await extentsOn(world, 'c')]).toEqual([b, c + 1]);
    await admin.must('POST', '/clusters/c/drain', { mode: 'readonly' });
    expect((await client.put('/bucket/key', { body: 'x', headers })).code).toBe('DrainRefused');
  });

  test('a drain that begins in the middle of a PUT does not lose it', async () => {
    const { world, admin } = await openClusters('a', { backend });
    await using _ = world;
    const { client } = world;
    await client.put('/bucket');
    async function* arriving(body: Uint8Array) {
      yield body.subarray(0, 10);
      await admin.must('POST', '/clusters/a/drain', { mode: 'readonly' });
      yield body.subarray(10);
    }
    const body = 'x'.repeat(2_000_000);
    expect((await client.put('/bucket/key', { body, arriving })).status).toBe(200);
    expect((await client.get('/bucket/key')).text).toBe(body);
    expect((await client.put('/bucket/key', { body: 'y' })).code).toBe('DrainRefused');
  });
});

test('an empty PlacementMode of an old record means weighted: for writes, and where the mode is shown', async () => {
  const { world, admin } = await openClusters('a,b');
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 }, mode: 'strict' });
  await admin.must('POST', '/clusters/a/drain', { mode: 'readonly' });
  expect((await client.put('/bucket/key', { body: 'x' })).code).toBe('DrainRefused');
  await changeBucket(context, await openBucket(context, 'bucket'), {
    record: undefined,
    change: (row) => ({ ...row, placementMode: '' }),
  });
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
  expect(await extentsOn(world, 'b')).toBe(1);
  expect(await admin.must('GET', '/buckets/bucket/placement')).toMatchObject({ mode: 'weighted' });
  expect(await admin.must('GET', '/buckets/bucket')).toMatchObject({ placementMode: 'weighted' });
});

test('another process’s change of a cluster takes effect within 30 s', async () => {
  const clock = virtualClock();
  const { world } = await openClusters('a', { clock });
  await using _ = world;
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const other = {
    metadata: world.context.metadata,
    bytes: world.context.bytes,
    clusterStates: { ...world.context.clusterStates, changed: async () => {} },
  };
  await changeCluster(other, 'a', { trigger: 'drain readonly' });
  await clock.advance(29_000);
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
  await clock.advance(1_000);
  expect((await client.put('/bucket/key', { body: 'x' })).code).toBe('DrainRefused');
});

test('every change of a placement is audited, refused ones too', async () => {
  const { world, admin } = await openClusters('a,b');
  await using _ = world;
  await world.client.put('/bucket');
  await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 } });
  await admin.must('PUT', '/buckets/bucket/default-class', { defaultClass: 'archive' });
  await admin.ask('PUT', '/buckets/bucket/placement', { placement: { x: 1 } });
  await admin.must('DELETE', '/buckets/bucket/placement');
  await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  await admin.ask('POST', '/clusters/a/activate', { weight: 1 });
  const rows = (await auditRows(world.context)).map(inShort).filter((row) => row.startsWith('admin:'));
  expect(rows.sort()).toEqual([
    'admin:ActivateCluster cluster:a 409 InvalidClusterState',
    'admin:DeleteBucketPlacement bucket:bucket 204',
    'admin:DrainCluster cluster:a 200',
    'admin:PutBucketDefaultClass bucket:bucket 200',
    'admin:PutBucketPlacement bucket:bucket 200',
    'admin:PutBucketPlacement bucket:bucket 400 InvalidArgument',
  ]);
});

test.each<[string, string, unknown, number, string]>([
  ['PUT', '/buckets/none/placement', { placement: { a: 1 } }, 404, 'NoSuchBucket'],
  ['PUT', '/buckets/bucket/placement', {}, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: {} }, 400, 'InvalidArgument'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: 0 } }, 400, 'InvalidArgument'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: -1 } }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: 1.5 } }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: '1' } }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: 1_000_001 } }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: { x: 1 } }, 400, 'InvalidArgument'],
  ['PUT', '/buckets/bucket/placement', { placement: { __proto__x: 1 } }, 400, 'InvalidArgument'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: 1 }, mode: 'loose' }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/placement', { placement: { a: 1 }, extra: 1 }, 400, 'MalformedJSON'],
  ['PUT', '/buckets/bucket/default-class', { defaultClass: 'warm' }, 400, 'InvalidStorageClass'],
  ['PUT', '/buckets/bucket/default-class', {}, 400, 'MalformedJSON'],
  ['GET', '/buckets/none/default-class', undefined, 404, 'NoSuchBucket'],
  ['POST', '/clusters/x/drain', { mode: 'readonly' }, 404, 'NoSuchCluster'],
  ['POST', '/clusters/a/drain', {}, 400, 'MalformedJSON'],
  ['POST', '/clusters/a/drain', { mode: 'now' }, 400, 'MalformedJSON'],
  ['POST', '/clusters/a/undrain', undefined, 409, 'InvalidClusterState'],
  ['POST', '/clusters/a/undrain', { mode: 'readonly' }, 400, 'MalformedJSON'],
  ['POST', '/clusters/a/activate', { weight: 1 }, 409, 'InvalidClusterState'],
  ['PUT', '/clusters/a/weight', { weight: -1 }, 400, 'MalformedJSON'],
  ['PUT', '/clusters/a/weight', { weight: 1_000_001 }, 400, 'MalformedJSON'],
  ['PUT', '/clusters/a/weight', {}, 400, 'MalformedJSON'],
  ['GET', '/clusters/x', undefined, 404, 'NoSuchCluster'],
])('%s %s with %j is refused', async (method, path, body, status, code) => {
  const { world, admin } = await openClusters('a,b');
  await using _ = world;
  await world.client.put('/bucket');
  const answer = await admin.ask(method, path, body);
  expect([answer.status, answer.json['code']]).toEqual([status, code]);
  expect(await clusterRows(world)).toEqual(['a live 100', 'b live 100']);
});
