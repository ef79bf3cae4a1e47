/** Who may use the operator API beside configured operators: IAM users and roles of an operators' account, by their policies. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { alice, type GatewayWorld, openGateway, operator, person } from '../support/gateway.ts';
import { allow, must, openUser, putPolicy, trusting } from '../support/iam-users.ts';
import { auditRows, inShort } from '../support/recorded.ts';

const root = operator;

const policy = (...statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });

async function openAdmin(world: GatewayWorld, document: string) {
  const user = await openUser(world, 'carol', { root, policy: document });
  return { user, client: world.as({ credential: user.credential }) };
}

describe('a user of the operators’ account', () => {
  test('may use the operations that a policy allows, and no others', async () => {
    await using world = await openGateway();
    const { client } = await openAdmin(world, allow('admin:ListClusters', 'admin:GetStorageHealth'));
    expect((await client.get('/admin/v1/clusters')).status).toBe(200);
    expect((await client.get('/admin/v1/storage/health')).status).toBe(200);
    const refused = await client.post('/admin/v1/clusters/default/drain', { body: '{"mode":"readonly"}' });
    expect(refused.status).toBe(403);
    expect(refused.text).toContain('because no identity-based policy allows the admin:DrainCluster action');
    expect((await client.get('/metrics')).status).toBe(403);
    expect((await client.get('/?notify-dlq')).status).toBe(403);
  });

  test('may do everything with admin:*, also metrics and the listings at service scope', async () => {
    await using world = await openGateway();
    const { client } = await openAdmin(world, allow('admin:*'));
    expect((await client.get('/admin/v1/clusters')).status).toBe(200);
    expect((await client.get('/metrics')).status).toBe(200);
    expect((await client.get('/readyz')).text).toContain('"components"');
    expect((await client.get('/?audit')).status).toBe(200);
    expect((await client.get('/?notify-dlq')).status).toBe(200);
  });

  test('is limited by resource, by condition and by an explicit deny', async () => {
    await using world = await openGateway();
    const statement = { Effect: 'Allow', Action: 'admin:*Quota' };
    const ours = { ...statement, Resource: 'arn:aws:admin:::buckets/team-*/quota' };
    const { user, client } = await openAdmin(world, policy(ours));
    for (const name of ['team-a', 'other']) await world.client.put(`/${name}`);
    const body = JSON.stringify({ maxBytes: 10, maxObjects: 0, maxBytesPerObject: 0 });
    const put = (name: string) => client.put(`/admin/v1/buckets/${name}/quota`, { body });
    expect((await put('team-a')).status).toBe(204);
    expect((await put('other')).status).toBe(403);
    const iam = openActions(world, { credential: root });
    const elsewhere = { ...ours, Condition: { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } } };
    await putPolicy(iam, user.name, policy(elsewhere));
    expect((await put('team-a')).status).toBe(403);
    await putPolicy(iam, user.name, policy(ours, { Effect: 'Deny', Action: 'admin:Put*', Resource: '*' }));
    const denied = await put('team-a');
    expect(denied.status).toBe(403);
    expect(denied.text).toContain('explicit deny in an identity-based policy');
    expect((await client.get('/admin/v1/buckets/team-a/quota')).status).toBe(200);
  });

  test('is audited by its ARN, also where it is refused', async () => {
    await using world = await openGateway();
    const { client } = await openAdmin(world, allow('admin:PutClusterWeight'));
    expect((await client.put('/admin/v1/clusters/default/weight', { body: '{"weight":7}' })).status).toBe(
      200,
    );
    expect(
      (await client.post('/admin/v1/clusters/default/drain', { body: '{"mode":"readonly"}' })).status,
    ).toBe(403);
    const { text } = await world.as({ credential: root }).get('/?audit');
    expect(text).toContain('admin:PutClusterWeight');
    expect(text).toMatch(/admin:DrainCluster[\s\S]*AccessDenied|AccessDenied[\s\S]*admin:DrainCluster/);
    expect(text).toContain('arn:aws:iam::operator-account:user/carol');
  });

  test('loses it with the next request after its policy or key is gone', async () => {
    await using world = await openGateway();
    const { user, client } = await openAdmin(world, allow('admin:*'));
    const iam = openActions(world, { credential: root });
    expect((await client.get('/admin/v1/clusters')).status).toBe(200);
    await iam('DeleteUserPolicy', { UserName: user.name, PolicyName: 'test' });
    expect((await client.get('/admin/v1/clusters')).status).toBe(403);
  });
});

test('a role of the operators’ account is limited by the session policy it is assumed with', async () => {
  await using world = await openGateway();
  const iam = openActions(world, { credential: root });
  const user = await openUser(world, 'carol', { root, policy: allow('sts:AssumeRole') });
  await iam('CreateRole', {
    RoleName: 'admins',
    AssumeRolePolicyDocument: trusting({ AWS: 'operator-account' }),
  });
  await iam('PutRolePolicy', { RoleName: 'admins', PolicyName: 'p', PolicyDocument: allow('admin:*') });
  const assumed = await user.act('AssumeRole', {
    RoleArn: 'arn:aws:iam::operator-account:role/admins',
    RoleSessionName: 'night',
    Policy: allow('admin:ListClusters'),
  });
  const credential = {
    ...user.credential,
    accessKey: assumed.one('AccessKeyId') ?? '',
    secretKey: assumed.one('SecretAccessKey') ?? '',
  };
  const client = world.as({ credential, token: assumed.one('SessionToken') ?? '' });
  expect((await client.get('/admin/v1/clusters')).status).toBe(200);
  expect((await client.get('/admin/v1/workers')).status).toBe(403);
});

describe('an explicit deny holds for every spelling of a path', () => {
  const quota = JSON.stringify({ maxBytes: 10, maxObjects: 0, maxBytesPerObject: 0 });
  const denied = ['buckets/secret/*', 'replication/resync/secret', 'clusters/default/drain'];
  const document = policy(
    { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
    { Effect: 'Deny', Action: 'admin:*', Resource: denied.map((path) => `arn:aws:admin:::${path}`) },
  );
  const secrets = ['secret', '%73ecret', '%73%65%63%72%65%74', 'secre%74'];

  test('with escapes in a name: the request is refused, and its audit row names the bucket', async () => {
    await using world = await openGateway();
    const { client } = await openAdmin(world, document);
    for (const name of ['secret', 'open']) await world.client.put(`/${name}`);
    const before = (await auditRows(world.context)).length;
    for (const name of secrets) {
      const answer = await client.put(`/admin/v1/buckets/${name}/quota`, { body: quota });
      expect([name, answer.status, JSON.parse(answer.text).code]).toEqual([name, 403, 'AccessDenied']);
      expect(answer.text).toContain('arn:aws:admin:::buckets/secret/quota');
      expect((await client.delete(`/admin/v1/replication/resync/${name}`)).status).toBe(403);
    }
    expect((await client.put('/admin/v1/buckets/%6fpen/quota', { body: quota })).status).toBe(204);
    const rows = (await auditRows(world.context)).map(inShort);
    expect(rows).toHaveLength(before + 2 * secrets.length + 1);
    const count = (row: string) => rows.filter((each) => each === row).length;
    expect(count('admin:PutBucketQuota bucket:secret 403 AccessDenied')).toBe(secrets.length);
    expect(count('admin:CancelReplicationResync bucket:secret 403 AccessDenied')).toBe(secrets.length);
    expect(count('admin:PutBucketQuota bucket:open 204')).toBe(1);
  });

  test('with slashes that are no part of the path: the request is refused, also where no policy is asked', async () => {
    await using world = await openGateway();
    const user = await openAdmin(world, document);
    await world.client.put('/books');
    const body = '{"mode":"readonly"}';
    const cases = [
      ['/clusters/default/drain/', 400, 'InvalidURI', {}],
      ['/buckets/books/force-empty//', 400, 'InvalidURI', {}],
      ['/clusters//default/drain', 404, 'NotFound', {}],
      ['//clusters/default/drain', 404, 'NotFound', {}],
      ['/clusters/default%2Fdrain/drain', 400, 'InvalidArgument', { field: 'id' }],
      ['/clusters/x%2f..%2fdefault/drain', 400, 'InvalidArgument', { field: 'id' }],
    ] as const;
    for (const client of [user.client, world.as({ credential: operator })]) {
      for (const [path, status, code, details] of cases) {
        const answer = await client.post(`/admin/v1${path}`, { body });
        const shape = {
          code,
          message: expect.any(String),
          request_id: answer.header('*-request-id'),
          details,
        };
        expect([path, answer.status, JSON.parse(answer.text)]).toEqual([path, status, shape]);
      }
    }
    const clusters = await world.as({ credential: operator }).get('/admin/v1/clusters');
    expect(JSON.parse(clusters.text).clusters[0].state).toBe('live');
    const rows = await auditRows(world.context);
    for (const row of [
      'admin:DrainCluster  400 InvalidURI',
      'admin:ForceEmptyBucket bucket:books 400 InvalidURI',
      'admin:DrainCluster  400 InvalidArgument',
    ])
      expect(rows.filter((each) => inShort(each) === row).map(({ accessKey }) => accessKey)).toContain(
        operator.accessKey,
      );
  });

  test('where the request is refused before its operation is known: its audit row names the bucket', async () => {
    await using world = await openGateway();
    const stranger = world.as({ credential: { ...operator, secretKey: 'not-the-secret-of-the-operator' } });
    expect((await stranger.put('/admin/v1/buckets/%73ecret/quota', { body: quota })).status).toBe(403);
    expect((await stranger.head('/admin/v1/buckets/%73ecret/quota')).status).toBe(403);
    expect((await stranger.head('/admin/v1/support-bundle')).status).toBe(403);
    const rows = (await auditRows(world.context)).map(inShort);
    expect(rows.filter((row) => row.startsWith('admin:'))).toEqual([
      'admin:PutBucketQuota bucket:secret 403 SignatureDoesNotMatch',
      'admin:GetSupportBundle  403 SignatureDoesNotMatch',
    ]);
  });
});

test('an explicit deny on a user, group or role holds also where the path has its name in another case', async () => {
  await using world = await openGateway();
  const iam = openActions(world, { credential: root });
  const denied = ['users/Boss*', 'groups/Staff*', 'roles/Night'].map(
    (path) => `arn:aws:admin:::accounts/*/${path}`,
  );
  const { client } = await openAdmin(
    world,
    policy(
      { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
      { Effect: 'Deny', Action: 'admin:*', Resource: [...denied, 'arn:aws:admin:::iam/users/Boss/*'] },
    ),
  );
  await must(iam('CreateUser', { UserName: 'Boss' }));
  await must(iam('CreateGroup', { GroupName: 'Staff' }));
  const AssumeRolePolicyDocument = trusting({ AWS: 'operator-account' });
  await must(iam('CreateRole', { RoleName: 'Night', AssumeRolePolicyDocument }));
  const pair = { accessKey: 'moved-from-elsewhere', secretKey: 'a-secret-of-elsewhere' };
  const cases = [
    ['DELETE', '/accounts/operator-account/users/Boss', '', 409],
    ['POST', '/accounts/operator-account/users/Boss/access-keys', '', 200],
    ['POST', '/iam/users/Boss/access-keys', JSON.stringify(pair), 200],
    ['PUT', '/accounts/operator-account/groups/Staff/users/carol', '', 204],
    ['DELETE', '/accounts/operator-account/roles/Night', '', 204],
  ] as const;
  const send = (by: typeof client, method: string, path: string, body: string) =>
    by.send(method, `/admin/v1${path}`, body === '' ? {} : { body }).then(({ status }) => status);
  for (const [method, path, body] of cases) {
    const folded = path.replace(/Boss|Staff|Night/, (name) => name.toUpperCase());
    const got = [await send(client, method, path, body), await send(client, method, folded, body)];
    expect([path, ...got]).toEqual([path, 403, 404]);
  }
  // Names as they were given lead there, for those who may; a user with keys is not deleted.
  const free = world.as({ credential: operator });
  for (const [method, path, body, status] of cases.toReversed())
    expect([path, await send(free, method, path, body)]).toEqual([path, status]);
});

describe('no policy of another account grants the operator API', () => {
  test('a tenant’s administrator cannot, by any policy of the tenant', async () => {
    await using world = await openGateway();
    const user = await openUser(world, 'mallory', { root: alice, policy: allow('*', 'admin:*') });
    const client = world.as({ credential: user.credential });
    expect((await client.get('/admin/v1/clusters')).status).toBe(403);
    expect((await client.get('/metrics')).status).toBe(403);
    expect((await world.client.get('/admin/v1/clusters')).status).toBe(403);
  });

  test('an account is no operators’ account where only another of its keys is an operator', async () => {
    const people = [
      person('dave', { root: true }),
      person('dave-operator', { owner: 'dave-account', root: false, operator: true }),
    ];
    await using world = await openGateway({ people });
    const [dave, daveOperator] = people;
    if (dave === undefined || daveOperator === undefined) throw new Error('unreachable');
    const user = await openUser(world, 'mallory', { root: dave, policy: allow('*') });
    expect((await world.as({ credential: user.credential }).get('/admin/v1/clusters')).status).toBe(403);
    expect((await world.as({ credential: daveOperator }).get('/admin/v1/clusters')).status).toBe(200);
  });

  test('a configured key of the operators’ account that is no operator stays none', async () => {
    const plain = person('plain', { owner: 'operator-account', root: false });
    await using world = await openGateway({ people: [plain] });
    const refused = await world.as({ credential: plain }).get('/admin/v1/clusters');
    expect(refused.status).toBe(403);
    expect(refused.text).toContain('because the access key is not configured as an operator');
  });
});
