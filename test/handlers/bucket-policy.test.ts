/** Bucket policies: stored as sent, in force for the next request, and refused where they are invalid. @storage */
import { describe, expect, test } from 'vitest';
import { cacheSizes } from '../../src/base/bounded-cache.ts';
import { blockXml, policyOf } from '../support/access.ts';
import { alice, backends, type GatewayWorld, openGateway, person } from '../support/gateway.ts';
import { heavyPolicies } from '../support/heavy-policies.ts';

const objects = 'arn:aws:s3:::bucket/*';
const itself = 'arn:aws:s3:::bucket';
const readable = policyOf({ Action: 's3:GetObject', Resource: objects });

describe.each(backends)('the policy of a bucket on %s', (backend) => {
  test('is unset, stored unchanged, replaced, removed, and removed again', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    const unset = await client.get('/bucket?policy');
    expect([unset.status, unset.code, unset.one('BucketName')]).toEqual([
      404,
      'NoSuchBucketPolicy',
      'bucket',
    ]);
    for (const body of [
      `\n { "Version": "2012-10-17",  "Statement" : {"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"${objects}/\\u00e9ü"} }\t`,
      readable,
    ]) {
      expect((await client.put('/bucket?policy', { body })).status).toBe(204);
      const got = await client.get('/bucket?policy');
      expect([got.status, got.header('content-type'), got.text]).toEqual([200, 'application/json', body]);
    }
    expect((await client.delete('/bucket?policy')).status).toBe(204);
    expect((await client.delete('/bucket?policy')).status).toBe(204);
    expect((await client.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
  });

  test('applies from the next request until it is removed', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    for (let round = 0; round < 5; round += 1) {
      expect((await anonymous.get('/bucket/key')).status).toBe(403);
      await client.put('/bucket?policy', { body: readable });
      expect((await anonymous.get('/bucket/key')).status).toBe(200);
      const denied = policyOf(
        { Action: 's3:*', Resource: objects },
        { Effect: 'Deny', Action: 's3:GetObject', Resource: objects },
      );
      await client.put('/bucket?policy', { body: denied });
      // A Deny binds the root of the account too.
      expect((await client.get('/bucket/key')).status).toBe(403);
      await client.delete('/bucket?policy');
      expect((await client.get('/bucket/key')).status).toBe(200);
    }
  });

  test('goes with its bucket: one of the same name begins without', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket?policy', { body: readable });
    await client.delete('/bucket');
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
    expect((await client.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
  });
});

test('a policy without Version is one of 2008-10-17, to which variables are plain text', async () => {
  await using world = await openGateway();
  const { client, anonymous } = world;
  await client.put('/bucket');
  for (const key of ['%24%7Baws:PrincipalType%7D', 'Anonymous'])
    await client.put(`/bucket/${key}`, { body: 'x' });
  const statuses = async () => [
    (await anonymous.get('/bucket/%24%7Baws:PrincipalType%7D')).status,
    (await anonymous.get('/bucket/Anonymous')).status,
  ];
  const Resource = `arn:aws:s3:::bucket/\${aws:PrincipalType}`;
  const body = policyOf({ Action: 's3:GetObject', Resource });
  expect((await client.put('/bucket?policy', { body })).status).toBe(204);
  expect(await statuses()).toEqual([403, 200]);
  const older = body.replace('"Version":"2012-10-17",', '');
  expect((await client.put('/bucket?policy', { body: older })).status).toBe(204);
  expect((await client.get('/bucket?policy')).text).toBe(older);
  expect(await statuses()).toEqual([200, 403]);
});

describe('a policy is refused', () => {
  test.each([
    ['', 'MissingRequestBodyError', ''],
    ['nothing', 'MalformedPolicy', ''],
    [new Uint8Array([0x7b, 0xff, 0x7d]), 'MalformedPolicy', 'UTF-8'],
    ['[]', 'MalformedPolicy', 'must be a JSON object'],
    ['{"Version":"2012-10-17"}', 'MalformedPolicy', 'needs Statement'],
    ['{"Version":"2012-10-17","Statement":[]}', 'MalformedPolicy', 'Statement'],
    [readable.replace('2012-10-17', '2020-01-01'), 'MalformedPolicy', 'Version'],
    [
      policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::other/*' }),
      'MalformedPolicy',
      'Statement[0].Resource',
    ],
    [policyOf({ Action: 's3:ListBucket', Resource: objects }), 'MalformedPolicy', 'does not apply'],
    [policyOf({ Action: 's3:EatObject', Resource: objects }), 'MalformedPolicy', 'Statement[0].Action'],
    [policyOf({ Action: 'iam:*', Resource: objects }), 'MalformedPolicy', 'Statement[0].Action'],
    [
      policyOf({ Effect: 'Allow', NotPrincipal: '*', Action: 's3:GetObject', Resource: objects }),
      'MalformedPolicy',
      'NotPrincipal',
    ],
    [
      policyOf({ Principal: { Federated: 'x' }, Action: 's3:GetObject', Resource: objects }),
      'MalformedPolicy',
      'Principal',
    ],
    [policyOf({ Action: 's3:GetObject', Resource: objects, Sidd: 'x' }), 'MalformedPolicy', 'Sidd'],
    [
      policyOf({
        Action: 's3:GetObject',
        Resource: objects,
        Condition: { StringSounds: { 'aws:Referer': 'x' } },
      }),
      'MalformedPolicy',
      'StringSounds',
    ],
    [
      policyOf({
        Action: 's3:GetObject',
        Resource: objects,
        Condition: { StringLike: { 'aws:Refferer': 'x' } },
      }),
      'MalformedPolicy',
      'aws:Refferer',
    ],
    [
      policyOf({ Action: 's3:GetObject', Resource: `${objects}/\${aws:nobody}` }),
      'MalformedPolicy',
      'aws:nobody',
    ],
    [
      policyOf({ Action: 's3:GetObject', Resource: `${objects}${'x'.repeat(21_000)}` }),
      'MalformedPolicy',
      '20480',
    ],
    [' '.repeat(70_000), 'MaxMessageLengthExceeded', ''],
  ])('%# with the place that is wrong', async (body, code, says) => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket?policy', { body: readable });
    const refused = await client.put('/bucket?policy', { body });
    expect([refused.status, refused.code]).toEqual([400, code]);
    expect(refused.one('Message')).toContain(says);
    expect((await client.get('/bucket?policy')).text).toBe(readable);
  });

  test('where it would lock its writer out, unless that is meant', async () => {
    const user = person('ursula', { owner: alice.owner, root: false });
    await using world = await openGateway({ people: [user] });
    const ursula = world.as({ credential: user });
    await ursula.put('/bucket');
    const only = policyOf({
      Effect: 'Deny',
      NotPrincipal: { AWS: 'arn:aws:iam::alice-account:root' },
      Action: 's3:*Policy',
      Resource: itself,
    });
    const refused = await ursula.put('/bucket?policy', { body: only });
    expect([refused.status, refused.code]).toEqual([400, 'MalformedPolicy']);
    expect(refused.one('Message')).toContain('confirm-remove-self-bucket-access');
    expect((await ursula.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
    const headers = { '*-confirm-remove-self-bucket-access': 'true' };
    expect((await ursula.put('/bucket?policy', { body: only, headers })).status).toBe(204);
    for (const send of [ursula.get, ursula.put, ursula.delete])
      expect((await send('/bucket?policy', { body: readable })).status).toBe(403);
    // The root of the account can still delete the policy, and after that the user can set one again.
    expect((await world.client.delete('/bucket?policy')).status).toBe(204);
    expect((await ursula.put('/bucket?policy', { body: readable })).status).toBe(204);
  });

  test('never so that the root of the account is locked out', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    const denyAll = policyOf({ Effect: 'Deny', Action: 's3:*', Resource: [itself, objects] });
    expect((await client.put('/bucket?policy', { body: denyAll })).status).toBe(204);
    expect((await client.get('/bucket')).status).toBe(403);
    expect((await client.get('/bucket?policy')).text).toBe(denyAll);
    expect((await client.put('/bucket?policy', { body: denyAll })).status).toBe(204);
    expect((await client.delete('/bucket?policy')).status).toBe(204);
    expect((await client.get('/bucket')).status).toBe(200);
  });
});

describe('another account', () => {
  test('may be allowed everything but the bucket policy: MethodNotAllowed where a policy allows it, else AccessDenied', async () => {
    await using world = await openGateway();
    const { client, bob, anonymous } = world;
    await client.put('/bucket');
    for (const [method, path] of [
      ['GET', '/bucket?policy'],
      ['PUT', '/bucket?policy'],
      ['DELETE', '/bucket?policy'],
    ] as const) {
      const ask = () => bob.send(method, path, method === 'PUT' ? { body: readable } : {});
      await client.put('/bucket?policy', { body: readable });
      expect((await ask()).status, method).toBe(403);
      await client.put('/bucket?policy', { body: policyOf({ Action: 's3:*', Resource: [itself, objects] }) });
      const refused = await ask();
      expect([refused.status, refused.code], method).toEqual([405, 'MethodNotAllowed']);
      // No method of the resource is this caller's.
      expect(refused.header('allow')).toBe('');
      expect((await anonymous.send(method, path)).status, method).toBe(405);
      expect((await bob.put('/bucket/key', { body: 'x' })).status).toBe(200);
      expect((await bob.get('/bucket?policyStatus')).status).toBe(200);
    }
  });
});

describe('GetBucketPolicyStatus', () => {
  const isPublic = async ({ client }: GatewayWorld) =>
    (await client.get('/bucket?policyStatus')).one('IsPublic');

  test('distinguishes a public policy from one that is restricted', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    const unset = await client.get('/bucket?policyStatus');
    expect([unset.status, unset.code]).toEqual([404, 'NoSuchBucketPolicy']);
    await client.put('/bucket?policy', { body: readable });
    expect(await isPublic(world)).toBe('true');
    const held = {
      Principal: { AWS: 'bob-account' },
      Action: 's3:GetObject',
      Resource: objects,
    };
    await client.put('/bucket?policy', { body: policyOf(held) });
    expect(await isPublic(world)).toBe('false');
    // An ACL can make the bucket public too.
    await client.put('/bucket?acl', { headers: { '*-acl': 'public-read' } });
    expect(await isPublic(world)).toBe('true');
  });
});

describe('a public access block', () => {
  test('BlockPublicPolicy refuses public policies, and keeps the present one', async () => {
    await using world = await openGateway();
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    await client.put('/bucket?policy', { body: readable });
    await client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicPolicy') });
    const refused = await client.put('/bucket?policy', { body: readable });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    expect((await anonymous.get('/bucket/key')).status).toBe(200);
    const held = policyOf({ Principal: { AWS: 'bob-account' }, Action: 's3:GetObject', Resource: objects });
    expect((await client.put('/bucket?policy', { body: held })).status).toBe(204);
    await client.delete('/bucket?publicAccessBlock');
    expect((await client.put('/bucket?policy', { body: readable })).status).toBe(204);
  });

  test('RestrictPublicBuckets refuses callers of other accounts that a public policy would allow', async () => {
    const user = person('ursula', { owner: alice.owner, root: false });
    await using world = await openGateway({ people: [user] });
    const { client, anonymous, bob } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    await client.put('/bucket?policy', {
      body: policyOf(
        { Action: 's3:GetObject', Resource: objects },
        { Principal: { AWS: 'bob-account' }, Action: 's3:PutObject', Resource: objects },
      ),
    });
    expect((await anonymous.get('/bucket/key')).status).toBe(200);
    await client.put('/bucket?publicAccessBlock', { body: blockXml('RestrictPublicBuckets') });
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
    expect((await bob.get('/bucket/key')).status).toBe(403);
    expect((await bob.put('/bucket/key', { body: 'y' })).status).toBe(403);
    expect((await world.as({ credential: user }).get('/bucket/key')).status).toBe(200);
    // A policy that is not public still allows the accounts that it names.
    const held = policyOf({ Principal: { AWS: 'bob-account' }, Action: 's3:GetObject', Resource: objects });
    await client.put('/bucket?policy', { body: held });
    expect((await bob.get('/bucket/key')).status).toBe(200);
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
  });
});

test('a policy that exceeds the compiled size is refused with the limit, and the former one stays', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket?policy', { body: readable });
  const heavy = heavyPolicies(20 * 1024);
  const refused = await client.put('/bucket?policy', { body: heavy['globs with ?'] ?? '' });
  expect([refused.status, refused.code]).toEqual([400, 'MalformedPolicy']);
  expect(refused.one('Message')).toMatch(/has \d+ patterns with text between two wildcards; at most 256/);
  const large = await client.put('/bucket?policy', { body: heavy['short values'] ?? '' });
  expect([large.status, large.code]).toEqual([400, 'MalformedPolicy']);
  expect(large.one('Message')).toMatch(
    /takes about \d+ bytes of memory once it is compiled; at most 1048576/,
  );
  expect((await client.get('/bucket?policy')).text).toBe(readable);
});

test('policies of many buckets are held up to a bound of bytes, and each is obeyed', async () => {
  await using world = await openGateway();
  const { client, anonymous } = world;
  const before = cacheSizes().get('documents')?.bytes ?? 0;
  const values = Array.from({ length: 900 }, (_, index) => `agent ${index}`);
  const body = (name: string) =>
    policyOf({
      Action: 's3:GetObject',
      Resource: `arn:aws:s3:::${name}/*`,
      Condition: { StringNotEquals: { 'aws:UserAgent': values } },
    });
  const names = Array.from({ length: 60 }, (_, index) => `bucket-${index}`);
  for (const name of names) {
    await client.put(`/${name}`);
    await client.put(`/${name}/key`, { body: name });
    expect((await client.put(`/${name}?policy`, { body: body(name) })).status).toBe(204);
  }
  for (let round = 0; round < 2; round += 1)
    for (const name of names) expect((await anonymous.get(`/${name}/key`)).text).toBe(name);
  const { bytes = 0 } = cacheSizes().get('documents') ?? {};
  // 60 policies of 0.75 MiB each were parsed; other worlds of this process may still hold some of theirs.
  expect(bytes).toBeGreaterThan(16 * 1024 * 1024);
  expect(bytes).toBeLessThanOrEqual(before + 24 * 1024 * 1024);
});
