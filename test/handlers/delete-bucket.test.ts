/** DeleteBucket: only of an empty bucket, and without a race against writes. @storage */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { faulty } from '../support/faulty.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { jittering } from '../support/jitter.ts';

describe.each(backends)('on %s', (backend) => {
  test('an object, an old version and a delete marker each keep a bucket; nothing does not', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    const refused = async () => {
      const reply = await client.delete('/bucket');
      expect([reply.status, reply.code]).toEqual([409, 'BucketNotEmpty']);
    };
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    await refused();
    expect((await client.get('/bucket/key')).text).toBe('x');
    expect((await client.put('/bucket/key2', { body: 'still writable' })).status).toBe(200);
    await client.delete('/bucket/key2');
    await setVersioning(client, 'bucket', 'Enabled');
    const marker = (await client.delete('/bucket/key')).header('*-version-id') ?? '';
    await refused();
    await client.delete('/bucket/key?versionId=null');
    await refused();
    await client.delete(`/bucket/key?versionId=${marker}`);
    const gone = await client.delete('/bucket');
    expect([gone.status, gone.text]).toEqual([204, '']);
    expect((await client.delete('/bucket')).code).toBe('NoSuchBucket');
    expect((await client.put('/bucket/key', { body: 'x' })).code).toBe('NoSuchBucket');
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('open uploads do not keep it: they are aborted and their parts deleted', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const uploadId = await createUpload(world.client, '/bucket/key');
    const parts = [await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'part' })];
    expect((await world.client.delete('/bucket')).status).toBe(204);
    await world.client.put('/bucket');
    expect((await complete(world.client, '/bucket/key', { uploadId, parts })).code).toBe('NoSuchUpload');
    expect((await world.client.get('/bucket?uploads')).all('UploadId')).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('a new bucket of the same name is another bucket', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    await world.client.delete('/bucket/key');
    await world.client.delete('/bucket');
    expect((await world.bob.put('/bucket')).status).toBe(200);
    expect((await world.bob.get('/bucket')).all('Key')).toEqual([]);
    expect((await world.client.get('/bucket')).status).toBe(403);
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
  });

  test("another account's bucket stays", async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    expect((await world.bob.delete('/bucket')).status).toBe(403);
    expect((await world.client.head('/bucket')).status).toBe(200);
  });
});

describe.each(backends)('races on %s', (backend) => {
  test('of a PUT and a concurrent DeleteBucket at most one succeeds', async () => {
    await using world = await openGateway({ backend, wrap: jittering(7) });
    const { client } = world;
    const seen = { put: 0, deleted: 0, neither: 0 };
    for (let round = 0; round < 60; round += 1) {
      const path = `/bucket${round}`;
      await client.put(path);
      // Which of the two wins where both start together depends on the machine and the store, so each starts later in some rounds.
      const putLater = async () => {
        await sleep((round % 4) * 8);
        return client.put(`${path}/key`, { body: 'content' });
      };
      const deleteLater = async () => {
        await sleep((round % 3) * 8);
        return client.delete(path);
      };
      const [put, deleted] = await Promise.all([putLater(), deleteLater()]);
      expect([200, 404, 409], put.text).toContain(put.status);
      expect([204, 409], deleted.text).toContain(deleted.status);
      const wasPut = put.status === 200;
      const wasDeleted = deleted.status === 204;
      expect(wasPut && wasDeleted).toBe(false);
      seen[wasPut ? 'put' : wasDeleted ? 'deleted' : 'neither'] += 1;
      expect((await client.get(`${path}/key`)).status).toBe(wasPut ? 200 : 404);
      if (!wasPut) expect((await client.head(path)).status).toBe(wasDeleted ? 404 : 200);
      // After either outcome the bucket can be created and used.
      await client.put(path);
      expect((await client.put(`${path}/key`, { body: 'content' })).status).toBe(200);
    }
    expect(seen.put).toBeGreaterThan(0);
    expect(seen.deleted).toBeGreaterThan(0);
    await world.gc();
    expect(await world.stored()).toHaveLength(60);
  });

  test('DeleteBucket on a bucket in use does not disturb its writers', async () => {
    await using world = await openGateway({ backend, wrap: jittering(17) });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/first', { body: 'content' });
    const writers = Array.from({ length: 20 }, (_, i) => client.put(`/bucket/key${i}`, { body: 'content' }));
    const deleters = Array.from({ length: 10 }, () => client.delete('/bucket'));
    for (const reply of await Promise.all(deleters)) expect(reply.code).toBe('BucketNotEmpty');
    for (const reply of await Promise.all(writers)) expect(reply.status).toBe(200);
  });

  test('an upload and a concurrent DeleteBucket leave no bytes without an owner', async () => {
    await using world = await openGateway({ backend, wrap: jittering(11) });
    const { client } = world;
    for (let round = 0; round < 30; round += 1) {
      const path = `/bucket${round}`;
      await client.put(path);
      const upload = (async () => {
        const created = await client.post(`${path}/key?uploads`);
        const uploadId = created.one('UploadId');
        if (uploadId === undefined) return created;
        const part = await client.put(`${path}/key`, {
          query: { uploadId, partNumber: '1' },
          body: 'content',
        });
        if (part.status !== 200) return part;
        return complete(client, `${path}/key`, {
          uploadId,
          parts: [{ number: 1, etag: part.header('etag') ?? '' }],
        });
      })();
      const [done, deleted] = await Promise.all([upload, client.delete(path)]);
      expect(done.status === 200 && deleted.status === 204).toBe(false);
      expect([204, 409], deleted.text).toContain(deleted.status);
      expect([200, 404, 409], done.text).toContain(done.status);
      if (done.status === 200) await client.delete(`${path}/key`);
      const again = await client.delete(path);
      expect([204, 404], `${done.text} ${deleted.text} ${again.text}`).toContain(again.status);
    }
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('a CreateBucket that races a DeleteBucket and answers 200 has the bucket', async () => {
    await using world = await openGateway({ backend, wrap: jittering(3) });
    const { client } = world;
    for (let round = 0; round < 40; round += 1) {
      await client.put('/bucket');
      const [created, deleted] = await Promise.all([client.put('/bucket'), client.delete('/bucket')]);
      expect([200, 409]).toContain(created.status);
      expect([204, 409]).toContain(deleted.status);
      const there = (await client.head('/bucket')).status;
      if (deleted.status !== 204) expect(there).toBe(200);
      expect((await client.put('/bucket')).status).toBe(200);
    }
  });
});

test.each([0, 1])('a deleter that died leaves a bucket that opens again (fence %i)', async (fenced) => {
  const { virtualClock } = await import('../support/virtual-clock.ts');
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const { client } = world;
  await client.put('/bucket');
  const { findBucket, replaceBucket } = await import('../../src/metadata/buckets/buckets.ts');
  const { objectsAt } = await import('../../src/metadata/objects/objects.ts');
  const { metadata } = world.context;
  const found = await findBucket(metadata, 'bucket');
  if (found === undefined) throw new Error('no bucket');
  const closed = { ...found.row, closedAt: clock.now(), generation: found.row.generation + 1 };
  await replaceBucket(metadata, found, closed);
  await metadata.raiseFence(objectsAt(closed), found.row.generation + 2 * fenced);
  let isAnswered = false;
  const refused = client.put('/bucket/key', { body: 'x' }).finally(() => {
    isAnswered = true;
  });
  // The PUT retries for a short time, in case the deletion is undone.
  while (!isAnswered) await clock.advance(25);
  expect((await refused).code).toBe('OperationAborted');
  expect(clock.elapsed()).toBeLessThan(5_000);
  clock.jump(31_000);
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
});

describe.each(backends)('writers and deleters on %s', (backend) => {
  test('a writer waits a bounded time for a DeleteBucket that reopens the bucket', async () => {
    let meanwhile = async (): Promise<unknown> => undefined;
    const clock = faulty(systemClock, { sleep: () => meanwhile().then(() => undefined) });
    await using world = await openGateway({ backend, wrap: (context) => ({ ...context, clock }) });
    const { client, context } = world;
    const { metadata } = context;
    await client.put('/bucket');
    const close = async () => {
      const found = await findBucket(metadata, 'bucket');
      if (found === undefined) throw new Error('no bucket');
      const generation = found.row.generation + 1;
      const row = { ...found.row, closedAt: await metadata.now(), generation };
      const outcome = await replaceBucket(metadata, found, row);
      await metadata.raiseFence(objectsAt(row), generation + 1);
      if (!outcome.applied) throw new Error('not closed');
      return { row, revision: outcome.revision };
    };
    const { row, revision } = await close();
    const opened = { ...row, closedAt: 0, generation: row.generation + 1 };
    meanwhile = async () => {
      meanwhile = async () => undefined;
      await replaceBucket(metadata, { row, revision }, opened);
    };
    expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
    await close();
    const refused = await client.put('/bucket/key', { body: 'y' });
    expect([refused.status, refused.code]).toEqual([409, 'OperationAborted']);
    expect((await client.get('/bucket/key')).text).toBe('x');
  });
});
