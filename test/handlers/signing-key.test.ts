/** A bucket with a signing key of its own: requests about it are signed with that key, and with nothing else. @storage */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { Caches } from '../../src/base/bounded-cache.ts';
import type { Context } from '../../src/context.ts';
import { findBucket, replaceBucket } from '../../src/metadata/buckets/buckets.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../src/ports/key-provider.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { acting, domain } from '../support/access-points.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import {
  alice,
  backends,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
  operator,
} from '../support/gateway.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { allow, openUser, sessionOf } from '../support/iam-users.ts';
import { combined } from '../support/keyed-buckets.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const path = '/admin/v1/buckets/bucket/signing-key';
const dayMs = 86_400_000;

interface KeyWorld extends GatewayWorld {
  readonly admin: Client;
  /** Rotates the key of `/bucket` and returns the secret. */
  rotate(body?: object): Promise<string>;
  /** Alice, who signs with this secret. */
  signing(secretKey: string): Client;
}

async function openKeys(options: GatewayWorldOptions = {}): Promise<KeyWorld> {
  const world = await openGateway({
    ...options,
    settings: { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first', ...options.settings },
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const admin = world.as({ credential: operator });
  return Object.assign(world, {
    admin,
    async rotate(body?: object) {
      const answer = await admin.post(
        `${path}/rotate`,
        body === undefined ? {} : { body: JSON.stringify(body) },
      );
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      return JSON.parse(answer.text).secret_access_key as string;
    },
    signing: (secretKey: string) => world.as({ credential: { ...alice, secretKey } }),
  });
}

/** The context with a provider whose calls are counted, and that fails while it has a reason. */
function watched(context: Context) {
  const provider = context.keys as KeyProvider;
  const seen: { unwraps: number; reason: KeyFailureReason | undefined } = { unwraps: 0, reason: undefined };
  const keys = faulty(provider, {
    async unwrap(wrapped, about) {
      seen.unwraps += 1;
      await new Promise((resolve) => setImmediate(resolve));
      if (seen.reason !== undefined) throw new KeyFailure(seen.reason, 'so');
      return provider.unwrap(wrapped, about);
    },
  });
  return { seen, context: { ...context, keys } };
}

describe.each(backends)('a signing key on %s', (backend) => {
  test('takes the place of the secret of every access key, until it is deleted', async () => {
    await using world = await openKeys({ backend });
    const secret = await world.rotate();
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    const signing = world.signing(secret);
    expect((await signing.get('/bucket/key')).text).toBe('text');
    expect((await signing.put('/bucket/other', { body: 'x' })).status).toBe(200);
    expect((await signing.get('/bucket?list-type=2')).status).toBe(200);
    for (const ask of [world.client.get('/bucket/key'), world.client.put('/bucket/key', { body: 'y' })])
      expect(await ask).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' });
    expect((await world.client.get('/')).status).toBe(200);
    const next = await world.rotate();
    expect((await signing.get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
    expect((await world.signing(next).get('/bucket/key')).text).toBe('text');
    for (let round = 0; round < 2; round += 1) expect((await world.admin.delete(path)).status).toBe(204);
    expect((await world.signing(next).get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });
});

test('every form of a version 4 signature is verified with it', async () => {
  await using world = await openKeys();
  const signing = world.signing(await world.rotate());
  for (const payload of [
    'signed',
    'unsigned',
    'streaming',
    'streaming-trailer',
    'unsigned-trailer',
  ] as const) {
    expect((await signing.put('/bucket/a', { body: 'x', payload })).status, payload).toBe(200);
    expect((await world.client.put('/bucket/a', { body: 'x', payload })).code, payload).toBe(
      'SignatureDoesNotMatch',
    );
  }
  expect((await signing.presigned('GET', '/bucket/key')).text).toBe('text');
  expect((await world.client.presigned('GET', '/bucket/key')).code).toBe('SignatureDoesNotMatch');
});

test('a form is verified with it', async () => {
  await using world = await openKeys();
  const secretKey = await world.rotate();
  const post = (credential: typeof alice) =>
    world.anonymous.post('/bucket', {
      body: encodeForm([
        ...fieldsOf({
          key: 'k',
          ...signForm(credential, { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] }),
        }),
        fileOf('content'),
      ]),
      headers: multipart(),
    });
  expect((await post({ ...alice, secretKey })).status).toBe(204);
  expect((await post(alice)).code).toBe('SignatureDoesNotMatch');
});

test('a version 2 signature is refused', async () => {
  await using world = await openKeys({ settings: { SVC_SIGV2_PRESIGN: 'true' } });
  expect((await world.client.presignedV2('GET', '/bucket/key')).text).toBe('text');
  const secret = await world.rotate();
  for (const client of [world.client, world.signing(secret)])
    expect((await client.presignedV2('GET', '/bucket/key')).code).toBe('AccessDenied');
});

test('a session signs with it and sends its token', async () => {
  await using world = await openKeys();
  const user = await openUser(world, 'carol', { policy: allow('s3:*') });
  const { options: session } = sessionOf(world, await user.act('GetSessionToken'));
  const secretKey = await world.rotate();
  const { credential } = session;
  expect(
    (await world.as({ ...session, credential: { ...credential, secretKey } }).get('/bucket/key')).text,
  ).toBe('text');
  expect((await world.as(session).get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
  const { token: _, ...without } = session;
  expect(
    (await world.as({ ...without, credential: { ...credential, secretKey } }).get('/bucket/key')).status,
  ).toBe(403);
});

test('a bucket is found by its host name, and through an access point', async () => {
  await using world = await openKeys({ settings: { SVC_DOMAIN: domain } });
  const made = await acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
  const alias = made.one('Alias') ?? '';
  const secretKey = await world.rotate();
  const at = (host: string, key?: string) =>
    world.as({ credential: key === undefined ? alice : { ...alice, secretKey: key }, host }).get('/key');
  for (const host of [`bucket.${domain}`, `${alias}.${domain}`]) {
    expect((await at(host, secretKey)).text).toBe('text');
    expect((await at(host)).code).toBe('SignatureDoesNotMatch');
  }
  expect((await world.signing(secretKey).get(`/${alias}/key`)).text).toBe('text');
  expect((await world.client.get(`/${alias}/key`)).code).toBe('SignatureDoesNotMatch');
});

test('a caller without a signature is judged by policies as before, and an unknown access key learns nothing', async () => {
  await using world = await openKeys();
  await world.rotate();
  expect((await world.anonymous.get('/bucket/key')).code).toBe('AccessDenied');
  const stranger = world.as({ credential: { ...alice, accessKey: 'NOBODY' } });
  expect((await stranger.get('/bucket/key')).code).toBe('InvalidAccessKeyId');
});

test('nothing is copied out of the bucket by a request that its key has not signed', async () => {
  await using world = await openKeys();
  await world.client.put('/plain');
  await world.client.put('/plain/source', { body: 'plain' });
  const secret = await world.rotate();
  const signing = world.signing(secret);
  const copy = (client: Client, to: string, from: string) =>
    client.put(to, { headers: { 'x-amz-copy-source': from } });
  expect(await copy(world.client, '/plain/stolen', '/bucket/key')).toMatchObject({
    status: 403,
    code: 'AccessDenied',
  });
  expect((await copy(signing, '/bucket/copy', '/bucket/key')).status).toBe(200);
  expect(await copy(signing, '/bucket/from', '/plain/source')).toMatchObject({ status: 403 });
  const proven = world.as({ credential: combined(alice, secret) });
  expect((await copy(proven, '/bucket/from', '/plain/source')).status).toBe(200);
});

test.each([
  ['denied', 401, 'KeyDenied'],
  ['unknown-key', 401, 'KeyDenied'],
  ['tampered', 401, 'KeyTampered'],
  ['unavailable', 503, 'KMSUnavailable'],
] as const)(
  'a provider that says %s refuses everyone with %i %s, and is asked again later',
  async (reason, status, code) => {
    const clock = virtualClock();
    const state = { seen: undefined as ReturnType<typeof watched>['seen'] | undefined };
    await using world = await openKeys({
      clock,
      wrap: (context) => {
        const { seen, context: wrapped } = watched(context);
        state.seen = seen;
        return wrapped;
      },
    });
    const { seen } = state;
    if (seen === undefined) throw new Error('no provider');
    const secret = await world.rotate();
    seen.reason = reason;
    for (const client of [world.signing(secret), world.client]) {
      const refused = await client.get('/bucket/key');
      expect([refused.status, refused.code]).toEqual([status, code]);
      expect(refused.header('retry-after')).toBe(status === 503 ? '30' : undefined);
    }
    expect(seen.unwraps).toBe(1);
    seen.reason = undefined;
    await clock.advance(2_000);
    expect((await world.signing(secret).get('/bucket/key')).text).toBe('text');
  },
);

test('without a provider requests about the bucket are refused', async () => {
  await using world = await openKeys();
  const secret = await world.rotate();
  const { keys: _, ...context } = { ...world.context, caches: new Caches() };
  const client = openClient(createGateway(context), context.clock, {
    credential: { ...alice, secretKey: secret },
  });
  const refused = await client.get('/bucket/key');
  expect([refused.status, refused.code, refused.header('retry-after')]).toEqual([
    503,
    'KMSUnavailable',
    '30',
  ]);
});

test('a hundred requests unwrap the key once, and once more when it was cached for SVC_DEK_CACHE_TTL', async () => {
  const clock = virtualClock();
  let unwraps = () => 0;
  await using world = await openKeys({
    clock,
    settings: { SVC_DEK_CACHE_TTL: '30s' },
    wrap: (context) => {
      const { seen, context: wrapped } = watched(context);
      unwraps = () => seen.unwraps;
      return wrapped;
    },
  });
  const signing = world.signing(await world.rotate());
  const all = async () =>
    (await Promise.all(Array.from({ length: 100 }, () => signing.get('/bucket/key')))).every(
      ({ status }) => status === 200,
    );
  expect([await all(), await all(), unwraps()]).toEqual([true, true, 1]);
  await clock.advance(30_000);
  expect([await all(), unwraps()]).toEqual([true, 2]);
});

test('a key that is too old refuses requests until it is rotated, and the audit names the operation', async () => {
  const clock = virtualClock();
  await using world = await openKeys({ clock, settings: { SVC_KEY_MAX_AGE: '48h' } });
  const secret = await world.rotate();
  await clock.advance(36 * 3_600_000);
  const status = async () => JSON.parse((await world.admin.get(`${path}/status`)).text);
  expect(await status()).toEqual({
    key_id: 'first',
    created_at: expect.any(Number),
    age_days: 1.5,
    max_age_days: 2,
    expired: false,
  });
  await clock.advance(dayMs / 2);
  expect((await status()).expired).toBe(true);
  const refused = await world.signing(secret).put('/bucket/key', { body: 'x' });
  expect([refused.status, refused.code]).toEqual([401, 'KeyExpired']);
  expect((await world.client.get('/bucket/key')).code).toBe('KeyExpired');
  const rows = await auditRows(world.context);
  expect(
    rows
      .filter(({ error }) => error === 'KeyExpired')
      .map(({ action, key }) => `${action} ${key}`)
      .sort(),
  ).toEqual(['GetObject key', 'PutObject key']);
  expect((await world.signing(await world.rotate()).get('/bucket/key')).text).toBe('text');
});

test('a rotation whose commit fails leaves the former key', async () => {
  let isFailing = false;
  await using world = await openKeys({
    wrap: (context) => ({
      ...context,
      metadata: faulty(context.metadata, {
        commit: async (at, changes, options) => {
          if (isFailing && at.table.name === 'buckets') throw new StoreUnavailable('no answer');
          return context.metadata.commit(at, changes, options);
        },
      }),
    }),
  });
  const secret = await world.rotate();
  isFailing = true;
  expect((await world.admin.post(`${path}/rotate`)).status).toBe(503);
  isFailing = false;
  expect((await world.signing(secret).get('/bucket/key')).text).toBe('text');
});

test('of two rotations at once, the secret of one that was answered 200 last holds', async () => {
  await using world = await openKeys();
  const answers = await Promise.all(Array.from({ length: 4 }, () => world.admin.post(`${path}/rotate`)));
  const [winner, ...others] = answers.filter(({ status }) => status === 200);
  expect(others).toEqual([]);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(3);
  const secret = JSON.parse(winner?.text ?? '').secret_access_key;
  expect((await world.signing(secret).get('/bucket/key')).text).toBe('text');
});

test('a body that arrives while the key is rotated is refused', async () => {
  const clock = virtualClock();
  await using world = await openKeys({ clock });
  const signing = world.signing(await world.rotate());
  const put = await signing.put('/bucket/slow', {
    body: 'body',
    async *arriving(body) {
      yield body.subarray(0, 1);
      await world.rotate();
      await clock.advance(2_000);
      yield body.subarray(1);
    },
  });
  expect([put.status, put.code]).toEqual([403, 'AccessDenied']);
});

test('a wrapped key of another bucket is of no use', async () => {
  await using world = await openKeys();
  await world.rotate();
  await world.client.put('/other');
  const { metadata } = world.context;
  const [bucket, other] = [await findBucket(metadata, 'bucket'), await findBucket(metadata, 'other')];
  if (bucket?.row.signingKey === undefined || other === undefined) throw new Error('no buckets');
  await replaceBucket(metadata, other, { ...other.row, signingKey: bucket.row.signingKey });
  expect((await world.client.get('/other?list-type=2')).code).toBe('KeyTampered');
});

test('operators rotate, read and delete it, each is audited, and the secret is in no record', async () => {
  await using world = await openKeys();
  expect((await world.admin.get(`${path}/status`)).status).toBe(404);
  const answer = await world.admin.post(`${path}/rotate`, { body: '{"key_id":"alias/main"}' });
  const made = JSON.parse(answer.text);
  expect(made).toEqual({
    key_id: 'first',
    secret_access_key: expect.stringMatching(/^[0-9a-f]{64}$/),
    created_at: expect.any(Number),
    wrapped_dek_length: expect.any(Number),
  });
  await world.admin.get(`${path}/status`);
  await world.admin.delete(path);
  const rows = await auditRows(world.context);
  const actions = rows.map(({ action }) => action);
  for (const name of ['RotateBucketSigningKey', 'GetBucketSigningKeyStatus', 'DeleteBucketSigningKey'])
    expect(actions).toContain(`admin:${name}`);
  expect(JSON.stringify(rows)).not.toContain(made.secret_access_key);
});

test.each([
  ['{"key_id":1}', 400, 'key_id'],
  ['{"key_id":""}', 400, 'key_id'],
  ['{"key":"first"}', 400, 'key_id'],
  ['{"key_id":"nosuch"}', 400, 'KMS.NotFoundException'],
])('a rotation with %s is refused and changes nothing', async (body, status, says) => {
  await using world = await openKeys();
  const answer = await world.admin.post(`${path}/rotate`, { body });
  expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(says)]);
  expect((await world.client.get('/bucket/key')).text).toBe('text');
  expect((await world.client.post(`${path}/rotate`)).status).toBe(403);
});

test('a rotation without key_id names the key that it asked the key provider for, and where its id comes from', async () => {
  for (const { settings, body, says } of [
    { settings: {}, says: 'key "bucket". The request has no key_id and SVC_KMS_DEFAULT_KEY_ID is not set' },
    {
      settings: { SVC_KMS_DEFAULT_KEY_ID: 'typo' },
      says: 'key "typo". The request has no key_id; the id is the value of SVC_KMS_DEFAULT_KEY_ID',
    },
    { settings: {}, body: { key_id: 'nosuch' }, says: 'key "nosuch".' },
  ]) {
    await using world = await openGateway({ settings: { ...(await encryptingSettings()), ...settings } });
    await world.client.put('/bucket');
    const admin = world.as({ credential: operator });
    const { status, text } = await admin.post(
      `${path}/rotate`,
      body === undefined ? {} : { body: JSON.stringify(body) },
    );
    expect([status, JSON.parse(text)]).toEqual([
      400,
      expect.objectContaining({
        code: 'KMS.NotFoundException',
        message: expect.stringContaining(says),
        details: { field: 'key_id' },
      }),
    ]);
  }
});
