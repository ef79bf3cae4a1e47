/** Whose turn it is in the lifecycle worker: the number of an account's buckets delays no other account. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { lifecycleTasks } from '../../src/domain/lifecycle/progress.ts';
import { everyTask, putTask } from '../../src/metadata/background/tasks.ts';
import { insertBucket } from '../../src/metadata/buckets/buckets.ts';
import { listLifecycleBucket } from '../../src/metadata/objects/ages.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { ShardPanic, ShardRests, unsupervised } from '../../src/workers/worker.ts';
import { openClusters } from '../support/clusters.ts';
import { countRows, type SeenRows } from '../support/counted-rows.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

const dayMs = 86_400_000;
const never = new AbortController().signal;
const body =
  '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
const settings = { SVC_LIFECYCLE_RATE: '1000000' };

async function fill(client: Client, bucket: string, keys: number): Promise<void> {
  await client.put(`/${bucket}`);
  expect((await client.put(`/${bucket}?lifecycle`, { body })).status).toBe(200);
  for (let key = 0; key < keys; key += 1) await client.put(`/${bucket}/key-${key}`, { body: 'x' });
}

const idOf = async ({ context }: GatewayWorld, bucket: string): Promise<string> =>
  (await openBucket(context, bucket)).id;

/** A world whose commits to the objects of some buckets take a second, when the others have commits, and which rows of buckets are read. */
async function slowWorld(): Promise<{
  readonly world: GatewayWorld;
  readonly clock: VirtualClock;
  readonly slow: Set<string>;
  readonly changedAt: Map<string, number>;
  readonly reads: string[];
}> {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const slow = new Set<string>();
  const changedAt = new Map<string, number>();
  const reads: string[] = [];
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      async commit(at, ...rest) {
        const { bucketId } = at.in as { readonly bucketId?: string };
        if (at.table.name === 'objects' && bucketId !== undefined) {
          if (slow.has(bucketId)) await clock.advance(1_000);
          changedAt.set(bucketId, clock.elapsed());
        }
        return context.metadata.commit(at, ...rest);
      },
      async get(at, key, ...rest) {
        const { name } = at.in as { readonly name?: string };
        if (at.table.name === 'buckets' && name !== undefined) reads.push(name);
        return context.metadata.get(at, key, ...rest);
      },
    }),
  });
  return { world: await openGateway({ clock, settings, wrap }), clock, slow, changedAt, reads };
}

test('the buckets of an account wait for one turn of another account, which has many buckets', async () => {
  const opened = await slowWorld();
  await using world = opened.world;
  const { clock, slow, changedAt } = opened;
  const many = Array.from({ length: 40 }, (_, index) => `many-${index}`);
  for (const bucket of many) await fill(world.client, bucket, 2);
  // The one whose turn came last, by the order of the ids.
  const few = Array.from({ length: 20 }, (_, index) => `few-${index}`);
  for (const bucket of few) await world.bob.put(`/${bucket}`);
  const ids = await Promise.all(few.map(async (bucket) => [await idOf(world, bucket), bucket] as const));
  const [last, victim] = ids.sort(([a], [b]) => (a < b ? 1 : -1))[0] ?? ['', ''];
  await fill(world.bob, victim, 1);
  const unit = carryOutLifecycles(world.context, 1);
  while ((await unit(never)) === 'busy');
  for (const bucket of many) slow.add(await idOf(world, bucket));
  clock.jump(3 * dayMs);

  const began = clock.elapsed();
  await unit(never);
  expect((changedAt.get(last) ?? Number.POSITIVE_INFINITY) - began).toBeLessThanOrEqual(2_000);
  // The unit ends although the other account has more to do, so that the buckets behind it have their turn.
  expect(clock.elapsed() - began).toBeLessThan(10_000);
  expect((await world.bob.get(`/${victim}/key-0`)).status).toBe(404);

  // The buckets that had no turn come first in the next rounds.
  for (let units = 0; units < 20; units += 1) await unit(never);
  for (const bucket of many)
    expect((await world.client.get(`/${bucket}?list-type=2`)).all('Key')).toEqual([]);
});

test('a request to run now begins one pass of each bucket where the clock of the leader is behind the store', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  await using world = await openGateway({ clock, settings });
  await fill(world.client, 'bucket', 1);
  const behind = { ...clock, now: () => clock.now() - 10 * 60_000 };
  let runAt: number | undefined;
  const services = { ...unsupervised, runAt: () => runAt };
  const unit = carryOutLifecycles({ ...world.context, clock: behind }, 1, services);
  const starts = async (): Promise<readonly number[]> => {
    const found: number[] = [];
    for await (const { state } of everyTask(world.context.metadata, lifecycleTasks))
      found.push(state.startedAt);
    return found;
  };
  /** The passes that a minute of units has begun. */
  const passes = async (): Promise<number> => {
    const begun = new Set<number>();
    const former = await starts();
    for (let units = 0; units < 60; units += 1) {
      await unit(never);
      for (const at of await starts()) begun.add(at);
      clock.jump(1_000);
    }
    return [...begun].filter((at) => !former.includes(at)).length;
  };
  expect(await passes()).toBe(1);
  expect(await passes()).toBe(0);
  runAt = await world.context.metadata.now();
  expect(await passes()).toBe(1);
  expect(await passes()).toBe(0);
});

test('a unit reads the rows of the buckets that have a turn, and those whose progress has no account yet', async () => {
  const opened = await slowWorld();
  await using world = opened.world;
  const { clock, slow, reads } = opened;
  const names = Array.from({ length: 30 }, (_, index) => `many-${index}`);
  for (const bucket of names) await fill(world.client, bucket, 2);
  const unit = carryOutLifecycles(world.context, 1);
  while ((await unit(never)) === 'busy');
  for (const bucket of names) slow.add(await idOf(world, bucket));
  clock.jump(3 * dayMs);

  // Each pass begins with a turn that deletes nothing.
  await unit(never);
  reads.length = 0;
  await unit(never);
  // The unit ends after 5 s, and each turn takes a second at least.
  expect(new Set(reads).size).toBeGreaterThan(0);
  expect(new Set(reads).size).toBeLessThan(10);

  // As an older release has stored it.
  const due = new Set<string>();
  for await (const { name, state, progress, revision } of everyTask(world.context.metadata, lifecycleTasks)) {
    expect(state.owner).toBe((await openBucket(world.context, state.bucket)).owner);
    if (state.finishedAt === undefined) due.add(state.bucket);
    const { owner: _, ...older } = state;
    const task = { name, state: older, progress, expect: revision };
    expect((await putTask(world.context.metadata, lifecycleTasks, task)).applied).toBe(true);
  }
  reads.length = 0;
  await unit(never);
  expect(due.size).toBeGreaterThan(10);
  expect(new Set(reads)).toEqual(due);
  // A bucket has its account again after its turn.
  for (let units = 0; units < 20; units += 1) await unit(never);
  for await (const { state } of everyTask(world.context.metadata, lifecycleTasks))
    if (due.has(state.bucket)) expect(state.owner).toBeDefined();
  for (const bucket of names)
    expect((await world.client.get(`/${bucket}?list-type=2`)).all('Key')).toEqual([]);
});

test('buckets expire within seconds while a large version of another one moves, and so does its own bucket', async () => {
  let now = Date.UTC(2026, 0, 1, 12);
  const clock: Clock = { ...systemClock, now: () => now };
  const { world: opened, admin } = await openClusters('hot,cold', {
    clock,
    settings: {
      ...settings,
      SVC_STORAGE_CLASSES: 'default@hot,GLACIER_IR@cold',
      SVC_LIFECYCLE_BYTES_RATE: '1MiB',
    },
  });
  await using world = opened;
  const { client, context } = world;
  const moving =
    '<Rule><ID>m</ID><Status>Enabled</Status><Prefix>large</Prefix><Transition><Days>1</Days><StorageClass>GLACIER_IR</StorageClass></Transition></Rule>' +
    '<Rule><ID>e</ID><Status>Enabled</Status><Prefix>small</Prefix><Expiration><Days>2</Days></Expiration></Rule>';
  await client.put('/moving');
  const rules = `<LifecycleConfiguration>${moving}</LifecycleConfiguration>`;
  expect((await client.put('/moving?lifecycle', { body: rules })).status).toBe(200);
  const large = randomBytes(6 * 1024 ** 2);
  const uploadId = (await client.post('/moving/large?uploads')).one('UploadId');
  const parts: string[] = [];
  for (const part of [1, 2, 3, 4]) {
    const put = await client.put(`/moving/large?partNumber=${part}&uploadId=${uploadId}`, { body: large });
    parts.push(`<Part><PartNumber>${part}</PartNumber><ETag>${put.header('etag')}</ETag></Part>`);
  }
  const done = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
  expect((await client.post(`/moving/large?uploadId=${uploadId}`, { body: done })).status).toBe(200);
  await client.put('/moving/small', { body: 'x' });
  const others = Array.from({ length: 6 }, (_, index) => `other-${index}`);
  for (const bucket of others) await fill(client, bucket, 1);

  const stop = new AbortController();
  const unit = carryOutLifecycles(context, 1);
  const run = (async () => {
    while (!stop.signal.aborted) if ((await unit(stop.signal)) === 'idle') await systemClock.sleep(10);
  })();
  const until = { timeout: 60_000, interval: 50 };
  const state = async () => (await admin.must('GET', '/buckets/moving/lifecycle'))['state'];
  const classOf = async () => (await client.head('/moving/large')).header('*-storage-class') ?? 'STANDARD';
  const live = async (bucket: string) => (await client.get(`/${bucket}?list-type=2`)).all('Key');
  await expect.poll(state, until).toBe('done');
  now += 1.6 * dayMs;
  await expect.poll(async () => (await Promise.all(others.map(live))).flat(), until).toEqual([]);
  // Its own bucket: the next pass begins while the version moves.
  now += dayMs;
  await expect.poll(() => live('moving'), until).toEqual(['large']);
  expect(await classOf()).toBe('STANDARD');
  expect(await state()).toBe('running');
  await expect.poll(classOf, until).toBe('GLACIER_IR');
  stop.abort();
  await run;
  const found = await client.get('/moving/large', { headers: { range: 'bytes=0-99' } });
  expect(Buffer.from(found.bytes).equals(large.subarray(0, 100))).toBe(true);
});

/** Copies of a bucket under other names and ids, which are due. */
async function listBuckets({ context }: GatewayWorld, count: number): Promise<void> {
  const bucket = await openBucket(context, 'bucket');
  for (let each = 0; each < count; each += 1) {
    const id = each.toString(16).padStart(32, '0');
    const copy = { ...bucket, name: `bucket-${each}`, id };
    await insertBucket(context.metadata, copy, [listLifecycleBucket(copy, 't')]);
  }
}

/** A world that counts the rows of the list of buckets that are read. */
async function listedWorld(): Promise<GatewayWorld & { readonly seen: SeenRows }> {
  const seen: SeenRows = { rows: 0, onPage: () => {} };
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: countRows(context.metadata, 'lifecycle_buckets', seen).metadata,
  });
  return Object.assign(await openGateway({ settings, wrap }), { seen });
}

test('a round over many buckets reads the list once', async () => {
  await using world = await listedWorld();
  await fill(world.client, 'bucket', 0);
  const count = 1_500;
  await listBuckets(world, count);
  const unit = carryOutLifecycles(world.context, 1);
  while ((await unit(never)) === 'busy');
  let passes = 0;
  for await (const { state } of everyTask(world.context.metadata, lifecycleTasks))
    passes += state.finishedAt === undefined ? 0 : 1;
  expect(passes).toBe(count + 1);
  // A page is read for each unit, and a last look at all finds nothing.
  expect(world.seen.rows).toBeLessThan(4 * count);
});

test('a worker that has lost its lease does not read the list to its end', async () => {
  const lease = new AbortController();
  await using world = await listedWorld();
  world.seen.onPage = () => lease.abort();
  const { metadata, clock } = world.context;
  // No bucket of the list has its turn now, so that the walk goes on behind it.
  const shards = new ShardRests(clock, () => undefined);
  for (let each = 0; each < 3_000; each += 1) {
    const id = String(each).padStart(32, '0');
    shards.failed(id);
    await metadata.apply([listLifecycleBucket({ id, name: `bucket-${each}` }, 't')]);
  }
  const unit = carryOutLifecycles(world.context, 1, { ...unsupervised, shards });
  await unit(lease.signal).catch((cause: unknown) => expect(cause).toBe(lease.signal.reason));
  expect(world.seen.rows).toBeGreaterThan(0);
  expect(world.seen.rows).toBeLessThan(1_000);
});

test('a bucket that fails again and again does not keep those behind it from their turn', async () => {
  const failing = new Set<string>();
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      async get(at, key, ...rest) {
        const { name } = at.in as { readonly name?: string };
        if (at.table.name === 'buckets' && failing.has(name ?? '')) throw new Error('refused');
        return context.metadata.get(at, key, ...rest);
      },
    }),
  });
  await using world = await openGateway({ settings, wrap });
  await fill(world.client, 'bucket', 0);
  const count = 600;
  await listBuckets(world, count);
  failing.add('bucket-3');
  let failures = 0;
  let unit = carryOutLifecycles(world.context, 1);
  // As the supervisor does: a run that failed begins anew.
  for (let units = 0; units < 4; units += 1)
    await unit(never).catch((cause: unknown) => {
      expect(cause).toBeInstanceOf(ShardPanic);
      failures += 1;
      unit = carryOutLifecycles(world.context, 2 + failures);
    });
  let begun = 0;
  for await (const _task of everyTask(world.context.metadata, lifecycleTasks)) begun += 1;
  expect(begun).toBe(count);
  expect(failures).toBeGreaterThan(0);
});
