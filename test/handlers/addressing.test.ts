/** Bucket and key of a request in path style and virtual-host style, and paths outside of the storage protocol. */
import { describe, expect, test } from 'vitest';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { signer } from '../support/sign.ts';

describe('virtual hosts', () => {
  test('name the bucket, and the whole path is the key', async () => {
    await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.test,other.test' } });
    await world.client.put('/bucket');
    for (const host of ['bucket.s3.test', 'bucket.s3.test:9000', 'BUCKET.S3.TEST', 'bucket.other.test']) {
      const client = world.as({ host });
      for (const key of ['key', 'admin/x', 'healthz', 'metrics', 'bucket/key', '%2Fodd', 'a//b', '/x']) {
        expect((await client.put(`/${key}`, { body: `${host} ${key}` })).status).toBe(200);
        expect((await client.get(`/${key}`)).text).toBe(`${host} ${key}`);
      }
      expect((await world.client.get('/bucket/admin/x')).text).toBe(`${host} admin/x`);
      expect((await client.get('/?list-type=2')).one('Name')).toBe('bucket');
      expect((await client.head('/')).header('*-bucket-region')).toBe('default');
      expect((await client.get('/key', { tamper: { signature: () => '0'.repeat(64) } })).code).toBe(
        'SignatureDoesNotMatch',
      );
    }
    const none = world.as({ host: 'nothing.s3.test' });
    expect((await none.get('/key')).code).toBe('NoSuchBucket');
    const created = await none.put('/');
    expect([created.status, created.header('location')]).toEqual([200, '/nothing']);
    expect((await none.delete('/')).status).toBe(204);
  });

  test('of the domain itself, of others and without a domain are path style', async () => {
    await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.test' } });
    await world.client.put('/bucket');
    for (const host of ['s3.test', 'bucket.example.com', 'xs3.test', 'localhost:9000']) {
      const client = world.as({ host });
      expect((await client.put('/bucket/key', { body: host })).status).toBe(200);
      expect((await client.get('/')).all('Name')).toEqual(['bucket']);
    }
    await using plain = await openGateway();
    await plain.client.put('/bucket');
    expect((await plain.as({ host: 'bucket.s3.test' }).get('/key')).code).toBe('NoSuchBucket');
  });

  test.each(['test,s3.test', 's3.test,test'])(
    'of a domain below another one belong to the longer one (%s)',
    async (domains) => {
      await using world = await openGateway({ settings: { SVC_DOMAIN: domains } });
      await world.client.put('/bucket');
      expect((await world.as({ host: 'bucket.s3.test' }).put('/key', { body: 'x' })).status).toBe(200);
      expect((await world.as({ host: 's3.test' }).get('/bucket/key')).text).toBe('x');
      expect((await world.as({ host: 'bucket.test' }).get('/key')).text).toBe('x');
    },
  );

  test.each([
    ['s3.test', 'test'],
    ['test', 'web.test'],
  ])('are told from those of websites by the longer domain (%s, %s)', async (domain, websites) => {
    await using world = await openGateway({ settings: { SVC_DOMAIN: domain, SVC_WEBSITE_DOMAIN: websites } });
    await world.client.put('/bucket');
    expect((await world.as({ host: `bucket.${domain}` }).put('/key', { body: 'x' })).status).toBe(200);
    expect((await world.as({ host: domain }).get('/bucket/key')).text).toBe('x');
    const visitor = await world.as({ host: `bucket.${websites}` }).get('/key');
    expect(visitor.header('content-type')).toContain('text/html');
    expect((await world.as({ host: websites }).get('/bucket/key')).text).toBe('x');
  });

  test('the Location of a completed upload has the host and path that the client used', async () => {
    const { complete, createUpload, putPart } = await import('../support/gateway-bodies.ts');
    await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.test' }, basePath: '/s3' });
    await world.client.put('/s3/bucket');
    for (const [host, path] of [
      ['bucket.s3.test', '/s3/a%20b'],
      ['localhost', '/s3/bucket/a%20b'],
    ] as const) {
      const client = world.as({ host });
      const uploadId = await createUpload(client, path);
      const parts = [await putPart(client, path, { uploadId, number: 1, body: 'x' })];
      expect((await complete(client, path, { uploadId, parts })).one('Location')).toBe(
        `http://${host}${path}`,
      );
    }
  });
});

describe('a base path', () => {
  test('is signed and stripped; paths outside of it are not found', async () => {
    await using world = await openGateway({ basePath: '/s3' });
    const { client } = world;
    expect((await client.put('/s3/bucket')).status).toBe(200);
    expect((await client.put('/s3/bucket/key', { body: 'x' })).status).toBe(200);
    expect((await client.get('/s3/bucket/key')).text).toBe('x');
    expect((await client.get('/s3')).all('Name')).toEqual(['bucket']);
    expect((await client.get('/s3/')).all('Name')).toEqual(['bucket']);
    for (const path of ['/bucket/key', '/', '/s3x/bucket', '/healthz']) {
      const outside = await client.get(path);
      expect([outside.status, outside.code], path).toEqual([404, 'NotFound']);
    }
    expect((await client.get('/s3/healthz')).status).toBe(200);
    const forged = await client.get('/s3/bucket/key', { tamper: { target: () => '/bucket/key' } });
    expect(forged.status).toBeGreaterThanOrEqual(400);
  });
});

describe('areas', () => {
  test('health answers every caller', async () => {
    await using world = await openGateway();
    for (const path of ['/healthz', '/readyz']) {
      const reply = await world.anonymous.get(path);
      expect([reply.status, reply.header('cache-control')]).toEqual([200, 'no-store']);
      expect((await world.anonymous.post(path)).status).toBe(404);
    }
  });

  test('readiness fails with the store', async () => {
    const { faulty } = await import('../support/faulty.ts');
    await using world = await openGateway({
      wrap: (context) => ({
        ...context,
        metadata: faulty(context.metadata, { now: () => Promise.reject(new Error('down')) }),
      }),
    });
    expect((await world.anonymous.get('/readyz')).status).toBe(503);
    expect((await world.anonymous.get('/healthz')).status).toBe(200);
  });

  test('metrics require an operator or the token', async () => {
    await using world = await openGateway({ settings: { SVC_METRICS_TOKEN: 'a-token-of-metrics' } });
    const bearer = (token: string) =>
      world.anonymous.get('/metrics', { headers: { authorization: `Bearer ${token}` } });
    expect((await bearer('a-token-of-metrics')).status).toBe(200);
    expect((await world.as({ credential: operator }).get('/metrics')).status).toBe(200);
    for (const reply of [
      await bearer('a-token-of-metricz'),
      await world.anonymous.get('/metrics'),
      await world.client.get('/metrics'),
    ]) {
      expect([reply.status, reply.header('content-type')]).toEqual([403, 'application/json']);
      expect(JSON.parse(reply.text)).toMatchObject({ code: 'AccessDenied' });
    }
    await using closed = await openGateway();
    expect(
      (await closed.anonymous.get('/metrics', { headers: { authorization: 'Bearer ' } })).status,
    ).not.toBe(200);
  });

  test('a bearer token is no signature elsewhere', async () => {
    await using world = await openGateway({ settings: { SVC_METRICS_TOKEN: 'a-token-of-metrics' } });
    await world.client.put('/bucket');
    const reply = await world.anonymous.get('/bucket', {
      headers: { authorization: 'Bearer a-token-of-metrics' },
    });
    expect([400, 403]).toContain(reply.status);
  });

  test('are no buckets', async () => {
    await using world = await openGateway({ settings: { SVC_DOMAIN: 's3.test' } });
    for (const name of ['admin', 'console', 'metrics', 'healthz', 'readyz', 'iam']) {
      expect((await world.client.put(`/${name}`)).status, name).toBeGreaterThanOrEqual(400);
      expect((await world.as({ host: `${name}.s3.test` }).put('/')).code, name).toBe('InvalidBucketName');
    }
    expect((await world.client.get('/admin/v1/nothing')).status).toBe(404);
  });
});

test('a fetch handler returns the same reply as a runtime with sockets', async () => {
  await using world = await openGateway();
  const client = world.as({ fetch: true });
  expect((await client.put('/bucket')).status).toBe(200);
  expect((await client.put('/bucket/key', { body: 'content', headers: { '*-meta-a': 'b' } })).status).toBe(
    200,
  );
  const got = await client.get('/bucket/key');
  expect([got.text, got.header('*-meta-a'), got.header('content-length')]).toEqual(['content', 'b', '7']);
  const head = await client.head('/bucket/key');
  expect([head.status, head.header('content-length'), head.bytes.length]).toEqual([200, '7', 0]);
  expect((await client.get('/bucket/none')).code).toBe('NoSuchKey');
  expect((await client.delete('/bucket/key')).status).toBe(204);
});

test('a version 2 presigned URL covers the path with the mount point or without it', async () => {
  await using world = await openGateway({ basePath: '/s3' });
  await world.client.put('/s3/bucket');
  await world.client.put('/s3/bucket/key', { body: 'mounted' });
  const sign = signer({ accessKey: alice.accessKey, secretKey: alice.secretKey, host: 'localhost' });
  const whole = sign.presignV2({ path: '/s3/bucket/key' });
  const local = sign.presignV2({ path: '/bucket/key' });
  expect((await world.client.sendRaw(whole)).text).toBe('mounted');
  expect((await world.client.sendRaw({ ...local, target: `/s3${local.target}` })).text).toBe('mounted');
  const other = sign.presignV2({ path: '/bucket/other' });
  const forged = { ...other, target: `/s3${other.target.replace('/other', '/key')}` };
  expect((await world.client.sendRaw(forged)).code).toBe('SignatureDoesNotMatch');
});
