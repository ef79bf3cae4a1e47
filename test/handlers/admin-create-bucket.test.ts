/** POST /admin/v1/buckets and DELETE /admin/v1/buckets/{name}. @storage */
import { describe, expect, test } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { alice, backends, bob, openGateway } from '../support/gateway.ts';
import { createUpload, setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, inShort } from '../support/recorded.ts';

describe.each(backends)('on %s', (backend) => {
  test('a bucket that an operator creates is its owner account’s, with region, versioning and Object Lock', async () => {
    await using world = await openGateway({ backend });
    const admin = operatorOf(world);
    const owner = alice.owner;
    const plain = await admin.ask('POST', '/buckets', { name: 'plain', owner });
    expect(plain).toMatchObject({
      status: 201,
      json: { name: 'plain', owner, versioning: 'unset', objectLock: false },
    });
    await admin.must('POST', '/buckets', { name: 'versioned', owner, versioning: true, region: 'eu-west-1' });
    await admin.must('POST', '/buckets', { name: 'locked', owner, objectLock: true });
    expect((await world.client.put('/plain/key', { body: 'x' })).status).toBe(200);
    expect((await world.bob.put('/plain/key', { body: 'x' })).status).toBe(403);
    expect((await world.client.get('/versioned?versioning')).text).toContain('<Status>Enabled</Status>');
    expect((await world.client.get('/versioned?location')).text).toContain('eu-west-1');
    expect((await world.client.get('/locked?object-lock')).text).toContain('Enabled');
    expect((await world.client.get('/')).all('Name')).toEqual(['locked', 'plain', 'versioned']);
    const rows = (await auditRows(world.context)).map(inShort);
    expect(rows).toContain('admin:CreateBucket bucket:plain 201');
  });

  test('a bucket with anything in it is kept, and the refusal says what that is', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    const admin = operatorOf(world);
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    for (const key of ['a', 'a', 'b']) await client.put(`/bucket/${key}`, { body: key });
    await client.delete('/bucket/b');
    const { status, json } = await admin.ask('DELETE', '/buckets/bucket');
    expect([status, json['code'], json['message']]).toEqual([
      409,
      'BucketNotEmpty',
      'The bucket bucket has 1 object, 2 noncurrent versions, 1 delete marker; the first key is "a". Empty it with POST /admin/v1/buckets/bucket/force-empty.',
    ]);
    expect((await client.put('/bucket/c', { body: 'still open' })).status).toBe(200);
  });

  test('an empty bucket goes, with its open uploads', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await createUpload(world.client, '/bucket/key');
    const admin = operatorOf(world);
    expect((await admin.ask('DELETE', '/buckets/bucket')).status).toBe(204);
    expect((await admin.ask('DELETE', '/buckets/bucket')).status).toBe(404);
    expect((await world.client.get('/bucket')).code).toBe('NoSuchBucket');
  });
});

test('names, owners and buckets that exist are refused', async () => {
  await using world = await openGateway({ settings: { SVC_REGION_STRICT: 'true' } });
  await world.bob.put('/taken');
  const create = async (body: object) => {
    const { status, json } = await operatorOf(world).ask('POST', '/buckets', body);
    return `${status} ${String(json['code'])}`;
  };
  const owner = bob.owner;
  expect(await create({ name: 'taken', owner })).toBe('409 BucketAlreadyExists');
  expect(await create({ name: 'taken', owner: alice.owner })).toBe('409 BucketAlreadyExists');
  expect(await create({ name: 'A_b', owner })).toBe('400 InvalidBucketName');
  expect(await create({ name: 'admin', owner })).toBe('400 InvalidBucketName');
  expect(await create({ name: 'fresh', owner: 'stranger' })).toBe('400 InvalidArgument');
  expect(await create({ name: 'fresh' })).toBe('400 MalformedJSON');
  expect(await create({ name: 'fresh', owner, region: 'elsewhere' })).toBe(
    '400 IllegalLocationConstraintException',
  );
  expect((await world.client.get('/fresh')).code).toBe('NoSuchBucket');
});

test('more than a thousand rows are counted no further', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (let batch = 0; batch < 11; batch += 1)
    await Promise.all(
      Array.from({ length: 100 }, (_, n) => world.client.put(`/bucket/${batch}-${n}`, { body: '' })),
    );
  const { json } = await operatorOf(world).ask('DELETE', '/buckets/bucket');
  expect(json['message']).toContain('has at least 1000 objects; the first key is "0-0".');
});
