/** A cluster that does not answer delays work on it, and no other work. */
import { expect, test } from 'vitest';
import { sweep } from '../../../src/domain/storage/sweep.ts';
import { bucketSlotOf } from '../../../src/metadata/buckets/buckets.ts';
import { DataUnavailable, type ObjectBytes, unreachable } from '../../../src/ports/object-bytes.ts';
import { rebalance } from '../../../src/workers/rebalance.ts';
import { extentsOn, openClusters } from '../../support/clusters.ts';
import { domainWorld } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';

const never = new AbortController().signal;

test('a cluster that is away keeps what may lie there waiting, and nothing else', async () => {
  const world = await domainWorld();
  const died = Array.from({ length: 200 }, (_, i) => ({
    prefix: `${i}.`,
    ...(i % 4 === 3 ? {} : { cluster: ['away', 'default', 'denied'][i % 4] as string }),
  }));
  const settled: string[] = [];
  const metadata = faulty(world.metadata, {
    abandoned: async () => died,
    settle: async ({ prefix }) => void settled.push(prefix),
  });
  let asked = 0;
  const find: ObjectBytes['find'] = (cluster, ...prefixes) => {
    if (cluster === 'default') return world.bytes.find(cluster, ...prefixes);
    asked += 1;
    throw cluster === 'away' ? new DataUnavailable('no answer') : new Error('403');
  };
  const bytes = faulty(world.bytes, { find, clusters: ['default', 'away', 'denied'] });
  const left = /^left away, denied \(away: .*no answer\)$/;
  await expect(sweep({ ...world, metadata, bytes }, never)).rejects.toThrow(left);
  expect(settled).toEqual(died.flatMap(({ prefix, cluster }) => (cluster === 'default' ? prefix : [])));
  expect(asked, 'each is asked once').toBe(2);
});

test('an evacuation does not wait for another whose cluster is away', async () => {
  const { world, admin } = await openClusters('a,b,c', { settings: { SVC_REBALANCE_RATE: '1TiB' } });
  await using _ = world;
  const { client, context } = world;
  for (const [bucket, cluster] of [
    ['first', 'a'],
    ['second', 'c'],
  ] as const) {
    await client.put(`/${bucket}`);
    await admin.must('PUT', `/buckets/${bucket}/placement`, { placement: { [cluster]: 1 } });
    for (let i = 0; i < 10; i += 1) await client.put(`/${bucket}/${i}`, { body: `${i}` });
  }
  for (const id of ['a', 'c']) await admin.must('POST', `/clusters/${id}/drain`, { mode: 'evacuate' });
  const away = (cluster: string): void => {
    if (cluster === 'a') throw new DataUnavailable('away');
  };
  const bytes = faulty(context.bytes, {
    find: (cluster, ...prefixes) => {
      away(cluster);
      return context.bytes.find(cluster, ...prefixes);
    },
    read: (extent, ...rest) => {
      away(extent.cluster);
      return context.bytes.read(extent, ...rest);
    },
  });
  const unit = rebalance({ ...context, bytes });
  for (let turn = 0; turn < 20 && (await unit(never)) === 'busy'; turn += 1);
  await world.gc();
  const left = await Promise.all(['a', 'b', 'c'].map((id) => extentsOn(world, id)));
  expect(left).toEqual([10, 10, 0]);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ failed: 10 });
});

test('a cluster that is away delays a unit of rebalance once, not each of its slots, and a drain goes on whatever it answers', async () => {
  const { world, admin } = await openClusters('a,b,c', { settings: { SVC_REBALANCE_RATE: '1TiB' } });
  await using _ = world;
  const { client, context } = world;
  const buckets = Array.from({ length: 12 }, (_, i) => `bucket-${i}`);
  expect(new Set(buckets.map(bucketSlotOf)).size).toBeGreaterThan(8);
  for (const [i, bucket] of buckets.entries()) {
    await client.put(`/${bucket}`);
    const cluster = i % 2 === 0 ? 'a' : 'c';
    await admin.must('PUT', `/buckets/${bucket}/placement`, { placement: { [cluster]: 1 } });
    for (let n = 0; n < 10; n += 1) await client.put(`/${bucket}/${n}`, { body: `${n}` });
  }
  for (const id of ['a', 'c']) await admin.must('POST', `/clusters/${id}/drain`, { mode: 'evacuate' });
  let asked = 0;
  const bytes = faulty(context.bytes, {
    read: (extent, ...rest) => {
      if (extent.cluster !== 'a') return context.bytes.read(extent, ...rest);
      asked += 1;
      throw new DataUnavailable('no answer');
    },
    health: async (only) =>
      (await context.bytes.health(only)).map((each) =>
        each.cluster === 'a' ? { ...each, status: unreachable } : each,
      ),
    holdsAnything: async (cluster) => {
      if (cluster === 'a') throw new Error('403');
      return context.bytes.holdsAnything(cluster);
    },
    find: (cluster, ...prefixes) => {
      if (cluster === 'a') throw new Error('403');
      return context.bytes.find(cluster, ...prefixes);
    },
  });
  const unit = rebalance({ ...context, bytes });
  await unit(never);
  // As many as move at a time.
  expect(asked).toBeLessThanOrEqual(4);
  for (let turn = 0; turn < 20 && (await unit(never)) === 'busy'; turn += 1);
  await world.gc();
  const left = await Promise.all(['a', 'b', 'c'].map((id) => extentsOn(world, id)));
  expect(left).toEqual([60, 60, 0]);
});

test('a version whose bytes cannot be read stays alone, while its cluster answers', async () => {
  const { world, admin } = await openClusters('a,b', { settings: { SVC_REBALANCE_RATE: '1TiB' } });
  await using _ = world;
  const { client, context } = world;
  await client.put('/bucket');
  await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 } });
  for (let i = 0; i < 30; i += 1) await client.put(`/bucket/${i}`, { body: `${i}` });
  await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  const bad = new Set<string>();
  let asked = 0;
  const bytes = faulty(context.bytes, {
    read: (extent, ...rest) => {
      // The first two that are read: as of a disk with two bad sectors.
      if (extent.cluster === 'a' && bad.size < 2) bad.add(extent.id);
      if (!bad.has(extent.id)) return context.bytes.read(extent, ...rest);
      asked += 1;
      throw new DataUnavailable('a bad sector');
    },
  });
  const unit = rebalance({ ...context, bytes });
  for (let turn = 0; turn < 20 && (await unit(never)) === 'busy'; turn += 1);
  await world.gc();
  expect(await Promise.all(['a', 'b'].map((id) => extentsOn(world, id)))).toEqual([2, 28]);
  expect(asked).toBe(2);
  expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ failed: 2 });
});
