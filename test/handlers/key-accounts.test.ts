/**
 * Permission to use keys of the key provider: accounts by the key's policy, users by their own policies (docs/adr/0016-accounts-of-
 * keys.md).
 */
import { describe, expect, test } from 'vitest';
import type { SettingName } from '../../src/config.ts';
import { policyOf } from '../support/access.ts';
import { openActions } from '../support/actions.ts';
import { encryptingSettings, keyOf, provider, service, writeKeyFile } from '../support/encryption.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, digest64, putPart } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, assume, must, openUser, trusting } from '../support/iam-users.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';

const text = (seed: number): string => keyOf(seed).toString('base64');
const keyFile = {
  alices: { key: text(1), accounts: ['alice-account'] },
  bobs: { key: text(2), accounts: ['bob-account'] },
  shared: { key: text(3), accounts: ['bob-account', 'alice-account'] },
  everyones: { key: text(4), accounts: ['*'] },
  retired: { key: text(5), accounts: [] },
  bare: text(6),
  'alias/bobs': 'bobs',
};
const open = async (settings: Partial<Record<SettingName, string>> = {}, keys: object = keyFile) => {
  const SVC_HSM_KEYS_FILE = await writeKeyFile(keys);
  const world = await openGateway({
    settings: { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE, ...settings },
  });
  await world.client.put('/bucket');
  return world;
};
const statusAndCode = ({ status, code }: Answer) => [status, code];
const denied = [403, 'AccessDenied'];
const messageOf = (answer: Answer) => answer.one('Message');
const arnOf = (key: string, account = 'alice-account') => `arn:aws:kms:default:${account}:key/${key}`;
const put = (client: Client, key: string | undefined, path = '/bucket/key') =>
  client.put(path, { body: 'text', headers: provider(key) });

describe('an account', () => {
  test.each(['alices', 'shared', 'everyones'])('encrypts and decrypts with the key %s', async (key) => {
    await using world = await open();
    expect((await put(world.client, key)).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });

  test.each(['bobs', 'alias/bobs', arnOf('bobs'), arnOf('bobs', 'bob-account'), 'retired', 'bare'])(
    'is refused the key %s, and nothing is stored',
    async (key) => {
      await using world = await open();
      const refused = await put(world.client, key);
      expect(statusAndCode(refused)).toEqual(denied);
      const id = ['retired', 'bare'].find((each) => each === key) ?? 'bobs';
      const resource = key === 'alias/bobs' ? 'arn:aws:kms:default:alice-account:alias/bobs' : arnOf(id);
      expect(messageOf(refused)).toBe(
        `User: arn:aws:iam::alice-account:root is not authorized to perform: kms:GenerateDataKey on resource: ${resource} because no resource-based policy allows the kms:GenerateDataKey action`,
      );
      expect((await world.client.get('/bucket/key')).code).toBe('NoSuchKey');
      expect(await world.stored()).toEqual([]);
    },
  );

  test('is refused a key that is called as its bucket and belongs to another account', async () => {
    await using world = await open();
    await world.client.put('/bobs');
    expect(statusAndCode(await put(world.client, undefined, '/bobs/key'))).toEqual(denied);
  });

  test('is refused an object that it may read but not decrypt, but may read its metadata', async () => {
    await using world = await open();
    await world.bob.put('/of-bob');
    await world.bob.put('/of-bob/key', {
      body: 'text',
      headers: {
        ...provider('bobs'),
        '*-acl': 'public-read',
        '*-checksum-sha256': digest64('sha256', 'text'),
      },
    });
    const refused = await world.client.get('/of-bob/key');
    expect([...statusAndCode(refused), messageOf(refused)]).toEqual([
      ...denied,
      `User: arn:aws:iam::alice-account:root is not authorized to perform: kms:Decrypt on resource: ${arnOf('bobs')} because no resource-based policy allows the kms:Decrypt action`,
    ]);
    expect(statusAndCode(await world.anonymous.get('/of-bob/key'))).toEqual(denied);
    expect((await world.client.head('/of-bob/key')).status).toBe(200);
    const checksums = { headers: { '*-checksum-mode': 'ENABLED' } };
    expect((await world.client.head('/of-bob/key', checksums)).status).toBe(403);
    expect((await world.bob.head('/of-bob/key', checksums)).header('*-checksum-sha256')).toBeDefined();
    const copied = { headers: { '*-copy-source': '/of-bob/key' } };
    expect(statusAndCode(await world.client.put('/bucket/copy', copied))).toEqual(denied);
    const uploadId = await createUpload(world.client, '/bucket/copy');
    const part = await world.client.put('/bucket/copy', {
      ...copied,
      query: { uploadId, partNumber: '1' },
    });
    expect(statusAndCode(part)).toEqual(denied);
  });
});

describe('a key without accounts', () => {
  test('that is the default key encrypts for every account', async () => {
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: 'bare' });
    expect((await put(world.client, undefined)).status).toBe(200);
    expect((await put(world.client, 'bare')).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });

  test('still decrypts objects from before it named accounts', async () => {
    const SVC_HSM_KEYS_FILE = await writeKeyFile({ bare: text(6) });
    const settings = { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE };
    await using world = await openGateway({
      settings,
      // This object was encrypted before keys had accounts.
      wrap: (context) => {
        const { keys } = context;
        if (keys === undefined) return context;
        let isFirst = true;
        const describeKey: typeof keys.describe = async (keyId) => {
          const found = await keys.describe(keyId);
          const isBefore = isFirst;
          isFirst = false;
          return isBefore ? { ...found, encryptsFor: 'every' } : found;
        };
        return { ...context, keys: { ...keys, describe: describeKey } };
      },
    });
    await world.client.put('/bucket');
    expect((await put(world.client, 'bare')).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    expect(statusAndCode(await put(world.client, 'bare'))).toEqual(denied);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });
});

describe('every way to write', () => {
  const ways: readonly (readonly [string, (world: GatewayWorld, key: string) => Promise<Answer>])[] = [
    ['PutObject', ({ client }, key) => put(client, key)],
    [
      'PostObject',
      ({ anonymous }, key) => {
        const fields = {
          key: 'key',
          'x-amz-server-side-encryption': 'aws:kms',
          'x-amz-server-side-encryption-aws-kms-key-id': key,
        };
        const conditions = Object.entries({ bucket: 'bucket', ...fields }).map(([name, value]) => ({
          [name]: value,
        }));
        const parts = [...fieldsOf({ ...fields, ...signForm(alice, { conditions }) }), fileOf('text')];
        return anonymous.post('/bucket', { headers: multipart(), body: encodeForm(parts) });
      },
    ],
    [
      'CopyObject',
      async ({ client }, key) => {
        await client.put('/bucket/source', { body: 'text' });
        return client.put('/bucket/key', {
          headers: { ...provider(key), '*-copy-source': '/bucket/source' },
        });
      },
    ],
    [
      'CreateMultipartUpload',
      ({ client }, key) => client.post('/bucket/key?uploads', { headers: provider(key) }),
    ],
    [
      'UpdateObjectEncryption',
      async ({ client }, key) => {
        await client.put('/bucket/other', { body: 'text', headers: service });
        return client.put('/bucket/other?encryption', {
          body: `<ObjectEncryption><SSE-KMS><KMSKeyArn>${key}</KMSKeyArn></SSE-KMS></ObjectEncryption>`,
        });
      },
    ],
    [
      'PutBucketEncryption',
      ({ client }, key) =>
        client.put('/bucket?encryption', {
          body: `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>${key}</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`,
        }),
    ],
  ];

  test.each(ways)('%s is authorized by the key’s policy', async (_, write) => {
    await using world = await open();
    const refused = await write(world, 'bobs');
    expect(statusAndCode(refused)).toEqual(denied);
    expect(messageOf(refused)).toContain(`kms:GenerateDataKey on resource: ${arnOf('bobs')}`);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
    expect((await world.client.get('/bucket?uploads')).all('Upload')).toEqual([]);
    expect((await world.client.get('/bucket?encryption')).status).toBe(404);
    expect((await write(world, 'shared')).status).toBeLessThan(300);
  });

  test('PutObject under a bucket’s default key is authorized for the writer’s account', async () => {
    await using world = await open();
    const body = (key: string) =>
      `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>${key}</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`;
    expect((await world.client.put('/bucket?encryption', { body: body('alices') })).status).toBe(200);
    await world.client.put('/bucket?acl', { headers: { '*-acl': 'public-read-write' } });
    for (const writer of [world.bob, world.anonymous])
      expect(statusAndCode(await writer.put('/bucket/key', { body: 'x' }))).toEqual(denied);
    expect((await world.client.put('/bucket?encryption', { body: body('shared') })).status).toBe(200);
    expect((await world.bob.put('/bucket/key', { body: 'x' })).status).toBe(200);
    expect((await world.as({ credential: bob }).get('/bucket/key')).text).toBe('x');
  });
});

describe('UpdateObjectEncryption', () => {
  const update = (client: Client, key: string) =>
    client.put('/bucket/key?encryption', {
      body: `<ObjectEncryption><SSE-KMS><KMSKeyArn>${key}</KMSKeyArn></SSE-KMS></ObjectEncryption>`,
    });
  const allowBob = (...actions: readonly string[]) =>
    policyOf({
      Principal: { AWS: 'bob-account' },
      Action: actions.map((action) => `s3:${action}`),
      Resource: 'arn:aws:s3:::bucket/*',
    });

  test('never puts an object under a key that the owner of its bucket may not use', async () => {
    await using world = await open();
    const { client, bob: other } = world;
    await client.put('/bucket/key', { body: 'text', headers: service });
    const body = allowBob('UpdateObjectEncryption', 'PutObject');
    expect((await client.put('/bucket?policy', { body })).status).toBe(204);
    for (const key of ['bobs', 'alias/bobs']) expect(statusAndCode(await update(other, key))).toEqual(denied);
    expect((await client.get('/bucket/key')).text).toBe('text');
    expect((await update(other, 'shared')).status).toBe(200);
    expect((await client.get('/bucket/key')).text).toBe('text');
  });

  test('needs the permission to write the object', async () => {
    await using world = await open();
    const { client, bob: other } = world;
    await client.put('/bucket/key', { body: 'text', headers: service });
    await client.put('/bucket?policy', { body: allowBob('UpdateObjectEncryption') });
    expect(statusAndCode(await update(other, 'shared'))).toEqual(denied);
    await client.put('/bucket?policy', { body: allowBob('UpdateObjectEncryption', 'PutObject') });
    expect((await update(other, 'shared')).status).toBe(200);
  });
});

test.each([['alices'], [arnOf('alices')]])(
  'a Deny of the key %s holds for each of its names',
  async (key) => {
    await using world = await open({}, { ...keyFile, 'alias/mine': 'alices' });
    const { client } = world;
    await client.put('/bucket/other', { body: 'text', headers: service });
    const body = policyOf({
      Effect: 'Deny',
      Action: ['s3:PutObject', 's3:UpdateObjectEncryption'],
      Resource: 'arn:aws:s3:::bucket/*',
      Condition: { StringEquals: { 's3:x-amz-server-side-encryption-aws-kms-key-id': key } },
    });
    expect((await client.put('/bucket?policy', { body })).status).toBe(204);
    const policy = allow('s3:*', 'kms:*');
    const user = world.as({ credential: (await openUser(world, 'ursula', { policy })).credential });
    const elsewhere = 'arn:aws:kms:elsewhere:alice-account:';
    for (const name of [
      'alices',
      arnOf('alices'),
      'alias/mine',
      `${elsewhere}key/alices`,
      `${elsewhere}alias/mine`,
    ]) {
      expect(statusAndCode(await put(user, name)), name).toEqual(denied);
      const update = await user.put('/bucket/other?encryption', {
        body: `<ObjectEncryption><SSE-KMS><KMSKeyArn>${name}</KMSKeyArn></SSE-KMS></ObjectEncryption>`,
      });
      expect(statusAndCode(update), name).toEqual(denied);
    }
    expect((await put(user, 'shared')).status).toBe(200);
  },
);

test('a key that is named by an alias is judged with all facts of the request', async () => {
  await using world = await open({}, { ...keyFile, 'alias/mine': 'alices' });
  const { client } = world;
  await client.put('/bucket/other', { body: 'text', headers: { ...service, '*-tagging': 'env=prod' } });
  const credential = (await openUser(world, 'ursula', { policy: allow('s3:*', 'kms:*') })).credential;
  const user = world.as({ credential });
  const unless = (condition: object) =>
    policyOf({
      Effect: 'Deny',
      Action: ['s3:PutObject', 's3:UpdateObjectEncryption'],
      Resource: 'arn:aws:s3:::bucket/*',
      Condition: condition,
    });
  const alias = 'arn:aws:kms:default:alice-account:alias/mine';
  const keyId = 's3:x-amz-server-side-encryption-aws-kms-key-id';
  const write = () =>
    user.put('/bucket/key', { body: 'x', headers: provider('alias/mine', { '*-tagging': 'env=prod' }) });
  const update = () =>
    user.put('/bucket/other?encryption', {
      body: '<ObjectEncryption><SSE-KMS><KMSKeyArn>alias/mine</KMSKeyArn></SSE-KMS></ObjectEncryption>',
    });
  for (const [condition, asks] of [
    [{ StringNotEquals: { 's3:RequestObjectTag/env': 'prod' } }, [write]],
    [{ StringNotEquals: { 's3:ExistingObjectTag/env': 'prod' } }, [update]],
    [{ StringNotEquals: { 's3:x-amz-server-side-encryption': 'aws:kms' } }, [write, update]],
    [{ StringNotEquals: { [keyId]: alias } }, [write, update]],
  ] as const) {
    expect((await client.put('/bucket?policy', { body: unless(condition) })).status).toBe(204);
    for (const ask of asks) expect((await ask()).status, JSON.stringify(condition)).toBe(200);
  }
  // A default of the bucket is no key that the request names.
  const rule = `<ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>alias/mine</KMSMasterKeyID></ApplyServerSideEncryptionByDefault>`;
  await client.put('/bucket?encryption', {
    body: `<ServerSideEncryptionConfiguration><Rule>${rule}</Rule></ServerSideEncryptionConfiguration>`,
  });
  await client.put('/bucket?policy', { body: unless({ Null: { [keyId]: 'false' } }) });
  expect((await user.put('/bucket/key', { body: 'x' })).status).toBe(200);
  expect(statusAndCode(await write())).toEqual(denied);
});

test("a Deny of a key by its owner's ARN holds for callers of other accounts", async () => {
  await using world = await open({}, { ...keyFile, 'alias/all': 'shared' });
  const body = (key: string) =>
    policyOf(
      { Principal: { AWS: 'bob-account' }, Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' },
      {
        Effect: 'Deny',
        Action: 's3:PutObject',
        Resource: 'arn:aws:s3:::bucket/*',
        Condition: { StringEquals: { 's3:x-amz-server-side-encryption-aws-kms-key-id': key } },
      },
    );
  await world.client.put('/bucket?policy', { body: body(arnOf('shared')) });
  for (const name of ['shared', 'alias/all'])
    expect(statusAndCode(await put(world.bob, name))).toEqual(denied);
  await world.client.put('/bucket?policy', { body: body(arnOf('alices')) });
  expect((await put(world.bob, 'alias/all')).status).toBe(200);
});

describe('a user', () => {
  const kms = (action: string, key: string) => ({
    Effect: 'Allow',
    Action: action,
    Resource: arnOf(key),
  });
  const s3 = { Effect: 'Allow', Action: 's3:*', Resource: '*' };
  const policy = (...statements: readonly object[]) =>
    JSON.stringify({ Version: '2012-10-17', Statement: statements });
  const userOf = async (world: GatewayWorld, text: string, name = 'carol') =>
    world.as({ credential: (await openUser(world, name, { policy: text })).credential });

  test('needs kms:GenerateDataKey on the key to write, and kms:Decrypt to read; s3:* gives neither', async () => {
    await using world = await open();
    await put(world.client, 'alices');
    const reader = await userOf(world, policy(s3, kms('kms:Decrypt', 'alices')), 'reader');
    const writer = await userOf(world, policy(s3, kms('kms:GenerateDataKey', 'alices')), 'writer');
    const plain = await userOf(world, allow('s3:*'), 'plain');
    expect((await reader.get('/bucket/key')).text).toBe('text');
    expect((await put(writer, 'alices', '/bucket/other')).status).toBe(200);
    for (const refused of [
      await put(reader, 'alices'),
      await put(plain, 'alices'),
      await put(writer, 'shared'),
    ])
      expect(statusAndCode(refused)).toEqual(denied);
    for (const client of [writer, plain])
      expect(statusAndCode(await client.get('/bucket/key'))).toEqual(denied);
    expect(messageOf(await plain.get('/bucket/key'))).toBe(
      `User: arn:aws:iam::alice-account:user/plain is not authorized to perform: kms:Decrypt on resource: ${arnOf('alices')} because no identity-based policy allows the kms:Decrypt action`,
    );
    // HEAD does not need the key.
    expect((await plain.head('/bucket/key')).status).toBe(200);
  });

  test('needs kms:Decrypt for GetObjectAttributes of checksums and parts, and no key for what else describes an object', async () => {
    await using world = await open();
    const deny = { Effect: 'Deny', Action: 'kms:Decrypt', Resource: arnOf('alices') };
    const allowed = { Effect: 'Allow', Action: 'kms:*', Resource: '*' };
    const lacking = await userOf(world, policy(s3), 'lacking');
    const refused = await userOf(world, policy(s3, allowed, deny), 'refused');
    const holding = await userOf(world, policy(s3, kms('kms:Decrypt', 'alices')), 'holding');
    const uploadId = await createUpload(world.client, '/bucket/key', { headers: provider('alices') });
    const parts = [await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'text' })];
    expect((await complete(world.client, '/bucket/key', { uploadId, parts })).status).toBe(200);
    const ask = (client: Client, names: string) =>
      client.get('/bucket/key?attributes', { headers: { '*-object-attributes': names } });
    for (const [client, name, because] of [
      [lacking, 'lacking', 'because no identity-based policy allows the kms:Decrypt action'],
      [refused, 'refused', 'with an explicit deny in an identity-based policy'],
    ] as const) {
      for (const names of ['Checksum', 'ObjectParts', 'ETag,ObjectParts']) {
        const answer = await ask(client, names);
        expect([...statusAndCode(answer), messageOf(answer)], names).toEqual([
          ...denied,
          `User: arn:aws:iam::alice-account:user/${name} is not authorized to perform: kms:Decrypt on resource: ${arnOf('alices')} ${because}`,
        ]);
      }
      const described = await ask(client, 'ETag,ObjectSize,StorageClass');
      expect([described.status, described.one('ObjectSize')]).toEqual([200, '4']);
    }
    expect((await ask(holding, 'ETag,Checksum,ObjectParts')).one('ObjectSize')).toBeUndefined();
    expect((await ask(holding, 'ObjectParts')).one('PartsCount')).toBe('1');
  });

  test('is refused by a Deny of the action, though another statement allows it', async () => {
    await using world = await open();
    await put(world.client, 'alices');
    const deny = { ...kms('kms:Decrypt', 'alices'), Effect: 'Deny' };
    const client = await userOf(world, policy(s3, { ...kms('kms:*', '*'), Resource: '*' }, deny));
    expect((await put(client, 'alices')).status).toBe(200);
    expect(messageOf(await client.get('/bucket/key'))).toMatch(
      /with an explicit deny in an identity-based policy$/,
    );
  });

  test('may not use a key that its account may not use', async () => {
    await using world = await open();
    const client = await userOf(world, allow('*'));
    expect(statusAndCode(await put(client, 'bobs'))).toEqual(denied);
  });

  test('needs kms:GenerateDataKey to begin an upload, and kms:Decrypt for its parts and its end', async () => {
    await using world = await open();
    const writer = await userOf(world, policy(s3, kms('kms:GenerateDataKey', 'alices')), 'writer');
    const uploadId = await createUpload(writer, '/bucket/key', { headers: provider('alices') });
    const query = { uploadId, partNumber: '1' };
    expect(statusAndCode(await writer.put('/bucket/key', { query, body: 'x' }))).toEqual(denied);
    const part = await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'x' });
    expect(statusAndCode(await complete(writer, '/bucket/key', { uploadId, parts: [part] }))).toEqual(denied);
    expect((await complete(world.client, '/bucket/key', { uploadId, parts: [part] })).status).toBe(200);
  });

  test('of a session is held by the session’s policy', async () => {
    await using world = await open();
    await put(world.client, 'alices');
    const iam = openActions(world);
    const trust = trusting({ AWS: 'alice-account' });
    await must(iam('CreateRole', { RoleName: 'writer', AssumeRolePolicyDocument: trust }));
    const document = { RoleName: 'writer', PolicyName: 'p', PolicyDocument: allow('*') };
    await must(iam('PutRolePolicy', document));
    const role = 'arn:aws:iam::alice-account:role/writer';
    const { options } = await assume(world, iam, { role, Policy: allow('s3:*') });
    const client = world.as(options);
    expect((await client.head('/bucket/key')).status).toBe(200);
    expect(messageOf(await client.get('/bucket/key'))).toMatch(
      /because no session policy allows the kms:Decrypt action$/,
    );
  });
});

test('actions on keys are for identity policies: the simulator knows them', async () => {
  await using world = await open();
  const answer = await openActions(world)('SimulateCustomPolicy', {
    'PolicyInputList.member.1': allow('kms:Decrypt'),
    'ActionNames.member.1': 'kms:Decrypt',
    'ResourceArns.member.1': arnOf('alices'),
  });
  expect(answer.one('EvalDecision')).toBe('allowed');
});
