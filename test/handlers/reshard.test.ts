/** A bucket gets more shards while clients use it. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { reshardBuckets } from '../../src/workers/buckets.ts';
import { type Backend, backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { jittering } from '../support/jitter.ts';
import { bypass, heldUntil, legalHold, putVersion } from '../support/locks.ts';
import { auditRows, inShort } from '../support/recorded.ts';
import { ReshardLoad } from '../support/reshard-load.ts';
import { shardedMemory } from '../support/sharded-memory.ts';

const at = '/admin/v1/buckets/bucket/reshard';
const asOperator = (world: GatewayWorld) => world.as({ credential: operator });
const ask = async (world: GatewayWorld, shards: unknown, path = at) =>
  asOperator(world).post(path, { body: JSON.stringify({ shards }) });
const readProgress = async (world: GatewayWorld) => JSON.parse((await asOperator(world).get(at)).text);

type Sharded = 'memory, sharded' | 'wide-column';
/** Stores in which a bucket's rows move: the sharded memory store, and Cassandra where it is installed (see test/run.ts). */
const sharded: readonly Sharded[] = [
  'memory, sharded',
  ...(backends.includes('wide-column') ? ['wide-column' as const] : []),
];
const inOneRange = backends.filter((backend) => backend !== 'wide-column');

const openSharded = (backend: Sharded, seed = 1): Promise<GatewayWorld> =>
  openGateway(
    backend === 'wide-column'
      ? { backend }
      : {
          wrap: (context) => {
            const slow = jittering(seed)(context);
            return {
              ...slow,
              metadata: shardedMemory(slow.metadata, { clock: context.clock, leaseMs: 500 }),
            };
          },
        },
  );

async function work(context: Context, signal = new AbortController().signal): Promise<void> {
  const unit = reshardBuckets(context);
  while (!signal.aborted && (await unit(signal)) === 'busy');
}

describe.each(inOneRange)('a bucket that is one ordered range: %s', (backend: Backend) => {
  test('gets more shards immediately, and reports why', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    expect(await readProgress(world)).toEqual({ state: 'none', shards: 4 });
    const answer = await ask(world, 16);
    expect(answer.status, answer.text).toBe(200);
    const said = {
      state: 'done',
      from: 4,
      to: 16,
      rowsMoved: 0,
      why: expect.stringContaining('one ordered range'),
    };
    expect(JSON.parse(answer.text)).toMatchObject(said);
    expect(await readProgress(world)).toMatchObject({ ...said, shards: 16, shardsDone: 12, shardsTotal: 12 });
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    expect((await world.client.get('/bucket')).all('Key')).toEqual(['key']);
    expect((await ask(world, 16)).text).toContain('has 16 shards');
  });
});

/** Dies after the first batch that moved rows and was not the last one of its shard. */
function dyingMidway(context: Context): { readonly context: Context; readonly death: AbortController } {
  const death = new AbortController();
  const { split } = context.metadata;
  if (split === undefined) throw new Error('the store keeps no shards');
  const dying: MetadataStore['split'] = async (place, shard) => {
    const step = await split.call(context.metadata, place, shard);
    if (step.is === 'moving' && step.rows > 0) death.abort();
    return step;
  };
  const metadata = new Proxy(context.metadata, {
    get(store, name) {
      if (name === 'split') return dying;
      const found: unknown = Reflect.get(store, name, store);
      return typeof found === 'function' ? found.bind(store) : found;
    },
  });
  return { context: { ...context, metadata }, death };
}

test('a worker continues with a bucket where another one died between two batches of a shard', async () => {
  await using world = await openSharded('memory, sharded');
  await world.client.put('/bucket');
  // About 24 keys in each of four shards, which needs at least three batches.
  const keys = Array.from({ length: 96 }, (_, each) => `key${String(each).padStart(2, '0')}`);
  for (const key of keys) await world.client.put(`/bucket/${key}`, { body: key });
  await ask(world, 8);
  const { context, death } = dyingMidway(world.context);
  await work(context, death.signal);
  expect(death.signal.aborted).toBe(true);
  const midway = await readProgress(world);
  expect(midway).toMatchObject({ state: 'running', from: 4, to: 8, shards: 4 });
  expect(midway.rowsMoved).toBeGreaterThan(0);
  expect(midway.shardsDone).toBeLessThan(4);
  const assertAllThere = async (): Promise<void> => {
    expect((await world.client.get('/bucket')).all('Key')).toEqual(keys);
    for (const key of keys) expect((await world.client.get(`/bucket/${key}`)).text).toBe(key);
  };
  await assertAllThere();
  await work(world.context);
  const end = await readProgress(world);
  expect(end).toMatchObject({ state: 'done', from: 4, to: 8, shards: 8, shardsDone: 4 });
  expect(end.rowsMoved).toBeGreaterThan(midway.rowsMoved);
  await assertAllThere();
});

describe.each(sharded)('a bucket whose rows are in shards: %s', (backend) => {
  test('is the same to its clients before, while and after it gets four times as many', async () => {
    await using world = await openSharded(backend);
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const load = new ReshardLoad(world, { keys: 48, seed: 3 });
    await load.fill();
    expect((await ask(world, 16)).status).toBe(202);
    expect(await readProgress(world)).toMatchObject({
      state: 'running',
      from: 4,
      to: 16,
      shards: 4,
      shardsDone: 0,
    });
    // A leader that was only paused works beside its successor.
    await load.during(Promise.all([work(world.context), work(world.context)]));
    expect(load.requests).toBeGreaterThan(10);
    const end = await readProgress(world);
    expect(end).toMatchObject({ state: 'done', shards: 16, shardsDone: 12, shardsTotal: 12 });
    expect(end.rowsMoved).toBeGreaterThan(0);
    await load.check();
    const recorded = (await auditRows(world.context)).map(inShort);
    expect(recorded.filter((row) => row.startsWith('admin:'))).toEqual([
      'admin:ReshardBucket bucket:bucket 202',
    ]);
    await world.gc();
    expect((await world.stored()).toSorted()).toEqual((await world.owned('bucket')).toSorted());
  });

  test('keeps what Object Lock holds, in its new shard too (attack 8)', async () => {
    await using world = await openSharded(backend);
    const { client } = world;
    await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    const keys = Array.from({ length: 12 }, (_, each) => `/bucket/key${each}`);
    const until = Date.now() + 24 * 60 * 60 * 1000;
    const held: [path: string, id: string][] = [];
    for (const [each, path] of keys.entries()) {
      const mode = each % 2 === 0 ? 'COMPLIANCE' : 'GOVERNANCE';
      held.push([path, await putVersion(client, path, heldUntil(mode, until))]);
      await client.put(path, { body: 'on top' });
      const id = await putVersion(client, path);
      held.push([path, id]);
      await client.put(`${path}?legal-hold&versionId=${id}`, { body: legalHold('ON') });
    }
    const refused = async (): Promise<void> => {
      for (const [path, id] of held)
        expect((await client.delete(`${path}?versionId=${id}`)).status, `${path} ${id}`).toBe(403);
    };
    await ask(world, 8);
    let isOver = false;
    const working = work(world.context).finally(() => {
      isOver = true;
    });
    while (!isOver) await refused();
    await working;
    expect(await readProgress(world)).toMatchObject({ state: 'done', shards: 8 });
    await refused();
    // A caller with the permission can still bypass GOVERNANCE retention.
    const [path = '', id = ''] = held[2] ?? [];
    expect((await client.delete(`${path}?versionId=${id}`, { headers: bypass })).status).toBe(204);
    expect((await client.get(`${path}?versionId=${id}`)).status).toBe(404);
  });

  test('is not resharded twice at a time, and reaches the requested count', async () => {
    await using world = await openSharded(backend);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    expect((await ask(world, 8)).status).toBe(202);
    const other = await ask(world, 16);
    expect([other.status, JSON.parse(other.text).code]).toEqual([409, 'InvalidBucketState']);
    expect(other.text).toContain('being resharded to 8');
    expect((await ask(world, 8)).status).toBe(202);
    // The first worker dies after its first round, which only announces the split.
    await reshardBuckets(world.context)(new AbortController().signal);
    expect(await readProgress(world)).toMatchObject({ state: 'running', shardsDone: 0 });
    await work(world.context);
    expect(await readProgress(world)).toMatchObject({
      state: 'done',
      from: 4,
      to: 8,
      shards: 8,
      shardsDone: 4,
    });
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    expect((await ask(world, 8)).text).toContain('has 8 shards');
  });

  test('can be deleted meanwhile, and its name used again', async () => {
    await using world = await openSharded(backend);
    await world.client.put('/bucket');
    await ask(world, 8);
    const death = new AbortController();
    const unit = reshardBuckets(world.context);
    await unit(death.signal);
    expect((await world.client.delete('/bucket')).status).toBe(204);
    await world.client.put('/bucket');
    await work(world.context);
    expect(await readProgress(world)).toEqual({ state: 'none', shards: 4 });
    expect((await world.client.put('/bucket/key', { body: 'content' })).status).toBe(200);
    expect((await world.client.get('/bucket')).all('Key')).toEqual(['key']);
  });
});

test.each([
  [3, 400, 'InvalidArgument', 'power of two'],
  [131_072, 400, 'InvalidArgument', 'at most 65536'],
  [4, 400, 'InvalidArgument', 'has 4 shards'],
  [2, 400, 'InvalidArgument', 'has 4 shards'],
  [0, 400, 'MalformedJSON', 'shards'],
  ['8', 400, 'MalformedJSON', 'shards'],
  [undefined, 400, 'MalformedJSON', 'shards'],
])('%j shards are refused with %i %s', async (shards, status, code, says) => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const answer = await ask(world, shards);
  expect([answer.status, JSON.parse(answer.text).code]).toEqual([status, code]);
  expect(answer.text).toContain(says);
  expect(await readProgress(world)).toEqual({ state: 'none', shards: 4 });
});

test('a missing bucket is not resharded, and only operators may reshard', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const missing = await ask(world, 8, '/admin/v1/buckets/missing/reshard');
  expect([missing.status, JSON.parse(missing.text).code]).toEqual([404, 'NoSuchBucket']);
  for (const client of [world.client, world.bob, world.anonymous]) {
    expect((await client.post(at, { body: '{"shards":8}' })).status).toBe(403);
    expect((await client.get(at)).status).toBe(403);
  }
  expect(await readProgress(world)).toEqual({ state: 'none', shards: 4 });
});
