/** Who may use the operator API beside configured operators: IAM users and roles of an operators' account, by their policies. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { alice, type GatewayWorld, openGateway, operator, person } from '../support/gateway.ts';
import { allow, openUser, putPolicy, trusting } from '../support/iam-users.ts';

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
