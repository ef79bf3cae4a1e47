/**
 * Access keys and user names as Principal: refused with a message that says what to write (public API "AWS JSON policy elements:
 * Principal").
 */
import { describe, expect, test } from 'vitest';
import { bucketPolicy } from '../../src/auth/bucket-policy.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import { openActions } from '../support/actions.ts';
import { type GatewayWorld, openGateway, person } from '../support/gateway.ts';
import { allow, openUser, trusting } from '../support/iam-users.ts';

const open = async () => {
  const world = await openGateway({
    people: [person('dave', { owner: 'alice-account', root: false })],
  });
  await world.client.put('/bucket');
  return world;
};
const policyOf = (AWS: unknown, element = 'Principal', Effect = 'Allow') =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect, [element]: { AWS }, Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' }],
  });
const setPolicy = (world: GatewayWorld, body: string) => world.client.put('/bucket?policy', { body });
const carol = 'arn:aws:iam::alice-account:user/carol';

describe('a bucket policy', () => {
  test('with the access key of a user is refused, and names the user’s ARN', async () => {
    await using world = await open();
    const { accessKey } = (await openUser(world, 'carol')).credential;
    const refused = await setPolicy(world, policyOf([carol, accessKey]));
    expect([refused.status, refused.code]).toEqual([400, 'MalformedPolicy']);
    expect(refused.one('Message')).toContain(`"${accessKey}" is an access key`);
    expect((await world.client.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
    const configured = await setPolicy(world, policyOf('KEY-dave'));
    expect(configured.one('Message')).toBe(
      'Invalid principal in policy: "KEY-dave" is an access key, and not an account. Write the ARN of the user or role, such as {"AWS": "arn:aws:iam::alice-account:user/dave"}.',
    );
  });

  test('with the name of a user is refused, also as NotPrincipal', async () => {
    await using world = await open();
    await openUser(world, 'carol', { policy: allow('s3:*') });
    for (const body of [policyOf('carol'), policyOf('carol', 'NotPrincipal', 'Deny')]) {
      const refused = await setPolicy(world, body);
      expect([refused.status, refused.code]).toEqual([400, 'MalformedPolicy']);
      expect(refused.one('Message')).toContain(`such as {"AWS": "${carol}"}`);
    }
  });

  test.each(['AKIAIOSFODNN7EXAMPLE', 'AIDACKCEVSQ6C2EXAMPL', 'AROAJ2UCCR6DPCEXAMPL'])(
    'with %s is refused, whichever account it belongs to',
    async (name) => {
      await using world = await open();
      expect((await setPolicy(world, policyOf(name))).code).toBe('MalformedPolicy');
    },
  );

  test('accepts account ids, also unknown ones, and does not reveal access keys of other accounts', async () => {
    await using world = await open();
    for (const name of ['bob-account', '111122223333', 'another-account', 'KEY-bob', 'bob', carol])
      expect((await setPolicy(world, policyOf(name))).status, name).toBe(204);
  });

  test('that is stored from before is still read and obeyed', async () => {
    await using world = await open();
    await openUser(world, 'carol');
    await world.client.put('/bucket/key', { body: 'text' });
    const { context } = world;
    const text = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: ['carol', 'bob-account'] },
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::bucket/*',
        },
      ],
    });
    await changeDocument(context, {
      bucket: await openBucket(context, 'bucket'),
      family: bucketPolicy,
      text,
    });
    expect((await world.client.get('/bucket?policy')).text).toBe(text);
    expect((await world.bob.get('/bucket/key')).text).toBe('text');
  });
});

test('a role’s trust policy with the name of a user is refused, when it is made and when it is changed', async () => {
  await using world = await open();
  await openUser(world, 'carol');
  const iam = openActions(world);
  const create = (AWS: string) =>
    iam('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument: trusting({ AWS }) });
  const refused = await create('carol');
  expect([refused.status, refused.code]).toEqual([400, 'MalformedPolicyDocument']);
  expect((await create(carol)).status).toBe(200);
  const changed = await iam('UpdateAssumeRolePolicy', {
    RoleName: 'reader',
    PolicyDocument: trusting({ AWS: 'carol' }),
  });
  expect(changed.code).toBe('MalformedPolicyDocument');
});
