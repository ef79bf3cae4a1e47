/** The Object Lock configuration of a bucket and its default retention. */
import { describe, expect, test } from 'vitest';
import { ambush } from '../support/ambush.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import {
  bypass,
  configuration,
  dayMs,
  defaultRule,
  lockIn,
  openLocked,
  putVersion,
} from '../support/locks.ts';

describe.each(backends)('on %s', (backend) => {
  test('Object Lock is enabled with the bucket or by a configuration of a versioned one, and cannot be disabled', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    const born = await client.get('/bucket?object-lock');
    expect([born.status, born.one('ObjectLockEnabled'), born.one('Rule')]).toEqual([
      200,
      'Enabled',
      undefined,
    ]);
    await client.put('/later');
    const unset = await client.get('/later?object-lock');
    expect([unset.status, unset.code]).toEqual([404, 'ObjectLockConfigurationNotFoundError']);
    for (const status of [undefined, 'Suspended'] as const) {
      if (status !== undefined) await setVersioning(client, 'later', status);
      const refused = await client.put('/later?object-lock', { body: configuration() });
      expect([refused.status, refused.code]).toEqual([409, 'InvalidBucketState']);
    }
    await setVersioning(client, 'later', 'Enabled');
    expect((await client.put('/later?object-lock', { body: configuration() })).status).toBe(200);
    expect((await client.get('/later?object-lock')).one('ObjectLockEnabled')).toBe('Enabled');
    for (const bucket of ['bucket', 'later']) {
      const suspended = await setVersioning(client, bucket, 'Suspended');
      expect([suspended.status, suspended.code]).toEqual([409, 'InvalidBucketState']);
      expect((await setVersioning(client, bucket, 'Enabled')).status).toBe(200);
    }
    const removed = await client.delete('/later?object-lock');
    expect([removed.status, removed.code]).toEqual([405, 'MethodNotAllowed']);
    expect((await client.get('/later')).status).toBe(200);
  });

  test('a default retention applies to every new version without a lock of its own, and to no delete marker', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const before = await putVersion(client, '/bucket/key');
    const rule = defaultRule('COMPLIANCE', '<Days>2</Days>');
    expect((await client.put('/bucket?object-lock', { body: configuration(rule) })).status).toBe(200);
    const got = await client.get('/bucket?object-lock');
    expect(['Mode', 'Days', 'Years'].map(got.one)).toEqual(['COMPLIANCE', '2', undefined]);
    const until = new Date(clock.now() + 2 * dayMs).toISOString();

    await putVersion(client, '/bucket/put');
    await client.put('/bucket/copied', { headers: { '*-copy-source': '/bucket/key' } });
    const uploadId = await createUpload(client, '/bucket/parts');
    const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' })];
    expect((await complete(client, '/bucket/parts', { uploadId, parts })).status).toBe(200);
    for (const key of ['put', 'copied', 'parts'])
      expect(lockIn(await client.head(`/bucket/${key}`)), key).toEqual(['COMPLIANCE', until, undefined]);
    expect(lockIn(await client.head(`/bucket/key?versionId=${before}`))).toEqual(Array(3).fill(undefined));

    const marker = (await client.delete('/bucket/put')).header('*-version-id');
    expect((await client.delete(`/bucket/put?versionId=${marker}`)).status).toBe(204);
    expect((await client.get('/bucket/put')).text).toBe('content');
    expect((await client.delete(`/bucket/key?versionId=${before}`)).status).toBe(204);
  });

  test('the default retention applies to an upload whose own retention has ended before its completion', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const body = configuration(defaultRule('GOVERNANCE', '<Days>2</Days>'));
    expect((await client.put('/bucket?object-lock', { body })).status).toBe(200);
    const ends = new Date(clock.now() + dayMs).toISOString();
    const headers = {
      '*-object-lock-mode': 'COMPLIANCE',
      '*-object-lock-retain-until-date': ends,
      '*-object-lock-legal-hold': 'ON',
    };
    for (const key of ['early', 'late']) {
      const uploadId = (await client.post(`/bucket/${key}?uploads`, { headers })).one('UploadId') ?? '';
      const parts = [await putPart(client, `/bucket/${key}`, { uploadId, number: 1, body: 'part' })];
      if (key === 'late') clock.jump(dayMs);
      expect((await complete(client, `/bucket/${key}`, { uploadId, parts })).status).toBe(200);
    }
    const byDefault = new Date(clock.now() + 2 * dayMs).toISOString();
    expect(lockIn(await client.head('/bucket/early'))).toEqual(['COMPLIANCE', ends, 'ON']);
    expect(lockIn(await client.head('/bucket/late'))).toEqual(['GOVERNANCE', byDefault, 'ON']);
  });

  test('a default that is removed applies to no new version, and versions that it protected stay protected', async () => {
    await using world = await openLocked(backend);
    const { client, clock } = world;
    const rule = defaultRule('GOVERNANCE', '<Years>1</Years>');
    await client.put('/bucket?object-lock', { body: configuration(rule) });
    const held = await putVersion(client, '/bucket/key');
    expect(lockIn(await client.head('/bucket/key'))[1]).toBe(
      new Date(clock.now() + 365 * dayMs).toISOString(),
    );
    expect((await client.put('/bucket?object-lock', { body: configuration() })).status).toBe(200);
    expect((await client.get('/bucket?object-lock')).one('Rule')).toBeUndefined();
    const free = await putVersion(client, '/bucket/key');
    expect((await client.delete(`/bucket/key?versionId=${free}`)).status).toBe(204);
    expect((await client.delete(`/bucket/key?versionId=${held}`)).status).toBe(403);
    expect((await client.delete(`/bucket/key?versionId=${held}`, { headers: bypass })).status).toBe(204);
  });

  test('a write that began before a default was set, and commits after, is held by it', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const body = configuration(defaultRule('COMPLIANCE', '<Days>1</Days>'));
    rightBefore('objects', () => client.put('/bucket?object-lock', { body }));
    const version = await putVersion(client, '/bucket/key');
    expect(lockIn(await client.head('/bucket/key'))[0]).toBe('COMPLIANCE');
    expect((await client.delete(`/bucket/key?versionId=${version}`)).status).toBe(403);
  });
});

test('a configuration with a period of zero, without an end, or with unknown elements is refused', async () => {
  await using world = await openLocked();
  const { client } = world;
  const put = (body: string) => client.put('/bucket?object-lock', { body });
  for (const period of ['<Days>1</Days>', '<Days>36500</Days>', '<Years>1</Years>', '<Years>100</Years>'])
    expect((await put(configuration(defaultRule('GOVERNANCE', period)))).status, period).toBe(200);
  for (const [body, code] of [
    [configuration(defaultRule('GOVERNANCE', '<Days>0</Days>')), 'InvalidArgument'],
    [configuration(defaultRule('GOVERNANCE', '<Days>-1</Days>')), 'InvalidArgument'],
    [configuration(defaultRule('GOVERNANCE', '<Days>36501</Days>')), 'InvalidArgument'],
    [configuration(defaultRule('GOVERNANCE', '<Years>0</Years>')), 'InvalidArgument'],
    [configuration(defaultRule('GOVERNANCE', '<Years>101</Years>')), 'InvalidArgument'],
    [configuration(defaultRule('GOVERNANCE', '<Days>1</Days><Years>1</Years>')), 'MalformedXML'],
    [configuration(defaultRule('GOVERNANCE', '')), 'MalformedXML'],
    [configuration(defaultRule('governance', '<Days>1</Days>')), 'MalformedXML'],
    [configuration('<Rule/>'), 'MalformedXML'],
    [configuration().replace('Enabled<', 'Disabled<'), 'MalformedXML'],
    ['<ObjectLockConfiguration/>', 'MalformedXML'],
    ['', 'MissingRequestBodyError'],
  ] as const) {
    const refused = await put(body);
    expect([refused.status, refused.code], body).toEqual([400, code]);
  }
  expect((await client.get('/bucket?object-lock')).one('Years')).toBe('100');
});
