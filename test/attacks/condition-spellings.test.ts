/** What a client may write in several ways is one thing to a policy: the source of a copy, a storage class. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { openGateway } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';

const spellings = [
  'bucket/secret/one two',
  '/bucket/secret/one%20two',
  'bucket/secret/one+two',
  'bucket/%73ecret/one%20two',
  '%62ucket%2Fsecret%2Fone%20two',
  '/%62ucket/secret/one%20two?versionId=null',
];

test('a Deny of a source holds for each of its spellings, by CopyObject and UploadPartCopy', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/secret/one%20two', { body: 'secret' });
  await client.put('/bucket/open/key', { body: 'open' });
  await client.put('/target');
  const policy = policyOf({
    Effect: 'Deny',
    Action: 's3:PutObject',
    Resource: 'arn:aws:s3:::target/*',
    Principal: '*',
    Condition: { StringLike: { 's3:x-amz-copy-source': 'bucket/secret/*' } },
  });
  expect((await client.put('/target?policy', { body: policy })).status).toBe(204);
  const { credential } = await openUser(world, 'carol', { policy: allow('s3:*') });
  const carol = world.as({ credential });
  const uploadId = (await carol.post('/target/parts?uploads')).one('UploadId') ?? '';
  const found: unknown[] = [];
  for (const source of spellings) {
    const headers = { '*-copy-source': source };
    const copy = await carol.put('/target/copy', { headers });
    const part = await carol.put(`/target/parts?partNumber=1&uploadId=${uploadId}`, { headers });
    found.push([source, copy.status, part.status]);
  }
  expect(found).toEqual(spellings.map((source) => [source, 403, 403]));
  expect((await carol.put('/target/copy', { headers: { '*-copy-source': '/bucket/open/key' } })).status).toBe(
    200,
  );
});

test('a Deny of a storage class holds for both of its names, in writes, copies and uploads', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  const { credential } = await openUser(world, 'carol', { policy: allow('s3:*') });
  for (const [denied, other] of [
    ['GLACIER', 'archive'],
    ['archive', 'GLACIER'],
  ] as const) {
    const policy = policyOf({
      Effect: 'Deny',
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::bucket/*',
      Condition: { StringEquals: { 's3:x-amz-storage-class': denied } },
    });
    expect((await client.put('/bucket?policy', { body: policy })).status).toBe(204);
    for (const dialect of ['amz', 'store'] as const) {
      const carol = world.as({ credential, dialect });
      const headers = { '*-storage-class': other };
      expect((await carol.put('/bucket/new', { headers, body: 'x' })).status).toBe(403);
      expect(
        (await carol.put('/bucket/new', { headers: { ...headers, '*-copy-source': 'bucket/key' } })).status,
      ).toBe(403);
      expect((await carol.post('/bucket/new?uploads', { headers })).status).toBe(403);
      expect(
        (await carol.put('/bucket/new', { headers: { '*-storage-class': 'STANDARD_IA' }, body: 'x' })).status,
      ).toBe(200);
    }
  }
});

test('a quantifier takes the spellings of a value for one value', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  const write = { Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' };
  const { credential } = await openUser(world, 'carol', { policy: allow('s3:ListBucket') });
  const carol = world.as({ credential });
  for (const Condition of [
    { 'ForAllValues:StringEquals': { 's3:x-amz-storage-class': 'archive' } },
    { 'ForAnyValue:StringEquals': { 's3:x-amz-storage-class': 'GLACIER' } },
  ]) {
    const allowed = policyOf({ Effect: 'Allow', Principal: '*', ...write, Condition });
    expect((await client.put('/bucket?policy', { body: allowed })).status).toBe(204);
    for (const [name, status] of [
      ['GLACIER', 200],
      ['archive', 200],
      ['STANDARD_IA', 403],
    ] as const)
      expect(
        (await carol.put('/bucket/new', { headers: { '*-storage-class': name }, body: 'x' })).status,
        `${name} where ${JSON.stringify(Condition)} is allowed`,
      ).toBe(status);
  }
  // The owner denies everything but one source: a spelling of it is not another one.
  for (const operator of ['ForAnyValue:StringNotEquals', 'ForAllValues:StringNotEquals']) {
    const Condition = { [operator]: { 's3:x-amz-copy-source': 'bucket/key' } };
    expect(
      (
        await client.put('/bucket?policy', {
          body: policyOf({ Effect: 'Deny', Principal: '*', ...write, Condition }),
        })
      ).status,
    ).toBe(204);
    for (const [source, status] of [
      ['/bucket/key', 200],
      ['bucket/%6bey', 200],
      ['bucket/other', 403],
    ] as const)
      expect(
        (await client.put('/bucket/copy', { headers: { '*-copy-source': source } })).status,
        `${source} with ${operator}`,
      ).toBe(status);
  }
});
