/** The time of a bucket's last write or deletion, which the commit stores beside the counters. @storage */
import { describe, expect, test } from 'vitest';
import { usage } from '../../src/metadata/records/usage.ts';
import { operatorOf } from '../support/clusters.ts';
import { backends, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';

/** In ms; undefined where the reply has none. */
async function updatedAt(world: GatewayWorld): Promise<number | undefined> {
  const time = (await operatorOf(world).must('GET', '/buckets/bucket'))['updatedAt'];
  return time === undefined ? undefined : Date.parse(String(time));
}

const nextMillisecond = () => new Promise((resolve) => setTimeout(resolve, 2));

describe.each(backends)('updatedAt of a bucket: %s', (backend) => {
  test('is the time of the last write or deletion, also where bytes and objects stay the same', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    expect(await updatedAt(world)).toBeUndefined();

    const steps: readonly (readonly [string, () => Promise<{ readonly status: number }>])[] = [
      ['PutObject', () => client.put('/bucket/key', { body: 'content' })],
      ['PutObject of the same size', () => client.put('/bucket/key', { body: 'CONTENT' })],
      ['PutObject of no bytes', () => client.put('/bucket/empty', { body: '' })],
      ['CopyObject', () => client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key' } })],
      ['DeleteObject', () => client.delete('/bucket/key')],
      ['CompleteMultipartUpload', () => putInParts(world)],
      ['a delete marker', () => withVersions(world, () => client.delete('/bucket/copy'))],
      ['a delete marker on a delete marker', () => client.delete('/bucket/copy')],
      ['DeleteObject of a delete marker', () => removeMarker(world)],
    ];
    for (const [name, step] of steps) {
      await nextMillisecond();
      const before = Date.now();
      expect((await step()).status, name).toBeLessThan(300);
      expect(await updatedAt(world), name).toBeGreaterThanOrEqual(before);
      expect(await updatedAt(world), name).toBeLessThanOrEqual(Date.now());
    }
    const detail = await operatorOf(world).must('GET', '/buckets/bucket');
    expect(detail['classes']).toEqual([{ storageClass: 'STANDARD', bytes: 11, objects: 3 }]);
  });

  test('stays where nothing is written or deleted', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    const before = await updatedAt(world);
    await nextMillisecond();
    await client.get('/bucket/key');
    expect((await client.delete('/bucket/missing')).status).toBe(204);
    await client.put('/bucket/key', { body: 'other', headers: { 'if-none-match': '*' } });
    const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
    expect((await client.put('/bucket/key?tagging', { body: tags })).status).toBe(200);
    const uploadId = await createUpload(client, '/bucket/parts');
    await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' });
    await operatorOf(world).must('PUT', '/buckets/bucket/owner', { owner: bob.owner });
    expect(await updatedAt(world)).toBe(before);
    expect(before).toEqual(expect.any(Number));
  });

  test('is never older than a write that was answered, whoever else writes', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const write = async (writer: number): Promise<void> => {
      for (let turn = 0; turn < 4; turn += 1) {
        // All writers race for this key: one that loses is answered with the object of the one that was committed before it.
        expect((await world.client.put('/bucket/shared', { body: 'content' })).status).toBe(200);
        const before = Date.now();
        const path = `/bucket/of-${writer}`;
        if (turn % 2 === 1) expect((await world.client.delete(path)).status).toBe(204);
        else expect((await world.client.put(path, { body: 'content' })).status).toBe(200);
        expect(await updatedAt(world)).toBeGreaterThanOrEqual(before);
      }
    };
    const answered = (async () => {
      let last = 0;
      for (let look = 0; look < 20; look += 1) {
        const time = (await updatedAt(world)) ?? 0;
        expect(time).toBeGreaterThanOrEqual(last);
        last = time;
      }
    })();
    await Promise.all([answered, ...Array.from({ length: 8 }, (_, writer) => write(writer))]);
  });

  test('is absent of counters that a former release wrote, and of a new bucket with the name of a former one', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    await client.delete('/bucket/key');
    await client.delete('/bucket');
    await client.put('/bucket');
    expect(await updatedAt(world)).toBeUndefined();
    const { id } = await operatorOf(world).must('GET', '/buckets/bucket');
    const at = { table: usage, in: { bucketId: String(id) } };
    const add = { storageClass: 'STANDARD', slot: 0 };
    await world.context.metadata.apply([{ at, add, by: { bytes: 7, objects: 1 } }]);
    expect(await updatedAt(world)).toBeUndefined();
    await client.put('/bucket/key', { body: 'content' });
    expect(await updatedAt(world)).toEqual(expect.any(Number));
  });
});

async function putInParts({ client }: GatewayWorld) {
  const uploadId = await createUpload(client, '/bucket/parts');
  const part = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'part' });
  return complete(client, '/bucket/parts', { uploadId, parts: [part] });
}

async function withVersions<T>({ client }: GatewayWorld, step: () => Promise<T>): Promise<T> {
  await setVersioning(client, 'bucket', 'Enabled');
  return step();
}

async function removeMarker({ client }: GatewayWorld) {
  const marker = await client.delete('/bucket/copy');
  return client.delete(`/bucket/copy?versionId=${marker.header('*-version-id')}`);
}
