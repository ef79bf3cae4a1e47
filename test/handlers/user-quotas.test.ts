/** The quota of an IAM user limits the buckets that it creates, and the bytes in them, beside the quota of its account. @storage */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { alice, backends, bob, operator } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';
import { allow, assume, must, openUser, trusting } from '../support/iam-users.ts';
import { openQuotas, refusedFor, ten } from '../support/quota-world.ts';
import { auditRows } from '../support/recorded.ts';

const everything = { policy: allow('s3:*') };
const unlimited = { maxBuckets: 0, totalMaxBytes: 0 };

describe.each(backends)('the quota of an IAM user: %s', (backend) => {
  test('limits the bytes of the buckets that the user created, whoever writes them', async () => {
    await using world = await openQuotas({ backend });
    const { credential } = await openUser(world, 'carol', everything);
    const carol = world.as({ credential });
    expect((await carol.put('/carols')).status).toBe(200);
    await carol.put('/carols/before', { body: ten });
    await world.limitUser({ totalMaxBytes: 25 }, 'carol');
    expect((await carol.put('/carols-too')).status).toBe(200);
    expect((await carol.put('/carols-too/key', { body: ten })).status).toBe(200);
    for (const client of [carol, world.client])
      expect(await client.put('/carols/more', { body: ten })).toMatchObject(refusedFor('user'));
    // Other buckets of the account are not the user's.
    expect((await carol.put('/bucket/key', { body: ten })).status).toBe(200);
    await carol.delete('/carols/before');
    expect((await carol.put('/carols/more', { body: ten })).status).toBe(200);
    const uploadId = await createUpload(carol, '/carols/parts');
    expect(
      await carol.put('/carols/parts', { query: { uploadId, partNumber: '1' }, body: ten }),
    ).toMatchObject(refusedFor('user'));
    const part = await putPart(carol, '/carols/parts', { uploadId, number: 1, body: 'five.' });
    expect((await complete(carol, '/carols/parts', { uploadId, parts: [part] })).status).toBe(200);
    expect(await carol.put('/carols/last', { body: 'x' })).toMatchObject(refusedFor('user'));
  });

  test('limits the buckets that the user creates, of any number of concurrent requests', async () => {
    await using world = await openQuotas({ backend });
    const { credential } = await openUser(world, 'carol', everything);
    const carol = world.as({ credential });
    await carol.put('/carols');
    await world.limitUser({ maxBuckets: 3 }, 'carol');
    const names = Array.from({ length: 6 }, (_, i) => `/carols-${i}`);
    const made = await Promise.all(names.map((name) => carol.put(name)));
    expect(made.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(made.find(({ status }) => status !== 200)).toMatchObject(refusedFor('user'));
    expect((await world.client.put('/of-the-root')).status).toBe(200);
    // The name of an existing bucket adds none.
    expect((await carol.put('/carols')).status).toBe(200);
  });
});

test('the quota of a user limits the buckets that it creates by a role of its account', async () => {
  await using world = await openQuotas();
  const carol = await openUser(world, 'carol', { policy: allow('sts:*', 's3:*') });
  const root = openActions(world);
  const AssumeRolePolicyDocument = trusting({ AWS: alice.owner });
  const role = await must(root('CreateRole', { RoleName: 'maker', AssumeRolePolicyDocument }));
  const PolicyDocument = allow('s3:*');
  await must(root('PutRolePolicy', { RoleName: 'maker', PolicyName: 'all', PolicyDocument }));
  await world.limitUser({ maxBuckets: 2 }, 'carol');
  const { options } = await assume(world, carol.act, { role: role.one('Arn') ?? '' });
  const session = world.as(options);
  expect((await world.as({ credential: carol.credential }).put('/carols')).status).toBe(200);
  expect((await session.put('/carols-too')).status).toBe(200);
  expect(await session.put('/carols-last')).toMatchObject(refusedFor('user'));
});

test('the quotas of an account and of its user hold together', async () => {
  await using world = await openQuotas();
  const { credential } = await openUser(world, 'carol', everything);
  const carol = world.as({ credential });
  await carol.put('/carols');
  await world.limitUser({ totalMaxBytes: 15 });
  await world.limitUser({ totalMaxBytes: 100 }, 'carol');
  expect((await carol.put('/carols/one', { body: ten })).status).toBe(200);
  expect(await carol.put('/carols/two', { body: ten })).toMatchObject(refusedFor('user'));
  await world.limitUser(unlimited);
  await world.limitUser({ totalMaxBytes: 15 }, 'carol');
  expect(await carol.put('/carols/two', { body: ten })).toMatchObject(refusedFor('user'));
  expect((await world.admin.delete('/admin/v1/iam/users/carol/quota')).status).toBe(204);
  expect((await carol.put('/carols/two', { body: ten })).status).toBe(200);
});

test('a bucket that gets another owner leaves the quota of the user who created it', async () => {
  await using world = await openQuotas();
  const { credential } = await openUser(world, 'carol', everything);
  const carol = world.as({ credential });
  await carol.put('/carols');
  await carol.put('/carols/key', { body: ten });
  await world.limitUser({ totalMaxBytes: 10, maxBuckets: 1 }, 'carol');
  expect(await carol.put('/carols-too')).toMatchObject(refusedFor('user'));
  const body = JSON.stringify({ owner: operator.owner });
  expect((await world.admin.put('/admin/v1/buckets/carols/owner', { body })).status).toBe(200);
  expect((await carol.put('/carols-too')).status).toBe(200);
  expect((await carol.put('/carols-too/key', { body: ten })).status).toBe(200);
});

test('the path names an account, or an IAM user; others are 404, and the audit log names whom it was about', async () => {
  await using world = await openQuotas();
  const { admin } = world;
  await openUser(world, 'carol', everything);
  await openUser(world, 'dora', { root: operator });
  await openUser(world, 'dora', everything);
  const body = JSON.stringify({ maxBuckets: 1, totalMaxBytes: 2 });
  const ask = (method: string, user: string) =>
    admin.send(method, `/admin/v1/iam/users/${user}`, method === 'PUT' ? { body } : {});
  for (const method of ['GET', 'PUT', 'DELETE'])
    for (const user of [
      'nobody/quota',
      'carol/quota?account=nobody',
      `carol/quota?account=${operator.owner}`,
    ])
      expect([method, user, (await ask(method, user)).status]).toEqual([method, user, 404]);
  // A user of the caller's own account comes first, and another account is named.
  expect((await ask('PUT', 'dora/quota')).status).toBe(204);
  expect((await ask('GET', `dora/quota?account=${alice.owner}`)).status).toBe(404);
  expect((await ask('PUT', 'carol/quota')).status).toBe(204);
  expect((await ask('PUT', `${alice.owner}/quota`)).status).toBe(204);
  expect(JSON.parse((await ask('GET', `carol/quota?account=${alice.owner}`)).text)).toEqual(JSON.parse(body));
  const resources = (await auditRows(world.context))
    .filter(({ action, status }) => action === 'admin:PutUserQuota' && status === 204)
    .map(({ resource }) => resource);
  expect(resources.toSorted()).toEqual([
    `arn:aws:iam::${alice.owner}:root`,
    `arn:aws:iam::${alice.owner}:user/carol`,
    `arn:aws:iam::${operator.owner}:user/dora`,
  ]);
  // A user that is created again has no quota.
  const act = openActions(world, {});
  const keys = (await act('ListAccessKeys', { UserName: 'carol' })).one('AccessKeyId') ?? '';
  await act('DeleteAccessKey', { UserName: 'carol', AccessKeyId: keys });
  await act('DeleteUserPolicy', { UserName: 'carol', PolicyName: 'test' });
  expect((await act('DeleteUser', { UserName: 'carol' })).status).toBe(200);
  await act('CreateUser', { UserName: 'carol' });
  expect((await ask('GET', 'carol/quota')).status).toBe(404);
});

test('a Deny of an account holds for the quota of its users', async () => {
  await using world = await openQuotas();
  await openUser(world, 'carol', everything);
  const document = {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
      { Effect: 'Deny', Action: 'admin:*', Resource: `arn:aws:admin:::accounts/${alice.owner}/*` },
    ],
  };
  const { credential } = await openUser(world, 'eve', { root: operator, policy: JSON.stringify(document) });
  const eve = world.as({ credential });
  const body = JSON.stringify(unlimited);
  for (const path of ['carol/quota', `carol/quota?account=${alice.owner}`, `${alice.owner}/quota`])
    expect([path, (await eve.put(`/admin/v1/iam/users/${path}`, { body })).status]).toEqual([path, 403]);
});

test('an account does not read the quota of a user of another account that has its name', async () => {
  await using world = await openQuotas();
  await openUser(world, bob.owner, everything);
  const path = `/admin/v1/iam/users/${bob.owner}/quota`;
  await world.admin.put(`${path}?account=${alice.owner}`, { body: JSON.stringify(unlimited) });
  expect((await world.bob.get(`${path}?account=${alice.owner}`)).status).toBe(403);
  // Its own has not been set.
  expect((await world.bob.get(path)).status).toBe(404);
});

test('the audit row of a change of the log level names it', async () => {
  await using world = await openQuotas();
  await world.admin.put('/admin/v1/log-level', { body: '{"level":"ERROR"}' });
  const rows = (await auditRows(world.context)).filter(({ action }) => action === 'admin:PutLogLevel');
  expect(rows.map(({ resource }) => resource)).toEqual(['log-level']);
});
