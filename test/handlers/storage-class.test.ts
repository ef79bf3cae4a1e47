/** Storage classes: the one that a write asks for, else the default of its bucket. @storage */
import { describe, expect, test } from 'vitest';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';

/** Sets the default class in the bucket's row. */
async function setDefaultClass({ context }: GatewayWorld, defaultClass: string): Promise<void> {
  const found = await findBucket(context.metadata, 'bucket');
  if (found === undefined) throw new Error('no bucket');
  await replaceBucket(context.metadata, found, { ...found.row, defaultClass });
}

describe.each(backends)('on %s', (backend) => {
  test('a write without a storage class gets the bucket’s default', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    const classOf = async () => (await client.head('/bucket/key')).header('*-storage-class') ?? 'STANDARD';
    const writes: Record<string, (headers: Record<string, string>) => Promise<unknown>> = {
      put: (headers) => client.put('/bucket/key', { body: 'x', headers }),
      copy: async (headers) => {
        await client.put('/bucket/source', { body: 'x' });
        await client.put('/bucket/key', { headers: { ...headers, '*-copy-source': '/bucket/source' } });
      },
      parts: async (headers) => {
        const uploadId = await createUpload(client, '/bucket/key', { headers });
        const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'x' })];
        await complete(client, '/bucket/key', { uploadId, parts });
      },
    };
    for (const [name, write] of Object.entries(writes)) {
      await write({});
      expect(await classOf(), name).toBe('STANDARD');
    }
    await setDefaultClass(world, 'STANDARD_IA');
    for (const [name, write] of Object.entries(writes)) {
      await write({});
      expect(await classOf(), name).toBe('STANDARD_IA');
      await write({ '*-storage-class': 'ONEZONE_IA' });
      expect(await classOf(), name).toBe('ONEZONE_IA');
      await write({ '*-storage-class': 'STANDARD' });
      expect(await classOf(), name).toBe('STANDARD');
    }
  });

  test('a copy onto itself moves an object to another class, with its bytes, metadata and usage', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    const headers = { '*-meta-colour': 'blue', '*-tagging': 'a=b', 'content-type': 'text/plain' };
    await client.put('/bucket/key', { body: 'content', headers });
    const onto = { '*-copy-source': '/bucket/key' };
    expect((await client.put('/bucket/key', { headers: onto })).code).toBe('InvalidRequest');
    const moved = await client.put('/bucket/key', { headers: { ...onto, '*-storage-class': 'GLACIER_IR' } });
    expect(moved.status).toBe(200);
    const got = await client.get('/bucket/key');
    expect([got.text, got.header('*-storage-class'), got.header('*-meta-colour')]).toEqual([
      'content',
      'GLACIER_IR',
      'blue',
    ]);
    expect([got.header('content-type'), got.header('*-tagging-count')]).toEqual(['text/plain', '1']);
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
  });
});

test('a request names a class and no cluster: `class@cluster` is refused', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  for (const name of ['STANDARD@default', 'standard-ia@default', '@default']) {
    const refused = await client.put('/bucket/key', { body: 'x', headers: { '*-storage-class': name } });
    expect([refused.status, refused.code], name).toEqual([400, 'InvalidStorageClass']);
  }
});
