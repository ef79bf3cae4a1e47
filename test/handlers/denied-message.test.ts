/** The text of AccessDenied: the user, the action, the resource and the kind of policy, for callers that may know them. */
import { describe, expect, test } from 'vitest';
import { blockXml, policyOf } from '../support/access.ts';
import {
  acting,
  furnished,
  open4,
  open as openPoint,
  arn as pointArn,
  policyFor,
} from '../support/access-points.ts';
import { openActions } from '../support/actions.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
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
      // A refused caller gets the same answer for existing and for missing resources.
      if (hidden[0] !== 200) expect(hidden, `${method} ${query}`).toEqual(absent);
    }
  });
});

describe('a refusal by a public access block names its setting', () => {
  const blockedPolicies =
    'because public policies are blocked by the BlockPublicPolicy block public access setting';
  const blockedAcls =
    'because public access control lists (ACLs) are blocked by the BlockPublicAcls block public access setting';
  const publicPolicy = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' });

  test('to callers of the bucket’s account, and not to others who write there', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
    await world.client.put('/bucket/key', { body: 'text' });
    const bobWrites = { Principal: { AWS: 'bob-account' }, Action: ['s3:PutObject', 's3:PutObjectAcl'] };
    await world.client.put('/bucket?policy', {
      body: policyOf({ ...bobWrites, Resource: 'arn:aws:s3:::bucket/*' }),
    });
    const block = { body: blockXml('BlockPublicPolicy', 'BlockPublicAcls') };
    expect((await world.client.put('/bucket?publicAccessBlock', block)).status).toBe(200);
    const client = await userOf(world, allow('s3:*'));
    expect(messageOf(await client.put('/bucket?policy', { body: publicPolicy }))).toEqual(
      denied(text('s3:PutBucketPolicy', '"arn:aws:s3:::bucket"', blockedPolicies)),
    );
    const headers = { '*-acl': 'public-read' };
    for (const [action, path, resource] of [
      ['s3:PutObject', '/bucket/key', object],
      ['s3:PutObjectAcl', '/bucket/key?acl', object],
      ['s3:PutBucketAcl', '/bucket?acl', '"arn:aws:s3:::bucket"'],
    ] as const) {
      const refused = await client.put(path, { headers, ...(path === '/bucket/key' ? { body: 'x' } : {}) });
      expect(messageOf(refused)).toEqual(denied(text(action, resource, blockedAcls)));
    }
    expect(messageOf(await world.bob.put('/bucket/bobs', { headers, body: 'x' }))).toEqual(plain);
    expect((await world.bob.put('/bucket/bobs', { body: 'x' })).status).toBe(200);
  });

  test('of an access point and of its bucket', async () => {
    await using world = await openGateway(openPoint);
    await furnished(world);
    const act = acting(world, (await openUser(world, 'carol', { policy: allow('s3:*') })).credential);
    const put = () => act('PutAccessPointPolicy', { Name: 'photos', Policy: policyFor({}) });
    const because = denied(text('s3:PutAccessPointPolicy', pointArn, blockedPolicies));
    expect(messageOf(await put())).toEqual(because);
    await must(act('DeleteAccessPoint', { Name: 'photos' }));
    await must(act('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket', ...open4 }));
    await must(put());
    await world.client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicPolicy') });
    expect(messageOf(await put())).toEqual(because);
  });
});

describe('a request through an access point is refused with', () => {
  const at = `"${pointArn}/object/key"`;

  test('the ARN of the object there, and the kind of policy that denies or does not allow', async () => {
    await using world = await openGateway(openPoint);
    const alias = await furnished(world, open4);
    const act = acting(world);
    const client = await userOf(world, allow('s3:ListBucket'));
    const get = async () => messageOf(await client.get(`/${alias}/key`));
    const none = 'because no identity-based policy allows the s3:GetObject action';
    expect(await get()).toEqual(denied(text('s3:GetObject', at, none)));
    await must(putPolicy(openActions(world), 'carol', allow('s3:GetObject')));
    expect((await client.get(`/${alias}/key`)).status).toBe(200);
    const denying = { Effect: 'Deny' as const, Principal: { AWS: carol } };
    await must(act('PutAccessPointPolicy', { Name: 'photos', Policy: policyFor(denying) }));
    expect(await get()).toEqual(
      denied(text('s3:GetObject', at, 'with an explicit deny in an access point policy')),
    );
    await must(act('DeleteAccessPointPolicy', { Name: 'photos' }));
    const Resource = 'arn:aws:s3:::bucket/*';
    await world.client.put('/bucket?policy', { body: policyOf({ ...denying, Action: 's3:*', Resource }) });
    expect(await get()).toEqual(
      denied(text('s3:GetObject', at, 'with an explicit deny in a resource-based policy')),
    );
  });

  test('the plain text, where the caller is of another account', async () => {
    await using world = await openGateway(openPoint);
    const alias = await furnished(world, open4);
    expect(messageOf(await world.bob.get(`/${alias}/key`))).toEqual(plain);
    expect(messageOf(await world.anonymous.get(`/${alias}/key`))).toEqual(plain);
  });
});

describe('a refused AssumeRole', () => {
  const action = 'sts:AssumeRole';
  const role = 'arn:aws:iam::alice-account:role/reader';
  const absent = 'arn:aws:iam::alice-account:role/absent';
  const because = (kind: string, which = action) => `because no ${kind} allows the ${which} action`;
  const byTrust = because('role trust policy');

  /** The role `reader`, and a user of the account of `root`. */
  const openRole = async (trust: string, policy: string, root = alice) => {
    const world = await openGateway();
    const AssumeRolePolicyDocument = trust;
    await must(openActions(world)('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument }));
    const user = await openUser(world, 'carol', { root, policy });
    const messages = async (more: Record<string, string> = {}) => {
      const said: unknown[] = [];
      for (const RoleArn of [role, absent])
        said.push(messageOf(await user.act('AssumeRole', { RoleArn, RoleSessionName: 'session', ...more })));
      return said;
    };
    return { world, messages, [Symbol.asyncDispose]: () => world.close() };
  };

  test('names what the caller’s own policies say, and tells no untrusted caller whether the role exists', async () => {
    for (const root of [alice, bob]) {
      const user = `arn:aws:iam::${root.owner}:user/carol`;
      for (const [policy, reason] of [
        [allow('s3:*'), because('identity-based policy')],
        [
          document(statement('Allow', action), statement('Deny', action)),
          'with an explicit deny in an identity-based policy',
        ],
        [allow(action), byTrust],
      ] as const) {
        await using asking = await openRole(trusting({ AWS: 'carols-account' }), policy, root);
        expect(await asking.messages()).toEqual([
          denied(text(action, role, reason, user)),
          denied(text(action, absent, reason, user)),
        ]);
      }
    }
  });

  test('names the action that is missing to a caller whom the role trusts', async () => {
    await using asking = await openRole(trusting({ AWS: 'alice-account' }), allow(action));
    const [tagged] = await asking.messages({ 'Tags.member.1.Key': 'a', 'Tags.member.1.Value': 'b' });
    const tagging = because('identity-based policy', 'sts:TagSession');
    expect(tagged).toEqual(denied(text('sts:TagSession', role, tagging)));
    const iam = openActions(asking.world);
    await must(iam('CreatePolicy', { PolicyName: 'boundary', PolicyDocument: allow('s3:*') }));
    const PermissionsBoundary = 'arn:aws:iam::alice-account:policy/boundary';
    await must(iam('PutUserPermissionsBoundary', { UserName: 'carol', PermissionsBoundary }));
    const [bounded] = await asking.messages();
    expect(bounded).toEqual(denied(text(action, role, because('permissions boundary'))));
  });
});

test('the operator API names the caller and the operation to callers who signed', async () => {
  await using world = await open();
  const because = 'because the access key is not configured as an operator';
  const client = await userOf(world, allow('*'));
  const json = ({ status, text: body }: Answer) => [status, body];
  const [status, body] = json(await client.get('/admin/v1/clusters'));
  expect(status).toBe(403);
  expect(body).toContain('AccessDenied');
  expect(JSON.stringify(body)).toContain(
    JSON.stringify(JSON.stringify(text('admin:ListClusters', '"arn:aws:admin:::clusters"', because))).slice(
      3,
      -3,
    ),
  );
  expect((await world.anonymous.get('/admin/v1/clusters')).text).toContain('Access Denied');
  const audit = await client.get('/?audit');
  expect([audit.status, audit.one('Message')?.endsWith(because)]).toEqual([403, true]);
});
