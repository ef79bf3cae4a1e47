/** SimulateCustomPolicy and SimulatePrincipalPolicy report the decision that a request would get. */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';
import { listed, openActions, type Parameters } from '../support/actions.ts';
import { bob, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { allow, everyPage, must, openUser } from '../support/iam-users.ts';

const write = (...Statement: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement });
const entry = (ContextKeyName: string, ...values: readonly string[]): Parameters => ({
  'ContextEntries.member.1.ContextKeyName': ContextKeyName,
  'ContextEntries.member.1.ContextKeyType': values.length > 1 ? 'stringList' : 'string',
  ...Object.fromEntries(
    values.map((value, index) => [`ContextEntries.member.1.ContextKeyValues.member.${index + 1}`, value]),
  ),
});
const decisions = (answer: Answer): string[] =>
  answer
    .all('EvalDecision')
    .map(
      (decision, index) =>
        `${answer.all('EvalActionName')[index]} ${answer.all('EvalResourceName')[index]} ${decision}`,
    );

test('a custom policy is tried on every action and resource', async () => {
  await using world = await openGateway();
  const iam = openActions(world);
  const policy = write(
    { Effect: 'Allow', Action: 's3:Get*', Resource: 'arn:aws:s3:::a/*' },
    { Effect: 'Deny', Action: '*', Resource: 'arn:aws:s3:::a/secret' },
  );
  const answer = await must(
    iam('SimulateCustomPolicy', {
      ...listed('PolicyInputList', [policy]),
      ...listed('ActionNames', ['s3:GetObject', 's3:PutObject']),
      ...listed('ResourceArns', ['arn:aws:s3:::a/x', 'arn:aws:s3:::a/secret']),
    }),
  );
  expect(decisions(answer)).toEqual([
    's3:GetObject arn:aws:s3:::a/x allowed',
    's3:GetObject arn:aws:s3:::a/secret explicitDeny',
    's3:PutObject arn:aws:s3:::a/x implicitDeny',
    's3:PutObject arn:aws:s3:::a/secret explicitDeny',
  ]);
  expect(answer.all('SourcePolicyId')).toEqual(Array(4).fill('PolicyInputList.1').slice(0, 3));
});

test('a page that takes long ends early, and the next one continues', async () => {
  let now = 0;
  await using world = await openGateway({ clock: { ...systemClock, elapsed: () => (now += 20) } });
  const iam = openActions(world);
  const actions = Array.from({ length: 7 }, (_, index) => `s3:Action${index}`);
  const parameters = { ...listed('PolicyInputList', [allow('*')]), ...listed('ActionNames', actions) };
  const first = await must(iam('SimulateCustomPolicy', parameters));
  expect([first.one('IsTruncated'), first.all('EvalActionName').length < actions.length]).toEqual([
    'true',
    true,
  ]);
  const rest = { element: 'EvalActionName', parameters, size: 1_000 };
  expect(await everyPage(iam, 'SimulateCustomPolicy', rest)).toEqual(actions);
});

test('conditions use the given entries, and missing ones are reported', async () => {
  await using world = await openGateway();
  const iam = openActions(world);
  const policy = write({
    Effect: 'Allow',
    Action: 's3:ListBucket',
    Resource: '*',
    Condition: { StringEquals: { 's3:prefix': ['home/', 'tmp/'] } },
  });
  const ask = { ...listed('PolicyInputList', [policy]), ...listed('ActionNames', ['s3:ListBucket']) };
  const bare = await must(iam('SimulateCustomPolicy', ask));
  expect([bare.one('EvalDecision'), bare.one('EvalResourceName')]).toEqual(['implicitDeny', '*']);
  expect(bare.text).toContain('<MissingContextValues><member>s3:prefix</member></MissingContextValues>');
  const given = await must(iam('SimulateCustomPolicy', { ...ask, ...entry('S3:Prefix', 'tmp/') }));
  expect(given.one('EvalDecision')).toBe('allowed');
  expect(given.text).toContain('<MissingContextValues></MissingContextValues>');
});

describe('a principal', () => {
  test('is tried with its own policies, its groups’, its boundary, and more', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await openUser(world, 'carol', { policy: allow('s3:GetObject') });
    await must(iam('CreateGroup', { GroupName: 'readers' }));
    await must(
      iam('PutGroupPolicy', {
        GroupName: 'readers',
        PolicyName: 'p',
        PolicyDocument: allow('s3:ListBucket'),
      }),
    );
    await must(iam('AddUserToGroup', { GroupName: 'readers', UserName: 'carol' }));
    const PolicySourceArn = 'arn:aws:iam::alice-account:user/carol';
    const actions = listed('ActionNames', ['s3:GetObject', 's3:ListBucket', 's3:PutObject']);
    const tried = async (more: Parameters = {}, source = PolicySourceArn) => {
      const answer = await must(
        iam('SimulatePrincipalPolicy', { PolicySourceArn: source, ...actions, ...more }),
      );
      return answer.all('EvalDecision').map((decision) => decision === 'allowed');
    };
    expect(await tried()).toEqual([true, true, false]);
    expect(await tried(listed('PolicyInputList', [allow('s3:PutObject')]))).toEqual([true, true, true]);
    expect(await tried(listed('PermissionsBoundaryPolicyInputList', [allow('s3:GetObject')]))).toEqual([
      true,
      false,
      false,
    ]);
    expect(await tried({}, 'arn:aws:iam::alice-account:group/readers')).toEqual([false, true, false]);
    const answer = await must(iam('SimulatePrincipalPolicy', { PolicySourceArn, ...actions }));
    expect(answer.all('SourcePolicyId')).toEqual(['user/carol/test', 'group/readers/p']);
    const PermissionsBoundary = 'arn:aws:iam::aws:policy/IAMFullAccess';
    await must(iam('PutUserPermissionsBoundary', { UserName: 'carol', PermissionsBoundary }));
    expect(await tried()).toEqual([false, false, false]);
  });

  test('is limited to the caller’s account and permissions', async () => {
    await using world = await openGateway();
    const carol = await openUser(world, 'carol', { policy: allow('s3:*') });
    const ask = {
      PolicySourceArn: 'arn:aws:iam::alice-account:user/carol',
      ...listed('ActionNames', ['s3:GetObject']),
    };
    expect((await openActions(world, { credential: bob })('SimulatePrincipalPolicy', ask)).code).toBe(
      'NoSuchEntity',
    );
    expect((await carol.act('SimulatePrincipalPolicy', ask)).code).toBe('AccessDenied');
    const iam = openActions(world);
    for (const [parameters, code] of [
      [{ ...ask, PolicySourceArn: 'arn:aws:iam::alice-account:policy/p' }, 'InvalidInput'],
      [{ ...ask, PolicySourceArn: 'arn:aws:iam::alice-account:user/x/carol' }, 'NoSuchEntity'],
      [{ PolicySourceArn: ask.PolicySourceArn }, 'ValidationError'],
      [{ ...ask, ...listed('PolicyInputList', ['{}']) }, 'MalformedPolicyDocument'],
      [
        {
          ...ask,
          ...listed(
            'ActionNames',
            Array.from({ length: 100 }, (_, index) => `s3:A${index}`),
          ),
          ...listed(
            'ResourceArns',
            Array.from({ length: 11 }, (_, index) => `arn:aws:s3:::${index}`),
          ),
        },
        'InvalidInput',
      ],
    ] as const)
      expect((await iam('SimulatePrincipalPolicy', parameters)).code).toBe(code);
  });

  test('is tried against the policy of a resource too', async () => {
    await using world = await openGateway();
    const iam = openActions(world);
    await openUser(world, 'carol');
    const PolicySourceArn = 'arn:aws:iam::alice-account:user/carol';
    const ResourcePolicy = write({
      Effect: 'Allow',
      Principal: { AWS: PolicySourceArn },
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::a/*',
    });
    const ask = {
      PolicySourceArn,
      ResourcePolicy,
      ...listed('ActionNames', ['s3:GetObject']),
      ...listed('ResourceArns', ['arn:aws:s3:::a/x']),
    };
    expect((await must(iam('SimulatePrincipalPolicy', ask))).one('EvalDecision')).toBe('allowed');
    const elsewhere = { ...ask, ResourceOwner: 'arn:aws:iam::bob-account:root' };
    expect((await must(iam('SimulatePrincipalPolicy', elsewhere))).one('EvalDecision')).toBe('implicitDeny');
  });
});

test('GetAccountSummary counts what there is', async () => {
  await using world = await openGateway();
  const iam = openActions(world);
  await openUser(world, 'carol');
  await must(iam('CreateGroup', { GroupName: 'a' }));
  await must(iam('CreateUser', { UserName: 'dave' }));
  await must(iam('DeleteUser', { UserName: 'dave' }));
  const { text } = await must(iam('GetAccountSummary'));
  for (const [key, value] of [
    ['Users', 1],
    ['Groups', 1],
    ['Roles', 0],
    ['UsersQuota', 5_000],
  ] as const)
    expect(text).toContain(`<entry><key>${key}</key><value>${value}</value></entry>`);
});
