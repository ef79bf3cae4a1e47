/** What callers of other accounts may do with the operator API: their own things, judged by their own policies. */
import { describe, expect, test } from 'vitest';
import { GetBucketTraffic, GetBucketUsage, ListBucketUsage } from '../../src/handlers/admin/usage.ts';
import { alice, bob, type GatewayWorld, openGateway, operator, person } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { allow, openUser } from '../support/iam-users.ts';

const own = [
  '/buckets/of-alice',
  '/buckets/of-alice/usage',
  '/buckets/of-alice/traffic',
  '/buckets/of-alice/uploads',
  '/buckets/of-alice/replication',
  '/buckets?owner=alice-account',
  '/usage/buckets?owner=alice-account',
];
const ownAccount = [
  '/iam/users/alice-account/usage',
  '/iam/users/alice-account/traffic',
  '/accounts/alice-account',
];
const ofOthers = [
  '/buckets/of-bob',
  '/buckets/of-bob/usage',
  '/buckets/of-bob/quota',
  '/buckets/of-bob/uploads',
  '/buckets/of-bob/replication',
  '/replication/status',
  '/replication/failed?bucket=of-alice',
  '/replication/resync/of-alice',
  '/buckets/no-such-bucket/usage',
  '/buckets',
  '/buckets?owner=bob-account',
  '/usage/buckets',
  '/usage/buckets?owner=bob-account',
  '/iam/users/bob-account/usage',
  '/iam/users/bob-account/quota',
  '/accounts',
  '/accounts/bob-account',
  '/accounts/alice-account/users',
  '/clusters',
  '/storage/health',
  '/workers',
  '/audit',
  '/traces',
  '/settings',
  '/logins',
];

const statuses = async (client: Client, paths: readonly string[]) =>
  Promise.all(paths.map(async (path) => [path, (await client.get(`/admin/v1${path}`)).status] as const));
const all = (paths: readonly string[], status: number) => paths.map((path) => [path, status] as const);

async function openWorld(): Promise<GatewayWorld> {
  const world = await openGateway({ people: [person('plain', { owner: 'alice-account', root: false })] });
  expect((await world.client.put('/of-alice')).status).toBe(200);
  expect((await world.bob.put('/of-bob')).status).toBe(200);
  return world;
}

async function openReader(world: GatewayWorld) {
  const { credential } = await openUser(world, 'reader', { policy: allow('s3:GetObject') });
  return { credential, arn: `arn:aws:iam::${credential.owner}:user/reader` };
}

describe('a caller of an account that is no operator’s', () => {
  test('reads buckets, usage and quota of its own account as its root, and nothing else', async () => {
    await using world = await openWorld();
    expect(await statuses(world.client, [...own, ...ownAccount])).toEqual(all([...own, ...ownAccount], 200));
    expect((await world.client.get('/admin/v1/buckets/of-alice/quota')).text).toContain('NoSuchBucketQuota');
    expect(await statuses(world.client, ofOthers)).toEqual(all(ofOthers, 403));
    const listed = JSON.parse((await world.client.get('/admin/v1/buckets?owner=alice-account')).text);
    expect(listed.rows.map(({ name }: { readonly name: string }) => name)).toEqual(['of-alice']);
    for (const [method, path] of [
      ['PUT', '/buckets/of-alice/quota'],
      ['POST', '/buckets/of-alice/force-empty'],
      ['PUT', '/buckets/of-alice/owner'],
      ['POST', '/buckets/of-alice/reshard'],
      ['PUT', '/iam/users/alice-account/quota'],
      ['POST', '/accounts/alice-account/users'],
    ] as const)
      expect([path, (await world.client.send(method, `/admin/v1${path}`, { body: '{}' })).status]).toEqual([
        path,
        403,
      ]);
    expect(await statuses(world.anonymous, [...own, ...ofOthers])).toEqual(all([...own, ...ofOthers], 403));
  });

  test('does as a user what its policies allow of that', async () => {
    await using world = await openWorld();
    const clientOf = async (name: string, policy?: string) =>
      world.as({
        credential: (await openUser(world, name, policy === undefined ? {} : { policy })).credential,
      });
    const none = await clientOf('none');
    const narrow = await clientOf('narrow', allow('admin:GetBucketUsage', 'admin:DrainCluster'));
    const wide = await clientOf('wide', allow('admin:*'));
    const everything = [...own, ...ownAccount];
    expect(await statuses(none, everything)).toEqual(all(everything, 403));
    const mine = await statuses(narrow, everything);
    expect(mine.filter(([, status]) => status === 200)).toEqual([['/buckets/of-alice/usage', 200]]);
    expect(await statuses(wide, everything)).toEqual(all(everything, 200));
    for (const client of [none, narrow, wide])
      expect(await statuses(client, ofOthers)).toEqual(all(ofOthers, 403));
    const limited = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
        { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::buckets/of-alice*' },
      ],
    });
    const denied = await clientOf('denied', limited);
    expect((await statuses(denied, own)).map(([, status]) => status)).toEqual([
      403, 403, 403, 403, 403, 200, 200,
    ]);
    for (const list of ['/buckets', '/usage/buckets'])
      expect(JSON.parse((await denied.get(`/admin/v1${list}?owner=alice-account`)).text).rows).toEqual([]);
  });

  test('is told by CheckPermissions what it may do', async () => {
    await using world = await openWorld();
    const ask = async (client: Client, questions: readonly object[]) => {
      const { status, text } = await client.post('/admin/v1/session/permissions', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ questions }),
      });
      expect(status).toBe(200);
      return JSON.parse(text).answers.map(({ allowed }: { readonly allowed: boolean }) => allowed);
    };
    const questions = [
      { action: 'admin:DrainCluster' },
      { action: 'admin:ListBuckets' },
      { action: 'admin:GetBucketUsage', bucket: 'of-alice' },
      { action: 'admin:GetBucketUsage', bucket: 'of-bob' },
      { action: 's3:GetObject', bucket: 'of-alice', key: 'any' },
      { action: 's3:GetObject', bucket: 'of-bob', key: 'any' },
      { action: 's3:CreateBucket', bucket: 'new' },
      { action: 'iam:CreateUser', resource: 'arn:aws:iam::alice-account:user/new' },
    ];
    const asOperator = world.as({ credential: operator });
    expect(await ask(world.client, questions)).toEqual([false, true, true, false, true, false, true, true]);
    expect(await ask(asOperator, questions)).toEqual([true, true, true, true, false, false, true, true]);
    const reader = (await openUser(world, 'reader', { policy: allow('s3:GetObject') })).credential;
    const asReader = await ask(world.as({ credential: reader }), questions);
    expect(asReader).toEqual([false, false, false, false, true, false, false, false]);
    const unknown = await world.client.post('/admin/v1/session/permissions', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ questions: [{ action: 'admin:NoSuch' }] }),
    });
    expect([unknown.status, unknown.text]).toEqual([400, expect.stringContaining('questions[0].action')]);
    expect((await world.anonymous.post('/admin/v1/session/permissions', { body: '{}' })).status).toBe(403);
  });

  test('asks why about its own buckets and its own callers, and learns nothing of others', async () => {
    await using world = await openWorld();
    const { credential: reader, arn } = await openReader(world);
    const why = async (client: Client, question: object): Promise<readonly [number, string]> => {
      const body = JSON.stringify({ action: 's3:GetObject', key: 'any', ...question });
      const headers = { 'content-type': 'application/json' };
      const single = await client.post('/admin/v1/why', { headers, body });
      const batch = await client.post('/admin/v1/why/batch', { headers, body: `{"questions":[${body}]}` });
      const [answer] = JSON.parse(batch.text).answers;
      // Both forms decide the same.
      expect(answer.refused === undefined).toBe(single.status === 200);
      return [single.status, single.text];
    };
    const bucket = 'of-alice';
    expect(await why(world.client, { bucket })).toEqual([200, expect.stringContaining('"allowed":false')]);
    for (const who of [{ accessKey: reader.accessKey }, { principal: arn }]) {
      const [status, text] = await why(world.client, { bucket, ...who });
      expect([status, JSON.parse(text)]).toMatchObject([200, { allowed: true, caller: { principal: arn } }]);
    }
    const others = [
      {},
      { bucket: 'of-bob' },
      { bucket: 'no-such-bucket' },
      { bucket, accessKey: bob.accessKey },
      { bucket, accessKey: operator.accessKey },
      { bucket, accessKey: 'NOSUCHKEY' },
      { bucket, principal: 'arn:aws:iam::bob-account:root' },
    ];
    for (const question of others)
      expect([question, (await why(world.client, question))[0]]).toEqual([question, 403]);
    // A user of the account: itself with its own permission, others with that of IAM.
    const asker = (await openUser(world, 'asker', { policy: allow('admin:ExplainDecision') })).credential;
    const client = world.as({ credential: asker });
    expect((await why(client, { bucket, accessKey: asker.accessKey }))[0]).toBe(200);
    expect(await why(client, { bucket, principal: arn })).toEqual([
      403,
      expect.stringContaining('iam:SimulatePrincipalPolicy'),
    ]);
    expect((await why(world.as({ credential: reader }), { bucket }))[0]).toBe(403);
  });

  test('asks why about an audited request of its own bucket only, also where the question names another bucket', async () => {
    await using world = await openWorld();
    const requestOf = async (client: Client, path: string): Promise<string> =>
      (await client.put(path, { body: 'x' })).header('x-amz-request-id') ?? '';
    const mine = await requestOf(world.client, '/of-alice/key');
    const other = await requestOf(world.bob, '/of-bob/secret-key');
    const ask = (requestId: string) =>
      world.client.post('/admin/v1/why', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ bucket: 'of-alice', requestId }),
      });
    const answer = await ask(mine);
    expect([answer.status, JSON.parse(answer.text).request]).toMatchObject([200, { key: 'key' }]);
    const refused = await ask(other);
    expect([refused.status, refused.text]).toEqual([403, expect.not.stringContaining('secret-key')]);
  });

  test('may log in, and is no operator then', async () => {
    await using world = await openWorld();
    for (const { who, isOperator } of [
      { who: operator, isOperator: true },
      { who: alice, isOperator: false },
      { who: bob, isOperator: false },
    ]) {
      const reply = await world.anonymous.post('/admin/v1/session', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ accessKey: who.accessKey, secretKey: who.secretKey }),
      });
      expect([reply.status, JSON.parse(reply.text).isOperator]).toEqual([200, isOperator]);
      const cookie = (reply.header('set-cookie') ?? '').split(';')[0] ?? '';
      const clusters = await world.anonymous.get('/admin/v1/clusters', { headers: { cookie } });
      expect(clusters.status).toBe(isOperator ? 200 : 403);
      const session = await world.anonymous.get('/admin/v1/session', { headers: { cookie } });
      expect(JSON.parse(session.text)).toMatchObject({ isOperator, account: who.owner });
    }
  });
});

describe('the access keys of the caller', () => {
  test('are listed, created, made inactive and deleted by users whom IAM allows it', async () => {
    await using world = await openWorld();
    const policy = allow(
      'iam:ListAccessKeys',
      'iam:CreateAccessKey',
      'iam:UpdateAccessKey',
      'iam:DeleteAccessKey',
    );
    const { credential, act } = await openUser(world, 'carol', { policy });
    const client = world.as({ credential });
    const made = await client.post('/admin/v1/session/access-keys');
    expect(made.status).toBe(200);
    const pair = JSON.parse(made.text);
    const second = world.as({ credential: { ...credential, ...pair } });
    const list = async () => JSON.parse((await client.get('/admin/v1/session/access-keys')).text).accessKeys;
    expect((await list()).map(({ accessKey }: { readonly accessKey: string }) => accessKey).sort()).toEqual(
      [credential.accessKey, pair.accessKey].sort(),
    );
    const path = `/admin/v1/session/access-keys/${pair.accessKey}`;
    const headers = { 'content-type': 'application/json' };
    expect((await client.send('PUT', path, { headers, body: '{"status":"Inactive"}' })).status).toBe(204);
    expect((await second.get('/admin/v1/session')).status).toBe(403);
    expect((await client.send('DELETE', path)).status).toBe(204);
    expect(await list()).toHaveLength(1);
    const session = await act('GetSessionToken');
    const token = session.one('SessionToken') ?? '';
    const temporary = {
      ...credential,
      accessKey: session.one('AccessKeyId') ?? '',
      secretKey: session.one('SecretAccessKey') ?? '',
    };
    const bare = world.as({ credential: temporary, token });
    expect((await bare.post('/admin/v1/session/access-keys')).status).toBe(403);
  });

  test('are refused to users whom IAM does not allow it, and to anonymous callers', async () => {
    await using world = await openWorld();
    const { credential } = await openUser(world, 'dave', { policy: allow('admin:*') });
    const client = world.as({ credential });
    for (const each of [client, world.anonymous]) {
      expect((await each.get('/admin/v1/session/access-keys')).status).toBe(403);
      expect((await each.post('/admin/v1/session/access-keys')).status).toBe(403);
      expect((await each.delete(`/admin/v1/session/access-keys/${credential.accessKey}`)).status).toBe(403);
    }
  });
});

test('the usage of buckets is shown to nobody without an identity, by the front door and by the handlers themselves', async () => {
  await using world = await openGateway();
  await world.client.put('/of-alice');
  for (const path of ['/buckets/of-alice/usage', '/buckets/of-alice/traffic', '/usage/buckets']) {
    const { status } = await world.anonymous.get(`/admin/v1${path}`);
    expect(status, path).toBe(403);
  }
  const call = { identity: undefined, params: new Map([['name', 'of-alice']]), query: {} };
  const { signal } = new AbortController();
  for (const handler of [GetBucketUsage, ListBucketUsage, GetBucketTraffic])
    await expect(handler(world.context, { ...call, signal } as never)).rejects.toMatchObject({
      code: 'AccessDenied',
    });
});
