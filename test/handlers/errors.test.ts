/** Error replies in either dialect. */
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';

test('an error is XML with a code, a message, the resource and the request id of the headers', async () => {
  await using world = await openGateway();
  for (const [client, own, foreign] of [
    [world.client, 'x-amz-', 'x-store-'],
    [world.neutral, 'x-store-', 'x-amz-'],
  ] as const) {
    const refused = await client.get('/nothing/a%20key?versionId=null');
    expect([refused.status, refused.header('content-type')]).toEqual([404, 'application/xml']);
    expect(refused.text).toMatch(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<Error><Code>NoSuchBucket<\/Code><Message>/,
    );
    expect([refused.one('Resource'), refused.one('BucketName')]).toEqual(['/nothing/a%20key', 'nothing']);
    expect(refused.one('RequestId')).toBe(refused.header(`${own}request-id`));
    expect(refused.header(`${own}request-id`)).toMatch(/^[0-9A-F]{16}$/);
    expect(refused.header(`${foreign}request-id`)).toBeUndefined();
  }
});

test('every reply has a request id; a request without a dialect gets it under both names', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const ids = new Set<string | undefined>();
  for (const [client, names] of [
    [world.client, ['x-amz-']],
    [world.neutral, ['x-store-']],
    [world.anonymous, ['x-amz-', 'x-store-']],
  ] as const) {
    for (const path of ['/', '/bucket', '/nothing/key', '/%ff']) {
      const reply = await client.get(path);
      const shown = ['x-amz-', 'x-store-'].filter(
        (prefix) => reply.header(`${prefix}request-id`) !== undefined,
      );
      if (path !== '/%ff') expect(shown, path).toEqual(names);
      ids.add(reply.header(`${names[0]}request-id`));
    }
  }
  expect(ids.size).toBe(12);
  const showing = world.as({ anonymous: true, dialect: 'store' });
  const shown = await showing.get('/', { headers: { '*-expected-bucket-owner': 'x' } });
  expect([shown.header('x-store-request-id') !== undefined, shown.header('x-amz-request-id')]).toEqual([
    true,
    undefined,
  ]);
});

test('a refused signature is answered in the dialect that it was tried in', async () => {
  await using world = await openGateway();
  for (const [client, own, foreign] of [
    [world.client, 'x-amz-', 'x-store-'],
    [world.neutral, 'x-store-', 'x-amz-'],
  ] as const) {
    const refused = await client.get('/', {
      tamper: { signature: (hex) => hex.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) },
    });
    expect([refused.status, refused.code]).toEqual([403, 'SignatureDoesNotMatch']);
    expect([
      refused.one('StringToSign') !== undefined,
      refused.one('CanonicalRequest') !== undefined,
    ]).toEqual([true, true]);
    expect([
      refused.header(`${own}request-id`) !== undefined,
      refused.header(`${foreign}request-id`),
    ]).toEqual([true, undefined]);
  }
});

test('what one dialect writes the other reads, each under its own header names', async () => {
  await using world = await openGateway();
  await world.neutral.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
  const put = await world.neutral.put('/bucket/key', {
    body: 'x',
    headers: { '*-meta-a': 'b', '*-storage-class': 'STANDARD_IA' },
  });
  expect(put.header('x-store-version-id')).toMatch(/^[0-9a-f]{32}$/);
  for (const [client, own, foreign] of [
    [world.client, 'x-amz-', 'x-store-'],
    [world.neutral, 'x-store-', 'x-amz-'],
  ] as const) {
    const got = await client.get('/bucket/key');
    for (const name of ['meta-a', 'storage-class', 'version-id']) {
      expect(got.header(own + name), name).toBeDefined();
      expect(got.header(foreign + name), name).toBeUndefined();
    }
    expect((await client.head('/bucket')).header(`${own}bucket-region`)).toBe('default');
  }
});

test('a header of the other dialect on a signed request is refused unless it is signed', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const refused = await world.client.put('/bucket/key', {
    body: 'x',
    unsignedHeaders: { 'x-store-acl': 'public-read' },
  });
  expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
});

test('harmless parameters of clients choose nothing', async () => {
  await using world = await openGateway();
  expect((await world.client.put('/bucket?x-id=CreateBucket')).status).toBe(200);
  expect((await world.client.put('/bucket/key?x-id=PutObject', { body: 'x' })).status).toBe(200);
  expect((await world.client.presigned('PUT', '/other')).status).toBe(200);
  expect((await world.client.presigned('DELETE', '/other')).status).toBe(204);
  expect((await world.client.delete('/bucket/key?x-id=DeleteObject')).status).toBe(204);
});

test('a failing store is InternalError, with its cause in the log only', async () => {
  const logged = new Map<string, unknown>();
  const { silentTelemetry } = await import('../../src/ports/telemetry.ts');
  const { faulty } = await import('../support/faulty.ts');
  await using world = await openGateway({
    wrap: (context) => ({
      ...context,
      telemetry: { ...silentTelemetry, log: (_level, message, fields) => logged.set(message, fields) },
      metadata: faulty(context.metadata, { get: () => Promise.reject(new Error('secret detail')) }),
    }),
  });
  const refused = await world.client.get('/bucket/key');
  expect([refused.status, refused.code]).toEqual([500, 'InternalError']);
  expect(refused.text).not.toContain('secret');
  expect(logged.get('request failed')).toMatchObject({
    request_id: refused.one('RequestId'),
    cause: { message: 'secret detail' },
  });
});

test("expected-bucket-owner refuses another account's bucket", async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  for (const [method, path] of [
    ['GET', '/bucket/key'],
    ['DELETE', '/bucket/key'],
    ['HEAD', '/bucket'],
    ['GET', '/bucket'],
    ['PUT', '/bucket/key'],
  ] as const) {
    const ask = (owner: string) =>
      world.client.send(method, path, {
        headers: { '*-expected-bucket-owner': owner },
        ...(method === 'PUT' ? { body: 'x' } : {}),
      });
    expect((await ask('bob-account')).status, method).toBe(403);
    expect((await ask('alice-account')).status, method).toBeLessThan(300);
    if (method === 'DELETE') await world.client.put('/bucket/key', { body: 'x' });
  }
});
