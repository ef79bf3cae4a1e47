/** What an AccessDenied tells: who, what, on which resource and by which kind of policy; and to whom it tells nothing. */
import { describe, expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { allow, assume, must, openUser, putPolicy, trusting } from '../support/iam-users.ts';

const carol = 'arn:aws:iam::alice-account:user/carol';
const object = '"arn:aws:s3:::bucket/key"';
const text = (action: string, resource: string, because: string, user = carol) =>
  `User: ${user} is not authorized to perform: ${action} on resource: ${resource} ${because}`;
const messageOf = (answer: Answer) => [answer.status, answer.code, answer.one('Message')];
const denied = (message: string) => [403, 'AccessDenied', message];
const plain = denied('Access Denied');
const document = (...statements: readonly object[]) =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });
const statement = (Effect: 'Allow' | 'Deny', Action: string, more: object = {}) => ({
  Effect,
  Action,
  Resource: '*',
  ...more,
});
const open = async () => {
  const world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  return world;
};
const userOf = async (world: GatewayWorld, policy: string) =>
  world.as({ credential: (await openUser(world, 'carol', { policy })).credential });

describe('a user of the bucket’s account is told that', () => {
  test('no identity-based policy allows the action', async () => {
    await using world = await open();
    const client = await userOf(world, allow('s3:ListBucket'));
    const because = (action: string) => `because no identity-based policy allows the ${action} action`;
    expect(messageOf(await client.get('/bucket/key'))).toEqual(
      denied(text('s3:GetObject', object, because('s3:GetObject'))),
    );
    expect(messageOf(await client.put('/bucket/key', { body: 'x' }))).toEqual(
      denied(text('s3:PutObject', object, because('s3:PutObject'))),
    );
    expect(messageOf(await client.get('/bucket?policy'))).toEqual(
      denied(text('s3:GetBucketPolicy', '"arn:aws:s3:::bucket"', because('s3:GetBucketPolicy'))),
    );
    expect(messageOf(await client.put('/made'))).toEqual(
      denied(text('s3:CreateBucket', '"arn:aws:s3:::made"', because('s3:CreateBucket'))),
    );
    expect((await client.get('/bucket')).status).toBe(200);
  });

  test('an identity-based policy denies it', async () => {
    await using world = await open();
    const client = await userOf(
      world,
      document(statement('Allow', 's3:*'), statement('Deny', 's3:GetObject')),
    );
    expect(messageOf(await client.get('/bucket/key'))).toEqual(
      denied(text('s3:GetObject', object, 'with an explicit deny in an identity-based policy')),
    );
  });

  test('a resource-based policy denies it', async () => {
    await using world = await open();
    const client = await userOf(world, allow('s3:*'));
    const body = document({
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:DeleteObject',
      Resource: 'arn:aws:s3:::bucket/*',
    });
    expect((await world.client.put('/bucket?policy', { body })).status).toBe(204);
    const because = 'with an explicit deny in a resource-based policy';
    expect(messageOf(await client.delete('/bucket/key'))).toEqual(
      denied(text('s3:DeleteObject', object, because)),
    );
    const root = 'arn:aws:iam::alice-account:root';
    expect(messageOf(await world.client.delete('/bucket/key'))).toEqual(
      denied(text('s3:DeleteObject', object, because, root)),
    );
    const each = await client.post('/bucket?delete', {
      body: '<Delete><Object><Key>key</Key></Object></Delete>',
    });
    expect([each.status, each.one('Message')]).toEqual([200, text('s3:DeleteObject', object, because)]);
  });

  test('a permissions boundary denies or does not allow it', async () => {
    await using world = await open();
    const client = await userOf(world, allow('s3:*'));
    const iam = openActions(world);
    const boundary = document(statement('Allow', 's3:Get*'), statement('Deny', 's3:GetObject'));
    await must(iam('CreatePolicy', { PolicyName: 'boundary', PolicyDocument: boundary }));
    const PermissionsBoundary = 'arn:aws:iam::alice-account:policy/boundary';
    await must(iam('PutUserPermissionsBoundary', { UserName: 'carol', PermissionsBoundary }));
    expect(messageOf(await client.get('/bucket/key'))).toEqual(
      denied(text('s3:GetObject', object, 'with an explicit deny in a permissions boundary')),
    );
    expect(messageOf(await client.put('/bucket/key', { body: 'x' }))).toEqual(
      denied(text('s3:PutObject', object, 'because no permissions boundary allows the s3:PutObject action')),
    );
  });

  test('a session policy denies or does not allow it, by the name of the session', async () => {
    await using world = await open();
    const iam = openActions(world);
    const trust = trusting({ AWS: 'alice-account' });
    await must(iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument: trust }));
    await must(iam('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument: allow('s3:*') }));
    const Policy = document(statement('Allow', 's3:Get*'), statement('Deny', 's3:GetObject'));
    const role = 'arn:aws:iam::alice-account:role/reader';
    const { options } = await assume(world, iam, { role, Policy });
    const client = world.as(options);
    const user = 'arn:aws:sts::alice-account:assumed-role/reader/session';
    expect(messageOf(await client.get('/bucket/key'))).toEqual(
      denied(text('s3:GetObject', object, 'with an explicit deny in a session policy', user)),
    );
    expect(messageOf(await client.put('/bucket/key', { body: 'x' }))).toEqual(
      denied(text('s3:PutObject', object, 'because no session policy allows the s3:PutObject action', user)),
    );
  });

  test('also of actions of IAM', async () => {
    await using world = await open();
    const { act } = await openUser(world, 'carol', { policy: allow('iam:ListUsers') });
    const refused = await act('CreateUser', { UserName: 'dora' });
    expect(messageOf(refused)).toEqual(
      denied(
        text(
          'iam:CreateUser',
          'arn:aws:iam::alice-account:user/dora',
          'because no identity-based policy allows the iam:CreateUser action',
        ),
      ),
    );
    const policy = document(statement('Allow', '*'), statement('Deny', 'iam:CreateUser'));
    await must(putPolicy(openActions(world), 'carol', policy));
    expect((await act('CreateUser', { UserName: 'dora' })).one('Message')).toMatch(
      /with an explicit deny in an identity-based policy$/,
    );
  });
});

describe('the plain text is for', () => {
  test('anonymous callers, and callers of another account, whatever denies them', async () => {
    await using world = await open();
    const eve = (
      await openUser(world, 'eve', {
        root: bob,
        policy: document(statement('Deny', 's3:*')),
      })
    ).credential;
    const body = document({
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::bucket/*',
    });
    for (const _ of ['without a policy', 'with a policy that denies']) {
      for (const client of [world.anonymous, world.bob, world.as({ credential: eve })]) {
        expect(messageOf(await client.get('/bucket/key'))).toEqual(plain);
        expect(messageOf(await client.get('/bucket/none'))).toEqual(plain);
        expect(messageOf(await client.put('/bucket/key', { body: 'x' }))).toEqual(plain);
      }
      await world.client.put('/bucket?policy', { body });
    }
  });
});

describe('the text of a refusal tells no caller without s3:ListBucket whether an object exists', () => {
  const tagged = { StringEquals: { 's3:ExistingObjectTag/secret': 'yes' } };
  const policies: readonly (readonly [string, string])[] = [
    ['nothing', allow('s3:PutObject')],
    ['reads', allow('s3:GetObject', 's3:DeleteObject')],
    ['reads of objects by their tag', document(statement('Allow', 's3:*Object', { Condition: tagged }))],
    [
      'all but objects of a tag',
      document(
        statement('Allow', 's3:*Object'),
        statement('Allow', 's3:*Tagging'),
        statement('Deny', 's3:*', { Condition: tagged }),
      ),
    ],
  ];
  test.each(policies)('that is allowed %s', async (_, policy) => {
    await using world = await open();
    await world.client.put('/bucket/hidden', { body: 'text', headers: { '*-tagging': 'secret=yes' } });
    const client = await userOf(world, policy);
    for (const [method, query] of [
      ['get', ''],
      ['head', ''],
      ['get', '?tagging'],
      ['get', '?acl'],
    ] as const) {
      const at = async (key: string) => {
        const answer = await client[method](`/bucket/${key}${query}`);
        return [answer.status, answer.code, answer.one('Message')?.replaceAll(key, '')];
      };
      const absent = await at('absent');
      expect(absent[0], `${method} ${query}`).toBe(403);
      const hidden = await at('hidden');
      // What is let in tells that it is there; what is refused tells nothing.
      if (hidden[0] !== 200) expect(hidden, `${method} ${query}`).toEqual(absent);
    }
  });
});
