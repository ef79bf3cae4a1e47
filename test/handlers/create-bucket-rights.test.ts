/** The permissions that CreateBucket needs, those of its headers included, and condition keys from its body. */
import { expect, test } from 'vitest';
import { openGateway } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';

test.each([
  ['s3:LocationConstraint', 'eu-west-1', 'eu-west-2'],
  ['s3:x-amz-object-ownership', 'BucketOwnerPreferred', 'ObjectWriter'],
  ['s3:x-amz-acl', 'public-read', 'private'],
  ['aws:RequestTag/team', 'blue', 'red'],
  ['aws:ResourceAccount', 'alice-account', 'other'],
  ['aws:RequestedRegion', 'default', 'other'],
])('a user who is denied %s = %s creates no bucket with it, and one with %s', async (key, value, other) => {
  await using world = await openGateway();
  const deny = (wanted: string) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 's3:*', Resource: '*' },
        {
          Effect: 'Deny',
          Action: 's3:CreateBucket',
          Resource: '*',
          Condition: { StringEquals: { [key]: wanted } },
        },
      ],
    });
  const create = async (name: string, wanted: string) => {
    const { credential } = await openUser(world, name, { policy: deny(wanted) });
    return world.as({ credential }).put(`/${name}`, {
      headers: { '*-object-ownership': 'BucketOwnerPreferred', '*-acl': 'public-read' },
      body: '<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint><Tags><Tag><Key>team</Key><Value>blue</Value></Tag></Tags></CreateBucketConfiguration>',
    });
  };
  expect((await create('denied', value)).status).toBe(403);
  expect((await create('allowed', other)).status).toBe(200);
});

test('CreateBucket with an ACL, an ownership, Object Lock or tags requires the permissions to set them', async () => {
  await using world = await openGateway();
  const body =
    '<CreateBucketConfiguration><Tags><Tag><Key>team</Key><Value>blue</Value></Tag></Tags></CreateBucketConfiguration>';
  const asked = [
    [{ headers: { '*-acl': 'public-read' } }, ['s3:PutBucketAcl']],
    [{ headers: { '*-grant-read': 'id="bob-account"' } }, ['s3:PutBucketAcl']],
    [{ headers: { '*-object-ownership': 'ObjectWriter' } }, ['s3:PutBucketOwnershipControls']],
    [
      { headers: { '*-bucket-object-lock-enabled': 'true' } },
      ['s3:PutBucketObjectLockConfiguration', 's3:PutBucketVersioning'],
    ],
    [{ body }, ['s3:TagResource']],
  ] as const;
  for (const [index, [ask, rights]] of asked.entries()) {
    for (const [name, more] of [
      ['without', []],
      ['with', rights],
    ] as const) {
      const user = await openUser(world, `${name}-${index}`, { policy: allow('s3:CreateBucket', ...more) });
      const client = world.as({ credential: user.credential });
      expect((await client.put(`/${name}-${index}`, ask)).status).toBe(name === 'with' ? 200 : 403);
      // Headers that only state the default need no further permission.
      const plain = { headers: { '*-acl': 'private', '*-bucket-object-lock-enabled': 'false' } };
      expect((await client.put(`/${name}-plain-${index}`, plain)).status).toBe(200);
    }
  }
});
