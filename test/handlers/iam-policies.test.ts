/** Inline and managed policies: stored as sent, and in force at once. @storage */
import { describe, expect, test } from 'vitest';
import { listed, openActions } from '../support/actions.ts';
import { timesLonger } from '../support/cpu-time.ts';
import { backends, bob, openGateway } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { allow, assume, everyPage, must, openUser, putPolicy, trusting } from '../support/iam-users.ts';

const arnOf = (name: string): string => `arn:aws:iam::alice-account:policy/${name}`;
const readOnly = 'arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess';
const statement = (...statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements }, undefined, 2);

describe.each(backends)('an inline policy on %s', (backend) => {
  test.each([
    ['User', 'carol'],
    ['Group', 'readers'],
    ['Role', 'reader'],
  ])('of a %s is put, replaced, shown as it was sent, listed and deleted', async (word, name) => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const trust = statement({
      Effect: 'Allow',
      Principal: { AWS: 'alice-account' },
      Action: 'sts:AssumeRole',
    });
    const more: Record<string, string> = word === 'Role' ? { AssumeRolePolicyDocument: trust } : {};
    const holder = { [`${word}Name`]: name };
    await must(iam(`Create${word}`, { ...holder, ...more }));
    const first = statement({ Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::a/*' });
    const second = statement({ Effect: 'Deny', Action: 's3:Put*', Resource: '*' });
    for (const PolicyName of ['b', 'a', 'c'])
      await must(iam(`Put${word}Policy`, { ...holder, PolicyName, PolicyDocument: first }));
    await must(iam(`Put${word}Policy`, { ...holder, PolicyName: 'b', PolicyDocument: second }));
    const shown = await must(iam(`Get${word}Policy`, { ...holder, PolicyName: 'b' }));
    expect(decodeURIComponent(shown.one('PolicyDocument') ?? '')).toBe(second);
    expect(shown.one('PolicyDocument')).not.toMatch(/["{}*()!']/);
    expect(shown.one(`${word}Name`)).toBe(name);
    const all = { element: 'member', parameters: holder, size: 2 };
    expect(await everyPage(iam, `List${word}Policies`, all)).toEqual(['a', 'b', 'c']);
    expect((await iam(`Delete${word}`, holder)).code).toBe('DeleteConflict');
    for (const PolicyName of ['a', 'b', 'c'])
      await must(iam(`Delete${word}Policy`, { ...holder, PolicyName }));
    const gone = await iam(`Get${word}Policy`, { ...holder, PolicyName: 'b' });
    expect([gone.status, gone.code]).toEqual([404, 'NoSuchEntity']);
    expect((await iam(`Delete${word}Policy`, { ...holder, PolicyName: 'b' })).code).toBe('NoSuchEntity');
    await must(iam(`Delete${word}`, holder));
  });
});

describe.each(backends)('a managed policy on %s', (backend) => {
  test('has up to five versions, of which one counts', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    await world.client.put('/bucket');
    const made = await must(
      iam('CreatePolicy', {
        PolicyName: 'lists',
        Description: 'of things',
        PolicyDocument: allow('s3:ListBucket'),
      }),
    );
    expect([made.one('Arn'), made.one('DefaultVersionId')]).toEqual([arnOf('lists'), 'v1']);
    expect(made.one('PolicyId')).toMatch(/^ANPA[A-Z2-7]{17}$/);
    const policy = { PolicyArn: arnOf('lists') };
    const carol = await openUser(world, 'carol');
    const status = async () => (await world.as({ credential: carol.credential }).get('/bucket')).status;
    await must(iam('AttachUserPolicy', { UserName: 'carol', ...policy }));
    expect(await status()).toBe(200);
    for (let version = 2; version <= 5; version += 1)
      await must(iam('CreatePolicyVersion', { ...policy, PolicyDocument: allow(`s3:Get${version}`) }));
    expect((await iam('CreatePolicyVersion', { ...policy, PolicyDocument: allow('*') })).code).toBe(
      'LimitExceeded',
    );
    expect(await status()).toBe(200);
    await must(iam('SetDefaultPolicyVersion', { ...policy, VersionId: 'v3' }));
    expect(await status()).toBe(403);
    expect((await iam('DeletePolicyVersion', { ...policy, VersionId: 'v3' })).code).toBe('DeleteConflict');
    await must(iam('DeletePolicyVersion', { ...policy, VersionId: 'v2' }));
    const next = await must(
      iam('CreatePolicyVersion', { ...policy, PolicyDocument: allow('s3:*'), SetAsDefault: 'true' }),
    );
    expect([next.one('VersionId'), next.one('IsDefaultVersion')]).toEqual(['v6', 'true']);
    expect(await status()).toBe(200);
    const listed = await must(iam('ListPolicyVersions', policy));
    expect(listed.all('VersionId')).toEqual(['v6', 'v5', 'v4', 'v3', 'v1']);
    expect(listed.all('IsDefaultVersion')).toEqual(['true', 'false', 'false', 'false', 'false']);
    const shown = await must(iam('GetPolicyVersion', { ...policy, VersionId: 'v1' }));
    expect(decodeURIComponent(shown.one('Document') ?? '')).toBe(allow('s3:ListBucket'));
    for (const VersionId of ['v2', 'v7', 'v99'])
      expect((await iam('GetPolicyVersion', { ...policy, VersionId })).code).toBe('NoSuchEntity');
    expect((await iam('GetPolicyVersion', { ...policy, VersionId: '1' })).code).toBe('ValidationError');
  });

  test('is attached, counted, listed with its holders, and deleted when it has none', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    await must(iam('CreatePolicy', { PolicyName: 'p', PolicyDocument: allow('s3:*') }));
    const policy = { PolicyArn: arnOf('p') };
    await must(iam('CreateGroup', { GroupName: 'readers' }));
    await must(iam('CreateUser', { UserName: 'carol', PermissionsBoundary: policy.PolicyArn }));
    await must(iam('CreateUser', { UserName: 'dave' }));
    for (const UserName of ['carol', 'dave', 'dave'])
      await must(iam('AttachUserPolicy', { UserName, ...policy }));
    await must(iam('AttachGroupPolicy', { GroupName: 'readers', ...policy }));
    const counted = await must(iam('GetPolicy', policy));
    expect([counted.one('AttachmentCount'), counted.one('PermissionsBoundaryUsageCount')]).toEqual([
      '3',
      '1',
    ]);
    const on = await must(
      iam('ListEntitiesForPolicy', { ...policy, PolicyUsageFilter: 'PermissionsPolicy' }),
    );
    expect([on.all('UserName').toSorted(), on.all('GroupName'), on.all('RoleName')]).toEqual([
      ['carol', 'dave'],
      ['readers'],
      [],
    ]);
    const groups = await must(iam('ListEntitiesForPolicy', { ...policy, EntityFilter: 'Group' }));
    expect([groups.all('UserName'), groups.all('GroupName')]).toEqual([[], ['readers']]);
    const attached = await must(iam('ListAttachedUserPolicies', { UserName: 'carol' }));
    expect([attached.one('PolicyName'), attached.one('PolicyArn')]).toEqual(['p', policy.PolicyArn]);
    expect((await iam('DeletePolicy', policy)).code).toBe('DeleteConflict');
    for (const UserName of ['carol', 'dave']) await must(iam('DetachUserPolicy', { UserName, ...policy }));
    expect((await iam('DetachUserPolicy', { UserName: 'carol', ...policy })).code).toBe('NoSuchEntity');
    await must(iam('DetachGroupPolicy', { GroupName: 'readers', ...policy }));
    expect((await iam('DeletePolicy', policy)).code).toBe('DeleteConflict');
    await must(iam('DeleteUser', { UserName: 'carol' }));
    await must(iam('DeletePolicy', policy));
    expect((await iam('GetPolicy', policy)).code).toBe('NoSuchEntity');
  });
});

describe('policies', () => {
  test('are listed in pages, built-in ones first', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const own = ['a', 'b', 'c', 'd'];
    for (const PolicyName of own)
      await must(iam('CreatePolicy', { PolicyName, PolicyDocument: allow('s3:*') }));
    const list = (parameters: Record<string, string>, size: number) =>
      everyPage(iam, 'ListPolicies', { element: 'PolicyName', parameters, size });
    const builtIn = await list({ Scope: 'AWS' }, 100);
    expect(builtIn).toContain('AdministratorAccess');
    for (const size of [1, 2, 3, builtIn.length, 100]) {
      expect(await list({}, size)).toEqual([...builtIn, ...own]);
      expect(await list({ Scope: 'Local' }, size)).toEqual(own);
      expect(await list({ Scope: 'AWS' }, size)).toEqual(builtIn);
    }
    await must(iam('CreateUser', { UserName: 'carol' }));
    for (const PolicyArn of [readOnly, arnOf('c')])
      await must(iam('AttachUserPolicy', { UserName: 'carol', PolicyArn }));
    expect(await list({ OnlyAttached: 'true' }, 1)).toEqual(['AmazonS3ReadOnlyAccess', 'c']);
    expect((await must(iam('GetPolicy', { PolicyArn: readOnly }))).one('AttachmentCount')).toBe('1');
  });

  test('that are built in cannot be changed, and those of another account do not exist', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const other = openActions(world, { credential: bob });
    await must(iam('CreatePolicy', { PolicyName: 'p', PolicyDocument: allow('s3:*') }));
    await must(other('CreateUser', { UserName: 'mallory' }));
    const document = { PolicyDocument: allow('*') };
    for (const [action, parameters] of [
      ['CreatePolicyVersion', { ...document, SetAsDefault: 'true' }],
      ['DeletePolicy', {}],
      ['SetDefaultPolicyVersion', { VersionId: 'v1' }],
      ['DeletePolicyVersion', { VersionId: 'v1' }],
      ['UntagPolicy', { 'TagKeys.member.1': 'x' }],
    ] as const) {
      const builtIn = await iam(action, { PolicyArn: readOnly, ...parameters });
      expect([builtIn.status, builtIn.code], action).toEqual([403, 'AccessDenied']);
      const foreign = await other(action, { PolicyArn: arnOf('p'), ...parameters });
      expect(foreign.status, action).toBe(404);
    }
    const attach = { UserName: 'mallory', PolicyArn: arnOf('p') };
    expect((await other('AttachUserPolicy', attach)).code).toBe('NoSuchEntity');
    expect((await other('GetPolicyVersion', { PolicyArn: arnOf('p'), VersionId: 'v1' })).code).toBe(
      'NoSuchEntity',
    );
    for (const PolicyArn of ['x'.repeat(20), 'arn:aws:iam::alice-account:user/carol', `${arnOf('p')}/`])
      expect((await iam('GetPolicy', { PolicyArn })).code).toBe('ValidationError');
    expect((await iam('GetPolicy', { PolicyArn: arnOf('elsewhere/p') })).code).toBe('NoSuchEntity');
  });

  test('that the engine cannot evaluate are refused, with the place', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    for (const [document, place] of [
      ['{', 'JSON'],
      ['{"Version":"2012-10-17"}', 'Statement'],
      [statement({ Effect: 'Allow', Action: 's3:*' }), 'Statement[0]'],
      [
        statement({ Effect: 'Allow', Action: 's3:*', Resource: '*', Principal: '*' }),
        'Statement[0].Principal',
      ],
      [
        statement({ Effect: 'Deny', Action: 's3:*', Resource: '*', Condition: { Guess: { a: 'b' } } }),
        'Statement[0].Condition',
      ],
    ] as const) {
      const inline = { UserName: 'carol', PolicyName: 'p', PolicyDocument: document };
      for (const answer of [
        await iam('PutUserPolicy', inline),
        await iam('CreatePolicy', { PolicyName: 'p', PolicyDocument: document }),
      ]) {
        expect([answer.status, answer.code]).toEqual([400, 'MalformedPolicyDocument']);
        expect(answer.one('Message')).toContain(place);
      }
    }
  });

  test('have the sizes of the public API, blanks aside', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    const sized = (size: number): string => {
      const actions = Array.from(
        { length: Math.floor((size - 100) / 200) },
        (_, index) => `s3:${String(index).padStart(194, 'a')}`,
      );
      return allow(...actions, `s3:${'b'.repeat(size - allow(...actions, 's3:').length)}`);
    };
    const put = (PolicyName: string, PolicyDocument: string) =>
      iam('PutUserPolicy', { UserName: 'carol', PolicyName, PolicyDocument });
    expect(sized(2_048)).toHaveLength(2_048);
    await must(put('whole', sized(2_048)));
    expect((await put('whole', sized(2_049))).code).toBe('LimitExceeded');
    expect((await put('more', allow('s3:*'))).code).toBe('LimitExceeded');
    await must(put('whole', `${' '.repeat(5_000)}${sized(1_000)}`));
    await must(put('more', sized(1_048)));
    expect((await put('more', sized(1_049))).code).toBe('LimitExceeded');
    await must(iam('CreatePolicy', { PolicyName: 'p', PolicyDocument: sized(6_144) }));
    expect((await iam('CreatePolicy', { PolicyName: 'q', PolicyDocument: sized(6_145) })).code).toBe(
      'LimitExceeded',
    );
    const blank = `${allow('s3:*')}${' '.repeat(20_000)}`;
    expect((await iam('CreatePolicy', { PolicyName: 'q', PolicyDocument: blank })).code).toBe(
      'LimitExceeded',
    );
  });
});

describe('what a user may do', () => {
  test('an explicit deny wins, and a boundary is the most there is', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    const carol = await openUser(world, 'carol', { policy: allow('s3:*') });
    const client = world.as({ credential: carol.credential });
    const statuses = async () => [
      (await client.get('/bucket')).status,
      (await client.get('/bucket/key')).status,
    ];
    expect(await statuses()).toEqual([200, 200]);
    const deny = statement({ Effect: 'Deny', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' });
    await must(iam('PutUserPolicy', { UserName: 'carol', PolicyName: 'deny', PolicyDocument: deny }));
    expect(await statuses()).toEqual([200, 403]);
    await must(iam('DeleteUserPolicy', { UserName: 'carol', PolicyName: 'deny' }));
    await must(iam('CreatePolicy', { PolicyName: 'most', PolicyDocument: allow('s3:GetObject', 'iam:*') }));
    const boundary = { UserName: 'carol', PermissionsBoundary: arnOf('most') };
    await must(iam('PutUserPermissionsBoundary', boundary));
    expect(await statuses()).toEqual([403, 200]);
    expect((await carol.act('ListUsers')).code).toBe('AccessDenied');
    expect((await must(iam('GetUser', { UserName: 'carol' }))).one('PermissionsBoundaryArn')).toBe(
      arnOf('most'),
    );
    await must(iam('DeleteUserPermissionsBoundary', { UserName: 'carol' }));
    expect(await statuses()).toEqual([200, 200]);
    expect((await iam('DeleteUserPermissionsBoundary', { UserName: 'carol' })).code).toBe('NoSuchEntity');
  });

  test('is decided by the ARN of its resource, its tags and the policy that it attaches', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const policy = statement(
      {
        Effect: 'Allow',
        Action: ['iam:GetUser', 'iam:DeleteUser'],
        Resource: 'arn:aws:iam::alice-account:user/staff/*',
      },
      { Effect: 'Allow', Action: 'iam:GetUser', Resource: `arn:aws:iam::*:user/\${aws:username}` },
      {
        Effect: 'Allow',
        Action: 'iam:CreateUser',
        Resource: '*',
        Condition: { StringEquals: { 'aws:RequestTag/Team': 'blue' } },
      },
      {
        Effect: 'Allow',
        Action: 'iam:AttachUserPolicy',
        Resource: '*',
        Condition: { ArnEquals: { 'iam:PolicyARN': readOnly } },
      },
    );
    const { act } = await openUser(world, 'carol', { policy });
    await must(iam('CreateUser', { UserName: 'worker', Path: '/staff/' }));
    await must(iam('CreateUser', { UserName: 'dave' }));
    await must(act('GetUser'));
    await must(act('GetUser', { UserName: 'worker' }));
    for (const UserName of ['dave', 'nobody'])
      expect((await act('GetUser', { UserName })).code).toBe('AccessDenied');
    await must(act('DeleteUser', { UserName: 'worker' }));
    const tag = (Value: string) => ({ 'Tags.member.1.Key': 'Team', 'Tags.member.1.Value': Value });
    expect((await act('CreateUser', { UserName: 'x', ...tag('red') })).code).toBe('AccessDenied');
    expect((await act('CreateUser', { UserName: 'x' })).code).toBe('AccessDenied');
    await must(act('CreateUser', { UserName: 'x', ...tag('blue') }));
    await must(act('AttachUserPolicy', { UserName: 'dave', PolicyArn: readOnly }));
    const admin = 'arn:aws:iam::aws:policy/AdministratorAccess';
    expect((await act('AttachUserPolicy', { UserName: 'dave', PolicyArn: admin })).code).toBe('AccessDenied');
  });

  test('lets a user administer others only while they have the boundary', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const within = { PermissionsBoundary: readOnly };
    const actions = ['CreateUser', 'PutUserPermissionsBoundary', 'AttachUserPolicy', 'DeleteUser'];
    const policy = statement(
      {
        Effect: 'Allow',
        Action: actions.map((name) => `iam:${name}`),
        Resource: '*',
        Condition: { ArnEquals: { 'iam:PermissionsBoundary': readOnly } },
      },
      {
        Effect: 'Deny',
        Action: 'iam:DeleteUserPermissionsBoundary',
        Resource: '*',
        Condition: { ArnLike: { 'iam:PermissionsBoundary': readOnly } },
      },
      { Effect: 'Allow', Action: 'iam:DeleteUserPermissionsBoundary', Resource: '*' },
    );
    const { act } = await openUser(world, 'carol', { policy });
    const admin = 'arn:aws:iam::aws:policy/AdministratorAccess';
    const refused = async (name: string, parameters: Record<string, string>) =>
      expect((await act(name, parameters)).code).toBe('AccessDenied');
    await refused('CreateUser', { UserName: 'free' });
    await refused('CreateUser', { UserName: 'free', PermissionsBoundary: admin });
    await must(act('CreateUser', { UserName: 'bound', ...within }));
    await must(act('AttachUserPolicy', { UserName: 'bound', PolicyArn: admin }));
    await refused('PutUserPermissionsBoundary', { UserName: 'bound', PermissionsBoundary: admin });
    await refused('DeleteUserPermissionsBoundary', { UserName: 'bound' });
    await must(iam('CreateUser', { UserName: 'dave' }));
    await refused('AttachUserPolicy', { UserName: 'dave', PolicyArn: admin });
    await must(act('PutUserPermissionsBoundary', { UserName: 'dave', ...within }));
    await must(act('AttachUserPolicy', { UserName: 'dave', PolicyArn: admin }));
  });

  test('ends at the account: what is allowed there is not allowed elsewhere', async () => {
    await using world = await openGateway();
    await world.bob.put('/bobs');
    const carol = await openUser(world, 'carol', { policy: allow('*') });
    const client = world.as({ credential: carol.credential });
    expect((await client.get('/bobs')).code).toBe('AccessDenied');
    expect((await client.put('/own')).status).toBe(200);
    expect((await world.client.get('/own')).status).toBe(200);
    const listed = await carol.act('ListUsers');
    expect(listed.all('UserName')).toEqual(['carol']);
  });
});

describe('policies that are too large together', () => {
  /** Each is within the limit of a single policy: half as many patterns, and most of the bytes. */
  const large = (resourceOf: (index: number) => string, count: number): string =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Action: 's3:GetObject',
          Resource: Array.from({ length: count }, (_, index) => resourceOf(index)),
        },
      ],
    });
  const kinds = {
    patterns: large((index) => `arn:aws:s3:::b*${index.toString(36)}?y*`, 128),
    bytes: large((index) => `arn:aws:s3:::b/${index.toString(36)}*`, 260),
  };

  async function openHolder(policy: string) {
    const world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    const iam = openActions(world);
    const arns: string[] = [];
    for (let index = 0; index < 9; index += 1) {
      const parameters = { PolicyName: `large-${index}`, PolicyDocument: policy };
      arns.push((await must(iam('CreatePolicy', parameters))).one('Arn') ?? '');
    }
    const user = await openUser(world, 'carol', { policy: allow('s3:*') });
    return { world, iam, arns, user, client: world.as({ credential: user.credential }) };
  }

  test.each(Object.entries(kinds))(
    'by their %s deny everything until some are detached',
    async (_, policy) => {
      const { world, iam, arns, client } = await openHolder(policy);
      await using _world = world;
      const attach = (arn: string) => must(iam('AttachUserPolicy', { UserName: 'carol', PolicyArn: arn }));
      for (const arn of arns.slice(0, 5)) await attach(arn);
      expect((await client.get('/bucket/key')).status).toBe(200);
      // Those of a group count too.
      await must(iam('CreateGroup', { GroupName: 'team' }));
      for (const PolicyArn of arns.slice(5))
        await must(iam('AttachGroupPolicy', { GroupName: 'team', PolicyArn }));
      expect((await client.get('/bucket/key')).status).toBe(200);
      await must(iam('AddUserToGroup', { GroupName: 'team', UserName: 'carol' }));
      const denied = await client.get('/bucket/key');
      expect([denied.status, denied.code]).toEqual([403, 'AccessDenied']);
      expect(denied.text).toContain('with an explicit deny in an identity-based policy');
      expect((await world.client.get('/bucket/key')).status).toBe(200);
      const why = await world.client.post('/admin/v1/why', {
        body: JSON.stringify({
          principal: 'arn:aws:iam::alice-account:user/carol',
          bucket: 'bucket',
          key: 'key',
          action: 's3:GetObject',
        }),
      });
      expect(why.text).toContain('policies of the caller, which are too large together');
      await must(iam('RemoveUserFromGroup', { GroupName: 'team', UserName: 'carol' }));
      expect((await client.get('/bucket/key')).status).toBe(200);
    },
  );

  test('cost a request no more than a small policy, once they are known', async () => {
    const { world, iam, arns, client } = await openHolder(kinds.patterns);
    await using _world = world;
    for (let index = 0; index < 10; index += 1) {
      const GroupName = `team-${index}`;
      await must(iam('CreateGroup', { GroupName }));
      for (const PolicyArn of arns) await must(iam('AttachGroupPolicy', { GroupName, PolicyArn }));
      await must(iam('AddUserToGroup', { GroupName, UserName: 'carol' }));
    }
    const small = await openUser(world, 'dave', { policy: allow('s3:*') });
    const get = (each: Client) => async () => {
      for (let n = 0; n < 5; n += 1) await each.get('/bucket/key');
    };
    expect((await client.get('/bucket/key')).status).toBe(403);
    // Compiling 90 of them takes some 200 times as long as a request.
    expect(await timesLonger(get(client), get(world.as({ credential: small.credential })))).toBeLessThan(10);
  });

  test('that limit a session make it deny everything', async () => {
    const { world, iam, arns, user } = await openHolder(kinds.patterns);
    await using _world = world;
    await must(
      iam('CreateRole', {
        RoleName: 'reader',
        AssumeRolePolicyDocument: trusting({ AWS: 'arn:aws:iam::alice-account:user/carol' }),
      }),
    );
    const policy = { RoleName: 'reader', PolicyName: 'all', PolicyDocument: allow('s3:*') };
    await must(iam('PutRolePolicy', policy));
    await must(putPolicy(iam, 'carol', allow('s3:*', 'sts:AssumeRole')));
    const role = 'arn:aws:iam::alice-account:role/reader';
    const everything = (
      await must(iam('CreatePolicy', { PolicyName: 'everything', PolicyDocument: allow('s3:*') }))
    ).one('Arn');
    const statusWith = async (limits: readonly string[]): Promise<number> => {
      const members = [everything ?? '', ...limits].map((arn) => ({ arn }));
      const session = await assume(world, user.act, { role, ...listed('PolicyArns', members) });
      return (await world.as(session.options).get('/bucket/key')).status;
    };
    expect(await statusWith(arns.slice(0, 5))).toBe(200);
    expect(await statusWith(arns)).toBe(403);
  });

  test('are refused by a simulation', async () => {
    await using world = await openGateway();
    const simulate = (count: number) =>
      openActions(world)('SimulateCustomPolicy', {
        ...listed('PolicyInputList', Array<string>(count).fill(kinds.patterns)),
        ...listed('ActionNames', ['s3:GetObject']),
      });
    expect((await simulate(8)).status).toBe(200);
    const refused = await simulate(9);
    expect([refused.status, refused.code]).toEqual([400, 'InvalidInput']);
  });
});
