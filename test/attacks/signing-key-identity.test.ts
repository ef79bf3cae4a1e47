/** What the secret of a bucket's signing key proves: a holder of it is nobody but the bucket's owner, and in this bucket only. */
import { describe, expect, test } from 'vitest';
import { acting } from '../support/access-points.ts';
import { openActions } from '../support/actions.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { alice, bob, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, openUser, sessionOf } from '../support/iam-users.ts';
import { combined, rotateKey, sharedSecret } from '../support/keyed-buckets.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { auditRows } from '../support/recorded.ts';

/** Alice owns `/mine` with its key; Bob's bucket `/theirs` has a private object. */
async function open(options: GatewayWorldOptions = {}) {
  const world = await openGateway({
    ...options,
    settings: { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first', ...options.settings },
  });
  for (const [client, bucket] of [
    [world.client, 'mine'],
    [world.client, 'plain'],
    [world.bob, 'theirs'],
  ] as const) {
    await client.put(`/${bucket}`);
    await client.put(`/${bucket}/secret`, { body: `of ${bucket}` });
  }
  const secretKey = await rotateKey(world, 'mine');
  return Object.assign(world, {
    secretKey,
    /** Signs with the bucket's secret under an access key id. */
    raw: (accessKey: string) => world.as({ credential: { ...alice, accessKey, secretKey } }),
    combined: (credential: typeof alice) => world.as({ credential: combined(credential, secretKey) }),
  });
}

const outcome = ({ status, code }: Answer) => [status, code];
const from = (source: string) => ({ headers: { 'x-amz-copy-source': source } });
const ownedByBob = (world: { bob: Client }, policy: object) =>
  world.bob.put('/theirs?policy', { body: JSON.stringify({ Version: '2012-10-17', Statement: [policy] }) });

describe("the secret of a bucket's signing key", () => {
  test('is refused under the access key id of another account, in every form of a signature', async () => {
    await using world = await open();
    const other = world.raw(bob.accessKey);
    const form = signForm(
      { ...bob, secretKey: world.secretKey },
      { conditions: [{ bucket: 'mine' }, ['starts-with', '$key', '']] },
    );
    const asked: Record<string, Promise<Answer>> = {
      copy: other.put('/mine/x', from('/theirs/secret')),
      put: other.put('/mine/x', { body: 'x' }),
      streamed: other.put('/mine/x', { body: 'x', payload: 'streaming' }),
      get: other.get('/mine/secret'),
      presigned: other.presigned('GET', '/mine/secret'),
      form: world.anonymous.post('/mine', {
        body: encodeForm([...fieldsOf({ key: 'x', ...form }), fileOf('content')]),
        headers: multipart(),
      }),
    };
    for (const [name, answer] of Object.entries(asked))
      expect([name, ...outcome(await answer)]).toEqual([name, 403, 'SignatureDoesNotMatch']);
    expect((await world.raw(alice.accessKey).get('/mine')).all('Key')).toEqual(['secret']);
  });

  test('copies from no other bucket, neither an object nor a part, unless anonymous callers may read it', async () => {
    await using world = await open();
    const holder = world.raw(alice.accessKey);
    const id = (await holder.post('/mine/x?uploads')).one('UploadId');
    const part = `/mine/x?partNumber=1&uploadId=${id}`;
    await ownedByBob(world, {
      Effect: 'Allow',
      Principal: { AWS: alice.owner },
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::theirs/*',
    });
    expect((await world.client.put('/plain/x', from('/theirs/secret'))).status).toBe(200);
    for (const to of ['/mine/x', part])
      for (const source of ['/theirs/secret', '/plain/secret', '/plain/absent'])
        expect([to, source, ...outcome(await holder.put(to, from(source)))]).toEqual([
          to,
          source,
          403,
          'AccessDenied',
        ]);
    await ownedByBob(world, {
      Effect: 'Allow',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::theirs/*',
    });
    for (const to of ['/mine/x', part])
      expect((await holder.put(to, from('/theirs/secret'))).status).toBe(200);
    expect((await holder.put('/mine/y', from('/mine/secret'))).status).toBe(200);
  });

  test('is not widened by what a policy allows the claimed id alone', async () => {
    await using world = await open();
    const carol = await openUser(world, 'carol', { policy: allow('s3:*') });
    const policy = {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::mine/*',
      Condition: { StringNotEquals: { 'aws:PrincipalArn': 'arn:aws:iam::alice-account:user/carol' } },
    };
    const body = JSON.stringify({ Version: '2012-10-17', Statement: [policy] });
    expect((await world.combined(alice).put('/mine?policy', { body })).status).toBe(204);
    expect(outcome(await world.raw(carol.credential.accessKey).get('/mine/secret'))).toEqual([
      403,
      'AccessDenied',
    ]);
    expect((await world.combined(carol.credential).get('/mine/secret')).text).toBe('of mine');
  });

  test('is narrowed by the policies of the claimed id', async () => {
    await using world = await open();
    const carol = await openUser(world, 'carol', { policy: allow('s3:GetObject') });
    const claiming = world.raw(carol.credential.accessKey);
    expect((await claiming.get('/mine/secret')).text).toBe('of mine');
    expect(outcome(await claiming.put('/mine/secret', { body: 'x' }))).toEqual([403, 'AccessDenied']);
  });

  test('sets no rule that sends data to another place, and the combined secret of the owner does', async () => {
    await using world = await open();
    const holder = world.raw(alice.accessKey);
    const logging =
      '<BucketLoggingStatus><LoggingEnabled><TargetBucket>plain</TargetBucket><TargetPrefix>x</TargetPrefix></LoggingEnabled></BucketLoggingStatus>';
    const inventory =
      '<InventoryConfiguration><Id>x</Id><IsEnabled>true</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::plain</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>All</IncludedObjectVersions></InventoryConfiguration>';
    for (const [name, body] of [
      ['logging', logging],
      ['replication', '<ReplicationConfiguration/>'],
      ['inventory&id=x', inventory],
      ['notification', '<NotificationConfiguration/>'],
    ] as const)
      expect([name, ...outcome(await holder.put(`/mine?${name}`, { body }))]).toEqual([
        name,
        403,
        'AccessDenied',
      ]);
    expect(
      (await world.combined(alice).put('/mine?notification', { body: '<NotificationConfiguration/>' }))
        .status,
    ).toBe(200);
    expect((await holder.put('/mine?logging', { body: '<BucketLoggingStatus/>' })).status).toBe(403);
  });

  test('stands for the account of the owner in the audit log, and leaves the last use of the claimed key alone', async () => {
    await using world = await open();
    const carol = await openUser(world, 'carol', { policy: allow('s3:*') });
    const { accessKey } = carol.credential;
    const lastUse = async () => {
      await world.context.lateWrites.flush();
      const answer = await openActions(world)('GetAccessKeyLastUsed', { AccessKeyId: accessKey });
      return answer.one('ServiceName');
    };
    expect((await world.raw(accessKey).put('/mine/x', { body: 'x' })).status).toBe(200);
    expect(await lastUse()).toBe('N/A');
    expect((await world.combined(carol.credential).put('/mine/y', { body: 'x' })).status).toBe(200);
    expect(await lastUse()).toBe('s3');
    const rows = (await auditRows(world.context)).filter(({ action }) => action === 'PutObject');
    const about = (key: string) => rows.findLast((row) => row.key === key);
    expect(about('x')).toMatchObject({
      principal: 'arn:aws:iam::alice-account:bucket-key/mine',
      account: 'alice-account',
      accessKey,
    });
    expect(about('y')).toMatchObject({ principal: 'arn:aws:iam::alice-account:user/carol', accessKey });
  });

  test('is charged to the account of the owner, and pays for no other bucket', async () => {
    await using world = await open();
    await ownedByBob(world, {
      Effect: 'Allow',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::theirs/*',
    });
    const body = '<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>';
    expect((await world.bob.put('/theirs?requestPayment', { body })).status).toBe(200);
    const copied = await world.raw(alice.accessKey).put('/mine/x', {
      headers: { 'x-amz-copy-source': '/theirs/secret', 'x-amz-request-payer': 'requester' },
    });
    expect(outcome(copied)).toEqual([403, 'AccessDenied']);
  });
});

describe('the combined secret', () => {
  test('proves the caller: its own policies decide, in this bucket and at the source of a copy', async () => {
    await using world = await open();
    const bobs = world.combined(bob);
    expect(outcome(await bobs.get('/mine/secret'))).toEqual([403, 'AccessDenied']);
    const policy = {
      Effect: 'Allow',
      Principal: { AWS: bob.owner },
      Action: ['s3:GetObject', 's3:PutObject'],
      Resource: 'arn:aws:s3:::mine/*',
    };
    const body = JSON.stringify({ Version: '2012-10-17', Statement: [policy] });
    expect((await world.raw(alice.accessKey).put('/mine?policy', { body })).status).toBe(204);
    expect((await bobs.get('/mine/secret')).text).toBe('of mine');
    expect((await bobs.put('/mine/x', from('/theirs/secret'))).status).toBe(200);
    expect(outcome(await bobs.put('/mine/x', from('/plain/secret')))).toEqual([403, 'AccessDenied']);
    expect((await bobs.presigned('GET', '/mine/secret')).text).toBe('of mine');
    expect((await bobs.put('/mine/z', { body: 'chunks', payload: 'streaming' })).status).toBe(200);
  });

  test('of one caller does not sign for another, and the shared secret alone signs for nobody', async () => {
    await using world = await open();
    const { secretKey } = combined(bob, world.secretKey);
    for (const credential of [
      { ...alice, secretKey },
      { ...alice, secretKey: sharedSecret(world.secretKey) },
      { ...bob, secretKey: sharedSecret(world.secretKey) },
      alice,
      bob,
    ])
      expect((await world.as({ credential }).get('/mine/secret')).code).toBe('SignatureDoesNotMatch');
  });

  test('of temporary credentials proves the session', async () => {
    await using world = await open();
    const carol = await openUser(world, 'carol', { policy: allow('s3:GetObject') });
    const { options } = sessionOf(world, await carol.act('GetSessionToken'));
    const session = world.as({ ...options, credential: combined(options.credential, world.secretKey) });
    expect((await session.get('/mine/secret')).text).toBe('of mine');
    expect(outcome(await session.put('/mine/x', { body: 'x' }))).toEqual([403, 'AccessDenied']);
  });

  test('reads an access point of the bucket as its caller', async () => {
    await using world = await open();
    const alias = (await acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'mine' })).one('Alias');
    expect((await world.combined(alice).get(`/${alias}/secret`)).text).toBe('of mine');
    expect((await world.raw(alice.accessKey).get(`/${alias}/secret`)).text).toBe('of mine');
    expect((await world.raw(bob.accessKey).get(`/${alias}/secret`)).code).toBe('SignatureDoesNotMatch');
  });
});

test('the secret that a former owner has acts for no new owner of the bucket, and is of use after the bucket came back', async () => {
  await using world = await open();
  const give = async (owner: string) => {
    const body = JSON.stringify({ owner });
    const answer = await world
      .as({ credential: operator })
      .put('/admin/v1/buckets/mine/owner', { body, headers: { 'content-type': 'application/json' } });
    expect(answer.status).toBe(200);
  };
  await give(bob.owner);
  expect((await world.raw(bob.accessKey).get('/mine/secret')).code).toBe('SignatureDoesNotMatch');
  expect((await world.raw(alice.accessKey).get('/mine/secret')).code).toBe('SignatureDoesNotMatch');
  expect((await world.combined(bob).get('/mine/secret')).text).toBe('of mine');
  expect(outcome(await world.combined(alice).get('/mine/secret'))).toEqual([403, 'AccessDenied']);
  await give(alice.owner);
  expect((await world.raw(alice.accessKey).get('/mine/secret')).text).toBe('of mine');
  await give(bob.owner);
  const next = await rotateKey(world, 'mine');
  const holder = world.as({ credential: { ...bob, secretKey: next } });
  expect((await holder.get('/mine/secret')).text).toBe('of mine');
});

test('a bucket with a signing key is anonymous ground to a request that its key has not signed', async () => {
  await using world = await open();
  const policy = {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::mine/public/*',
  };
  const owner = world.combined(alice);
  const body = JSON.stringify({ Version: '2012-10-17', Statement: [policy] });
  expect((await owner.put('/mine?policy', { body })).status).toBe(204);
  await owner.put('/mine/public/x', { body: 'public' });
  expect(outcome(await world.client.put('/plain/y', from('/mine/secret')))).toEqual([403, 'AccessDenied']);
  expect((await world.client.put('/plain/y', from('/mine/public/x'))).status).toBe(200);
  expect((await world.bob.put('/theirs/y', from('/mine/public/x'))).status).toBe(200);
});
