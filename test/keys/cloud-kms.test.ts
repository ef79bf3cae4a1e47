/** Keys of the AWS KMS API: a real moto for what goes well, and a double that checks signatures and key states for what does not. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { provider } from '../support/encryption.ts';
import { freePorts } from '../support/engines/ports.ts';
import { noSinkServer, type SinkServer, startSinkServer } from '../support/engines/sink-servers.ts';
import { expectNoSecret, recordEverything } from '../support/everything-recorded.ts';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { alice } from '../support/gateway.ts';
import { type KmsDouble, openKmsDouble, staticPair } from '../support/kms-double.ts';
import {
  elsewhere,
  kmsFile as file,
  openKmsWorld,
  outcomeOf as outcome,
  served,
  unavailable,
} from '../support/kms-world.ts';
import { holdsOneOfManyRotations, isBoundToItsBucket } from '../support/signing-key-laws.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const open = openKmsWorld;
describe('the AWS KMS API, with signatures and key states checked', () => {
  test('an alias is resolved once, a first read asks once, and the reads after it not at all', async () => {
    const clock = virtualClock(Date.now());
    await using world = await open({}, { clock });
    const { proxy } = world.double;
    const secretKey = await world.rotate();
    const signing = world.as({ credential: { ...alice, secretKey } });
    expect((await signing.put('/bucket/key', { body: 'text', headers: provider() })).status).toBe(200);
    await clock.advance(30_000);
    const calls = async () => {
      const before = proxy.seen.length;
      await Promise.all(Array.from({ length: 10 }, () => signing.get('/bucket/key')));
      return proxy.seen.slice(before).sort();
    };
    const first = await calls();
    expect(first.filter((name) => name.endsWith('Decrypt'))).toHaveLength(2);
    expect(await calls()).toEqual([]);
    const got = await signing.get('/bucket/key');
    expect(got.text).toBe('text');
    expect(got.header('*-server-side-encryption-aws-kms-key-id')).toMatch(/^arn:aws:kms:eu-test-1:/);
  });

  test('each call of a traced request names its span in traceparent, and its signature holds; others name none', async () => {
    const { wrap, causes } = exportingTracer();
    await using world = await open({}, { wrap });
    const { proxy } = world.double;
    expect(await world.put('/bucket/key')).toEqual(served);
    expect(await world.get('/bucket/key')).toEqual(served);
    const named = (operation: string) => proxy.causes.filter((_, n) => proxy.seen[n]?.endsWith(operation));
    expect(named('GenerateDataKey')).toEqual(causes('keys.generate'));
    expect(named('Decrypt')).toEqual(causes('keys.unwrap'));
    expect(causes('keys.describe')).toEqual(expect.arrayContaining(named('DescribeKey')));
    expect([named('GenerateDataKey').length, named('Decrypt').length]).toEqual([1, 1]);
    await using untraced = await open();
    expect(await untraced.put('/bucket/key')).toEqual(served);
    expect(new Set(untraced.double.proxy.causes)).toEqual(new Set(['']));
  });

  test('no secret key of the provider is in logs, traces, metrics, audit rows or the support bundle', async () => {
    const record = recordEverything();
    const wrong = 'a-secret-key-that-the-provider-refuses';
    const keyFile = await file(wrong);
    await using world = await open({ SVC_KMS_SECRET_KEY_FILE: keyFile }, record);
    expect(await world.put('/bucket/key')).toEqual(unavailable);
    await writeFile(keyFile, staticPair.secretKey);
    expect(await world.put('/bucket/key')).toEqual(served);
    const secrets = new Map([
      ['secret key', staticPair.secretKey],
      ['refused secret key', wrong],
    ]);
    expectNoSecret(await record.read(world), secrets);
  });

  test('keys wrapped before a rotation are read after it', async () => {
    const clock = virtualClock(Date.now());
    await using world = await open({}, { clock });
    const arn = world.own;
    expect(await world.put('/bucket/key', arn)).toEqual(served);
    world.double.rotate(arn);
    await clock.advance(30_000);
    expect(await world.get('/bucket/key')).toEqual(served);
  });

  test.each([
    ['a disabled key', (d: KmsDouble, arn: string) => d.setState(arn, 'Disabled'), [401, 'KeyDenied']],
    [
      'a key to be deleted',
      (d: KmsDouble, arn: string) => d.setState(arn, 'PendingDeletion'),
      [401, 'KeyDenied'],
    ],
    [
      'a key that lost its material',
      (d: KmsDouble, arn: string) => d.loseMaterial(arn),
      [401, 'KeyTampered'],
    ],
  ] as const)('%s refuses reads of objects and requests under a signing key', async (_, change, expected) => {
    const clock = virtualClock(Date.now());
    await using world = await open({}, { clock });
    const arn = world.own;
    expect(await world.put('/bucket/key', 'alias/own')).toEqual(served);
    await world.client.put('/signed');
    const secretKey = await world.rotate({ bucket: 'signed', keyId: 'alias/own' });
    const signing = world.as({ credential: { ...alice, secretKey } });
    expect((await signing.get('/signed')).status).toBe(200);
    change(world.double, arn);
    // Cached for the reads of SVC_DEK_CACHE_TTL.
    expect((await signing.get('/signed')).status).toBe(200);
    await clock.advance(30_000);
    expect(await world.get('/bucket/key')).toEqual(expected);
    expect(outcome(await signing.get('/signed'))).toEqual(expected);
  });

  test('a signing key is bound to its bucket, and the service sees what for', async () => {
    await using world = await open();
    await isBoundToItsBucket(world);
    const { id } = (await findBucket(world.context.metadata, 'bucket'))?.row ?? {};
    const wrapped = world.double.contexts.find((context) => context['use'] === 'signing-key');
    expect(wrapped).toEqual({ 'aws:s3:arn': 'arn:aws:s3:::bucket', bucket: id, use: 'signing-key' });
  });

  test('the encryption context of an object is that of the client, and its ARN', async () => {
    await using world = await open();
    const context = Buffer.from('{"team":"blue"}').toString('base64');
    const headers = provider(world.own, { '*-server-side-encryption-context': context });
    expect((await world.client.put('/bucket/a/b', { body: 'x', headers })).status).toBe(200);
    expect((await world.client.get('/bucket/a/b')).text).toBe('x');
    const wanted = { team: 'blue', 'aws:s3:arn': 'arn:aws:s3:::bucket/a/b' };
    expect(world.double.contexts).toEqual([wanted, wanted]);
  });

  test('of rotations at once one is answered, and its secret holds', async () => {
    await using world = await open();
    await holdsOneOfManyRotations(world);
  });

  test('a key that is unknown, and an ARN of another region, are keys that do not exist', async () => {
    await using world = await open();
    for (const name of ['alias/none', elsewhere, randomBytes(8).toString('hex')])
      expect(await world.put('/bucket/key', name)).toEqual([400, 'KMS.NotFoundException']);
  });

  test('the signature of another region makes 503, and the log says what to check', async () => {
    await using world = await open({ SVC_KMS_REGION: 'us-east-1' });
    expect(await world.put('/bucket/key')).toEqual(unavailable);
    expect(await world.put('/bucket/key', world.own)).toEqual(unavailable);
  });

  test('a clock that is off by an hour is corrected by the date of the service', async () => {
    await using world = await open();
    world.double.aheadMs = 3_600_000;
    expect(await world.put('/bucket/key')).toEqual(served);
    world.double.aheadMs = -3_600_000;
    expect(await world.put('/bucket/other')).toEqual(served);
  });

  test.each(['profile', 'imds', 'web-identity'])(
    'credentials by %s sign, and are fetched again when they end in mid-flight',
    async (from) => {
      const profileFile = await file('');
      await using double = await openKmsDouble();
      const write = async () => {
        const { accessKey, secretKey, token } = double.makePair();
        await writeFile(
          profileFile,
          `[other]\naws_access_key_id = no\n[work]\naws_access_key_id = ${accessKey}\naws_secret_access_key=${secretKey}\naws_session_token = ${token}\n`,
        );
      };
      await write();
      const arn = double.makeKey();
      await using world = await open({
        SVC_KMS_ENDPOINT: double.proxy.url,
        SVC_KMS_CREDENTIALS: from,
        SVC_KMS_PROFILE: 'work',
        SVC_KMS_PROFILE_FILE: profileFile,
        SVC_KMS_IMDS_ENDPOINT: double.proxy.url,
        SVC_KMS_STS_ENDPOINT: double.proxy.url,
        SVC_KMS_ROLE_ARN: 'arn:aws:iam::1:role/r',
        SVC_KMS_WEB_IDENTITY_TOKEN_FILE: await file('a.workload.token\n'),
        SVC_KMS_DEFAULT_KEY_ID: arn,
      });
      expect(await world.put('/bucket/key')).toEqual(served);
      double.endPairs();
      await write();
      const all = await Promise.all(Array.from({ length: 8 }, (_, i) => world.put(`/bucket/${i}`)));
      expect(all).toEqual(Array(8).fill(served));
    },
  );

  test('credentials that are wrong make 503 and are not in the log', async () => {
    await using world = await open({ SVC_KMS_SECRET_KEY_FILE: await file('another-secret') });
    expect(await world.put('/bucket/key', world.own)).toEqual(unavailable);
    expect(JSON.stringify(world.logged)).not.toContain('another-secret');
  });

  test.each([
    ['hang', 'hang'],
    ['garbage', 'garbage'],
    ['500', { status: 500 }],
    ['throttling', { status: 400, body: '{"__type":"ThrottlingException"}' }],
    ['a redirect', { status: 301, headers: { location: 'http://127.0.0.1:1/' } }],
  ] as const)('%s makes 503, and a later request is served', async (_, fault) => {
    await using world = await open({ SVC_KEY_TIMEOUT: fault === 'hang' ? '1s' : '5s' });
    const arn = world.own;
    expect(await world.put('/bucket/key', arn)).toEqual(served);
    world.double.proxy.fault = fault;
    expect(await world.get('/bucket/key')).toEqual(unavailable);
    expect(await world.put('/bucket/other', arn)).toEqual(unavailable);
    world.double.proxy.fault = undefined;
    expect(await world.put('/bucket/other', arn)).toEqual(served);
  });

  test.each([
    ['GenerateDataKey', { KeyId: 'k', CiphertextBlob: 'AAAA', Plaintext: 'AAAA' }, unavailable],
    ['GenerateDataKey', { KeyId: 'k', Plaintext: 'AAAA' }, unavailable],
    ['DescribeKey', { KeyMetadata: { Arn: 7 } }, unavailable],
    ['Decrypt', { Plaintext: 'AAAA' }, [401, 'KeyTampered']],
  ])('%s that is answered with %j is refused', async (action, body, expected) => {
    await using world = await open();
    expect(await world.put('/bucket/key', world.own)).toEqual(served);
    const fault = { status: 200, body: JSON.stringify(body) };
    Object.assign(world.double.proxy, { fault, on: action });
    const asked = action === 'Decrypt' ? world.get('/bucket/key') : world.put('/bucket/other', 'alias/own');
    expect(await asked).toEqual(expected);
  });

  test('a gateway starts while the service is down, and serves keys once it is up', async () => {
    const [port = 0] = await freePorts(1);
    await using world = await open({ SVC_KMS_ENDPOINT: `http://127.0.0.1:${port}` });
    expect(await world.put('/bucket/key')).toEqual(unavailable);
    expect(outcome(await world.client.put('/bucket/plain', { body: 'x' }))).toEqual(served);
    await using late = await openKmsDouble(port);
    late.makeKey('alias/main');
    expect(await world.put('/bucket/key')).toEqual(served);
  });

  test('accounts are named by the id or the ARN of a key, and others are refused', async () => {
    await using double = await openKmsDouble();
    const [own, shared] = [double.makeKey('alias/own'), double.makeKey()];
    await using world = await open({
      SVC_KMS_ENDPOINT: double.proxy.url,
      SVC_KEY_ACCOUNTS: JSON.stringify({ [own.split('/')[1] as string]: [alice.owner], [shared]: ['*'] }),
      SVC_KMS_DEFAULT_KEY_ID: shared,
    });
    await world.bob.put('/bobs');
    const put = async (at: string, client = world.client, keyId = 'alias/own') =>
      outcome(await client.put(at, { body: 'x', headers: provider(keyId) }));
    expect(await put('/bucket/key')).toEqual(served);
    expect(await put('/bobs/key', world.bob)).toEqual([403, 'AccessDenied']);
    expect(await put('/bobs/key', world.bob, shared)).toEqual(served);
  });
});

const missing = noSinkServer('moto');
describe.skipIf(missing !== undefined)('moto', () => {
  let server: SinkServer;
  beforeAll(async () => {
    server = await startSinkServer('moto');
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  test('signing keys and SSE-KMS work with static credentials, and with those of AssumeRoleWithWebIdentity', async () => {
    const origin = `http://127.0.0.1:${server.port}`;
    const made = await fetch(origin, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'TrentService.CreateKey',
        authorization:
          'AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/kms/aws4_request, SignedHeaders=host, Signature=0',
      },
      body: '{}',
    });
    const { KeyMetadata } = (await made.json()) as { readonly KeyMetadata: { readonly Arn: string } };
    for (const settings of [
      {},
      {
        SVC_KMS_CREDENTIALS: 'web-identity',
        SVC_KMS_STS_ENDPOINT: origin,
        SVC_KMS_ROLE_ARN: 'arn:aws:iam::123456789012:role/sluice',
        SVC_KMS_WEB_IDENTITY_TOKEN_FILE: await file('a.workload.token'),
      },
    ]) {
      const clock = virtualClock(Date.now());
      await using world = await open(
        {
          SVC_KMS_ENDPOINT: origin,
          SVC_KMS_REGION: 'us-east-1',
          SVC_KMS_DEFAULT_KEY_ID: KeyMetadata.Arn,
          ...settings,
        },
        { clock },
      );
      const signing = world.as({ credential: { ...alice, secretKey: await world.rotate() } });
      const put = await signing.put('/bucket/key', { body: 'text', headers: provider() });
      expect([put.status, put.text]).toEqual([200, '']);
      await clock.advance(30_000);
      expect((await signing.get('/bucket/key')).text).toBe('text');
    }
  });
});
