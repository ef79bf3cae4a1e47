/** Erasure-coded pools: writes in multiples of the stripe, and the loss of an OSD. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chunkBytes } from '../../src/ports/object-bytes.ts';
import {
  chunkStoreContract,
  contentOf,
  expectIntact,
  inPieces,
  listAll,
  owner,
} from '../contract/chunk-store.ts';
import { fsckOf } from '../support/clusters.ts';
import { type CephCluster, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, MiB, putPart } from '../support/gateway-bodies.ts';
import { type PoolStores, poolStores } from '../support/pool-stores.ts';

/** The stripe by pool: Ceph's default, and one that does not divide the store's blocks. */
const stripes = { coded: 8192, odd: 24_576 } as const;

describe.skipIf(noCeph !== undefined)(`erasure coding${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let stores: PoolStores;

  beforeAll(async () => {
    ceph = await startCeph(['chunks'], 3);
    for (const [pool, stripe] of Object.entries(stripes)) {
      const profile = ['k=2', 'm=1', 'crush-failure-domain=osd', `stripe_unit=${stripe / 2}`];
      await ceph.ceph('osd', 'erasure-code-profile', 'set', pool, ...profile);
      await ceph.ceph('osd', 'pool', 'create', pool, '8', '8', 'erasure', pool);
      await ceph.ceph('osd', 'pool', 'application', 'enable', pool, 'sluice');
    }
    stores = await poolStores(ceph);
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  test.each(Object.entries(stripes))('the pool %s wants multiples of %i bytes', async (pool, stripe) => {
    const { driver, address } = stores.options;
    const cluster = await driver.connect(address);
    const opened = await cluster.pool((await cluster.poolId(pool)) ?? -1, '');
    expect(opened.alignment).toBe(stripe);
    await opened.close();
    await cluster.close();
  });

  test.each(Object.keys(stripes))(
    'on %s a chunk that comes slowly, in pieces that fit nothing, is whole in the end',
    async (pool) => {
      const { store, dispose } = stores.open(pool);
      for (const size of [70_001, 300_000, 1_000_003, chunkBytes - 1, chunkBytes]) {
        for (const told of [true, false]) {
          const id = `slow-${size}-${told}.0`;
          const slowly = async function* () {
            let pieces = 0;
            for await (const piece of inPieces(contentOf(id, size), 65_537)) {
              // Pause twice, each time long enough that the gateway writes what has arrived.
              if (pieces === 1 || pieces === 10) await sleep(250);
              pieces += 1;
              yield piece;
            }
          };
          const chunk = await store.write(id, slowly(), told ? { owner, size } : { owner });
          expect(chunk.size).toBe(size);
          await expectIntact(store, chunk);
        }
      }
      await dispose();
    },
  );

  chunkStoreContract('cluster-pool, in stripes of 24 KiB', async () => stores.open('odd'));

  test.each(Object.keys(stripes))(
    'the mark of an installation is replaced on %s as it was read, or not at all',
    async (pool) => {
      const { store, dispose } = stores.open(pool);
      const [mark] = store.marks ?? [];
      expect(await mark?.read()).toBeUndefined();
      await mark?.write('first', undefined);
      await mark?.write('late', undefined);
      const first = await mark?.read();
      expect(first?.text).toBe('first');
      await Promise.all(['second', 'third'].map((text) => mark?.write(text, first)));
      const second = await mark?.read();
      expect(['second', 'third']).toContain(second?.text);
      await mark?.write('fourth', first);
      expect(await mark?.read()).toEqual(second);
      expect(await listAll(store)).toEqual([]);
      await dispose();
    },
  );

  test('a gateway serves while one of three OSDs is down, and gc leaves no chunk at the end', async () => {
    await using world = await openGateway({ settings: settingsOf(ceph, 'odd') });
    const { client } = world;
    await client.put('/bucket');
    const held = new Map<string, Uint8Array>();
    const put = async (key: string, size: number): Promise<void> => {
      held.set(key, contentOf(key, size));
      const { status } = await client.put(`/bucket/${key}`, { body: held.get(key) ?? '' });
      expect(status).toBe(200);
    };
    for (const size of [1, 4096, 70_000, 5_000_000, 9 * MiB]) await put(`before-${size}`, size);
    await ceph.stop('osd.0');
    for (const size of [1, 70_000, 5_000_000]) await put(`without-${size}`, size);
    await put('before-4096', 4097);
    held.set('parts', await putParts(world));
    await expectHeld(world, held);
    await ceph.start();
    await expectHeld(world, held);
    expect(await fsckOf(world)).toEqual([]);
    for (const key of held.keys()) await client.delete(`/bucket/${key}`);
    await world.gc();
    const left = (await ceph.rados('-p', 'odd', '--all', 'ls')).split('\n');
    // The marks of installations do not count as chunks.
    expect(left.filter((line) => line !== '' && !line.endsWith('installation.json'))).toEqual([]);
  });
});

async function putParts({ client }: GatewayWorld): Promise<Uint8Array> {
  const bodies = [contentOf('part-1', 5 * MiB), contentOf('part-2', 1234)] as const;
  const uploadId = await createUpload(client, '/bucket/parts');
  const parts = [
    await putPart(client, '/bucket/parts', { uploadId, number: 1, body: bodies[0] }),
    await putPart(client, '/bucket/parts', { uploadId, number: 2, body: bodies[1] }),
  ];
  expect((await complete(client, '/bucket/parts', { uploadId, parts })).status).toBe(200);
  return Buffer.concat(bodies);
}

async function expectHeld({ client }: GatewayWorld, held: ReadonlyMap<string, Uint8Array>): Promise<void> {
  for (const [key, body] of held) {
    const { status, bytes } = await client.get(`/bucket/${key}`);
    expect([key, status, Buffer.compare(bytes, body)]).toEqual([key, 200, 0]);
    const range = await client.get(`/bucket/${key}`, { headers: { range: 'bytes=-1' } });
    expect(range.bytes).toEqual(Buffer.from(body.subarray(-1)));
  }
}
