/** Roles as records; assuming them is tested in iam-sessions. @storage */
import { describe, expect, test } from 'vitest';
import { listed, openActions } from '../support/actions.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { allow, everyPage, must } from '../support/iam-users.ts';

const trust = (AWS: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { AWS }, Action: 'sts:AssumeRole' }],
  });

describe.each(backends)('roles on %s', (backend) => {
  test('are created, changed, tagged, listed and deleted', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const made = await must(
      iam('CreateRole', {
        RoleName: 'reader',
        Path: '/service/',
        Description: 'reads',
        MaxSessionDuration: '7200',
        AssumeRolePolicyDocument: trust('alice-account'),
        ...listed('Tags', [{ Key: 'Team', Value: 'blue' }]),
      }),
    );
    expect(made.one('Arn')).toBe('arn:aws:iam::alice-account:role/service/reader');
    expect(made.one('RoleId')).toMatch(/^AROA[A-Z2-7]{17}$/);
    expect([made.one('Description'), made.one('MaxSessionDuration'), made.one('Key')]).toEqual([
      'reads',
      '7200',
      'Team',
    ]);
    const role = { RoleName: 'reader' };
    await must(iam('UpdateRole', { ...role, Description: '', MaxSessionDuration: '3600' }));
    await must(iam('UpdateAssumeRolePolicy', { ...role, PolicyDocument: trust('bob-account') }));
    await must(iam('TagRole', { ...role, ...listed('Tags', [{ Key: 'Cost', Value: '1' }]) }));
    await must(iam('UntagRole', { ...role, ...listed('TagKeys', ['Team']) }));
    const shown = await must(iam('GetRole', role));
    expect(decodeURIComponent(shown.one('AssumeRolePolicyDocument') ?? '')).toBe(trust('bob-account'));
    expect([shown.one('Description'), shown.one('MaxSessionDuration')]).toEqual([undefined, '3600']);
    expect((await must(iam('ListRoleTags', role))).all('Key')).toEqual(['Cost']);
    expect(
      (await must(iam('UpdateRoleDescription', { ...role, Description: 'again' }))).one('Description'),
    ).toBe('again');
    for (const RoleName of ['a', 'b', 'c'])
      await must(iam('CreateRole', { RoleName, AssumeRolePolicyDocument: trust('alice-account') }));
    expect(await everyPage(iam, 'ListRoles', { element: 'RoleName', size: 3 })).toEqual([
      'a',
      'b',
      'c',
      'reader',
    ]);
    const PolicyArn = 'arn:aws:iam::aws:policy/AmazonS3FullAccess';
    await must(iam('AttachRolePolicy', { ...role, PolicyArn }));
    expect((await must(iam('ListAttachedRolePolicies', role))).all('PolicyArn')).toEqual([PolicyArn]);
    expect((await iam('DeleteRole', role)).code).toBe('DeleteConflict');
    await must(iam('DetachRolePolicy', { ...role, PolicyArn }));
    await must(iam('DeleteRole', role));
    expect((await iam('GetRole', role)).code).toBe('NoSuchEntity');
  });
});

test.each([
  ['AssumeRolePolicyDocument', '{}', 'MalformedPolicyDocument'],
  ['AssumeRolePolicyDocument', allow('sts:AssumeRole'), 'MalformedPolicyDocument'],
  ['AssumeRolePolicyDocument', trust('arn:aws:iam::x:nothing/y'), 'MalformedPolicyDocument'],
  ['MaxSessionDuration', '3599', 'ValidationError'],
  ['MaxSessionDuration', '43201', 'ValidationError'],
  ['RoleName', 'x'.repeat(65), 'ValidationError'],
  ['PermissionsBoundary', 'arn:aws:iam::aws:policy/NothingLikeThat', 'NoSuchEntity'],
])('a role is refused with %s=%s', async (name, value, code) => {
  await using world = await openGateway();
  const iam = openActions(world);
  const given = { RoleName: 'reader', AssumeRolePolicyDocument: trust('alice-account') };
  expect((await iam('CreateRole', { ...given, [name]: value })).code).toBe(code);
  await must(iam('CreateRole', given));
  expect((await iam('CreateRole', { ...given, RoleName: 'READER' })).code).toBe('EntityAlreadyExists');
});
