/** Bucket tagging, as an example of every one-document configuration. @storage */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { documents } from '../../src/metadata/buckets/records.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';

const tagging = (...tags: readonly (readonly [string, string])[]): string =>
  `<Tagging><TagSet>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join('')}</TagSet></Tagging>`;

describe.each(backends)('bucket tagging on %s', (backend) => {
  test('is unset, stored, replaced, removed, and removed again', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    expect((await client.get('/bucket?tagging')).code).toBe('NoSuchTagSet');
    expect((await client.put('/bucket?tagging', { body: tagging(['a', '1']) })).status).toBe(204);
    expect((await client.put('/bucket?tagging', { body: tagging(['c', '3'], ['d', '']) })).status).toBe(204);
    const got = await client.get('/bucket?tagging');
    expect([got.status, got.all('Key'), got.all('Value')]).toEqual([200, ['c', 'd'], ['3', '']]);
    expect((await client.delete('/bucket?tagging')).status).toBe(204);
    expect((await client.delete('/bucket?tagging')).status).toBe(204);
    expect((await client.get('/bucket?tagging')).status).toBe(404);
  });

  test('leaves no document without a bucket', async () => {
    await using world = await openGateway({ backend });
    const { client, context } = world;
    await client.put('/bucket');
    const ids: string[] = [];
    for (const value of ['1', '2']) {
      await client.put('/bucket?tagging', { body: tagging(['k', value]) });
      ids.push((await openBucket(context, 'bucket')).documents['tagging'] ?? '');
    }
    await client.delete('/bucket');
    for (const id of ids)
      expect(await context.metadata.scan({ table: documents, in: { id } }).next(9)).toEqual([]);
  });

  test('concurrent changes leave one of them, whole', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const bodies = ['x', 'y', 'z'].map((key) => tagging([key, 'v'.repeat(200)]));
    await Promise.all(bodies.map((body) => world.client.put('/bucket?tagging', { body })));
    const { status, all } = await world.client.get('/bucket?tagging');
    expect([status, all('Key').length]).toEqual([200, 1]);
  });
});

test('a bucket accepts 50 tags and not 51, each key once, none with the prefix aws:', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const many = (count: number) =>
    tagging(...Array.from({ length: count }, (_, i) => [`k${i}`, 'v'] as const));
  expect((await client.put('/bucket?tagging', { body: many(50) })).status).toBe(204);
  for (const [body, code] of [
    [many(51), 'BadRequest'],
    [tagging(['a', '1'], ['a', '2']), 'InvalidTag'],
    [tagging(['aws:a', '1']), 'InvalidTag'],
    [tagging(['', '1']), 'InvalidTag'],
    ['', 'MissingRequestBodyError'],
    ['<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>', 'MalformedXML'],
  ] as const) {
    const { status, code: found } = await client.put('/bucket?tagging', { body });
    expect([status, found]).toEqual([400, code]);
  }
  expect((await client.get('/bucket?tagging')).all('Key')).toHaveLength(50);
});

test('tags are shown in the order of their keys, of a bucket and of an object, however they came', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const body = tagging(['b', '1'], ['a', '2'], ['B', '3']);
  await client.put('/bucket?tagging', { body });
  await client.put('/bucket/header', { body: 'x', headers: { '*-tagging': 'b=1&a=2&B=3' } });
  await client.put('/bucket/body', { body: 'x' });
  await client.put('/bucket/body?tagging', { body });
  for (const path of ['/bucket', '/bucket/header', '/bucket/body']) {
    const shown = await client.get(`${path}?tagging`);
    expect([shown.all('Key'), shown.all('Value')], path).toEqual([
      ['B', 'a', 'b'],
      ['3', '2', '1'],
    ]);
  }
});

describe('a bucket created with tags', () => {
  const creation = (...tags: readonly (readonly [string, string])[]): string =>
    `<CreateBucketConfiguration><Tags>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join('')}</Tags></CreateBucketConfiguration>`;

  test('has them from its first moment', async () => {
    await using world = await openGateway();
    const { client } = world;
    expect((await client.put('/bucket', { body: creation(['a', '1'], ['b', '']) })).status).toBe(200);
    const got = await client.get('/bucket?tagging');
    expect([got.all('Key'), got.all('Value')]).toEqual([
      ['a', 'b'],
      ['1', ''],
    ]);
    expect((await client.put('/plain', { body: creation() })).status).toBe(200);
    expect((await client.get('/plain?tagging')).code).toBe('NoSuchTagSet');
  });

  test('is not created when a tag is none', async () => {
    await using world = await openGateway();
    const { client } = world;
    for (const body of [creation(['a', '1'], ['a', '2']), creation(['aws:a', '1']), creation(['', '1'])]) {
      const put = await client.put('/bucket', { body });
      expect([put.status, put.code]).toEqual([400, 'InvalidTag']);
    }
    expect((await client.head('/bucket')).status).toBe(404);
  });

  test('keeps those that it has when it is created again', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket', { body: creation(['a', '1']) });
    expect((await client.put('/bucket', { body: creation(['b', '2']) })).status).toBe(200);
    expect((await client.get('/bucket?tagging')).all('Key')).toEqual(['a']);
  });

  test('requires s3:TagResource of its creator', async () => {
    await using world = await openGateway();
    const { credential } = await openUser(world, 'carol', { policy: allow('s3:CreateBucket') });
    const carol = world.as({ credential });
    const refused = await carol.put('/bucket', { body: creation(['a', '1']) });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    expect((await carol.put('/plain', { body: creation() })).status).toBe(200);
    const policy = allow('s3:CreateBucket', 's3:TagResource');
    const dave = world.as({ credential: (await openUser(world, 'dave', { policy })).credential });
    expect((await dave.put('/bucket', { body: creation(['a', '1']) })).status).toBe(200);
  });
});
