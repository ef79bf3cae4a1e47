/** The users of an account and their tags. @storage */
import { describe, expect, test } from 'vitest';
import { listed, openActions } from '../support/actions.ts';
import { backends, bob, openGateway } from '../support/gateway.ts';
import { allow, everyPage, must, openUser, trusting } from '../support/iam-users.ts';

const arn = (path: string): string => `arn:aws:iam::alice-account:user${path}`;

describe.each(backends)('users on %s', (backend) => {
  test('are created, shown, moved, renamed and deleted', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const tags = listed('Tags', [{ Key: 'Team', Value: 'blue' }]);
    const made = await must(iam('CreateUser', { UserName: 'Carol', Path: '/staff/', ...tags }));
    expect([made.one('Arn'), made.one('Path'), made.one('Key')]).toEqual([
      arn('/staff/Carol'),
      '/staff/',
      'Team',
    ]);
    expect(made.one('UserId')).toMatch(/^AIDA[A-Z2-7]{17}$/);
    const shown = await must(iam('GetUser', { UserName: 'Carol' }));
    for (const element of ['UserId', 'Arn', 'CreateDate', 'Value'])
      expect(shown.one(element)).toBe(made.one(element));
    await must(iam('UpdateUser', { UserName: 'Carol', NewUserName: 'Caroline', NewPath: '/' }));
    expect((await iam('GetUser', { UserName: 'Carol' })).code).toBe('NoSuchEntity');
    const moved = await must(iam('GetUser', { UserName: 'Caroline' }));
    expect([moved.one('Arn'), moved.one('UserId')]).toEqual([arn('/Caroline'), made.one('UserId')]);
    await must(iam('UpdateUser', { UserName: 'Caroline', NewUserName: 'caroline' }));
    await must(iam('DeleteUser', { UserName: 'caroline' }));
    const gone = await iam('GetUser', { UserName: 'caroline' });
    expect([gone.status, gone.code]).toEqual([404, 'NoSuchEntity']);
    expect(gone.one('Message')).toBe('The user with name caroline cannot be found.');
  });

  test('are listed in pages, also by path', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const names = Array.from({ length: 7 }, (_, index) => `user-${index}`);
    for (const [index, UserName] of names.entries())
      await must(iam('CreateUser', { UserName, Path: index % 2 === 0 ? '/even/' : '/odd/' }));
    expect(await everyPage(iam, 'ListUsers', { element: 'UserName', size: 2 })).toEqual(names);
    const even = { element: 'UserName', parameters: { PathPrefix: '/even' }, size: 2 };
    expect(await everyPage(iam, 'ListUsers', even)).toEqual(['user-0', 'user-2', 'user-4', 'user-6']);
    expect((await iam('ListUsers', { MaxItems: '0' })).code).toBe('ValidationError');
    expect((await iam('ListUsers', { MaxItems: '1001' })).code).toBe('ValidationError');
  });
});

describe('a user', () => {
  test.each(['aws', 'iam'])('is protected by %s:ResourceTag, as a role and a policy are', async (prefix) => {
    await using world = await openGateway();
    const iam = openActions(world);
    const Condition = { StringEquals: { [`${prefix}:ResourceTag/Guard`]: 'on' } };
    const Statement = [
      { Effect: 'Allow', Action: ['iam:*', 'sts:*'], Resource: '*' },
      { Effect: 'Deny', Action: ['iam:*', 'sts:AssumeRole'], Resource: '*', Condition },
    ];
    const policy = JSON.stringify({ Version: '2012-10-17', Statement });
    const { act } = await openUser(world, 'dave', { policy });
    const trust = trusting({ AWS: 'alice-account' });
    for (const [name, value] of [
      ['guarded', 'on'],
      ['other', 'off'],
    ] as const) {
      const tags = listed('Tags', [{ Key: 'Guard', Value: value }]);
      await must(iam('CreateUser', { UserName: name, ...tags }));
      await must(iam('CreateRole', { RoleName: name, AssumeRolePolicyDocument: trust, ...tags }));
      await must(iam('CreatePolicy', { PolicyName: name, PolicyDocument: allow('s3:*'), ...tags }));
      const at = (kind: string) => `arn:aws:iam::alice-account:${kind}/${name}`;
      for (const answer of [
        await act('CreateAccessKey', { UserName: name }),
        await act('UntagUser', { UserName: name, ...listed('TagKeys', ['Team']) }),
        await act('UpdateAssumeRolePolicy', { RoleName: name, PolicyDocument: trust }),
        await act('AssumeRole', { RoleArn: at('role'), RoleSessionName: 'session' }),
        await act('DeletePolicy', { PolicyArn: at('policy') }),
      ])
        expect(answer.code, name).toBe(value === 'on' ? 'AccessDenied' : '');
    }
  });

  test.each([
    ['user', 'User'],
    ['group', 'Group'],
  ])(
    'a permission on a %s of one path does not allow moving or renaming it to another path',
    async (kind, word) => {
      await using world = await openGateway();
      const iam = openActions(world);
      const Resource = ['dev/*', 'old', 'new'].map((at) => `arn:aws:iam::alice-account:${kind}/${at}`);
      const policy = JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Action: `iam:Update${word}`, Resource }],
      });
      const { act } = await openUser(world, 'dave', { policy });
      await must(iam(`Create${word}`, { [`${word}Name`]: 'kim', Path: '/dev/' }));
      await must(iam(`Create${word}`, { [`${word}Name`]: 'old' }));
      const update = (name: string, to: Record<string, string>) =>
        act(`Update${word}`, { [`${word}Name`]: name, ...to });
      for (const [name, to] of [
        ['kim', { NewPath: '/admin/' }],
        ['kim', { NewPath: '/' }],
        ['old', { [`New${word}Name`]: 'boss' }],
      ] as const)
        expect((await update(name, to)).code).toBe('AccessDenied');
      await must(update('kim', { NewPath: '/dev/web/', [`New${word}Name`]: 'kimberly' }));
      await must(update('old', { [`New${word}Name`]: 'new' }));
    },
  );

  test('has a name that is unique in its account without regard to case', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    await must(iam('CreateUser', { UserName: 'dave' }));
    for (const answer of [
      await iam('CreateUser', { UserName: 'CAROL' }),
      await iam('UpdateUser', { UserName: 'dave', NewUserName: 'Carol' }),
    ])
      expect([answer.status, answer.code]).toEqual([409, 'EntityAlreadyExists']);
  });

  test('is found by its name in any case, and policies and replies use its exact name', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'Carol', Path: '/dev/' }));
    await must(iam('CreateGroup', { GroupName: 'Staff' }));
    expect((await must(iam('GetUser', { UserName: 'cAROL' }))).one('UserName')).toBe('Carol');
    expect((await must(iam('GetGroup', { GroupName: 'STAFF' }))).one('GroupName')).toBe('Staff');
    await must(iam('AddUserToGroup', { UserName: 'CAROL', GroupName: 'staff' }));
    expect((await must(iam('GetGroup', { GroupName: 'Staff' }))).all('UserName')).toEqual(['Carol']);
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'iam:GetUser', Resource: '*' },
        { Effect: 'Deny', Action: 'iam:*', Resource: arn('/dev/Carol') },
      ],
    });
    const { act: dave } = await openUser(world, 'dave', { policy });
    expect((await must(dave('GetUser', { UserName: 'Dave' }))).one('UserName')).toBe('dave');
    for (const UserName of ['Carol', 'carol', 'CAROL'])
      expect((await dave('GetUser', { UserName })).code).toBe('AccessDenied');
  });

  test('is created once among concurrent requests, and concurrent creations of different users all succeed', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const same = await Promise.all(Array.from({ length: 8 }, () => iam('CreateUser', { UserName: 'carol' })));
    expect(same.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(same.filter(({ code }) => code === 'EntityAlreadyExists')).toHaveLength(7);
    const many = Array.from({ length: 8 }, (_, index) => `user-${index}`);
    await Promise.all(many.map((UserName) => must(iam('CreateUser', { UserName }))));
    expect((await iam('ListUsers')).all('UserName')).toEqual(['carol', ...many]);
  });

  test.each([
    ['UserName', ''],
    ['UserName', 'a b'],
    ['UserName', 'a/b'],
    ['UserName', '*'],
    ['UserName', 'é'],
    ['UserName', 'x'.repeat(65)],
    ['Path', 'staff/'],
    ['Path', '/staff'],
    ['Path', '/st aff/'],
    ['Path', `/${'x'.repeat(512)}/`],
    ['Tags.member.1.Key', 'only a key'],
    ['Tags.member.2.Key', 'the second'],
    ['Tags.entry.1.Key', 'no member'],
    ['Tags', 'text'],
    ['PermissionsBoundary', 'no ARN'],
    ['Unknown', 'x'],
  ])('is refused with %s=%j', async (name, value) => {
    await using world = await openGateway();
    const iam = openActions(world);
    const answer = await iam('CreateUser', { UserName: 'carol', [name]: value });
    expect([answer.status, answer.code, answer.one('Type')]).toEqual([400, 'ValidationError', 'Sender']);
    expect(answer.one('Message')).toContain(name.split('.')[0]);
    expect((await iam('ListUsers')).all('UserName')).toEqual([]);
  });

  test('has tags whose keys are compared without regard to case', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await must(iam('CreateUser', { UserName: 'carol' }));
    const tag = (...tags: readonly (readonly [string, string])[]) =>
      iam('TagUser', {
        UserName: 'carol',
        ...listed(
          'Tags',
          tags.map(([Key, Value]) => ({ Key, Value })),
        ),
      });
    await must(tag(['Team', 'blue'], ['Cost', '']));
    await must(tag(['team', 'red']));
    const shown = await must(iam('ListUserTags', { UserName: 'carol' }));
    expect([shown.all('Key'), shown.all('Value')]).toEqual([
      ['Cost', 'team'],
      ['', 'red'],
    ]);
    expect((await tag(['a', '1'], ['A', '2'])).code).toBe('InvalidInput');
    expect((await tag(['aws:x', '1'])).code).toBe('InvalidInput');
    expect((await tag()).code).toBe('ValidationError');
    const fifty = Array.from({ length: 49 }, (_, index) => [`k${index}`, 'v'] as const);
    expect((await tag(...fifty)).code).toBe('LimitExceeded');
    const long = Array.from({ length: 20 }, (_, index) => [`k${index}`, 'v'.repeat(256)] as const);
    expect((await tag(...long)).code).toBe('LimitExceeded');
    await must(iam('UntagUser', { UserName: 'carol', ...listed('TagKeys', ['TEAM', 'none']) }));
    expect((await must(iam('ListUserTags', { UserName: 'carol' }))).all('Key')).toEqual(['Cost']);
  });

  test('has tags, keys, groups, policies and their versions listed in pages of MaxItems, in a stable order', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const UserName = 'carol';
    const tags = ['b', 'a', 'C'].map((Key) => ({ Key, Value: 'v' }));
    await must(iam('CreateUser', { UserName, ...listed('Tags', tags) }));
    const keys: (string | undefined)[] = [];
    for (let each = 0; each < 2; each++)
      keys.push((await must(iam('CreateAccessKey', { UserName }))).one('AccessKeyId'));
    let PolicyArn = '';
    for (const name of ['two', 'three', 'one']) {
      await must(iam('CreateGroup', { GroupName: name }));
      await must(iam('AddUserToGroup', { GroupName: name, UserName }));
      const made = await must(iam('CreatePolicy', { PolicyName: name, PolicyDocument: allow('s3:*') }));
      PolicyArn = made.one('Arn') ?? '';
      await must(iam('AttachUserPolicy', { UserName, PolicyArn }));
    }
    for (let each = 0; each < 2; each++)
      await must(iam('CreatePolicyVersion', { PolicyArn, PolicyDocument: allow('s3:*') }));
    for (const [action, element, names, parameters] of [
      ['ListUserTags', 'Key', ['C', 'a', 'b'], { UserName }],
      ['ListGroupsForUser', 'GroupName', ['one', 'three', 'two'], { UserName }],
      ['ListAttachedUserPolicies', 'PolicyName', ['one', 'three', 'two'], { UserName }],
      ['ListPolicyVersions', 'VersionId', ['v3', 'v2', 'v1'], { PolicyArn }],
    ] as const)
      for (const size of [1, 2, 3, 4])
        expect(await everyPage(iam, action, { element, parameters, size }), action).toEqual(names);
    const parameters = { UserName };
    const paged = await everyPage(iam, 'ListAccessKeys', { element: 'AccessKeyId', parameters, size: 1 });
    expect(paged.toSorted()).toEqual(keys.toSorted());
  });

  test('cannot be deleted while it has keys', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const { credential } = await openUser(world, 'carol');
    const refused = await iam('DeleteUser', { UserName: 'carol' });
    expect([refused.status, refused.code]).toEqual([409, 'DeleteConflict']);
    await must(iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: credential.accessKey }));
    await must(iam('DeleteUser', { UserName: 'carol' }));
  });
});

describe('an account', () => {
  test('never sees the users of another', async () => {
    await using world = await openGateway();
    const carol = await openUser(world, 'carol');
    const iam = openActions(world, { credential: bob });
    expect((await must(iam('ListUsers'))).all('UserName')).toEqual([]);
    const key = carol.credential.accessKey;
    for (const answer of [
      await iam('GetUser', { UserName: 'carol' }),
      await iam('DeleteUser', { UserName: 'carol' }),
      await iam('UpdateUser', { UserName: 'carol', NewUserName: 'mine' }),
      await iam('TagUser', { UserName: 'carol', ...listed('Tags', [{ Key: 'a', Value: 'b' }]) }),
      await iam('CreateAccessKey', { UserName: 'carol' }),
      await iam('ListAccessKeys', { UserName: 'carol' }),
      await iam('UpdateAccessKey', { UserName: 'carol', AccessKeyId: key, Status: 'Inactive' }),
      await iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: key }),
      await iam('GetAccessKeyLastUsed', { AccessKeyId: key }),
    ])
      expect([answer.status, answer.code]).toEqual([404, 'NoSuchEntity']);
    await must(iam('CreateUser', { UserName: 'carol' }));
    expect((await carol.act('GetCallerIdentity')).one('Account')).toBe('alice-account');
    const own = { UserName: 'carol', AccessKeyId: key };
    expect((await iam('DeleteAccessKey', own)).code).toBe('NoSuchEntity');
  });

  test('has a root that every action without a user is about', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const shown = await must(iam('GetUser'));
    expect([shown.one('Arn'), shown.one('UserId'), shown.one('UserName')]).toEqual([
      'arn:aws:iam::alice-account:root',
      'alice-account',
      undefined,
    ]);
    const made = await must(iam('CreateAccessKey'));
    const listed = await must(iam('ListAccessKeys'));
    expect(listed.one('AccessKeyId')).toBe(made.one('AccessKeyId'));
    expect(listed.one('UserName')).toBeUndefined();
  });
});

describe('a user without a policy', () => {
  test('may call GetCallerIdentity, and nothing else', async () => {
    await using world = await openGateway();
    const { act } = await openUser(world, 'carol');
    const self = await must(act('GetCallerIdentity'));
    expect(self.one('Arn')).toBe(arn('/carol'));
    expect(self.one('UserId')).toMatch(/^AIDA/);
    for (const [action, parameters] of [
      ['ListUsers', {}],
      ['GetUser', {}],
      ['GetUser', { UserName: 'carol' }],
      ['CreateUser', { UserName: 'dave' }],
      ['DeleteUser', { UserName: 'carol' }],
      ['CreateAccessKey', {}],
      ['GetAccessKeyLastUsed', { AccessKeyId: 'AKIAX' }],
    ] as const) {
      const answer = await act(action, parameters);
      expect([answer.status, answer.code], action).toEqual([403, 'AccessDenied']);
      expect(answer.one('Message')).toContain(
        `User: ${arn('/carol')} is not authorized to perform: iam:${action}`,
      );
    }
  });
});
