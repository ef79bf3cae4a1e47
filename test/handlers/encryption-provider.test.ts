/** Keys of a key provider (SSE-KMS): the choice of the key, what it is bound to, and the codes of its failures. */

import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../src/ports/key-provider.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import {
  customer,
  encryptingSettings,
  type Headers,
  hsmKeys,
  provider,
  service,
  writeKeyFile,
} from '../support/encryption.ts';
import { type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, MiB, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { onCount } from '../support/metric-calls.ts';

const open = async (options: GatewayWorldOptions = {}) => {
  const world = await openGateway({
    ...options,
    settings: { ...(await encryptingSettings()), ...options.settings },
  });
  await world.client.put('/bucket');
  return world;
};
const outcome = ({ status, code }: Answer) => [status, code];
const keyIdOf = (answer: Answer) => answer.header('*-server-side-encryption-aws-kms-key-id');
const contextOf = (context: object) => ({
  '*-server-side-encryption-context': Buffer.from(JSON.stringify(context)).toString('base64'),
});

describe('which key', () => {
  test.each([
    ['an id', 'second', 'second'],
    ['an alias', 'alias/main', 'first'],
    ['the ARN of a key', 'arn:aws:kms:us-east-1:000000000000:key/second', 'second'],
    ['the ARN of an alias', 'arn:aws:kms:us-east-1:000000000000:alias/main', 'first'],
  ])('is named by %s', async (_, name, id) => {
    await using world = await open();
    const put = await world.client.put('/bucket/key', { body: 'text', headers: provider(name) });
    expect([put.status, keyIdOf(put)]).toEqual([200, id]);
    const got = await world.client.get('/bucket/key');
    expect([got.text, keyIdOf(got)]).toEqual(['text', id]);
  });

  test('is the configured one where none is named', async () => {
    await using world = await open({ settings: { SVC_KMS_DEFAULT_KEY_ID: 'alias/main' } });
    expect(keyIdOf(await world.client.put('/bucket/key', { body: 'x', headers: provider() }))).toBe('first');
  });

  test('is called as the bucket where none is configured either', async () => {
    await using world = await open();
    await world.client.put('/second');
    expect(keyIdOf(await world.client.put('/second/key', { body: 'x', headers: provider() }))).toBe('second');
    const refused = await world.client.put('/bucket/key', { body: 'x', headers: provider() });
    expect(outcome(refused)).toEqual([400, 'KMS.NotFoundException']);
    expect(refused.one('Message')).toContain('no key "bucket"');
  });

  test('is not named to tenants where it is the configured one and does not exist', async () => {
    await using world = await open({ settings: { SVC_KMS_DEFAULT_KEY_ID: 'typo' } });
    const refused = await world.client.put('/bucket/key', { body: 'x', headers: provider() });
    expect(outcome(refused)).toEqual([400, 'KMS.NotFoundException']);
    expect(refused.one('Message')).toContain('correct SVC_KMS_DEFAULT_KEY_ID');
    expect(refused.text).not.toContain('typo');
  });

  test('must be there', async () => {
    await using world = await open();
    const headers = provider('third');
    for (const refused of [
      await world.client.put('/bucket/key', { body: 'x', headers }),
      await world.client.post('/bucket/key?uploads', { headers }),
    ])
      expect(outcome(refused)).toEqual([400, 'KMS.NotFoundException']);
    expect((await world.client.head('/bucket/key')).status).toBe(404);
  });
});

describe('the context', () => {
  test('is the client’s with the object’s ARN, sent to the provider each time, and returned by writes', async () => {
    const asked: unknown[] = [];
    const wrap = (context: Context): Context => {
      const keys = context.keys as KeyProvider;
      const noting: KeyProvider = {
        ...keys,
        generate: (keyId, about) => {
          asked.push(about);
          return keys.generate(keyId, about);
        },
        unwrap: (wrapped, about) => {
          asked.push(about);
          return keys.unwrap(wrapped, about);
        },
      };
      return { ...context, keys: noting };
    };
    await using world = await open({ wrap });
    const headers = provider('first', contextOf({ team: 'blue' }));
    const put = await world.client.put('/bucket/a%20key', { body: 'text', headers });
    expect(put.header('*-server-side-encryption-context')).toBe(headers['*-server-side-encryption-context']);
    const got = await world.client.get('/bucket/a%20key');
    expect([got.text, got.header('*-server-side-encryption-context')]).toEqual(['text', undefined]);
    const withBucketKey = { '*-server-side-encryption-bucket-key-enabled': 'true' };
    await world.client.put('/bucket/other', { body: 'text', headers: provider('first', withBucketKey) });
    expect(asked).toEqual([
      { team: 'blue', 'aws:s3:arn': 'arn:aws:s3:::bucket/a key' },
      { team: 'blue', 'aws:s3:arn': 'arn:aws:s3:::bucket/a key' },
      { 'aws:s3:arn': 'arn:aws:s3:::bucket' },
    ]);
  });
});

describe('the provider is called', () => {
  test('for the content, and not for what describes it', async () => {
    let unwrapped = 0;
    const wrap = (context: Context): Context => {
      const keys = context.keys as KeyProvider;
      const counting: KeyProvider = {
        ...keys,
        unwrap: (wrapped, about) => {
          unwrapped += 1;
          return keys.unwrap(wrapped, about);
        },
      };
      return { ...context, keys: counting };
    };
    await using world = await open({ wrap });
    const put = await world.client.put('/bucket/key', { body: 'text', headers: provider('first') });
    await world.client.head('/bucket/key');
    const unchanged = await world.client.get('/bucket/key', {
      headers: { 'if-none-match': put.header('etag') ?? '' },
    });
    expect([unchanged.status, unwrapped]).toEqual([304, 0]);
    await world.client.get('/bucket/key');
    expect(unwrapped).toBe(1);
  });
});

test('a key that names no accounts decrypts for every reader of the object, a public one’s visitors too', async () => {
  const keys = await writeKeyFile({ first: hsmKeys.first.key });
  await using world = await open({
    settings: { SVC_HSM_KEYS_FILE: keys, SVC_KMS_DEFAULT_KEY_ID: 'first' },
  });
  await world.client.put('/bucket/key', {
    body: 'text',
    headers: { ...provider('first'), '*-acl': 'public-read' },
  });
  expect((await world.anonymous.get('/bucket/key')).text).toBe('text');
  await world.client.put('/bucket/key', { body: 'text', headers: provider('first') });
  expect((await world.anonymous.get('/bucket/key')).status).toBe(403);
});

describe('a provider that fails', () => {
  const failing =
    (reason: KeyFailureReason) =>
    (context: Context): Context => {
      const broken = async (): Promise<never> => {
        throw new KeyFailure(reason, 'as a test wants');
      };
      return { ...context, keys: { ...(context.keys as KeyProvider), unwrap: broken } };
    };
  test.each([
    ['unavailable', 503, 'KMSUnavailable'],
    ['denied', 401, 'KeyDenied'],
    ['tampered', 401, 'KeyTampered'],
    ['unknown-key', 400, 'KMS.NotFoundException'],
  ] as const)('%s', async (reason, status, code) => {
    await using world = await open({ wrap: failing(reason) });
    await world.client.put('/bucket/key', { body: 'text', headers: provider('first') });
    const got = await world.client.get('/bucket/key');
    expect(outcome(got)).toEqual([status, code]);
    expect(got.header('retry-after')).toBe(reason === 'unavailable' ? '30' : undefined);
    const created = await world.client.post('/bucket/key?uploads', { headers: provider('first') });
    const query = { uploadId: created.one('UploadId') ?? '', partNumber: '1' };
    expect(outcome(await world.client.put('/bucket/key', { query, body: 'x' }))).toEqual([status, code]);
    expect((await world.client.head('/bucket/key')).status).toBe(200);
  });

  test('or that is not there is unavailable', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const refused = await world.client.put('/bucket/key', { body: 'x', headers: provider('first') });
    expect([...outcome(refused), refused.header('retry-after')]).toEqual([503, 'KMSUnavailable', '30']);
  });
});

describe('UpdateObjectEncryption', () => {
  const body = (key: string, more = '') =>
    `<ObjectEncryption><SSE-KMS><KMSKeyArn>${key}</KMSKeyArn>${more}</SSE-KMS></ObjectEncryption>`;
  const update = (client: Client, path: string, key: string, more?: string) =>
    client.put(path, { query: { encryption: '' }, body: body(key, more) });
  const about = async (client: Client, path: string) => {
    const got = await client.get(path);
    const { 'last-modified': modified, etag } = Object.fromEntries(
      got.headers.map(([n, v]) => [n.toLowerCase(), v]),
    );
    return {
      text: got.text,
      etag,
      modified,
      sse: got.header('*-server-side-encryption'),
      keyId: keyIdOf(got),
    };
  };

  test.each([
    ['SSE-S3', service],
    ['another key', provider('first', contextOf({ team: 'blue' }))],
  ])('wraps the key anew, from %s, and touches nothing else', async (_, headers) => {
    await using world = await open();
    await world.client.put('/bucket/key', { body: 'text', headers });
    const [before, bytes] = [await about(world.client, '/bucket/key'), await world.stored()];
    expect((await update(world.client, '/bucket/key', 'second')).status).toBe(200);
    expect(await about(world.client, '/bucket/key')).toEqual({ ...before, sse: 'aws:kms', keyId: 'second' });
    expect(await world.stored()).toEqual(bytes);
    const more = '<BucketKeyEnabled>true</BucketKeyEnabled>';
    const arn = 'arn:aws:kms:us-east-1:000000000000:key/first';
    expect((await update(world.client, '/bucket/key', arn, more)).status).toBe(200);
    const got = await world.client.get('/bucket/key');
    expect([got.text, keyIdOf(got), got.header('*-server-side-encryption-bucket-key-enabled')]).toEqual([
      'text',
      'first',
      'true',
    ]);
  });

  test('makes the former key unnecessary: what was wrapped under it alone is read without it', async () => {
    let isGone = false;
    const wrap = (context: Context): Context => {
      const keys = context.keys as KeyProvider;
      const unwrap: KeyProvider['unwrap'] = async (wrapped, about) => {
        if (isGone && wrapped.keyId === 'first') throw new KeyFailure('unknown-key', 'gone');
        return keys.unwrap(wrapped, about);
      };
      return { ...context, keys: { ...keys, unwrap } };
    };
    await using world = await open({ wrap });
    for (const key of ['left', 'moved'])
      await world.client.put(`/bucket/${key}`, { body: 'text', headers: provider('first') });
    await update(world.client, '/bucket/moved', 'second');
    isGone = true;
    expect(outcome(await world.client.get('/bucket/left'))).toEqual([400, 'KMS.NotFoundException']);
    expect((await world.client.get('/bucket/moved')).text).toBe('text');
  });

  test('is of one version', async () => {
    await using world = await open();
    await setVersioning(world.client, 'bucket', 'Enabled');
    const first = await world.client.put('/bucket/key', { body: 'one', headers: service });
    await world.client.put('/bucket/key', { body: 'two', headers: service });
    const path = `/bucket/key?versionId=${first.header('*-version-id')}`;
    const updated = await update(world.client, path, 'second');
    expect([updated.status, updated.header('*-version-id')]).toEqual([200, first.header('*-version-id')]);
    expect((await about(world.client, path)).keyId).toBe('second');
    expect((await about(world.client, '/bucket/key')).sse).toBe('AES256');
  });

  test('also of an object that was uploaded in parts', async () => {
    await using world = await open();
    const uploadId =
      (await world.client.post('/bucket/key?uploads', { headers: service })).one('UploadId') ?? '';
    const bodies = [bytesOf(5 * MiB), bytesOf(70_000)];
    const parts = [];
    for (const [i, content] of bodies.entries())
      parts.push(await putPart(world.client, '/bucket/key', { uploadId, number: i + 1, body: content }));
    await complete(world.client, '/bucket/key', { uploadId, parts });
    expect((await update(world.client, '/bucket/key', 'second')).status).toBe(200);
    const got = await world.client.get('/bucket/key');
    expect([keyIdOf(got), Buffer.compare(got.bytes, Buffer.concat(bodies))]).toEqual(['second', 0]);
  });

  test('refuses keys that it cannot wrap, and callers without permission', async () => {
    await using world = await open();
    await world.client.put('/bucket/plain', { body: 'text' });
    await world.client.put('/bucket/customer', { body: 'text', headers: customer() });
    await world.client.put('/bucket/key', { body: 'text', headers: service });
    for (const path of ['/bucket/plain', '/bucket/customer'])
      expect(outcome(await update(world.client, path, 'second'))).toEqual([400, 'InvalidRequest']);
    expect(outcome(await update(world.client, '/bucket/none', 'second'))).toEqual([404, 'NoSuchKey']);
    expect(outcome(await update(world.client, '/bucket/key', 'third'))).toEqual([
      400,
      'KMS.NotFoundException',
    ]);
    expect(outcome(await update(world.client, '/bucket/key', 'a b'))).toEqual([400, 'InvalidArgument']);
    expect(outcome(await update(world.bob, '/bucket/key', 'second'))).toEqual([403, 'AccessDenied']);
    const other = await world.client.put('/bucket/key?encryption', {
      body: '<ObjectEncryption><SSE-S3/></ObjectEncryption>',
    });
    expect(outcome(other)).toEqual([400, 'MalformedXML']);
    expect(await about(world.client, '/bucket/key')).toMatchObject({ text: 'text', sse: 'AES256' });
  });

  test('leaves alone what a lock holds', async () => {
    await using world = await open();
    await world.client.put('/locked', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    const headers = { ...service, '*-object-lock-legal-hold': 'ON' };
    expect((await world.client.put('/locked/key', { body: 'text', headers })).status).toBe(200);
    expect(outcome(await update(world.client, '/locked/key', 'second'))).toEqual([403, 'AccessDenied']);
    expect((await about(world.client, '/locked/key')).sse).toBe('AES256');
  });
});

test('each unwrap is counted by its outcome, wraps are not', async () => {
  const outcomes: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    ...onCount({ svc_kms_decrypt_total: ({ outcome }) => void outcomes.push(outcome) }),
  };
  let reason: KeyFailureReason | undefined;
  const wrap = (context: Context): Context => {
    const keys = context.keys as KeyProvider;
    const unwrap: KeyProvider['unwrap'] = async (...asked) => {
      if (reason !== undefined) throw new KeyFailure(reason, 'refused');
      return keys.unwrap(...asked);
    };
    return { ...context, keys: { ...keys, unwrap } };
  };
  await using world = await open({ telemetry, wrap });
  const { client } = world;
  await client.put('/bucket/key', { body: 'text', headers: provider('second') });
  expect(outcomes).toEqual([]);
  expect((await client.get('/bucket/key')).text).toBe('text');
  for (const failure of ['denied', 'tampered', 'unavailable', 'unknown-key'] as const) {
    reason = failure;
    expect((await client.get('/bucket/key')).status).toBeGreaterThanOrEqual(400);
  }
  expect(outcomes).toEqual(['ok', 'denied', 'tampered', 'unavailable', 'denied']);
});

const copyOnto = (client: Client, path: string, headers: Headers = {}) =>
  client.put(path, { headers: { ...headers, '*-copy-source': path } });

test('a copy onto itself may change the encryption only, by the default of the bucket or without the key of the source', async () => {
  await using world = await open();
  const { client } = world;
  const seen: unknown[] = [];
  const note = async (write: Headers, source: Headers = {}): Promise<void> => {
    await client.put('/bucket/key', { body: 'text', headers: write });
    const copied = await copyOnto(client, '/bucket/key', source);
    const got = await client.get('/bucket/key');
    seen.push([copied.status, got.text, got.header('*-server-side-encryption')]);
  };
  await note(provider('first'));
  await note(customer(), customer(1, 'copy-source-'));
  const rule =
    '<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>';
  await client.put('/bucket/plain', { body: 'text' });
  await client.put('/bucket?encryption', {
    body: `<ServerSideEncryptionConfiguration><Rule>${rule}</Rule></ServerSideEncryptionConfiguration>`,
  });
  expect((await copyOnto(client, '/bucket/plain')).status).toBe(200);
  expect((await client.head('/bucket/plain')).header('*-server-side-encryption')).toBe('AES256');
  expect(seen).toEqual([
    [200, 'text', undefined],
    [200, 'text', undefined],
  ]);
});
