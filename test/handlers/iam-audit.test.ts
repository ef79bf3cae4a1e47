/** Audit rows of IAM and STS: of changes, in their commit; of refusals; without secrets. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openActions } from '../support/actions.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';
import { auditRows, inShort, tickingClock } from '../support/recorded.ts';

test('changes and what was refused of them leave one row, reads leave none', async () => {
  await using world = await openGateway({ clock: tickingClock() });
  const iam = openActions(world);
  const { act, credential } = await openUser(world, 'carol');
  await iam('ListUsers');
  await iam('GetUser', { UserName: 'carol' });
  await act('GetCallerIdentity');
  await act('DeleteUser', { UserName: 'carol' });
  await act('ListUsers');
  await iam('CreateUser', { UserName: 'carol' });
  await iam('AssumeRole', { RoleArn: 'arn:aws:iam::alice-account:role/none', RoleSessionName: 'session' });
  const token = await must(act('GetSessionToken'));
  const rows = await auditRows(world.context);
  expect(rows.map(inShort)).toEqual([
    'CreateUser arn:aws:iam::alice-account:user/carol 200',
    'CreateAccessKey arn:aws:iam::alice-account:user/carol 200',
    'DeleteUser arn:aws:iam::alice-account:user/carol 403 AccessDenied',
    'CreateUser arn:aws:iam::alice-account:user/carol 409 EntityAlreadyExists',
    'AssumeRole arn:aws:iam::alice-account:role/none 403 AccessDenied',
    'GetSessionToken  200',
  ]);
  expect(rows[2]).toMatchObject({
    principal: 'arn:aws:iam::alice-account:user/carol',
    accessKey: credential.accessKey,
  });
  const written = JSON.stringify(rows);
  for (const secret of [credential.secretKey, token.one('SecretAccessKey'), token.one('SessionToken')])
    expect(written).not.toContain(secret);
});

test('rows of changes have the values before and after, documents by their digest', async () => {
  await using world = await openGateway({ clock: tickingClock() });
  const iam = openActions(world);
  const PolicyDocument =
    '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:ListBucket","Resource":"*"}}';
  const UserName = 'carol';
  await must(iam('CreateUser', { UserName, Path: '/staff/' }));
  await must(iam('UpdateUser', { UserName, NewPath: '/board/' }));
  await must(iam('TagUser', { UserName, 'Tags.member.1.Key': 'card', 'Tags.member.1.Value': '4111-1111' }));
  const key = await must(iam('CreateAccessKey', { UserName }));
  const AccessKeyId = key.one('AccessKeyId') ?? '';
  await must(iam('UpdateAccessKey', { UserName, AccessKeyId, Status: 'Inactive' }));
  await must(iam('CreateGroup', { GroupName: 'readers' }));
  await must(iam('AddUserToGroup', { GroupName: 'readers', UserName }));
  const made = await must(iam('CreatePolicy', { PolicyName: 'managed', PolicyDocument }));
  const PolicyArn = made.one('Arn') ?? '';
  await must(iam('AttachUserPolicy', { UserName, PolicyArn }));
  await must(iam('PutUserPermissionsBoundary', { UserName, PermissionsBoundary: PolicyArn }));
  await must(iam('PutUserPolicy', { UserName, PolicyName: 'inline', PolicyDocument }));
  await must(iam('DeleteUserPolicy', { UserName, PolicyName: 'inline' }));
  const rows = await auditRows(world.context);
  const changesOf = (action: string) =>
    Object.fromEntries(
      (rows.find((row) => row.action === action)?.changes ?? []).map(({ field, old, new: now }) => [
        field,
        [old, now],
      ]),
    );
  const digest = { sha256: expect.stringMatching(/^[0-9a-f]{64}$/), characters: PolicyDocument.length };
  expect(changesOf('CreateUser')).toEqual({
    name: [undefined, 'carol'],
    path: [undefined, '/staff/'],
    status: [undefined, 'Active'],
  });
  expect(changesOf('UpdateUser')).toEqual({ path: ['/staff/', '/board/'] });
  // People write anything into tags, and a short text is found by its digest.
  expect(changesOf('TagUser')).toEqual({});
  expect(changesOf('CreateAccessKey')).toEqual({ [`accessKeys.${AccessKeyId}`]: [undefined, 'Active'] });
  expect(changesOf('UpdateAccessKey')).toEqual({ [`accessKeys.${AccessKeyId}`]: ['Active', 'Inactive'] });
  expect(changesOf('AddUserToGroup')).toEqual({ 'users.carol': [undefined, 'member'] });
  expect(changesOf('AttachUserPolicy')).toEqual({ 'policies.managed': [undefined, 'attached'] });
  expect(changesOf('PutUserPermissionsBoundary')).toEqual({ boundary: [undefined, 'managed'] });
  expect(changesOf('PutUserPolicy')).toEqual({ 'inlinePolicies.inline': [undefined, digest] });
  expect(changesOf('DeleteUserPolicy')).toEqual({ 'inlinePolicies.inline': [digest, undefined] });
  const written = JSON.stringify(rows);
  for (const secret of [key.one('SecretAccessKey') ?? '', '4111-1111', 'Statement'])
    expect(written).not.toContain(secret);
});

test('the row of a change is in its commit', async () => {
  let applies = 0;
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      apply: (changes) => {
        applies += 1;
        return context.metadata.apply(changes);
      },
    }),
  });
  await using world = await openGateway({ wrap });
  const iam = openActions(world);
  await must(iam('CreateUser', { UserName: 'carol' }));
  await must(iam('CreateGroup', { GroupName: 'readers' }));
  await must(iam('AddUserToGroup', { GroupName: 'readers', UserName: 'carol' }));
  await must(iam('DeleteGroup', { GroupName: 'none' })).catch(() => undefined);
  expect([applies, (await auditRows(world.context)).length]).toEqual([1, 4]);
});
