/** Archived objects: readable after RestoreObject, for the requested days. @storage */
import { describe, expect, test } from 'vitest';
import { setPolicy } from '../support/bucket-policy.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { createUpload, setVersioning } from '../support/gateway-bodies.ts';
import { dayMs } from '../support/locks.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const restore = (days: number | string, more = ''): string =>
  `<RestoreRequest><Days>${days}</Days>${more}</RestoreRequest>`;
const archived = (storageClass = 'GLACIER') => ({
  body: 'content',
  headers: { '*-storage-class': storageClass },
});
const listRestored = { headers: { '*-optional-object-attributes': 'RestoreStatus' } };

describe.each(backends)('on %s', (backend) => {
  test('an archived object is described and not read, until it is restored, and again once that is over', async () => {
    const clock = virtualClock(Date.UTC(2026, 0, 1, 10));
    await using world = await openGateway({ backend, clock });
    const { client } = world;
    await client.put('/bucket');
    for (const storageClass of ['GLACIER', 'DEEP_ARCHIVE']) {
      const path = `/bucket/${storageClass}`;
      await client.put(path, archived(storageClass));
      const closed = async () => {
        const got = await client.get(path);
        expect([got.status, got.code, got.one('StorageClass')]).toEqual([
          403,
          'InvalidObjectState',
          storageClass,
        ]);
        const head = await client.head(path);
        expect([head.status, head.header('*-restore')]).toEqual([200, undefined]);
        expect((await client.get('/bucket', listRestored)).one('RestoreStatus')).toBeUndefined();
      };
      await closed();
      const first = await client.post(`${path}?restore`, { body: restore(2) });
      expect([first.status, first.text]).toEqual([202, '']);
      // Two days from ten o'clock, rounded up to the next midnight.
      const open = async (expiry: string) => {
        expect((await client.get(path)).text).toBe('content');
        expect((await client.get(path, { headers: { range: 'bytes=0-2' } })).text).toBe('con');
        const head = await client.head(path);
        expect([head.header('*-restore'), head.header('*-storage-class')]).toEqual([
          `ongoing-request="false", expiry-date="${new Date(expiry).toUTCString()}"`,
          storageClass,
        ]);
        for (const listing of ['/bucket', '/bucket?list-type=2', '/bucket?versions']) {
          const listed = await client.get(listing, listRestored);
          expect([listed.one('IsRestoreInProgress'), listed.one('RestoreExpiryDate')]).toEqual([
            'false',
            expiry,
          ]);
          expect((await client.get(listing)).one('RestoreStatus')).toBeUndefined();
        }
      };
      const day = (days: number) => new Date(Math.ceil(clock.now() / dayMs + days) * dayMs).toISOString();
      await open(day(2));
      for (const days of [5, 1]) {
        expect((await client.post(`${path}?restore`, { body: restore(days) })).status).toBe(200);
        await open(day(days));
      }
      clock.jump(2 * dayMs);
      await closed();
      expect((await client.post(`${path}?restore`, { body: restore(1) })).status).toBe(202);
      expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
      await client.delete(path);
    }
  });

  test('a version is restored by its id, and a copy reads what is restored only', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const older = (await client.put('/bucket/key', archived())).header('*-version-id');
    await client.put('/bucket/key', archived());
    const source = `/bucket/key?versionId=${older}`;
    const uploadId = await createUpload(client, '/bucket/parts');
    const copies = async () => [
      await client.put('/bucket/copy', { headers: { '*-copy-source': source } }),
      await client.put('/bucket/parts', {
        query: { uploadId, partNumber: '1' },
        headers: { '*-copy-source': source },
      }),
    ];
    for (const refused of await copies())
      expect([refused.status, refused.code]).toEqual([403, 'InvalidObjectState']);
    expect((await client.post(`${source}&restore`, { body: restore(1) })).status).toBe(202);
    for (const { status } of await copies()) expect(status).toBe(200);
    expect((await client.get(source)).text).toBe('content');
    expect((await client.get('/bucket/key')).status).toBe(403);
    const copied = await client.get('/bucket/copy');
    expect([copied.text, copied.header('*-restore'), copied.header('*-storage-class')]).toEqual([
      'content',
      undefined,
      undefined,
    ]);
  });
});

test('conditions and attributes of an archived object are answered without restoring it', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const etag = (await client.put('/bucket/key', archived())).header('etag') ?? '';
  expect((await client.get('/bucket/key', { headers: { 'if-none-match': etag } })).status).toBe(304);
  expect((await client.get('/bucket/key', { headers: { 'if-match': '"x"' } })).status).toBe(412);
  const attributes = { headers: { '*-object-attributes': 'StorageClass,ObjectSize' } };
  expect((await client.get('/bucket/key?attributes', attributes)).one('StorageClass')).toBe('GLACIER');
});

test('RestoreObject is refused for a class without restore, a missing object and an invalid request', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', archived());
  for (const storageClass of ['STANDARD', 'STANDARD_IA', 'GLACIER_IR']) {
    await client.put('/bucket/plain', archived(storageClass));
    const refused = await client.post('/bucket/plain?restore', { body: restore(1) });
    expect([refused.status, refused.code]).toEqual([403, 'InvalidObjectState']);
    expect((await client.get('/bucket/plain')).text).toBe('content');
  }
  for (const [path, body, code] of [
    ['absent', restore(1), 'NoSuchKey'],
    ['key', restore(0), 'InvalidArgument'],
    ['key', restore(-1), 'InvalidArgument'],
    ['key', restore(36_501), 'InvalidArgument'],
    ['key', restore('1.5'), 'MalformedXML'],
    ['key', '<RestoreRequest/>', 'MalformedXML'],
    ['key', '', 'MissingRequestBodyError'],
    ['key', restore(1, '<Type>SELECT</Type>'), 'NotImplemented'],
    ['key', restore(1, '<OutputLocation><S3/></OutputLocation>'), 'NotImplemented'],
  ] as const)
    expect((await client.post(`/bucket/${path}?restore`, { body })).code, body).toBe(code);
  expect((await client.get('/bucket/key')).status).toBe(403);
  const tier = '<GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters>';
  const ask = { body: restore(36_500, tier) };
  expect((await bob.post('/bucket/key?restore', ask)).status).toBe(403);
  await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: 's3:RestoreObject' }]);
  expect((await bob.post('/bucket/key?restore', ask)).status).toBe(202);
  expect((await client.get('/bucket', { headers: { '*-optional-object-attributes': 'More' } })).code).toBe(
    'InvalidArgument',
  );
});
