/** Groups and their users. @storage */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { backends, bob, openGateway } from '../support/gateway.ts';
import { allow, everyPage, must, openUser } from '../support/iam-users.ts';

describe.each(backends)('groups on %s', (backend) => {
  test('are created, filled, renamed, listed and deleted', async () => {
    await using world = await openGateway({ backend });
    const iam = openActions(world);
    const made = await must(iam('CreateGroup', { GroupName: 'Readers', Path: '/teams/' }));
    expect(made.one('Arn')).toBe('arn:aws:iam::alice-account:group/teams/Readers');
    expect(made.one('GroupId')).toMatch(/^AGPA[A-Z2-7]{17}$/);
    for (const UserName of ['carol', 'dave', 'erin']) {
      await must(iam('CreateUser', { UserName }));
      await must(iam('AddUserToGroup', { GroupName: 'Readers', UserName }));
      await must(iam('AddUserToGroup', { GroupName: 'Readers', UserName }));
    }
    await must(iam('UpdateGroup', { GroupName: 'Readers', NewGroupName: 'Writers', NewPath: '/' }));
    await must(iam('UpdateUser', { UserName: 'erin', NewUserName: 'eve' }));
    const members = { element: 'UserName', parameters: { GroupName: 'Writers' }, size: 2 };
    expect((await everyPage(iam, 'GetGroup', members)).toSorted()).toEqual(['carol', 'dave', 'eve']);
    expect((await must(iam('ListGroupsForUser', { UserName: 'eve' }))).all('GroupName')).toEqual(['Writers']);
    const full = await iam('DeleteGroup', { GroupName: 'Writers' });
    expect([full.status, full.code]).toEqual([409, 'DeleteConflict']);
    expect((await iam('DeleteUser', { UserName: 'carol' })).code).toBe('DeleteConflict');
    for (const UserName of ['carol', 'dave', 'eve'])
      await must(iam('RemoveUserFromGroup', { GroupName: 'Writers', UserName }));
    expect((await iam('RemoveUserFromGroup', { GroupName: 'Writers', UserName: 'eve' })).code).toBe(
      'NoSuchEntity',
    );
    await must(iam('DeleteGroup', { GroupName: 'Writers' }));
    expect((await iam('GetGroup', { GroupName: 'Writers' })).code).toBe('NoSuchEntity');
  });
});

describe('a group', () => {
  test('gives its members the permissions of its policies while they are members', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await world.client.put('/bucket');
    await must(iam('CreateGroup', { GroupName: 'readers' }));
    const policy = { GroupName: 'readers', PolicyName: 'read', PolicyDocument: allow('s3:ListBucket') };
    await must(iam('PutGroupPolicy', policy));
    const carol = await openUser(world, 'carol');
    const status = async () => (await world.as({ credential: carol.credential }).get('/bucket')).status;
    expect(await status()).toBe(403);
    await must(iam('AddUserToGroup', { GroupName: 'readers', UserName: 'carol' }));
    expect(await status()).toBe(200);
    await must(iam('DeleteGroupPolicy', { GroupName: 'readers', PolicyName: 'read' }));
    expect(await status()).toBe(403);
    const PolicyArn = 'arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess';
    await must(iam('AttachGroupPolicy', { GroupName: 'readers', PolicyArn }));
    expect(await status()).toBe(200);
    await must(iam('RemoveUserFromGroup', { GroupName: 'readers', UserName: 'carol' }));
    expect(await status()).toBe(403);
  });

  test('accepts only users of its account, and a user is in at most ten groups', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    const other = openActions(world, { credential: bob });
    await must(other('CreateUser', { UserName: 'mallory' }));
    await must(iam('CreateUser', { UserName: 'carol' }));
    for (let index = 0; index < 11; index += 1)
      await must(iam('CreateGroup', { GroupName: `group-${index}` }));
    expect((await iam('AddUserToGroup', { GroupName: 'group-0', UserName: 'mallory' })).code).toBe(
      'NoSuchEntity',
    );
    expect((await other('AddUserToGroup', { GroupName: 'group-0', UserName: 'mallory' })).code).toBe(
      'NoSuchEntity',
    );
    for (let index = 0; index < 10; index += 1)
      await must(iam('AddUserToGroup', { GroupName: `group-${index}`, UserName: 'carol' }));
    const eleventh = await iam('AddUserToGroup', { GroupName: 'group-10', UserName: 'carol' });
    expect([eleventh.status, eleventh.code]).toEqual([409, 'LimitExceeded']);
    expect(await everyPage(iam, 'ListGroups', { element: 'GroupName', size: 4 })).toHaveLength(11);
  });
});
