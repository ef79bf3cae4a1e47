/** A cluster that does not answer delays work on it, and no other work. */
import { expect, test } from 'vitest';
import { sweep } from '../../../src/domain/storage/sweep.ts';
import { DataUnavailable, type ObjectBytes } from '../../../src/ports/object-bytes.ts';
import { rebalance } from '../../../src/workers/rebalance.ts';
import { extentsOn, openClusters } from '../../support/clusters.ts';
import { domainWorld } from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';

const never = new AbortController().signal;

test('a cluster that is away keeps what may lie there waiting, and nothing else', async () => {
  const world = await domainWorld();
  const died = Array.from({ length: 200 }, (_, i) => ({
    prefix: `${i}.`,
    ...(i % 4 === 3 ? {} : { cluster: i % 4 === 0 ? 'away' : 'default' }),
  }));
  const settled: string[] = [];
  const metadata = faulty(world.metadata, {
    abandoned: async () => died,
    settle: async ({ prefix }) => void settled.push(prefix),
  });
  let asked = 0;
  const find: ObjectBytes['find'] = (cluster, ...prefixes) => {
    if (cluster !== 'away') return world.bytes.find(cluster, ...prefixes);
    asked += 1;
    throw new DataUnavailable('away');
  };
  const bytes = faulty(world.bytes, { find, clusters: ['default', 'away'] });
  await expect(sweep({ ...world, metadata, bytes }, never)).rejects.toThrow('away');
  expect(settled).toEqual(died.flatMap(({ prefix, cluster }) => (cluster === 'default' ? prefix : [])));
  expect(asked, 'it is asked once').toBe(1);
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
