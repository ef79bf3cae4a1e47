/** Temporary credentials: their callers, permissions and expiry. @storage */
import { describe, expect, test } from 'vitest';
import { listed, openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, backends, bob, type GatewayWorld, openGateway, person } from '../support/gateway.ts';
import { allow, assume, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const roleArn = (name: string): string => `arn:aws:iam::alice-account:role/${name}`;
const reader = roleArn('reader');

/** A role of alice's account that may read and that trusts `principal`. */
async function openRole(
  world: GatewayWorld,
  {
    principal = { AWS: 'alice-account' },
    condition,
    policy = allow('s3:*'),
    more = {},
  }: {
    readonly principal?: object | string;
    readonly condition?: object;
    readonly policy?: string;
    readonly more?: Record<string, string>;
  } = {},
): Promise<void> {
  const iam = openActions(world);
  const AssumeRolePolicyDocument = trusting(principal, condition);
  await must(iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument, ...more }));
  await must(iam('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument: policy }));
}

describe.each(backends)('a session of a role on %s', (backend) => {
  test('signs in every way, for what the role may do', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'hello' });
    await openRole(world, { policy: allow('s3:GetObject', 's3:PutObject') });
    const { options, act, answer } = await assume(world, openActions(world), { role: reader });
    expect(options.credential.accessKey).toMatch(/^ASIA[A-Z2-7]{16}$/);
    const session = 'arn:aws:sts::alice-account:assumed-role/reader/session';
    expect([answer.one('Arn'), answer.one('AssumedRoleId')]).toEqual([
      session,
      expect.stringMatching(/^AROA.*:session$/),
    ]);
    const self = await must(act('GetCallerIdentity'));
    expect([self.one('Arn'), self.one('UserId')]).toEqual([session, answer.one('AssumedRoleId')]);
    for (const dialect of ['amz', 'store'] as const) {
      const client = world.as({ ...options, dialect });
      expect((await client.get('/bucket/key')).text).toBe('hello');
      expect((await client.presigned('GET', '/bucket/key')).text).toBe('hello');
      expect((await client.put('/bucket/other', { body: 'x', payload: 'streaming' })).status).toBe(200);
      expect((await client.get('/bucket')).code).toBe('AccessDenied');
    }
    const query = { 'x-amz-security-token': options.token };
    expect((await world.as(options).presignedV2('GET', '/bucket/key', { query })).text).toBe('hello');
  });

  test('ends with the role, and obeys its policies as they are', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await openRole(world);
    const iam = openActions(world);
    const { options } = await assume(world, iam, { role: reader });
    const client = world.as(options);
    expect((await client.get('/bucket')).status).toBe(200);
    await must(iam('DeleteRolePolicy', { RoleName: 'reader', PolicyName: 'p' }));
    expect((await client.get('/bucket')).code).toBe('AccessDenied');
    await must(iam('DeleteRole', { RoleName: 'reader' }));
    expect((await client.get('/bucket')).code).toBe('InvalidToken');
    await openRole(world);
    expect((await client.get('/bucket')).code).toBe('InvalidToken');
  });
});

describe('a session', () => {
  test('expires at its time, and not before', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    await openRole(world, { more: { MaxSessionDuration: '7200' } });
    const iam = openActions(world);
    const { options, act, answer } = await assume(world, iam, { role: reader, DurationSeconds: '900' });
    expect(answer.one('Expiration')).toBe(new Date(clock.now() + 900_000).toISOString());
    await clock.advance(899_999);
    expect((await act('GetCallerIdentity')).status).toBe(200);
    await clock.advance(1);
    const late = await act('GetCallerIdentity');
    expect([late.status, late.code]).toEqual([400, 'ExpiredToken']);
    const storage = await world.as(options).get('/');
    expect([storage.status, storage.code]).toEqual([400, 'ExpiredToken']);
    const asked = (DurationSeconds: string) =>
      iam('AssumeRole', { RoleArn: reader, RoleSessionName: 'session', DurationSeconds });
    for (const [seconds, code] of [
      ['899', 'ValidationError'],
      ['7201', 'ValidationError'],
      ['43201', 'ValidationError'],
      ['7200', ''],
    ] as const)
      expect((await asked(seconds)).code).toBe(code);
  });

  test('is limited by its session policies', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    await openRole(world);
    const iam = openActions(world);
    await must(iam('CreatePolicy', { PolicyName: 'lists', PolicyDocument: allow('s3:ListBucket') }));
    const lists = 'arn:aws:iam::alice-account:policy/lists';
    const statuses = async (more: Record<string, string>) => {
      const { options } = await assume(world, iam, { role: reader, ...more });
      const client = world.as(options);
      return [(await client.get('/bucket')).status, (await client.get('/bucket/key')).status];
    };
    expect(await statuses({})).toEqual([200, 200]);
    expect(await statuses({ Policy: allow('s3:GetObject') })).toEqual([403, 200]);
    expect(await statuses(listed('PolicyArns', [{ arn: lists }]))).toEqual([200, 403]);
    expect(
      await statuses({ Policy: allow('s3:GetObject'), ...listed('PolicyArns', [{ arn: lists }]) }),
    ).toEqual([200, 200]);
    expect(await statuses({ Policy: allow('iam:*') })).toEqual([403, 403]);
    const limited = await assume(world, iam, { role: reader, ...listed('PolicyArns', [{ arn: lists }]) });
    expect((await world.as(limited.options).get('/bucket')).status).toBe(200);
    await must(iam('DeletePolicy', { PolicyArn: lists }));
    expect((await world.as(limited.options).get('/bucket')).status).toBe(403);
    const asked = (more: Record<string, string>) =>
      iam('AssumeRole', { RoleArn: reader, RoleSessionName: 'session', ...more });
    expect((await asked({ Policy: '{}' })).code).toBe('MalformedPolicyDocument');
    expect((await asked(listed('PolicyArns', [{ arn: lists }]))).code).toBe('NoSuchEntity');
    const foreign = 'arn:aws:iam::bob-account:policy/lists';
    expect((await asked(listed('PolicyArns', [{ arn: foreign }]))).code).toBe('NoSuchEntity');
    const long = Array.from({ length: 20 }, (_, index) => ({ Key: `k${index}`, Value: 'v'.repeat(200) }));
    expect((await asked(listed('Tags', long))).code).toBe('PackedPolicyTooLarge');
  });

  test('carries tags, those of the role unless it brings others, and passes some on', async () => {
    await using world = await openGateway();
    await world.client.put('/blue');
    await world.client.put('/red');
    const byTag = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 's3:*', Resource: `arn:aws:s3:::\${aws:PrincipalTag/Team}` },
        { Effect: 'Allow', Action: 'sts:*', Resource: '*' },
      ],
    });
    await openRole(world, {
      policy: byTag,
      more: listed('Tags', [{ Key: 'Team', Value: 'blue' }]) as Record<string, string>,
    });
    const iam = openActions(world);
    const seen = async (act: typeof iam, more: Record<string, string> = {}) => {
      const session = await assume(world, act, { role: reader, ...more });
      const client = world.as(session.options);
      return {
        ...session,
        statuses: [(await client.get('/blue')).status, (await client.get('/red')).status],
      };
    };
    expect((await seen(iam)).statuses).toEqual([200, 403]);
    const tagged = await seen(iam, {
      ...listed('Tags', [{ Key: 'team', Value: 'red' }]),
      ...listed('TransitiveTagKeys', ['team']),
    });
    expect(tagged.statuses).toEqual([403, 200]);
    expect(Number(tagged.answer.one('PackedPolicySize'))).toBeGreaterThan(0);
    expect((await seen(tagged.act)).statuses).toEqual([403, 200]);
    const again = {
      RoleArn: reader,
      RoleSessionName: 'session',
      ...listed('Tags', [{ Key: 'Team', Value: 'blue' }]),
    };
    expect((await tagged.act('AssumeRole', again)).code).toBe('InvalidParameterValue');
    // Names of tags compare without regard to case.
    const capitals = await seen(iam, {
      ...listed('Tags', [{ Key: 'team', Value: 'red' }]),
      ...listed('TransitiveTagKeys', ['TEAM']),
    });
    expect((await capitals.act('AssumeRole', again)).code).toBe('InvalidParameterValue');
    expect((await seen(capitals.act)).statuses).toEqual([403, 200]);
    const hour = { RoleArn: reader, RoleSessionName: 'session', DurationSeconds: '3601' };
    expect((await tagged.act('AssumeRole', hour)).code).toBe('ValidationError');
  });
});

describe('a role', () => {
  test('is assumed by a caller that the trust policy and the caller’s account allow', async () => {
    await using world = await openGateway();
    const user = 'arn:aws:iam::alice-account:user/carol';
    await openRole(world, { principal: { AWS: user } });
    const carol = await openUser(world, 'carol');
    const dave = await openUser(world, 'dave', { policy: allow('sts:AssumeRole') });
    const ask = { RoleArn: reader, RoleSessionName: 'session' };
    const codes = async () => [
      (await carol.act('AssumeRole', ask)).code,
      (await dave.act('AssumeRole', ask)).code,
    ];
    expect(await codes()).toEqual(['', 'AccessDenied']);
    const iam = openActions(world);
    const trust = (principal: object | string, condition?: object) =>
      must(
        iam('UpdateAssumeRolePolicy', { RoleName: 'reader', PolicyDocument: trusting(principal, condition) }),
      );
    await trust({ AWS: 'alice-account' });
    expect(await codes()).toEqual(['AccessDenied', '']);
    await trust({ AWS: 'alice-account' }, { StringEquals: { 'sts:ExternalId': 'secret-42' } });
    expect(await codes()).toEqual(['AccessDenied', 'AccessDenied']);
    expect((await dave.act('AssumeRole', { ...ask, ExternalId: 'secret-42' })).code).toBe('');
    expect((await dave.act('AssumeRole', { ...ask, ExternalId: 'secret-43' })).code).toBe('AccessDenied');
  });

  test('of another account is assumed when both sides say so', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await openRole(world, { principal: { AWS: 'bob-account' } });
    const ask = { RoleArn: reader, RoleSessionName: 'session' };
    const options = { root: bob };
    const none = await openUser(world, 'mallory', options);
    const some = await openUser(world, 'trent', { ...options, policy: allow('sts:AssumeRole') });
    expect((await none.act('AssumeRole', ask)).code).toBe('AccessDenied');
    const session = sessionOf(world, await must(some.act('AssumeRole', ask)));
    expect((await must(session.act('GetCallerIdentity'))).one('Account')).toBe('alice-account');
    expect((await world.as(session.options).get('/bucket')).status).toBe(200);
    expect((await session.act('ListUsers')).code).toBe('AccessDenied');
    await must(
      openActions(world)('PutRolePolicy', {
        RoleName: 'reader',
        PolicyName: 'p',
        PolicyDocument: allow('*'),
      }),
    );
    expect((await must(session.act('ListUsers'))).all('UserName')).toEqual([]);
  });

  test.each([
    `arn:aws:iam::${'a'.repeat(1_900)}:role/x`,
    'arn:aws:iam::a\0b:role/reader',
    'arn:aws:iam::alice-account:role/rea\0der',
    'arn:aws:iam::alice-account:role/a b',
    'arn:aws:iam::alice-account:role/x/',
    'arn:aws:iam:us-east-1:alice-account:role/x',
    'arn:aws:sts::alice-account:role/x',
  ])('is no %j', async (RoleArn) => {
    await using world = await openGateway({ backend: 'embedded+file' });
    const answer = await openActions(world)('AssumeRole', { RoleArn, RoleSessionName: 'session' });
    expect([answer.status, answer.code]).toEqual([400, 'ValidationError']);
  });

  test('that does not exist is refused like one that does not trust the caller', async () => {
    await using world = await openGateway();
    await openRole(world, { principal: { AWS: 'bob-account' }, more: { Path: '/a/' } });
    const carol = await openUser(world, 'carol', { policy: allow('*') });
    const message = async (RoleArn: string) => {
      const answer = await carol.act('AssumeRole', { RoleArn, RoleSessionName: 'session' });
      expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
      return answer.one('Message')?.replace(RoleArn, '');
    };
    const there = await message(roleArn('a/reader'));
    expect(await message(roleArn('nothing'))).toBe(there);
    expect(await message(reader)).toBe(there);
    const wrong = await carol.act('AssumeRole', {
      RoleArn: 'arn:aws:iam::alice-account:user/carol',
      RoleSessionName: 'session',
    });
    expect(wrong.code).toBe('ValidationError');
  });
});

describe('a session of a role of another account', () => {
  const configured = person('clerk', { owner: bob.owner, root: false });

  test('is refused while the account of the root or user who opened it is suspended, and cannot renew itself', async () => {
    await using world = await openGateway({ people: [configured] });
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await openRole(world, {
      principal: { AWS: ['bob-account', 'alice-account'] },
      policy: allow('s3:*', 'sts:*'),
    });
    const ann = await openUser(world, 'ann', { root: bob, policy: allow('sts:*') });
    const openers = [ann.credential, bob, configured].map((credential) => openActions(world, { credential }));
    const sessions = await Promise.all(openers.map((act) => assume(world, act, { role: reader })));
    const chained = await Promise.all(sessions.map(({ act }) => assume(world, act, { role: reader })));
    const own = await assume(world, openActions(world), { role: reader });
    const codes = () =>
      Promise.all(
        [...sessions, ...chained].map(async ({ options }) => (await world.as(options).get('/bucket')).code),
      );
    expect(await codes()).toEqual(['', '', '', '', '', '']);
    await admin.must('PUT', `/accounts/${bob.owner}`, { status: 'Suspended' });
    expect(new Set(await codes())).toEqual(new Set(['AccountProblem']));
    const renewed = await sessions[0]?.act('AssumeRole', { RoleArn: reader, RoleSessionName: 'again' });
    expect(renewed?.code).toBe('AccountProblem');
    expect((await world.as(own.options).get('/bucket')).status).toBe(200);
    await admin.must('PUT', `/accounts/${bob.owner}`, { status: 'Active' });
    expect(await codes()).toEqual(['', '', '', '', '', '']);
  });

  test('is refused once the account that opened it is deleted', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    const made = (await admin.must('POST', '/accounts', { account: 'dora' })) as Record<string, string>;
    const { accessKey = '', secretKey = '' } = made;
    const dora = openActions(world, { credential: person('dora', { owner: 'dora', accessKey, secretKey }) });
    await openRole(world, { principal: { AWS: 'dora' } });
    const session = world.as((await assume(world, dora, { role: reader })).options);
    expect((await session.get('/bucket')).status).toBe(200);
    await admin.must('DELETE', '/accounts/dora');
    expect((await session.get('/bucket')).code).toBe('AccountProblem');
  });

  test('is refused while the account of a role between it and the first caller is suspended', async () => {
    const carol = person('carol');
    await using world = await openGateway({ people: [carol] });
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await openRole(world, {
      principal: { AWS: ['bob-account', 'alice-account'] },
      policy: allow('s3:*', 'sts:*'),
    });
    const ofBob = openActions(world, { credential: bob });
    const AssumeRolePolicyDocument = trusting({ AWS: carol.owner });
    const between = await must(ofBob('CreateRole', { RoleName: 'between', AssumeRolePolicyDocument }));
    const PolicyDocument = allow('sts:*');
    await must(ofBob('PutRolePolicy', { RoleName: 'between', PolicyName: 'p', PolicyDocument }));
    const first = await assume(world, openActions(world, { credential: carol }), {
      role: between.one('Arn') ?? '',
    });
    const second = await assume(world, first.act, { role: reader });
    const third = await assume(world, second.act, { role: reader });
    const code = async () => (await world.as(third.options).get('/bucket')).code;
    expect(await code()).toBe('');
    for (const { owner } of [bob, carol]) {
      await admin.must('PUT', `/accounts/${owner}`, { status: 'Suspended' });
      expect([owner, await code()]).toEqual([owner, 'AccountProblem']);
      await admin.must('PUT', `/accounts/${owner}`, { status: 'Active' });
      expect([owner, await code()]).toEqual([owner, '']);
    }
  });
});

describe('GetSessionToken', () => {
  test('gives a user credentials for what the user may do, but not for IAM, and that end with the user', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const carol = await openUser(world, 'carol', { policy: allow('*') });
    const session = sessionOf(world, await must(carol.act('GetSessionToken')));
    expect((await must(session.act('GetCallerIdentity'))).one('Arn')).toBe(
      'arn:aws:iam::alice-account:user/carol',
    );
    expect((await world.as(session.options).get('/bucket')).status).toBe(200);
    expect((await session.act('ListUsers')).code).toBe('AccessDenied');
    expect((await session.act('GetSessionToken')).code).toBe('AccessDenied');
    const iam = openActions(world);
    const key = { UserName: 'carol', AccessKeyId: carol.credential.accessKey };
    await must(iam('DeleteUserPolicy', { UserName: 'carol', PolicyName: 'test' }));
    expect((await world.as(session.options).get('/bucket')).code).toBe('AccessDenied');
    await must(iam('DeleteAccessKey', key));
    expect((await session.act('GetCallerIdentity')).status).toBe(200);
    await must(iam('DeleteUser', { UserName: 'carol' }));
    expect((await session.act('GetCallerIdentity')).code).toBe('InvalidClientTokenId');
  });

  test('gives the root of an account an hour at most', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    await world.client.put('/bucket');
    const iam = openActions(world);
    const session = sessionOf(world, await must(iam('GetSessionToken', { DurationSeconds: '7200' })));
    expect((await must(session.act('GetCallerIdentity'))).one('Arn')).toBe('arn:aws:iam::alice-account:root');
    expect((await world.as(session.options).get('/bucket')).status).toBe(200);
    await clock.advance(3_600_000);
    expect((await session.act('GetCallerIdentity')).code).toBe('ExpiredToken');
  });
});

test('GetAccessKeyInfo returns keys of the caller’s account, and all keys to operators', async () => {
  await using world = await openGateway();
  const carol = await openUser(world, 'carol', { policy: allow('sts:GetAccessKeyInfo') });
  const { operator } = await import('../support/gateway.ts');
  const info = (credential: typeof alice, AccessKeyId: string) =>
    openActions(world, { credential })('GetAccessKeyInfo', { AccessKeyId });
  for (const key of [carol.credential.accessKey, alice.accessKey])
    for (const credential of [alice, carol.credential, operator])
      expect((await must(info(credential, key))).one('Account')).toBe('alice-account');
  expect((await info(bob, carol.credential.accessKey)).code).toBe('ValidationError');
  expect((await info(alice, 'AKIANOTHING')).code).toBe('ValidationError');
  await must(
    openActions(world)('UpdateAccessKey', {
      UserName: 'carol',
      AccessKeyId: carol.credential.accessKey,
      Status: 'Inactive',
    }),
  );
  expect((await must(info(alice, carol.credential.accessKey))).one('Account')).toBe('alice-account');
});
