/** An evacuation between Ceph pools while an OSD fails. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ObjectBytes } from '../../src/ports/object-bytes.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { extentsOn, fsckOf, openClusters, operatorOf } from '../support/clusters.ts';
import { type CephCluster, noCeph, startCeph } from '../support/engines/ceph.ts';
import { loadSettings } from '../support/evacuation-load.ts';
import { faulty } from '../support/faulty.ts';

const never = new AbortController().signal;

describe.skipIf(noCeph !== undefined)(`Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  beforeAll(async () => {
    ceph = await startCeph(['one', 'two']);
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  /** Two pools that the gateway treats as two clusters. */
  const openPools = async (pools: readonly [string, string]) => {
    const clusters = pools.map((pool, i) => ({ id: 'ab'[i], conf: ceph.conf, pool }));
    const { world } = await openClusters(JSON.stringify(clusters), {
      settings: {
        ...loadSettings,
        SVC_DATA_BACKEND: 'cluster-pool',
        SVC_POOL_OP_TIMEOUT: '3s',
        SVC_POOL_MON_TIMEOUT: '2s',
      },
    });
    return world;
  };

  test('a cluster that is away in the middle of one costs time and nothing else', async () => {
    await using world = await openPools(['one', 'two']);
    const { client, context } = world;
    const admin = operatorOf(world);
    await client.put('/bucket');
    await admin.must('PUT', '/buckets/bucket/placement', { placement: { a: 1 } });
    for (let i = 0; i < 40; i += 1) await client.put(`/bucket/${i}`, { body: `content ${i}` });
    await admin.must('POST', '/clusters/a/drain', { mode: 'evacuate' });
    let writes = 0;
    let stopping: Promise<void> | undefined;
    const write: ObjectBytes['write'] = async (source, options) => {
      writes += 1;
      if (writes === 10) stopping = ceph.stop('osd.0');
      await stopping;
      return context.bytes.write(source, options);
    };
    await rebalance({ ...context, bytes: faulty(context.bytes, { write }) })(never);
    expect(await admin.must('GET', '/clusters/b')).toMatchObject({ state: 'live' });
    await ceph.start();
    const unit = rebalance(context);
    const left = async (): Promise<number> => {
      await unit(never);
      await world.sweep();
      await world.gc();
      return extentsOn(world, 'a');
    };
    await expect.poll(left, { timeout: 120_000, interval: 250 }).toBe(0);
    for (let i = 0; i < 40; i += 1) expect((await client.get(`/bucket/${i}`)).text).toBe(`content ${i}`);
    await vi.waitFor(async () => expect(await fsckOf(world)).toEqual([]), {
      timeout: 120_000,
      interval: 500,
    });
  });
});
