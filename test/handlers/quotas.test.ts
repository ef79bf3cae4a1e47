/** Hard quotas of buckets and accounts: what may be stored never exceeds them, and deletes are never refused. @storage */
import { describe, expect, test, vi } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { faulty } from '../support/faulty.ts';
import { alice, backends, person } from '../support/gateway.ts';
import {
  bytesOf,
  complete,
  createUpload,
  deletion,
  MiB,
  putPart,
  setVersioning,
} from '../support/gateway-bodies.ts';
import { openClient } from '../support/gateway-client.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { openQuotas, type QuotaWorld, refusedFor, ten } from '../support/quota-world.ts';

describe.each(backends)('quotas: %s', (backend) => {
  test('a bucket takes bytes up to its quota, and again what was deleted', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    await world.limit({ maxBytes: 25 });
    expect((await client.put('/bucket/a', { body: ten })).status).toBe(200);
    expect((await client.put('/bucket/b', { body: ten })).status).toBe(200);
    expect(await client.put('/bucket/c', { body: ten })).toMatchObject(refusedFor('bucket'));
    expect((await client.put('/bucket/c', { body: 'five.' })).status).toBe(200);
    expect(await client.put('/bucket/d', { body: 'x' })).toMatchObject(refusedFor('bucket'));
    expect((await client.delete('/bucket/a')).status).toBe(204);
    expect((await client.put('/bucket/d', { body: ten })).status).toBe(200);
    expect(await world.usage('bucket')).toEqual({ bytes: 25, objects: 3 });
  });

  test('gateways that write at the same moment fill a bucket and never exceed its quota', async () => {
    await using world = await openQuotas({ backend });
    await world.limit({ maxBytes: 1_005, maxObjects: 1_000 });
    const clients = world.gateways(4);
    const write = (n: number) => clients[n % clients.length]?.put(`/bucket/k${n}`, { body: ten });
    const statuses = (await Promise.all(Array.from({ length: 160 }, (_, n) => write(n)))).map(
      (answer) => answer?.status,
    );
    const stored = statuses.filter((status) => status === 200).length;
    expect(new Set(statuses)).toEqual(new Set([200, 403]));
    expect(await world.usage('bucket')).toEqual({ bytes: stored * 10, objects: stored });
    expect(stored).toBeLessThanOrEqual(100);
    // One gateway gets what the others gave back.
    for (let n = 0; n < 100 - stored; n += 1)
      expect((await clients[0]?.put(`/bucket/rest${n}`, { body: ten }))?.status).toBe(200);
    expect(await clients[1]?.put('/bucket/more', { body: ten })).toMatchObject(refusedFor('bucket'));
    expect(await world.usage('bucket')).toEqual({ bytes: 1_000, objects: 100 });
  });

  test('the buckets of an account share its quota, with what they held before', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    await client.put('/other');
    await client.put('/bucket/old', { body: ten });
    await world.limitUser({ totalMaxBytes: 30 });
    await client.put('/new');
    expect((await client.put('/other/a', { body: ten })).status).toBe(200);
    expect((await client.put('/new/b', { body: ten })).status).toBe(200);
    expect(await client.put('/bucket/c', { body: 'x' })).toMatchObject(refusedFor('user'));
    await client.delete('/bucket/old');
    expect((await client.put('/new/c', { body: ten })).status).toBe(200);
    expect(await client.put('/other/d', { body: 'x' })).toMatchObject(refusedFor('user'));
    expect((await world.bob.put('/bobs')).status).toBe(200);
    expect((await world.bob.put('/bobs/a', { body: ten.repeat(10) })).status).toBe(200);
  });

  test('an account that creates buckets in parallel never gets more than its quota', async () => {
    await using world = await openQuotas({ backend });
    await world.limitUser({ maxBuckets: 4 });
    const clients = world.gateways(2);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => clients[n % 2]?.put(`/bucket-${n}`)),
    );
    const statuses = answers.map((answer) => answer?.status);
    expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(3);
    expect((await world.client.get('/')).all('Bucket').length + 1).toBeLessThanOrEqual(5);
    for (const [n, status] of statuses.entries())
      if (status === 200) expect((await world.client.delete(`/bucket-${n}`)).status).toBe(204);
    for (const name of ['b', 'c', 'd']) expect((await world.client.put(`/more-${name}`)).status).toBe(200);
    expect(await world.client.put('/more-e')).toMatchObject(refusedFor('user'));
    // The same owner creates an existing bucket again.
    expect((await world.client.put('/more-d')).status).toBe(200);
  });
});

test('the number of objects is limited, and an overwrite adds none', async () => {
  await using world = await openQuotas();
  const { client } = world;
  await world.limit({ maxObjects: 2 });
  for (const key of ['a', 'b', 'a', 'b'])
    expect((await client.put(`/bucket/${key}`, { body: 'x' })).status).toBe(200);
  expect(await client.put('/bucket/c', { body: '' })).toMatchObject(refusedFor('bucket'));
  await setVersioning(client, 'bucket', 'Enabled');
  expect(await client.put('/bucket/a', { body: '' })).toMatchObject(refusedFor('bucket'));
  // A marker is no object, and a permanent deletion makes room.
  expect((await client.delete('/bucket/a')).status).toBe(204);
  expect((await client.delete('/bucket/a?versionId=null')).status).toBe(204);
  expect((await client.put('/bucket/c', { body: '' })).status).toBe(200);
});

test('an overwrite needs room for the difference only, and versions add up', async () => {
  await using world = await openQuotas();
  const { client } = world;
  await world.limit({ maxBytes: 15 });
  expect((await client.put('/bucket/a', { body: ten })).status).toBe(200);
  expect((await client.put('/bucket/a', { body: 'fifteen bytes!!' })).status).toBe(200);
  expect(await client.put('/bucket/a', { body: 'sixteen bytes!!!' })).toMatchObject(refusedFor('bucket'));
  expect((await client.put('/bucket/a', { body: ten })).status).toBe(200);
  await setVersioning(client, 'bucket', 'Enabled');
  expect(await client.put('/bucket/a', { body: ten })).toMatchObject(refusedFor('bucket'));
  expect((await client.put('/bucket/a', { body: 'five.' })).status).toBe(200);
});

test('a refused write is refused before its body is read, and stores nothing', async () => {
  await using world = await openQuotas();
  await world.limit({ maxBytes: 5 });
  let isRead = false;
  const answer = await world.client.put('/bucket/a', {
    body: ten,
    async *arriving(body) {
      isRead = true;
      yield body;
    },
  });
  expect(answer).toMatchObject(refusedFor('bucket'));
  expect(isRead).toBe(false);
  expect(await world.stored()).toEqual([]);
});

test('parts are refused where the bucket has no room, and an open upload completes in the room of its parts', async () => {
  await using world = await openQuotas();
  const { client } = world;
  await world.limit({ maxBytes: 6 * MiB });
  const uploadId = await createUpload(client, '/bucket/a');
  const part = await putPart(client, '/bucket/a', { uploadId, number: 1, body: bytesOf(4 * MiB) });
  const other = await createUpload(client, '/bucket/b');
  for (const [path, id] of [
    ['/bucket/a', uploadId],
    ['/bucket/b', other],
  ] as const) {
    const query = { uploadId: id, partNumber: '2' };
    expect(await client.put(path, { query, body: bytesOf(3 * MiB) })).toMatchObject(refusedFor('bucket'));
  }
  expect((await complete(client, '/bucket/a', { uploadId, parts: [part] })).status).toBe(200);
  expect(await world.usage('bucket')).toEqual({ bytes: 4 * MiB, objects: 1 });
  await client.delete('/bucket/a');
  const again = await putPart(client, '/bucket/b', { uploadId: other, number: 1, body: bytesOf(6 * MiB) });
  expect((await complete(client, '/bucket/b', { uploadId: other, parts: [again] })).status).toBe(200);
});

test('a form upload is cut off where its file exceeds the room', async () => {
  await using world = await openQuotas();
  await world.limit({ maxBytes: 100 });
  const signed = signForm(alice, { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] });
  const post = (file: string) =>
    world.anonymous.post('/bucket', {
      body: encodeForm([...fieldsOf({ key: 'k', ...signed }), fileOf(file)]),
      headers: multipart(),
    });
  expect(await post('x'.repeat(101))).toMatchObject(refusedFor('bucket'));
  expect((await post('x'.repeat(100))).status).toBe(204);
  expect(await world.usage('bucket')).toEqual({ bytes: 100, objects: 1 });
});

test('deletes and configurations are never refused, also when the quota is below what is stored', async () => {
  await using world = await openQuotas();
  const { client } = world;
  for (const key of ['a', 'b', 'c']) await client.put(`/bucket/${key}`, { body: ten });
  await world.limit({ maxBytes: 1 });
  expect(await client.put('/bucket/d', { body: '' })).toMatchObject(refusedFor('bucket'));
  await world.limit({ maxBytes: 1, maxObjects: 1 });
  await world.limitUser({ totalMaxBytes: 1 });
  expect(await client.put('/bucket/d', { body: '' })).toMatchObject(refusedFor('bucket'));
  // An overwrite that adds nothing is no new byte.
  expect((await client.put('/bucket/a', { body: 'ten other.' })).status).toBe(200);
  expect(await client.put('/bucket/a', { body: 'eleven byte' })).toMatchObject(refusedFor('bucket'));
  expect(
    (
      await client.put('/bucket/a?tagging', {
        body: '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>',
      })
    ).status,
  ).toBe(200);
  expect((await client.post('/bucket?delete', { body: deletion(['a', 'b']) })).status).toBe(200);
  expect((await client.delete('/bucket/c')).status).toBe(204);
  expect(await client.put('/bucket/d', { body: 'xx' })).toMatchObject(refusedFor('bucket'));
  expect((await client.put('/bucket/d', { body: 'x' })).status).toBe(200);
});

test('a write that began before its quota was set is judged by it', async () => {
  await using world = await openQuotas();
  const answer = await world.client.put('/bucket/a', {
    body: ten,
    async *arriving(body) {
      await world.limit({ maxBytes: 5 });
      yield body;
    },
  });
  expect(answer).toMatchObject(refusedFor('bucket'));
  expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
});

test('a write that began before its quota was lowered or removed is judged by the present one', async () => {
  await using world = await openQuotas();
  await world.limit({ maxBytes: 100 });
  const during = (change: () => Promise<unknown>) =>
    world.client.put('/bucket/a', {
      body: ten,
      async *arriving(body) {
        await change();
        yield body;
      },
    });
  expect(await during(() => world.limit({ maxBytes: 5 }))).toMatchObject(refusedFor('bucket'));
  await world.limit({ maxBytes: 100 });
  expect((await during(() => world.admin.delete('/admin/v1/buckets/bucket/quota'))).status).toBe(200);
  expect((await world.client.put('/bucket/b', { body: ten.repeat(100) })).status).toBe(200);
});

test('gateways that go on with small writes keep no room from a large one', async () => {
  await using world = await openQuotas();
  await world.limit({ maxBytes: 1_000_000 });
  const [large, ...small] = world.gateways(4);
  let isOver = false;
  const writing = small.map(async (client, at) => {
    for (let n = 0; !isOver; n += 1) {
      await client.put(`/bucket/${at}/${n}`, { body: 'x' });
      // A store in memory never waits, so timers would not run.
      await systemClock.sleep(10);
    }
  });
  await vi.waitFor(async () => expect((await world.usage('bucket')).objects).toBeGreaterThan(30), {
    timeout: 60_000,
  });
  const { status, text } = (await large?.put('/bucket/large', { body: 'x'.repeat(900_000) })) ?? {};
  isOver = true;
  await Promise.all(writing);
  expect([status, text]).toEqual([200, '']);
});

test('the room of a process that died becomes free', async () => {
  let now = Date.UTC(2026, 0, 1);
  await using world = await openQuotas({ clock: { ...systemClock, now: () => now } });
  await world.limit({ maxBytes: 800 });
  const [other, alive] = world.gateways(2);
  const reached = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  // A gateway that holds room for a write and does not renew it any more.
  const stalled = {
    ...world.context,
    caches: new Caches(),
    clock: { ...world.context.clock, sleep: () => held.promise },
  };
  const late = openClient(createGateway(stalled), world.context.clock, { credential: alice }).put(
    '/bucket/late',
    {
      body: 'x'.repeat(700),
      async *arriving(body) {
        reached.resolve();
        await held.promise;
        yield body;
      },
    },
  );
  // A body is read once it has room. A probe that came first would take that room, and the stalled gateway would wait for it forever.
  await reached.promise;
  expect(await other?.put('/bucket/probe', { body: 'x'.repeat(200) })).toMatchObject(refusedFor('bucket'));
  now += 6_000;
  expect((await alive?.put('/bucket/key', { body: 'x'.repeat(700) }))?.status).toBe(200);
  held.resolve();
  // Its room was given to another write meanwhile.
  expect(await late).toMatchObject(refusedFor('bucket'));
  expect(await world.usage('bucket')).toEqual({ bytes: 700, objects: 1 });
});

test('a bucket takes writes while, and after, its gateway gives back what writes did not use', async () => {
  await using world = await openQuotas();
  await world.limit({ maxBytes: 1_000 });
  const signed = signForm(alice, { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] });
  for (const pauseMs of [0, 600, 1_200, 600]) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    expect((await world.client.put(`/bucket/after-${pauseMs}`, { body: ten })).status).toBe(200);
    const form = { body: encodeForm([...fieldsOf({ key: 'k', ...signed }), fileOf('x'.repeat(1_001))]) };
    expect(await world.anonymous.post('/bucket', { ...form, headers: multipart() })).toMatchObject(
      refusedFor('bucket'),
    );
  }
  expect(await world.usage('bucket')).toEqual({ bytes: 30, objects: 3 });
});

/** A gateway on which commits of objects fail without an answer while `fails` says so: some are applied, the others are not. */
async function openUnanswered() {
  const fails = { which: 'none' as 'none' | 'applied' | 'lost' };
  const world = await openQuotas({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          if (at.table.name !== 'objects' || fails.which === 'none')
            return context.metadata.commit(at, changes, options);
          if (fails.which === 'applied') await context.metadata.commit(at, changes, options);
          throw new StoreUnavailable('no answer');
        },
      }),
    }),
  });
  return Object.assign(world, { fails });
}

test('the room of a commit with an unknown outcome is free again once the outcome is certain', async () => {
  await using world = await openUnanswered();
  await world.limit({ maxBytes: 15 });
  world.fails.which = 'lost';
  expect((await world.client.put('/bucket/a', { body: ten })).status).toBe(503);
  world.fails.which = 'none';
  expect((await world.client.put('/bucket/b', { body: ten })).status).toBe(200);
  expect(await world.client.put('/bucket/c', { body: ten })).toMatchObject(refusedFor('bucket'));
});

test.each([
  ['bucket', (world: QuotaWorld) => world.limit({ maxBytes: 35 })],
  ['user', (world: QuotaWorld) => world.limitUser({ totalMaxBytes: 35 })],
] as const)(
  'commits that applied and were not answered count under the quota of the %s',
  async (of, limit) => {
    await using world = await openUnanswered();
    await limit(world);
    world.fails.which = 'applied';
    for (const key of ['a', 'b'])
      expect((await world.client.put(`/bucket/${key}`, { body: ten })).status).toBe(503);
    world.fails.which = 'none';
    expect((await world.client.put('/bucket/c', { body: ten })).status).toBe(200);
    expect(await world.client.put('/bucket/d', { body: ten })).toMatchObject(refusedFor(of));
    expect((await world.client.put('/bucket/e', { body: 'five.' })).status).toBe(200);
    expect(await world.usage('bucket')).toEqual({ bytes: 35, objects: 4 });
  },
);

test('a part on its way keeps its room while the room of a failed commit is freed', async () => {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let isFailing = false;
  await using world = await openQuotas({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          if (isFailing && at.table.name === 'objects') throw new StoreUnavailable('no answer');
          if (at.table.name === 'uploads' && JSON.stringify(changes).includes('"stored"')) {
            reached.resolve();
            await released.promise;
          }
          return context.metadata.commit(at, changes, options);
        },
      }),
    }),
  });
  const { client } = world;
  await world.limit({ maxBytes: 25 });
  const uploadId = await createUpload(client, '/bucket/parts');
  const query = { uploadId, partNumber: '1' };
  const part = client.put('/bucket/parts', { query, body: ten });
  await reached.promise;
  isFailing = true;
  expect((await client.put('/bucket/a', { body: ten })).status).toBe(503);
  isFailing = false;
  expect((await client.put('/bucket/b', { body: ten })).status).toBe(200);
  expect(await client.put('/bucket/c', { body: ten })).toMatchObject(refusedFor('bucket'));
  released.resolve();
  expect((await part).status).toBe(200);
  expect(await client.put('/bucket/c', { body: ten })).toMatchObject(refusedFor('bucket'));
  expect((await client.put('/bucket/c', { body: 'five.' })).status).toBe(200);
});

/** A gateway on which a test can hold the commit of one key, and let it apply while another write reads the counters of a quota. */
async function openRace(usageId: (id: string) => boolean) {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let whileReading: (() => Promise<unknown>) | undefined;
  const world = await openQuotas({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          const isHeld = at.table.name === 'objects' && JSON.stringify(changes).includes('"key":"held"');
          if (isHeld) {
            reached.resolve();
            await released.promise;
          }
          return context.metadata.commit(at, changes, options);
        },
        scan(at, range) {
          const cursor = context.metadata.scan(at, range);
          const isCounter = at.table.name === 'usage' && usageId(String(Reflect.get(at.in, 'bucketId')));
          const race = isCounter ? whileReading : undefined;
          if (race === undefined) return cursor;
          return faulty(cursor, {
            async next(count) {
              const rows = await cursor.next(count);
              whileReading = undefined;
              await race();
              return rows;
            },
          });
        },
      }),
    }),
  });
  return Object.assign(world, {
    reached: reached.promise,
    /** Once the counters of the quota have been read, the held commit applies, and its request is answered. */
    applyWhileReading(held: Promise<unknown>) {
      whileReading = () => {
        released.resolve();
        return held;
      };
    },
  });
}

test.each([
  ['bucket', (world: QuotaWorld) => world.limit({ maxBytes: 15 }), (id: string) => !id.includes('/')],
  [
    'user',
    (world: QuotaWorld) => world.limitUser({ totalMaxBytes: 15 }),
    (id: string) => id.startsWith('account/'),
  ],
] as const)(
  'a write that commits while another one reads the counters of the %s counts',
  async (of, limit, isCounter) => {
    await using world = await openRace(isCounter);
    await limit(world);
    const held = world.client.put('/bucket/held', { body: ten });
    await world.reached;
    world.applyWhileReading(held);
    expect(await world.client.put('/bucket/other', { body: ten })).toMatchObject(refusedFor(of));
    expect((await held).status).toBe(200);
    expect(await world.usage('bucket')).toEqual({ bytes: 10, objects: 1 });
  },
);

test('an account quota that is removed and set again counts what was written in between', async () => {
  const carol = person('carol');
  await using world = await openQuotas({ people: [carol] });
  const client = world.as({ credential: carol });
  await client.put('/carols');
  await client.put('/carols/a', { body: ten });
  await world.limitUser({ totalMaxBytes: 1_000 }, carol.owner);
  await client.put('/carols/b', { body: ten });
  await client.delete('/carols/a');
  const path = `/admin/v1/iam/users/${carol.owner}/quota`;
  expect((await world.admin.delete(path)).status).toBe(204);
  await client.put('/carols/c', { body: ten });
  await world.limitUser({ totalMaxBytes: 25 }, carol.owner);
  expect(await client.put('/carols/d', { body: ten })).toMatchObject(refusedFor('user'));
  expect((await client.put('/carols/d', { body: 'five.' })).status).toBe(200);
});
