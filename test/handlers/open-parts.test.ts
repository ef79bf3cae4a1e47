/** The parts of open uploads count against the bytes of their bucket and its account until they are freed, exactly once. @storage */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import { agreesWithRows } from '../../src/domain/fsck/usage.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { findAccountQuota } from '../../src/metadata/buckets/quotas.ts';
import {
  accountUsage,
  counterChanges,
  openParts,
  partUsage,
  readUsage,
} from '../../src/metadata/buckets/usage.ts';
import { emptyBuckets, reconcileQuotas } from '../../src/workers/buckets.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { dyingProcess } from '../support/dying-process.ts';
import { alice, backends, type GatewayWorld } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { openQuotas, type QuotaWorld, refusedFor } from '../support/quota-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;
const part = 'x'.repeat(4_000);

const send = (client: Client, key: string, uploadId: string, number: number, body = part) =>
  client.put(`/bucket/${key}`, { query: { uploadId, partNumber: String(number) }, body });
const abort = (client: Client, key: string, uploadId: string) =>
  client.delete(`/bucket/${key}`, { query: { uploadId } });

/** The bytes of open parts in the counters of the bucket, and of its account where that has a quota. */
async function counted({ context: { metadata } }: GatewayWorld) {
  const row = (await findBucket(metadata, 'bucket'))?.row;
  const epoch = (await findAccountQuota(metadata, alice.owner))?.row.epoch;
  const ofBucket = await readUsage(metadata, partUsage(row?.id ?? ''));
  const ofAccount = epoch === undefined ? undefined : await readUsage(metadata, accountUsage(epoch));
  return {
    bucket: ofBucket.get('')?.bytes ?? 0,
    ...(ofAccount === undefined ? {} : { account: ofAccount.get(openParts)?.bytes ?? 0 }),
  };
}

const runAll = async (unit: (signal: AbortSignal) => Promise<string>): Promise<void> => {
  while ((await unit(never)) === 'busy');
};

const isConsistent = async ({ context: { metadata } }: GatewayWorld): Promise<boolean> => {
  const bucket = (await findBucket(metadata, 'bucket'))?.row;
  if (bucket === undefined) throw new Error('no bucket');
  return agreesWithRows({ metadata, signal: never }, bucket);
};

const limits: readonly (readonly ['bucket' | 'user', (world: QuotaWorld, bytes: number) => Promise<void>])[] =
  [
    ['bucket', (world, maxBytes) => world.limit({ maxBytes })],
    ['user', (world, totalMaxBytes) => world.limitUser({ totalMaxBytes })],
  ];

describe.each(backends)('parts of open uploads: %s', (backend) => {
  test.each(limits)('are refused where they exceed the quota of the %s together', async (of, limit) => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    await limit(world, 10_000);
    const uploads = [await createUpload(client, '/bucket/a'), await createUpload(client, '/bucket/b')];
    const answers: Awaited<ReturnType<typeof send>>[] = [];
    for (let number = 1; number <= 8; number += 1) {
      const to = number % 2;
      answers.push(await send(client, to === 0 ? 'a' : 'b', uploads[to] ?? '', number));
    }
    expect(answers.map(({ status }) => status)).toEqual([200, 200, ...Array(6).fill(403)]);
    expect(answers.at(-1)).toMatchObject(refusedFor(of));
    expect((await counted(world)).bucket).toBe(8_000);
    expect(await client.put('/bucket/object', { body: part })).toMatchObject(refusedFor(of));
    // A part in place of one of the same size needs no room.
    expect((await send(client, 'b', uploads[1] ?? '', 1)).status).toBe(200);
    expect(await isConsistent(world)).toBe(true);
  });

  test('many writers of one part are all answered, and the last one counts', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    const uploadId = await createUpload(client, '/bucket/key');
    const bodies = Array.from({ length: 48 }, (_, n) => `${n} `.repeat(1_000 + n));
    const answers = await Promise.all(bodies.map((body) => send(client, 'key', uploadId, 1, body)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const etag = (await client.get('/bucket/key', { query: { uploadId } })).one('ETag');
    const last = bodies[answers.findIndex((answer) => answer.header('etag') === etag)];
    expect((await counted(world)).bucket).toBe(last?.length);
    expect(await isConsistent(world)).toBe(true);
  });

  test.each(limits)('leave room in the quota of the %s when the upload is aborted', async (_, limit) => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    await limit(world, 10_000);
    for (let round = 0; round < 3; round += 1) {
      const uploadId = await createUpload(client, '/bucket/key');
      for (const number of [1, 2]) expect((await send(client, 'key', uploadId, number)).status).toBe(200);
      for (const _ of [1, 2]) expect((await abort(client, 'key', uploadId)).status).toBe(204);
      expect(Object.values(await counted(world))).not.toContain(8_000);
    }
    await world.gc();
    expect((await counted(world)).bucket).toBe(0);
    expect((await client.put('/bucket/object', { body: 'x'.repeat(10_000) })).status).toBe(200);
  });

  test('become an object within the same room, and parts that it leaves out are freed', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    await world.limit({ maxBytes: 8_000 });
    await world.limitUser({ totalMaxBytes: 8_000 });
    const uploadId = await createUpload(client, '/bucket/key');
    const listed = await putPart(client, '/bucket/key', { uploadId, number: 1, body: part });
    await send(client, 'key', uploadId, 2);
    expect(await counted(world)).toEqual({ bucket: 8_000, account: 8_000 });
    const asked = { uploadId, parts: [listed] };
    expect((await complete(client, '/bucket/key', asked)).status).toBe(200);
    expect((await complete(client, '/bucket/key', asked)).status).toBe(200);
    expect(await counted(world)).toEqual({ bucket: 0, account: 0 });
    expect(await world.usage('bucket')).toEqual({ bytes: 4_000, objects: 1 });
    await world.gc();
    expect(await counted(world)).toEqual({ bucket: 0, account: 0 });
    expect((await client.put('/bucket/object', { body: part })).status).toBe(200);
    expect(await client.put('/bucket/more', { body: 'x' })).toMatchObject(refusedFor('bucket'));
  });

  test('count where the bucket got its quota after they arrived', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    const uploadId = await createUpload(client, '/bucket/key');
    await send(client, 'key', uploadId, 1);
    await world.limit({ maxBytes: 5_000 });
    expect(await client.put('/bucket/object', { body: part })).toMatchObject(refusedFor('bucket'));
    await abort(client, 'key', uploadId);
    expect((await client.put('/bucket/object', { body: part })).status).toBe(200);
  });

  test('count for an account from when it got its quota on, and earlier ones with their object', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    const uploadId = await createUpload(client, '/bucket/key');
    const first = await putPart(client, '/bucket/key', { uploadId, number: 1, body: part });
    await world.limitUser({ totalMaxBytes: 5_000 });
    expect(await counted(world)).toEqual({ bucket: 4_000, account: 0 });
    expect((await client.put('/bucket/object', { body: 'x'.repeat(2_000) })).status).toBe(200);
    const asked = { uploadId, parts: [first] };
    expect(await complete(client, '/bucket/key', asked)).toMatchObject(refusedFor('user'));
    await client.delete('/bucket/object');
    expect((await complete(client, '/bucket/key', asked)).status).toBe(200);
    expect(await client.put('/bucket/object', { body: 'x'.repeat(2_000) })).toMatchObject(refusedFor('user'));
    expect(await counted(world)).toEqual({ bucket: 0, account: 0 });
  });

  test('of a quota that was lowered meanwhile become no object', async () => {
    await using world = await openQuotas({ backend });
    const { client } = world;
    const uploadId = await createUpload(client, '/bucket/key');
    const first = await putPart(client, '/bucket/key', { uploadId, number: 1, body: part });
    await world.limit({ maxBytes: 3_000 });
    const asked = { uploadId, parts: [first] };
    expect(await complete(client, '/bucket/key', asked)).toMatchObject(refusedFor('bucket'));
    await world.limit({ maxBytes: 4_000 });
    expect((await complete(client, '/bucket/key', asked)).status).toBe(200);
  });
});

test('parts are freed by the lifecycle, by the emptying of a bucket, and for the account by DeleteBucket', async () => {
  const clock = virtualClock();
  await using world = await openQuotas({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  const { client, admin } = world;
  await world.limitUser({ totalMaxBytes: 10_000 });
  const open = async () => {
    const uploadId = await createUpload(client, '/bucket/key');
    expect((await send(client, 'key', uploadId, 1)).status).toBe(200);
  };
  await open();
  await client.put('/bucket?lifecycle', {
    body: '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule></LifecycleConfiguration>',
  });
  clock.jump(3 * dayMs);
  await runAll(carryOutLifecycles(world.context));
  expect(await counted(world)).toEqual({ bucket: 0, account: 0 });
  await open();
  expect((await admin.post('/admin/v1/buckets/bucket/force-empty')).status).toBe(202);
  await runAll(emptyBuckets(world.context));
  expect(await counted(world)).toEqual({ bucket: 0, account: 0 });
  await open();
  expect((await client.delete('/bucket')).status).toBe(204);
  expect((await counted(world)).account).toBe(0);
});

test('quota-reconcile and fsck correct the counters of open parts', async () => {
  const clock = virtualClock();
  const settings = { SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES: '0', SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: '0%' };
  await using world = await openQuotas({ clock, settings });
  const { client } = world;
  const { metadata } = world.context;
  const uploadId = await createUpload(client, '/bucket/key');
  await send(client, 'key', uploadId, 1);
  const id = (await findBucket(metadata, 'bucket'))?.row.id ?? '';
  await metadata.apply(counterChanges(partUsage(id), 'op', [{ storageClass: '', bytes: 77, objects: 0 }]));
  expect(await isConsistent(world)).toBe(false);
  clock.jump(7 * 3_600_000);
  await runAll(reconcileQuotas(world.context, 1));
  expect(await counted(world)).toEqual({ bucket: 4_000 });
  expect(await isConsistent(world)).toBe(true);
});

test('a gateway that is killed at any write leaves counters that agree with the parts', async () => {
  const steps = ['part', 'replace', 'complete', 'abort'] as const;
  for (const when of ['before', 'after'] as const)
    for (const step of steps) {
      let isOver = false;
      for (let at = 0; !isOver; at += 1) {
        expect(at).toBeLessThan(100);
        const clock = virtualClock();
        await using world = await openQuotas({ clock });
        await world.limitUser({ totalMaxBytes: 100_000 });
        const uploadId = await createUpload(world.client, '/bucket/key');
        const first = await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: part });
        const dying = dyingProcess(world.context, at, when);
        const gateway = createGateway({ ...dying.context, caches: new Caches() });
        const client = openClient(gateway, clock, { credential: alice });
        const run = {
          part: () => send(client, 'key', uploadId, 2, 'second'),
          replace: () => send(client, 'key', uploadId, 1, 'other'),
          complete: () => complete(client, '/bucket/key', { uploadId, parts: [first] }),
          abort: () => abort(client, 'key', uploadId),
        };
        await run[step]().catch(() => {});
        isOver = !dying.hasDied();
        clock.jump(dayMs);
        await world.sweep();
        await world.gc();
        expect([step, when, at, await isConsistent(world)]).toEqual([step, when, at, true]);
        const { bucket, account } = await counted(world);
        expect(account).toBe(bucket);
        await abort(world.client, 'key', uploadId);
        await world.gc();
        expect([step, when, at, await counted(world)]).toEqual([step, when, at, { bucket: 0, account: 0 }]);
      }
    }
});
