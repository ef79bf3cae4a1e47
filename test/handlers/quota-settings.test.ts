/** Operators set, read and remove quotas; a quota that makes no sense is refused and changes nothing. */
import { describe, expect, test } from 'vitest';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { openQuotas, refusedFor, ten } from '../support/quota-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('quotas are set, shown and removed, and each change is audited', async () => {
  await using world = await openQuotas();
  const { admin } = world;
  expect(await admin.get('/admin/v1/buckets/bucket/quota')).toMatchObject({
    status: 404,
    text: expect.stringContaining('NoSuchBucketQuota'),
  });
  expect((await admin.get('/admin/v1/iam/users/nobody/quota')).status).toBe(404);
  await world.limit({ maxBytes: 9_007_199_254_740_991, maxObjects: 2 });
  expect(JSON.parse((await admin.get('/admin/v1/buckets/bucket/quota')).text)).toEqual({
    maxBytes: 9_007_199_254_740_991,
    maxObjects: 2,
    maxBytesPerObject: 0,
  });
  await world.limitUser({ maxBuckets: 3, totalMaxBytes: 4 });
  const userQuota = `/admin/v1/iam/users/${alice.owner}/quota`;
  expect(JSON.parse((await admin.get(userQuota)).text)).toEqual({ maxBuckets: 3, totalMaxBytes: 4 });
  for (let round = 0; round < 2; round += 1) {
    expect((await admin.delete('/admin/v1/buckets/bucket/quota')).status).toBe(204);
    expect((await admin.delete(userQuota)).status).toBe(204);
  }
  expect((await admin.get(userQuota)).status).toBe(404);
  expect((await admin.get('/admin/v1/buckets/bucket/quota')).status).toBe(404);
  expect((await world.client.put('/bucket/a', { body: ten })).status).toBe(200);
  const { text } = await admin.get('/?audit');
  for (const name of ['PutBucketQuota', 'DeleteBucketQuota', 'PutUserQuota', 'DeleteUserQuota'])
    expect(text).toContain(`admin:${name}`);
});

test.each([
  ['{"maxBytes":-1,"maxObjects":0,"maxBytesPerObject":0}', 'maxBytes'],
  ['{"maxBytes":1.5,"maxObjects":0,"maxBytesPerObject":0}', 'maxBytes'],
  ['{"maxBytes":0,"maxObjects":9007199254740993,"maxBytesPerObject":0}', 'maxObjects'],
  ['{"maxBytes":0,"maxObjects":0,"maxBytesPerObject":"1 GB"}', 'maxBytesPerObject'],
  ['{"maxBytes":"9PB","maxObjects":"1"}', 'maxObjects'],
  ['{"maxBytes":"10PB"}', 'maxBytes'],
  ['{"maxBytes":0,"maxObjects":0,"maxBytesPerObject":0,"max":1}', 'max'],
  ['', 'maxBytes'],
])('a quota of %s is refused, and the field is named', async (body, field) => {
  await using world = await openQuotas();
  const { status, text } = await world.admin.put('/admin/v1/buckets/bucket/quota', { body });
  expect([status, text]).toEqual([400, expect.stringContaining(field)]);
  expect((await world.admin.get('/admin/v1/buckets/bucket/quota')).status).toBe(404);
  expect((await world.client.put('/admin/v1/buckets/bucket/quota', { body })).status).toBe(403);
});

test.each([
  ['{"maxBuckets":-1,"totalMaxBytes":0}', 'maxBuckets'],
  ['{"maxBuckets":0.5,"totalMaxBytes":0}', 'maxBuckets'],
  ['{"maxBuckets":2147483648,"totalMaxBytes":0}', 'maxBuckets'],
  ['{"maxBuckets":0,"totalMaxBytes":9007199254740992}', 'totalMaxBytes'],
  ['{"maxBuckets":0,"totalMaxBytes":-1}', 'totalMaxBytes'],
  ['{"maxBuckets":"1"}', 'maxBuckets'],
  ['{}', 'totalMaxBytes'],
  ['{"maxBuckets":0,"totalMaxBytes":0,"maxBytes":1}', 'maxBytes'],
  ['[]', 'body'],
])('a quota of an account of %s is refused, and the field is named', async (body, field) => {
  await using world = await openQuotas();
  const path = `/admin/v1/iam/users/${alice.owner}/quota`;
  const { status, text } = await world.admin.put(path, { body });
  expect([status, text]).toEqual([400, expect.stringContaining(field)]);
  expect((await world.admin.get(path)).status).toBe(404);
  expect((await world.client.put(path, { body })).status).toBe(403);
});

test('a PUT changes the limits that it names, in bytes or as a size, and null removes one', async () => {
  await using world = await openQuotas();
  const admin = operatorOf(world);
  const path = '/buckets/bucket/quota';
  await admin.must('PUT', path, { maxBytes: '10GB' });
  expect(await admin.must('GET', path)).toEqual({ maxBytes: 10e9, maxObjects: 0, maxBytesPerObject: 0 });
  await admin.must('PUT', path, { maxObjects: 7, maxBytesPerObject: '1.5GiB' });
  await admin.must('PUT', path, { maxBytes: null });
  expect(await admin.must('GET', path)).toEqual({
    maxBytes: 0,
    maxObjects: 7,
    maxBytesPerObject: 1.5 * 1024 ** 3,
  });
  const ofUser = `/iam/users/${alice.owner}/quota`;
  await admin.must('PUT', ofUser, { maxBuckets: 3 });
  await admin.must('PUT', ofUser, { totalMaxBytes: '2TiB' });
  expect(await admin.must('GET', ofUser)).toEqual({ maxBuckets: 3, totalMaxBytes: 2 * 1024 ** 4 });
  await admin.must('PUT', ofUser, { maxBuckets: null });
  expect(await admin.must('GET', ofUser)).toEqual({ maxBuckets: 0, totalMaxBytes: 2 * 1024 ** 4 });
});

describe('a refusal says which limit, what is used and what is allowed', () => {
  const quota = (answer: { one(name: string): string | undefined }) =>
    ['Code', 'QuotaLimit', 'Allowed', 'Used', 'Requested'].map((name) => answer.one(name));

  test('to callers of the account, for each of the limits', async () => {
    await using world = await openQuotas();
    const { client } = world;
    expect((await client.put('/bucket/first', { body: ten })).status).toBe(200);
    await world.limit({ maxBytes: 15 });
    const bytes = await client.put('/bucket/a', { body: ten });
    expect(quota(bytes)).toEqual(['QuotaExceeded', 'maxBytes', '15', '10', '10']);
    expect(bytes.one('Message')).toBe(
      'quota exceeded for bucket: maxBytes of the bucket bucket is 15 bytes; 10 are used, and this request adds 10.',
    );
    await world.limit({ maxObjects: 1 });
    expect(quota(await client.put('/bucket/a', { body: ten }))).toEqual([
      'QuotaExceeded',
      'maxObjects',
      '1',
      '1',
      '1',
    ]);
    await world.limit({ maxBytesPerObject: 9 });
    const size = await client.put('/bucket/a', { body: ten });
    expect(quota(size)).toEqual(['QuotaExceeded', 'maxBytesPerObject', '9', undefined, '10']);
    await world.limit({});
    await world.limitUser({ totalMaxBytes: 12, maxBuckets: 1 });
    const total = await client.put('/bucket/a', { body: ten });
    expect(quota(total)).toEqual(['QuotaExceeded', 'totalMaxBytes', '12', '10', '10']);
    const buckets = await client.put('/another');
    expect(quota(buckets)).toEqual(['QuotaExceeded', 'maxBuckets', '1', '1', '1']);
    const user = await openUser(world, 'ann', { policy: allow('s3:*') });
    const ofAnn = await world.as({ credential: user.credential }).put('/bucket/a', { body: ten });
    expect(ofAnn.one('Used')).toBe('10');
  });

  test('and tells nothing of it to callers of another account, or without one', async () => {
    await using world = await openQuotas();
    const document = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: '*', Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' },
      ],
    });
    await world.client.delete('/bucket?publicAccessBlock');
    expect((await world.client.put('/bucket?policy', { body: document })).status).toBe(204);
    await world.limit({ maxBytes: 9 });
    for (const stranger of [world.bob, world.anonymous]) {
      const answer = await stranger.put('/bucket/a', { body: ten });
      expect(answer.one('Message')).toBe('quota exceeded for bucket');
      expect(quota(answer)).toEqual(['QuotaExceeded', undefined, undefined, undefined, undefined]);
    }
  });
});

test('the largest quotas are taken and shown, and leave room', async () => {
  await using world = await openQuotas();
  const user = { maxBuckets: 2_147_483_647, totalMaxBytes: 9_007_199_254_740_991 };
  await world.limitUser(user);
  const most = 9_007_199_254_740_991;
  await world.limit({ maxBytes: most, maxObjects: most, maxBytesPerObject: most });
  const shown = await world.admin.get(`/admin/v1/iam/users/${alice.owner}/quota`);
  expect(JSON.parse(shown.text)).toEqual(user);
  expect((await world.client.put('/bucket/a', { body: ten })).status).toBe(200);
  expect((await world.client.put('/another')).status).toBe(200);
});

test('a creation that another account was faster than counts no longer, and one whose outcome is unknown for ten minutes', async () => {
  const clock = virtualClock();
  let before: (() => Promise<void>) | undefined;
  await using world = await openQuotas({
    clock,
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        now: async () => clock.now(),
        commit: async (at, changes, options) => {
          if (at.table.name === 'buckets') {
            const run = before;
            before = undefined;
            await run?.();
          }
          return context.metadata.commit(at, changes, options);
        },
      }),
    }),
  });
  const { client, bob } = world;
  await world.limitUser({ maxBuckets: 2 });
  before = async () => expect((await bob.put('/taken')).status).toBe(200);
  expect((await client.put('/taken')).code).toBe('BucketAlreadyExists');
  before = () => Promise.reject(new StoreUnavailable('no answer'));
  expect((await client.put('/lost')).status).toBe(503);
  // It may exist, so it counts.
  expect(await client.put('/other')).toMatchObject(refusedFor('user'));
  clock.jump(10 * 60_000);
  expect((await client.put('/other')).status).toBe(200);
  expect(await client.put('/more')).toMatchObject(refusedFor('user'));
});
