/** The front door over one and two real Ceph clusters. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chunkBytes } from '../../src/ports/object-bytes.ts';
import { contentOf } from '../contract/chunk-store.ts';
import { type CephCluster, noCeph, startCeph } from '../support/engines/ceph.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';

const settingsOf = (clusters: readonly CephCluster[]) => ({
  SVC_DATA_BACKEND: 'cluster-pool',
  SVC_POOL_CLUSTERS: JSON.stringify(
    clusters.map(({ conf }, index) => ({ id: 'ab'[index], conf, pool: 'chunks' })),
  ),
});

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  const clusters: CephCluster[] = [];
  beforeAll(async () => {
    clusters.push(...(await Promise.all([startCeph(['chunks', 'cold']), startCeph()])));
  });
  afterAll(async () => {
    await Promise.all(clusters.map((cluster) => cluster[Symbol.asyncDispose]()));
  });

  const objectsOf = async (cluster: CephCluster | undefined, pool: string): Promise<number> =>
    ((await cluster?.rados('-p', pool, 'ls', '--all')) ?? '')
      .split('\n')
      // The mark of the installation does not count as a chunk.
      .filter((line) => line !== '' && !line.endsWith('installation.json')).length;

  describe.each([1, 2])('of %i clusters', (count) => {
    let world: GatewayWorld;
    beforeAll(async () => {
      world = await openGateway({ settings: settingsOf(clusters.slice(0, count)) });
    });
    afterAll(() => world?.close());

    test('puts, gets, ranges, lists and deletes, and gc leaves nothing behind', async () => {
      const bucket = `plain-${count}`;
      await world.client.put(`/${bucket}`);
      const sizes = [0, 1, 4096, 70_000, chunkBytes, 2 * chunkBytes + 17];
      for (const size of sizes) {
        const put = await world.client.put(`/${bucket}/k${size}`, { body: contentOf(`k${size}`, size) });
        expect(put.status).toBe(200);
      }
      for (const size of sizes) {
        const got = await world.client.get(`/${bucket}/k${size}`);
        expect(Buffer.compare(got.bytes, contentOf(`k${size}`, size))).toBe(0);
      }
      const big = `k${2 * chunkBytes + 17}`;
      const across = await world.client.get(`/${bucket}/${big}`, {
        headers: { range: `bytes=${chunkBytes - 5}-${chunkBytes + 4}` },
      });
      expect(across.status).toBe(206);
      const expected = contentOf(big, 2 * chunkBytes + 17).subarray(chunkBytes - 5, chunkBytes + 5);
      expect(Buffer.compare(across.bytes, expected)).toBe(0);
      expect((await world.client.get(`/${bucket}?list-type=2`)).all('Key')).toHaveLength(sizes.length);

      expect((await world.stored()).length).toBe(sizes.length - 1);
      for (const size of sizes) await world.client.delete(`/${bucket}/k${size}`);
      await world.gc();
      expect(await world.stored()).toEqual([]);
    });

    test('completes and aborts uploads, and gc leaves nothing behind', async () => {
      const bucket = `parts-${count}`;
      await world.client.put(`/${bucket}`);
      const part = contentOf('part', 6 * 1024 * 1024);
      const path = `/${bucket}/whole`;
      const uploadId = await createUpload(world.client, path);
      const parts = [
        await putPart(world.client, path, { uploadId, number: 1, body: part }),
        await putPart(world.client, path, { uploadId, number: 2, body: part.subarray(0, 100) }),
      ];
      expect((await complete(world.client, path, { uploadId, parts })).status).toBe(200);
      const got = await world.client.get(`/${bucket}/whole`);
      expect(Buffer.compare(got.bytes, Buffer.concat([part, part.subarray(0, 100)]))).toBe(0);

      const id = (await world.client.post(`/${bucket}/aborted?uploads`)).one('UploadId');
      await world.client.put(`/${bucket}/aborted?partNumber=1&uploadId=${id}`, { body: part });
      expect((await world.client.delete(`/${bucket}/aborted?uploadId=${id}`)).status).toBe(204);
      await world.client.delete(`/${bucket}/whole`);
      await world.gc();
      expect(await world.stored()).toEqual([]);
    });
  });

  test('a class goes to its pool, and is read there when the settings send it elsewhere', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'sluice-'));
    const settings = { ...settingsOf(clusters.slice(0, 1)), SVC_DATA_DIR: directory };
    const headers = { 'x-amz-storage-class': 'STANDARD_IA' };
    const body = contentOf('cold', chunkBytes + 5);
    {
      const classes = { SVC_STORAGE_CLASSES: 'standard-ia=cold/ice' };
      await using world = await openGateway({ settings: { ...settings, ...classes } });
      await world.client.put('/classes');
      expect((await world.client.put('/classes/cold', { body, headers })).status).toBe(200);
      expect(await objectsOf(clusters[0], 'cold')).toBe(2);
    }
    await using world = await openGateway({ settings });
    expect(Buffer.compare((await world.client.get('/classes/cold')).bytes, body)).toBe(0);
    await world.client.delete('/classes/cold');
    await world.gc();
    expect(await objectsOf(clusters[0], 'cold')).toBe(0);
    await rm(directory, { recursive: true, force: true });
  });
});
