/** DeleteObjects: each key succeeds or fails for itself. @storage */
import { describe, expect, test } from 'vitest';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { MetadataDamaged, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { faulty } from '../support/faulty.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { deletion, setVersioning } from '../support/gateway-bodies.ts';

describe.each(backends)('on %s', (backend) => {
  test('deletes existing keys, and reports missing ones as deleted', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    for (const key of ['a', 'b', 'c']) await client.put(`/bucket/${key}`, { body: 'x' });
    const done = await client.post('/bucket?delete', { body: deletion(['a', 'none', 'c', 'a']) });
    expect([done.status, done.all('Key')]).toEqual([200, ['a', 'none', 'c', 'a']]);
    expect([done.all('Error'), done.all('DeleteMarker')]).toEqual([[], []]);
    expect((await client.get('/bucket')).all('Key')).toEqual(['b']);
    expect(await world.usage('bucket')).toEqual({ bytes: 1, objects: 1 });
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
  });

  test('with Quiet reports errors only', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    for (const key of ['a', 'b']) await client.put(`/bucket/${key}`, { body: 'x' });
    const done = await client.post('/bucket?delete', {
      body: deletion(['a', '<Key>b</Key><ETag>"wrong"</ETag>', '<Key>c</Key><VersionId>x</VersionId>'], true),
    });
    expect([done.status, done.all('Deleted'), done.all('Code')]).toEqual([
      200,
      [],
      ['PreconditionFailed', 'NoSuchVersion'],
    ]);
    expect(done.all('Key')).toEqual(['b', 'c']);
    expect(done.all('Message').every((text) => text !== '')).toBe(true);
    expect((await client.get('/bucket')).all('Key')).toEqual(['b']);
  });

  test('lays markers and removes versions in a versioned bucket', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const id = (await client.put('/bucket/a', { body: 'x' })).header('*-version-id') ?? '';
    const laid = await client.post('/bucket?delete', { body: deletion(['a']) });
    const marker = laid.one('DeleteMarkerVersionId') ?? '';
    expect([laid.one('DeleteMarker'), marker.length]).toEqual(['true', 32]);
    const body = deletion([
      `<Key>a</Key><VersionId>${marker}</VersionId>`,
      `<Key>a</Key><VersionId>${id}</VersionId>`,
    ]);
    const removed = await client.post('/bucket?delete', { body });
    expect(removed.all('VersionId')).toEqual([marker, id]);
    expect(removed.all('DeleteMarkerVersionId')).toEqual([marker]);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
  });
});

test('one key 1,000 times is deleted once, and each entry is answered', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await client.put('/bucket/key', { body: 'x' });
  await client.put('/bucket/other', { body: 'x' });
  const keys = Array.from({ length: 1000 }, (_, i) => (i === 500 ? 'other' : 'key'));
  const done = await client.post('/bucket?delete', { body: deletion(keys) });
  expect([done.status, done.all('Key'), done.all('Error')]).toEqual([200, keys, []]);
  // The handler commits once for each key, so every entry of a key names the same marker.
  expect(new Set(done.all('DeleteMarkerVersionId')).size).toBe(2);
  const left = await client.get('/bucket?versions');
  expect([left.all('DeleteMarker').length, left.all('Version').length]).toEqual([2, 2]);
});

test('entries of one key that differ are worked on one after another', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const ids: string[] = [];
  for (let i = 0; i < 40; i++)
    ids.push((await client.put('/bucket/key', { body: `${i}` })).header('*-version-id') ?? '');
  const body = deletion([
    ...ids.map((id) => `<Key>key</Key><VersionId>${id}</VersionId>`),
    '<Key>key</Key><ETag>"none"</ETag>',
  ]);
  const done = await client.post('/bucket?delete', { body });
  expect([done.status, done.all('VersionId')]).toEqual([200, ids]);
  expect(done.all('Error')).toHaveLength(1);
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([]);
});

test('takes 1 to 1000 keys', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const keys = Array.from({ length: 1001 }, (_, i) => `k${i}`);
  for (const key of keys) await client.put(`/bucket/${key}`, { body: 'x' });
  for (const body of [deletion(keys), deletion([])]) {
    const refused = await client.post('/bucket?delete', { body });
    expect([refused.status, refused.code]).toEqual([400, 'MalformedXML']);
  }
  expect((await client.get('/bucket?list-type=2&max-keys=0')).one('KeyCount')).toBe('0');
  expect((await world.usage('bucket')).objects).toBe(1001);
  const done = await client.post('/bucket?delete', { body: deletion(keys.slice(0, 1000)) });
  expect(done.all('Deleted')).toHaveLength(1000);
  expect((await client.get('/bucket')).all('Key')).toEqual(['k1000']);
});

test('an invalid body deletes nothing', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const bodies = [
    '',
    'key',
    '<Delete>',
    '<Other/>',
    '<Delete><Object><Key>key</Key><Key>b</Key></Object></Delete>',
    '<Delete><Object><Key>key</Key><Condition>if</Condition></Object></Delete>',
    '<!DOCTYPE d [<!ENTITY k "key">]><Delete><Object><Key>&k;</Key></Object></Delete>',
    '<Delete><Object><VersionId>null</VersionId></Object></Delete>',
    `<Delete><Object><Key>key</Key></Object>${'<x>'.repeat(10_000)}`,
  ];
  for (const body of bodies) {
    const refused = await client.post('/bucket?delete', { body });
    expect(
      [refused.status, ['MalformedXML', 'MissingRequestBodyError'].includes(refused.code)],
      body.slice(0, 60),
    ).toEqual([400, true]);
  }
  const huge = await client.post('/bucket?delete', {
    body: `<Delete>${' '.repeat(5 * 1024 * 1024)}</Delete>`,
  });
  expect([huge.status, huge.code]).toEqual([400, 'MaxMessageLengthExceeded']);
  const refused = await world.bob.post('/bucket?delete', { body: deletion(['key', 'other']) });
  expect([refused.status, refused.all('Code')]).toEqual([403, ['AccessDenied']]);
  // Where no policy or ACL could allow the request, its body is not read.
  expect((await world.anonymous.post('/bucket?delete', { body: deletion(['key']) })).status).toBe(403);
  expect((await client.get('/bucket/key')).text).toBe('x');
});

test('1000 keys of the greatest length fit, half of them escaped', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const keys = Array.from(
    { length: 1000 },
    (_, i) => `${'&amp;'.repeat(510)}${'k'.repeat(510)}${String(i).padStart(4, '0')}`,
  );
  const done = await world.client.post('/bucket?delete', { body: deletion(keys, true) });
  expect([done.status, done.code]).toEqual([200, '']);
});

test('other requests are served while many keys are authorized and deleted', async () => {
  let now = 0;
  const slept: number[] = [];
  const sleep = (ms: number, signal?: AbortSignal): Promise<void> => {
    slept.push(ms);
    return systemClock.sleep(ms, signal);
  };
  await using world = await openGateway({
    clock: { ...systemClock, elapsed: () => (now += 5), sleep },
  });
  await world.client.put('/bucket');
  const keys = Array.from({ length: 100 }, (_, index) => `<Object><Key>${index}</Key></Object>`);
  slept.length = 0;
  const answer = await world.client.post('/bucket?delete', { body: `<Delete>${keys.join('')}</Delete>` });
  expect(answer.all('Deleted')).toHaveLength(100);
  expect(slept.filter((ms) => ms === 0).length).toBeGreaterThan(1);
});

test.each([
  ['a full disk', () => new StorageFull('full'), 507, 'InsufficientStorage'],
  ['a metadata store that is away', () => new StoreUnavailable('away'), 503, 'ServiceUnavailable'],
  [
    'damaged metadata',
    () => new MetadataDamaged('torn', { table: 'objects', row: 'key', key: new Uint8Array() }),
    500,
    'MetadataDamaged',
  ],
  ['a defect', () => new Error('defect'), 500, 'InternalError'],
] as const)('names %s as DeleteObject does', async (_, fault, status, code) => {
  let isBroken = false;
  await using world = await openGateway({
    wrap: (context) => {
      const { metadata } = context;
      const commit: typeof metadata.commit = async (...call) => {
        if (isBroken) throw fault();
        return metadata.commit(...call);
      };
      return { ...context, metadata: faulty(metadata, { commit }) };
    },
  });
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  isBroken = true;
  const one = await client.delete('/bucket/key');
  expect([one.status, one.code]).toEqual([status, code]);
  const many = await client.post('/bucket?delete', { body: deletion(['key']) });
  expect([many.status, many.all('Code'), many.all('Message')]).toEqual([200, [code], one.all('Message')]);
  isBroken = false;
  expect((await client.delete('/bucket/key')).status).toBe(204);
});

test('is refused to an account that no policy and no ACL lets in, before its body is parsed', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  expect((await world.bob.post('/bucket?delete', { body: '<torn' })).code).toBe('AccessDenied');
  const policy = {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: 'bob-account' },
        Action: 's3:DeleteObject',
        Resource: 'arn:aws:s3:::bucket/key',
      },
    ],
  };
  expect((await world.client.put('/bucket?policy', { body: JSON.stringify(policy) })).status).toBe(204);
  const done = await world.bob.post('/bucket?delete', { body: deletion(['key', 'other']) });
  expect([done.status, done.all('Code')]).toEqual([200, ['AccessDenied']]);
  expect((await world.bob.post('/bucket?delete', { body: '<torn' })).code).toBe('MalformedXML');
});
