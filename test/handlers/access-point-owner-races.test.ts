/** Access points that are created while their bucket is given to another account or deleted: none of the former account remains. */
import { expect, test } from 'vitest';
import {
  claimAlias,
  findAccessPoint,
  findAlias,
  insertAccessPoint,
  removeAccessPoint,
} from '../../src/metadata/buckets/access-points.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { accessPoints } from '../../src/metadata/records/access-points.ts';
import { policyOf } from '../support/access.ts';
import { acting, furnished, policyFor } from '../support/access-points.ts';
import { ambush } from '../support/ambush.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { must } from '../support/iam-users.ts';
import { auditRows, inShort } from '../support/recorded.ts';

const give = (world: GatewayWorld) =>
  operatorOf(world).ask('PUT', '/buckets/bucket/owner', { owner: bob.owner });
const create = (world: GatewayWorld) =>
  acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
const namesOf = async (world: GatewayWorld) => (await acting(world)('ListAccessPoints')).all('Name');

test('CreateAccessPoint is refused and leaves nothing, if the bucket gets another owner meanwhile', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  rightBefore('access_points', async () => expect((await give(world)).status).toBe(200));
  const refused = await create(world);
  expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
  expect(await namesOf(world)).toEqual([]);
  expect(await findAlias(world.context.metadata, `photos-${alice.owner}`)).toBeUndefined();
  expect((await auditRows(world.context)).map(inShort)).toContainEqual(
    expect.stringMatching(/^CreateAccessPoint .* 403 AccessDenied$/),
  );
  // The new owner's account has the name free.
  const own = await acting(world, bob)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
  expect(own.status).toBe(200);
});

test('PutBucketOwner is refused and reopens the bucket, if an access point is created right before it closes the bucket', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  rightBefore('buckets', async () => expect((await create(world)).status).toBe(200));
  const refused = await give(world);
  expect([refused.status, refused.json['code']]).toEqual([400, 'BucketHasAccessPointsAttached']);
  const found = await findBucket(world.context.metadata, 'bucket');
  expect(found?.row).toMatchObject({ owner: alice.owner, closedAt: 0 });
  expect((await world.client.put('/bucket/key', { body: 'x' })).status).toBe(200);
  await acting(world)('DeleteAccessPoint', { Name: 'photos' });
  expect((await give(world)).status).toBe(200);
});

test('a refused PutBucketOwner does not count against the maxBuckets of the account that was to have the bucket', async () => {
  await using world = await openGateway();
  const quota = { maxBuckets: 1, totalMaxBytes: 0 };
  await operatorOf(world).must('PUT', `/iam/users/${bob.owner}/quota`, quota);
  await world.client.put('/bucket');
  expect((await create(world)).status).toBe(200);
  expect((await give(world)).json['code']).toBe('BucketHasAccessPointsAttached');
  const own = await world.bob.put('/of-bob');
  expect(own.status, own.text).toBe(200);
  expect((await world.bob.put('/another')).code).toBe('QuotaExceeded');
});

test('DeleteBucket is refused and reopens the bucket, if an access point is created right before it closes the bucket', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  await world.client.put('/bucket');
  rightBefore('buckets', async () => expect((await create(world)).status).toBe(200));
  const refused = await world.client.delete('/bucket');
  expect([refused.status, refused.code]).toEqual([400, 'BucketHasAccessPointsAttached']);
  expect((await world.client.put('/bucket/key', { body: 'x' })).status).toBe(200);
});

test('an access point that a dead process left with the former owner’s account leads nowhere', async () => {
  await using world = await openGateway();
  const { metadata } = world.context;
  const alias = await furnished(world);
  const row = (await metadata.scan({ table: accessPoints, in: { account: alice.owner } }).next(1))[0]?.row;
  if (row === undefined) throw new Error('there is no access point');
  const policy = {
    Principal: { AWS: alice.owner },
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::bucket/*',
  };
  await world.client.put('/bucket?policy', { body: policyOf(policy) });
  await acting(world)('DeleteAccessPoint', { Name: 'photos' });
  expect((await give(world)).status).toBe(200);
  expect((await world.client.get('/bucket/key')).status).toBe(200);
  await insertAccessPoint(metadata, row, []);
  await claimAlias(metadata, { alias, account: alice.owner, name: 'photos' });
  const lost = await world.client.get(`/${alias}/key`);
  expect([lost.status, lost.code]).toEqual([404, 'NoSuchBucket']);
});

test('after PutBucketOwner, access points of other accounts stay, show the new owner, and need its bucket policy, which stays too', async () => {
  const carol = { ...bob, accessKey: 'KEY-carol', owner: 'carol-account', displayName: 'carol' };
  await using world = await openGateway({ people: [carol] });
  await furnished(world);
  await acting(world)('DeleteAccessPoint', { Name: 'photos' });
  const delegated = {
    Principal: { AWS: carol.owner },
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::bucket/*',
  };
  await world.client.put('/bucket?policy', { body: policyOf(delegated) });
  const hers = acting(world, carol);
  const asked = { Name: 'hers', Bucket: 'bucket', BucketAccountId: alice.owner };
  const alias = (await must(hers('CreateAccessPoint', asked))).one('Alias');
  const read = () => world.as({ credential: carol }).get(`/${alias}/key`);
  const owners = async () => [
    (await must(hers('GetAccessPoint', { Name: 'hers' }))).one('BucketAccountId'),
    (await must(hers('ListAccessPoints'))).one('BucketAccountId'),
  ];
  expect([(await read()).status, await owners()]).toEqual([200, [alice.owner, alice.owner]]);
  expect((await give(world)).status).toBe(200);
  expect(await owners()).toEqual([bob.owner, bob.owner]);
  // The former owner's policy decides until the new owner replaces it.
  expect((await world.bob.get('/bucket?policy')).text).toContain(carol.owner);
  expect((await read()).status).toBe(200);
  expect((await world.bob.delete('/bucket?policy')).status).toBe(204);
  expect((await read()).status).toBe(403);
  // Another bucket of that name is not the one of the access point.
  await world.bob.delete('/bucket/key');
  expect((await world.bob.delete('/bucket')).status).toBe(204);
  await world.client.put('/bucket');
  expect(await owners()).toEqual([alice.owner, alice.owner]);
});

test('DeleteBucket and PutBucketOwner find the access point of a bucket beside one that is left of an earlier bucket of the name', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const his = acting(world, bob);
  const ofAlice = { Name: 'aaa', Bucket: 'bucket', BucketAccountId: alice.owner };
  await must(his('CreateAccessPoint', ofAlice));
  expect((await world.client.delete('/bucket')).status).toBe(204);
  expect((await world.bob.put('/bucket')).status).toBe(200);
  await must(his('CreateAccessPoint', { Name: 'zzz', Bucket: 'bucket' }));
  const refused = await world.bob.delete('/bucket');
  expect([refused.status, refused.code]).toEqual([400, 'BucketHasAccessPointsAttached']);
  const kept = await operatorOf(world).ask('DELETE', '/buckets/bucket');
  expect([kept.json['code'], kept.json['message']]).toEqual([
    'BucketHasAccessPointsAttached',
    'Access points lead to the bucket: zzz.',
  ]);
  const given = await operatorOf(world).ask('PUT', '/buckets/bucket/owner', { owner: alice.owner });
  expect(given.json['code']).toBe('BucketHasAccessPointsAttached');
  const listed = await operatorOf(world).must('GET', '/buckets/bucket/access-points?limit=1');
  expect([listed['rows'], listed['next']]).toEqual([
    [expect.objectContaining({ accessPoint: 'zzz' })],
    undefined,
  ]);
  await must(his('DeleteAccessPoint', { Name: 'zzz' }));
  expect((await world.bob.delete('/bucket')).status).toBe(204);
});

test.each([
  ['DELETE', '', undefined],
  ['PUT', '/policy', { document: policyFor({ Principal: { AWS: bob.owner } }) }],
  ['DELETE', '/policy', undefined],
] as const)(
  '%s of an access point%s at the operator API leaves one of another bucket that takes its name meanwhile',
  async (method, path, body) => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ wrap });
    const { metadata } = world.context;
    await furnished(world);
    await world.client.put('/other');
    const policy = policyFor({ Principal: { AWS: alice.owner } });
    await must(acting(world)('PutAccessPointPolicy', { Name: 'photos', Policy: policy }));
    const other = (await findBucket(metadata, 'other'))?.row;
    // As another process does, which does not take turns with this one.
    rightBefore('access_points', async () => {
      const stored = await findAccessPoint(metadata, alice.owner, 'photos');
      if (stored === undefined || other === undefined) throw new Error('there is nothing to replace');
      await removeAccessPoint(metadata, stored, []);
      const next = { ...stored.row, bucket: other.name, bucketId: other.id, alias: 'photos-next-s3alias' };
      await insertAccessPoint(metadata, next, []);
    });
    const refused = await operatorOf(world).ask(method, `/buckets/bucket/access-points/photos${path}`, body);
    expect([refused.status, refused.json['code']]).toEqual([404, 'NoSuchAccessPoint']);
    const now = await findAccessPoint(metadata, alice.owner, 'photos');
    expect([now?.row.bucket, now?.row.policy?.text]).toEqual(['other', policy]);
  },
);
