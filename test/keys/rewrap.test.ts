/** The walk that wraps every stored key again, with a real transit engine. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { findHead, objectsAt } from '../../src/metadata/objects/objects.ts';
import { findSession } from '../../src/metadata/objects/uploads.ts';
import type { BucketRow } from '../../src/metadata/tables.ts';
import { commitLimits, RowTooLong } from '../../src/ports/metadata-store.ts';
import { rewrapKeys } from '../../src/workers/rewrap.ts';
import { sender } from '../runtimes/client.ts';
import { endAll, keysOf, serving, started } from '../runtimes/command.ts';
import { provider } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { complete, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { openKeyProxy } from '../support/key-proxy.ts';
import { openKmsWorld, served } from '../support/kms-world.ts';
import { auditRows } from '../support/recorded.ts';
import {
  engine,
  makeKey,
  noTransit,
  openTransitWorld as open,
  secretFile,
  server,
  startTransit,
} from '../support/transit-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

let running: AsyncDisposable | undefined;
beforeAll(async () => {
  if (noTransit === undefined) running = await startTransit();
});
afterAll(async () => {
  await endAll();
  await running?.[Symbol.asyncDispose]();
});

test('a provider whose keys have no versions has nothing to wrap again', async () => {
  await using world = await openGateway();
  const answer = await world.as({ credential: operator }).post('/admin/v1/keys/rewrap');
  expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('SVC_KEY_PROVIDER')]);
});

test('a key that is unavailable is counted as failed, costs a few calls for each page, and the walk reaches the keys of others', async () => {
  await using world = await openKmsWorld();
  const { client, double } = world;
  for (const bucket of ['aaa', 'zzz']) {
    expect((await client.put(`/${bucket}`)).status).toBe(200);
    await world.rotate({ bucket, keyId: bucket === 'aaa' ? world.own : 'alias/main' });
  }
  const count = 40;
  for (let n = 0; n < count; n += 1) expect(await world.put(`/bucket/${n}`, world.own)).toEqual(served);
  expect(await world.put('/bucket/other', 'alias/main')).toEqual(served);
  double.setState(world.own, 'StoreAway');
  const admin = world.as({ credential: operator });
  expect((await admin.post('/admin/v1/keys/rewrap')).status).toBe(202);
  const unit = rewrapKeys(world.context);
  for (let step = 0; step < 50 && (await unit(new AbortController().signal)) === 'busy'; step += 1);
  const shown = JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
  expect(shown).toMatchObject({
    state: 'done',
    signingKeys: 1,
    objects: 1,
    failed: count + 1,
    lastFailure: { reason: expect.stringContaining('XksProxyUnreachable') },
  });
  // The pages have 8 rows at a time, and a call is made three times at most.
  expect(double.proxy.count('ReEncrypt')).toBeLessThan(count);
  double.setState(world.own, 'Enabled');
  await admin.post('/admin/v1/keys/rewrap');
  while ((await unit(new AbortController().signal)) === 'busy');
  const again = JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
  expect(again).toMatchObject({ state: 'done', signingKeys: 2, objects: count + 1, failed: 0 });
});

test('a service that takes no more calls stops the walk, which repeats the page', async () => {
  await using world = await openKmsWorld();
  expect(await world.put('/bucket/key', 'alias/main')).toEqual(served);
  const admin = world.as({ credential: operator });
  await admin.post('/admin/v1/keys/rewrap');
  const unit = rewrapKeys(world.context);
  const fault = { status: 400, body: JSON.stringify({ __type: 'ThrottlingException' }) };
  Object.assign(world.double.proxy, { fault, on: 'ReEncrypt' });
  const work = async () => {
    while ((await unit(new AbortController().signal)) === 'busy');
  };
  await expect(work()).rejects.toThrow(/Throttling/);
  world.double.proxy.fault = undefined;
  await work();
  const shown = JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
  expect(shown).toMatchObject({ state: 'done', objects: 1, failed: 0 });
});

test('an upload that is being completed is counted as failed, because it goes on with its former key', async () => {
  await using world = await openKmsWorld();
  const sse = { headers: provider(world.own) };
  const path = '/bucket/parts';
  const uploadId = (await world.client.post(`${path}?uploads`, sse)).one('UploadId') ?? '';
  const part = await putPart(world.client, path, { uploadId, number: 1, body: 'part' });
  const admin = world.as({ credential: operator });
  const walk = async () => {
    await admin.post('/admin/v1/keys/rewrap');
    while ((await rewrapKeys(world.context)(new AbortController().signal)) === 'busy');
    return JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
  };
  const { metadata } = world.context;
  const commit = metadata.commit.bind(metadata);
  let walked: unknown;
  metadata.commit = async (at, changes, ...rest) => {
    if (at.table.name === 'objects' && walked === undefined) {
      walked = {};
      walked = await walk();
    }
    return commit(at, changes, ...rest);
  };
  expect((await complete(world.client, path, { uploadId, parts: [part] })).status).toBe(200);
  expect(walked).toMatchObject({
    uploads: 0,
    objects: 0,
    failed: 1,
    lastFailure: { bucket: 'bucket', key: 'parts', reason: expect.stringContaining('is being completed') },
  });
  expect(await walk()).toMatchObject({ uploads: 0, objects: 1, failed: 0 });
  expect((await world.client.get(path)).text).toBe('part');
});

test('a version that other requests change each time is counted as failed, and the walk reaches the keys of others', async () => {
  await using world = await openKmsWorld();
  for (const key of ['hot', 'other']) expect(await world.put(`/bucket/${key}`, 'alias/main')).toEqual(served);
  const commit = world.context.metadata.commit.bind(world.context.metadata);
  const isHot = (change: object): boolean =>
    'put' in change && (change.put as { key?: string }).key === 'hot';
  const metadata = faulty(world.context.metadata, {
    commit: async (at, changes, ...rest) =>
      changes.some(isHot) ? { applied: false, because: 'conflict' } : commit(at, changes, ...rest),
  });
  const clock = faulty(world.context.clock, { sleep: async () => {} });
  const admin = world.as({ credential: operator });
  await admin.post('/admin/v1/keys/rewrap');
  const unit = rewrapKeys({ ...world.context, metadata, clock });
  while ((await unit(new AbortController().signal)) === 'busy');
  expect(JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text)).toMatchObject({
    state: 'done',
    objects: 1,
    failed: 1,
    lastFailure: { bucket: 'bucket', key: 'hot', reason: expect.stringContaining('SlowDown') },
  });
});

describe('a bucket whose row other requests change each time', () => {
  const openContended = async () => {
    const world = await openKmsWorld();
    for (const bucket of ['aaa', 'hot', 'zzz']) {
      expect((await world.client.put(`/${bucket}`)).status).toBe(200);
      await world.rotate({ bucket, keyId: 'alias/main' });
    }
    let isHot = true;
    const { context } = world;
    const metadata = faulty(context.metadata, {
      commit: async (at, changes, ...rest) =>
        isHot &&
        changes.some(
          (change) => 'put' in change && 'signingKey' in change.put && change.put['name'] === 'hot',
        )
          ? { applied: false, because: 'conflict' }
          : context.metadata.commit(at, changes, ...rest),
    });
    const clock = faulty(context.clock, { sleep: async () => {} });
    const admin = world.as({ credential: operator });
    const shown = async () => JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
    expect((await admin.post('/admin/v1/keys/rewrap')).status).toBe(202);
    const unit = rewrapKeys({ ...context, metadata, clock });
    const step = () => unit(new AbortController().signal);
    const calmDown = () => {
      isHot = false;
    };
    return Object.assign(world, { shown, step, calmDown });
  };

  test('is left, and the walk comes back to it after the others', async () => {
    await using world = await openContended();
    while ((await world.step()) === 'busy');
    expect(await world.shown()).toMatchObject({ state: 'running' });
    while ((await world.step()) === 'busy');
    expect(await world.shown()).toMatchObject({ state: 'running', signingKeys: 2, failed: 0 });
    world.calmDown();
    while ((await world.step()) === 'busy');
    expect(await world.shown()).toMatchObject({ state: 'done', signingKeys: 3, failed: 0, buckets: 4 });
  });

  test('counts as failed in the end', async () => {
    await using world = await openContended();
    for (let rests = 0; (await world.shown()).state === 'running'; rests += 1) {
      expect(rests).toBeLessThan(30);
      while ((await world.step()) === 'busy');
    }
    const lastFailure = { bucket: 'hot', reason: expect.stringContaining('OperationAborted') };
    expect(await world.shown()).toMatchObject({ signingKeys: 2, failed: 1, buckets: 4, lastFailure });
  });
});

describe.skipIf(noTransit !== undefined)('wrapping keys again', () => {
  test('every stored key is wrapped again under the current version, and the same secrets and contents stay', async () => {
    const key = await makeKey();
    const clock = virtualClock();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { clock });
    const { client } = world;
    const sse = { headers: provider() };
    await setVersioning(client, 'bucket', 'Enabled');
    for (const body of ['one', 'two']) await client.put('/bucket/key', { body, ...sse });
    await client.put('/bucket/plain', { body: 'plain' });
    await client.put('/bucket/gone', { body: 'gone', ...sse });
    await client.delete('/bucket/gone');
    const uploadId = (await client.post('/bucket/parts?uploads', sse)).one('UploadId') ?? '';
    const part = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' });
    const secretKey = await world.rotate();
    const signing = world.as({ credential: { ...alice, secretKey } });
    await engine(`keys/${key}/rotate`, {});

    const admin = world.as({ credential: operator });
    const asked = async () => JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
    const work = async () => {
      const begun = await admin.post('/admin/v1/keys/rewrap');
      expect([begun.status, JSON.parse(begun.text).state]).toEqual([202, 'running']);
      // Each step is another worker, as after a kill.
      while ((await rewrapKeys(world.context)(new AbortController().signal)) === 'busy');
      return asked();
    };
    expect((await admin.get('/admin/v1/keys/rewrap')).status).toBe(404);
    const counts = { state: 'done', buckets: 1, signingKeys: 1, objects: 3, uploads: 1, failed: 0 };
    expect(await work()).toMatchObject(counts);
    const tasks = JSON.parse((await admin.get('/admin/v1/tasks?kind=rewrap')).text).tasks;
    expect(tasks).toEqual([
      expect.objectContaining({ state: 'done', done: { count: 5 }, left: { count: 0 } }),
    ]);
    await engine(`keys/${key}/config`, { min_decryption_version: 2 });
    await clock.advance(3_600_000);
    const versions = (await signing.get('/bucket?versions')).all('VersionId');
    const texts: string[] = [];
    for (const id of versions) {
      const got = await signing.get(`/bucket/key?versionId=${id}`);
      if (got.status === 200) texts.push(got.text);
    }
    expect(texts.sort()).toEqual(['one', 'two']);
    const done = await complete(signing, '/bucket/parts', { uploadId, parts: [part] });
    expect(done.status).toBe(200);
    expect((await signing.get('/bucket/parts')).text).toBe('part');
    expect(await work()).toMatchObject({ signingKeys: 0, objects: 0, current: 5, failed: 0 });
    expect(
      (await auditRows(world.context)).filter(({ action }) => action === 'admin:RewrapKeys'),
    ).toHaveLength(2);
  });

  test('sluice admin keys rewrap --watch follows the walk to its end, over an engine that is away for a moment', async () => {
    const key = await makeKey();
    await using proxy = await openKeyProxy(server.port);
    const gateway = await serving([], {
      SVC_KEY_PROVIDER: 'transit',
      SVC_TRANSIT_ADDR: proxy.url,
      SVC_TRANSIT_TOKEN_FILE: await secretFile('root'),
      SVC_EGRESS_ALLOW: '127.0.0.1',
      SVC_KMS_DEFAULT_KEY_ID: key,
      SVC_PROCESSES: '1',
    });
    const [accessKey = '', secretKey = ''] = keysOf(gateway);
    const send = sender({ url: gateway.url, accessKey, secretKey });
    const sse = { headers: { 'x-amz-server-side-encryption': 'aws:kms' } };
    for (const path of ['/bucket', '/bucket/one', '/bucket/two'])
      expect((await send('PUT', path, path === '/bucket' ? {} : { body: 'x', ...sse })).status).toBe(200);
    await engine(`keys/${key}/rotate`, {});
    Object.assign(proxy, { fault: { status: 500 }, on: 'rewrap' });
    const watched = started(['admin', ...'keys rewrap --watch --json'.split(' ')], {
      SLUICE_ENDPOINT: gateway.url,
      SLUICE_ACCESS_KEY: accessKey,
      SLUICE_SECRET_KEY: secretKey,
    });
    await vi.waitFor(() => expect(watched.stderr).toContain('running'), 60_000);
    await vi.waitFor(() => expect(proxy.count('rewrap')).toBeGreaterThan(0), 60_000);
    proxy.fault = undefined;
    expect(await watched.ended).toBe(0);
    expect(JSON.parse(watched.stdout)).toMatchObject({ state: 'done', objects: 2, current: 0, failed: 0 });
    expect(watched.stderr).toMatch(/^((rewrap {2}[\d,]+( of [\d,]+)? versions {2}|running {2}).*\n)+$/);
  });

  test('a walk waits for an engine that is down, and counts what a key refuses', async () => {
    const [key, lost] = [await makeKey(), await makeKey()];
    await using world = await open({
      SVC_KMS_DEFAULT_KEY_ID: key,
      SVC_KEY_ACCOUNTS: JSON.stringify({ [lost]: ['*'] }),
      SVC_KEY_TIMEOUT: '5s',
    });
    for (const keyId of [key, lost])
      expect(
        (await world.client.put(`/bucket/${keyId}`, { body: 'x', headers: provider(keyId) })).status,
      ).toBe(200);
    await engine(`keys/${key}/rotate`, {});
    await engine(`keys/${lost}/rotate`, {});
    await engine(`keys/${lost}/config`, { min_decryption_version: 2 });
    const admin = world.as({ credential: operator });
    await admin.post('/admin/v1/keys/rewrap');
    const unit = rewrapKeys(world.context);
    const step = () => unit(new AbortController().signal);
    const shown = async () => JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text);
    Object.assign(world.proxy, { fault: { status: 500 }, on: `rewrap/${key}` });
    await expect(
      (async () => {
        while ((await step()) === 'busy');
      })(),
    ).rejects.toThrow(/500/);
    expect(await shown()).toMatchObject({ state: 'running', bucket: 'bucket', objects: 0 });
    world.proxy.fault = undefined;
    while ((await step()) === 'busy');
    expect(await shown()).toMatchObject({
      state: 'done',
      objects: 1,
      failed: 1,
      lastFailure: { bucket: 'bucket', key: lost, reason: expect.stringContaining('min_decryption_version') },
    });
  });

  test('rows that cannot hold a longer text are counted, and the walk goes on', async () => {
    const key = await makeKey();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key });
    const { client, context } = world;
    const sse = { headers: provider() };
    for (const name of ['full', 'later']) await client.put(`/bucket/${name}`, { body: name, ...sse });
    const uploadId = (await client.post('/bucket/parts?uploads', sse)).one('UploadId') ?? '';
    const found = await findBucket(context.metadata, 'bucket');
    const bucket = found?.row as BucketRow;
    const full = await findHead(context.metadata, bucket, 'full');
    const session = await findSession(context.metadata, uploadId);
    if (full === undefined || session?.row.session === undefined) throw new Error('not stored');
    // No request makes rows of this length; a text that grows by a digit of its version does.
    const padding = 'x'.repeat(commitLimits.rowBytes - 500 - JSON.stringify(full.row).length);
    const headers = { ...full.row.headers, user: { padding } };
    const change = { put: { ...full.row, headers }, expect: full.revision };
    expect((await context.metadata.commit(objectsAt(bucket), [change])).applied).toBe(true);
    const commit = context.metadata.commit.bind(context.metadata);
    context.metadata.commit = async (at, changes, ...rest) => {
      if (at.table.name === 'uploads') throw new RowTooLong('a row of uploads is too long');
      return commit(at, changes, ...rest);
    };
    await engine(`keys/${key}/rotate`, {});
    const admin = world.as({ credential: operator });
    await admin.post('/admin/v1/keys/rewrap');
    let steps = 0;
    while ((await rewrapKeys(context)(new AbortController().signal)) === 'busy' && steps < 50) steps += 1;
    expect(JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text)).toMatchObject({
      state: 'done',
      objects: 1,
      uploads: 0,
      failed: 2,
      lastFailure: { bucket: 'bucket', key: 'full', reason: expect.stringContaining('InvalidRequest') },
    });
    expect((await client.get('/bucket/full')).text).toBe('full');
  });

  test('a body that arrives while its signing key is wrapped again is stored', async () => {
    const key = await makeKey();
    const clock = virtualClock();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { clock });
    const secretKey = await world.rotate();
    await engine(`keys/${key}/rotate`, {});
    const put = await world.as({ credential: { ...alice, secretKey } }).put('/bucket/slow', {
      body: 'body',
      async *arriving(body) {
        yield body.subarray(0, 1);
        await world.as({ credential: operator }).post('/admin/v1/keys/rewrap');
        while ((await rewrapKeys(world.context)(new AbortController().signal)) === 'busy');
        await clock.advance(2_000);
        yield body.subarray(1);
      },
    });
    expect([put.status, put.code]).toEqual([200, '']);
  });
});
