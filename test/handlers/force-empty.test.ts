/** Operators empty a bucket: all versions but those under Object Lock, with a report of the rest. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { emptyBuckets } from '../../src/workers/buckets.ts';
import { ambush } from '../support/ambush.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { bypass, heldUntil, legalHold, openLocked, putVersion } from '../support/locks.ts';
import { auditRows, inShort } from '../support/recorded.ts';

const at = '/admin/v1/buckets/bucket/force-empty';
const asked = async (world: GatewayWorld) => JSON.parse((await asOperator(world).get(at)).text);
const asOperator = (world: GatewayWorld) => world.as({ credential: operator });

async function begin(world: GatewayWorld) {
  const reply = await asOperator(world).post(at);
  expect(reply.status, reply.text).toBe(202);
  return JSON.parse(reply.text);
}
async function work(context: Context): Promise<void> {
  const unit = emptyBuckets(context);
  while ((await unit(new AbortController().signal)) === 'busy');
}
const versioned = async (world: GatewayWorld) => {
  await world.client.put('/bucket');
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await world.client.put('/bucket?versioning', { body });
};

describe.each(backends)('force-empty: %s', (backend) => {
  test('removes versions, delete markers and uploads, and their chunks', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/null', { body: 'before versioning' });
    await versioned(world);
    for (const body of ['one', 'two', 'three']) await client.put('/bucket/key', { body });
    await client.put('/bucket/null', { body: 'on top' });
    await client.put('/bucket/gone', { body: 'x' });
    await client.delete('/bucket/gone');
    const upload = (await client.post('/bucket/parts?uploads')).one('UploadId');
    await client.put(`/bucket/parts?uploadId=${upload}&partNumber=1`, { body: 'part' });

    expect(await begin(world)).toMatchObject({ state: 'running', deleted: { versions: 0 } });
    await work(world.context);
    expect(await asked(world)).toMatchObject({
      state: 'done',
      empty: true,
      deleted: { versions: 6, markers: 1, uploads: 1 },
      kept: 0,
    });
    expect((await client.get('/bucket?versions')).all('Key')).toEqual([]);
    expect((await client.get('/bucket?uploads')).all('Key')).toEqual([]);
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect((await client.delete('/bucket')).status).toBe(204);
  });

  test('keeps versions under Object Lock, and reports how many (attack 8)', async () => {
    await using world = await openLocked(backend);
    const { client } = world;
    const held = [
      await putVersion(client, '/bucket/compliance', heldUntil('COMPLIANCE', world.inDays(1))),
      await putVersion(client, '/bucket/governance', heldUntil('GOVERNANCE', world.inDays(1))),
      await putVersion(client, '/bucket/hold', { '*-object-lock-legal-hold': 'ON' }),
    ];
    await putVersion(client, '/bucket/hold');
    await client.delete('/bucket/compliance');
    await putVersion(client, '/bucket/free');
    const reply = await asOperator(world).post(at, { headers: bypass });
    expect(reply.status).toBe(202);
    await work(world.context);
    expect(await asked(world)).toMatchObject({ empty: false, deleted: { versions: 2, markers: 1 }, kept: 3 });
    expect((await client.get('/bucket?versions')).all('VersionId').toSorted()).toEqual(held.toSorted());
    await world.gc();
    for (const [i, key] of ['compliance', 'governance', 'hold'].entries())
      expect((await client.get(`/bucket/${key}?versionId=${held[i]}`)).text).toBe('content');

    await client.put(`/bucket/hold?legal-hold&versionId=${held[2]}`, { body: legalHold('OFF') });
    world.clock.jump(2 * 86_400_000);
    expect(await begin(world)).toMatchObject({ state: 'running', kept: 0 });
    await work(world.context);
    expect(await asked(world)).toMatchObject({ empty: true, kept: 0 });
  });

  test('keeps versions that writers add meanwhile, and reports that something is left', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'seen' });
    await begin(world);
    rightBefore('objects', () => client.put('/bucket/key', { body: 'newer' }));
    await work(world.context);
    expect(await asked(world)).toMatchObject({ state: 'done', empty: false, deleted: { versions: 0 } });
    expect((await client.get('/bucket/key')).text).toBe('newer');
  });
});

test('a hold that is placed in the middle wins', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openLocked('memory', { wrap });
  const version = await putVersion(world.client, '/bucket/key');
  await begin(world);
  const hold = { body: legalHold('ON') };
  rightBefore('objects', () => world.client.put(`/bucket/key?legal-hold&versionId=${version}`, hold));
  await work(world.context);
  expect(await asked(world)).toMatchObject({ empty: false, kept: 1 });
  expect((await world.client.get('/bucket/key')).text).toBe('content');
});

test('resumes after a kill at any commit, and processes no bucket twice', async () => {
  for (let killedAt = 1; killedAt < 12; killedAt += 1) {
    await using world = await openGateway();
    await versioned(world);
    for (const key of ['a', 'b', 'c']) await world.client.put(`/bucket/${key}`, { body: key });
    await world.client.delete('/bucket/b');
    await begin(world);
    let commits = 0;
    const { metadata } = world.context;
    const dying: Context = {
      ...world.context,
      metadata: {
        ...metadata,
        commit: (...given) => {
          commits += 1;
          return commits >= killedAt ? Promise.reject(new Error('killed')) : metadata.commit(...given);
        },
      },
    };
    await work(dying).catch(() => undefined);
    await work(world.context);
    expect(await asked(world)).toMatchObject({ state: 'done', empty: true });
    expect((await world.client.get('/bucket?versions')).all('Key')).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  }
});

test('reports progress between pages', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (let i = 0; i < 300; i += 1) await world.client.put(`/bucket/${i}`, { body: '' });
  await begin(world);
  const unit = emptyBuckets(world.context);
  // Three units: uploads, history, and the first page of live objects.
  for (let i = 0; i < 3; i += 1) await unit(new AbortController().signal);
  expect(await asked(world)).toMatchObject({ state: 'running', deleted: { versions: 256 } });
  // A second request during the run does not start another one.
  expect(await begin(world)).toMatchObject({ state: 'running', deleted: { versions: 256 } });
  await work(world.context);
  expect(await asked(world)).toMatchObject({ state: 'done', deleted: { versions: 300 } });
});

test('ends between two pages where an operator cancels it, and can be begun again', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (let i = 0; i < 300; i += 1) await world.client.put(`/bucket/${i}`, { body: '' });
  expect((await asOperator(world).delete(at)).status).toBe(404);
  await begin(world);
  const unit = emptyBuckets(world.context);
  for (let i = 0; i < 3; i += 1) await unit(new AbortController().signal);
  expect((await world.client.delete(at)).status).toBe(403);
  const reply = await asOperator(world).delete(at);
  expect(reply.status, reply.text).toBe(200);
  const cancelled = { state: 'done', isCancelled: true, deleted: { versions: 256 } };
  expect(JSON.parse(reply.text)).toMatchObject(cancelled);
  await work(world.context);
  expect(await asked(world)).toMatchObject(cancelled);
  expect(await asked(world)).not.toHaveProperty('empty');
  expect(await world.usage('bucket')).toMatchObject({ objects: 44 });
  // A retry of the request finds that it has ended.
  expect((await asOperator(world).delete(at)).status).toBe(200);
  const rows = (await auditRows(world.context))
    .map(inShort)
    .filter((row) => row.includes('CancelForceEmpty'));
  expect(rows.filter((row) => row.endsWith('200'))).toHaveLength(2);
  await begin(world);
  await work(world.context);
  expect(await asked(world)).toMatchObject({ state: 'done', empty: true, deleted: { versions: 44 } });
});

test('a page that is being deleted while an operator cancels is the last one, also of other buckets that are cancelled', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  const names = ['bucket', 'other'];
  const of = (name: string) => `/admin/v1/buckets/${name}/force-empty`;
  for (const name of names) {
    await world.client.put(`/${name}`);
    for (let i = 0; i < 300; i += 1) await world.client.put(`/${name}/${i}`, { body: '' });
    expect((await asOperator(world).post(of(name))).status).toBe(202);
  }
  const unit = emptyBuckets(world.context);
  // The uploads of both, which are none.
  await unit(new AbortController().signal);
  rightBefore('objects', async () => {
    for (const name of names) expect((await asOperator(world).delete(of(name))).status).toBe(200);
  });
  await work(world.context);
  for (const name of names) {
    const { text } = await asOperator(world).get(of(name));
    expect(JSON.parse(text)).toMatchObject({ state: 'done', isCancelled: true });
  }
  const left = await Promise.all(names.map(async (name) => (await world.usage(name)).objects));
  expect(left.sort()).toEqual([300, 44]);
});

test('is for operators, for buckets that are there, and is audited', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  for (const client of [world.client, world.bob, world.anonymous]) {
    expect((await client.post(at)).status).toBe(403);
    expect((await client.get(at)).status).toBe(403);
  }
  expect((await asOperator(world).get(at)).status).toBe(404);
  expect((await asOperator(world).post('/admin/v1/buckets/absent/force-empty')).status).toBe(404);
  await work(world.context);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
  await begin(world);
  const rows = (await auditRows(world.context)).map(inShort).filter((row) => row.startsWith('admin:'));
  expect(rows.filter((row) => row.endsWith('202'))).toEqual([expect.stringContaining('ForceEmptyBucket')]);
  expect(rows.filter((row) => row.includes('403'))).toHaveLength(3);
});

test('keeps the versions of a bucket with MFA delete', async () => {
  await using world = await openGateway();
  await versioned(world);
  await world.client.put('/bucket/key', { body: 'x' });
  const { findBucket, replaceBucket } = await import('../../src/metadata/buckets/buckets.ts');
  const guard = async (mfaDelete: boolean) => {
    const found = await findBucket(world.context.metadata, 'bucket');
    if (found) await replaceBucket(world.context.metadata, found, { ...found.row, mfaDelete });
  };
  await guard(true);
  expect((await asOperator(world).post(at)).status).toBe(403);
  await guard(false);
  await begin(world);
  await guard(true);
  await work(world.context);
  expect(await asked(world)).toMatchObject({ empty: false, kept: 1 });
});
