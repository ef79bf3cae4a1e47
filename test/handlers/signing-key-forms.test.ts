/** A signing key in every form of request: what its failures refuse and record, and what it means for copies and other buckets. */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { KeyFailure, type KeyFailureReason, type KeyProvider } from '../../src/ports/key-provider.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { acting } from '../support/access-points.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, openUser, sessionOf } from '../support/iam-users.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const path = '/admin/v1/buckets/bucket/signing-key';
const hourMs = 3_600_000;

async function open(options: GatewayWorldOptions = {}, namesDefault = true) {
  const failing: { reason: KeyFailureReason | undefined } = { reason: undefined };
  const world = await openGateway({
    ...options,
    settings: {
      ...(await encryptingSettings()),
      ...(namesDefault ? { SVC_KMS_DEFAULT_KEY_ID: 'first' } : {}),
      ...options.settings,
    },
    wrap(given: Context) {
      const context = options.wrap?.(given) ?? given;
      const provider = context.keys as KeyProvider;
      const keys = faulty(provider, {
        async unwrap(...asked) {
          if (failing.reason !== undefined) throw new KeyFailure(failing.reason, 'so');
          return provider.unwrap(...asked);
        },
      });
      return { ...context, keys };
    },
  });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const admin = world.as({ credential: operator });
  return Object.assign(world, {
    admin,
    failing,
    async rotate(bucket = 'bucket') {
      const answer = await admin.post(`/admin/v1/buckets/${bucket}/signing-key/rotate`);
      expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
      return JSON.parse(answer.text).secret_access_key as string;
    },
    signing: (secretKey: string) => world.as({ credential: { ...alice, secretKey } }),
    status: async () => JSON.parse((await admin.get(`${path}/status`)).text),
  });
}

type World = Awaited<ReturnType<typeof open>>;

const outcome = ({ status, code }: Answer) => [status, code];
const payloads = ['signed', 'unsigned', 'streaming', 'streaming-trailer', 'unsigned-trailer'] as const;

/** Every form of a request about the bucket, signed with a secret. */
async function everyForm(world: World, secretKey: string): Promise<Record<string, Promise<Answer>>> {
  const signing = world.signing(secretKey);
  const { options: session } = sessionOf(world, await user(world).act('GetSessionToken'));
  const form = signForm(
    { ...alice, secretKey },
    { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] },
  );
  return {
    ...Object.fromEntries(
      payloads.map((payload) => [`PUT ${payload}`, signing.put('/bucket/new', { body: 'x', payload })]),
    ),
    'presigned GET': signing.presigned('GET', '/bucket/key'),
    'presigned PUT': signing.presigned('PUT', '/bucket/new', { body: 'x' }),
    form: world.anonymous.post('/bucket', {
      body: encodeForm([...fieldsOf({ key: 'new', ...form }), fileOf('content')]),
      headers: multipart(),
    }),
    session: world
      .as({ ...session, credential: { ...session.credential, secretKey } })
      .put('/bucket/new', { body: 'x' }),
    list: signing.get('/bucket?list-type=2'),
    head: signing.head('/bucket/key'),
    delete: signing.delete('/bucket/key'),
    upload: signing.post('/bucket/new?uploads'),
    'version 2': signing.presignedV2('GET', '/bucket/key'),
  };
}

const users = new WeakMap<World, Awaited<ReturnType<typeof openUser>>>();
const user = (world: World) => {
  const found = users.get(world);
  if (found === undefined) throw new Error('no user');
  return found;
};

const failures = [
  ['unavailable', 503, 'KMSUnavailable'],
  ['throttled', 503, 'KMSUnavailable'],
  ['key-unavailable', 503, 'KMSUnavailable'],
  ['denied', 401, 'KeyDenied'],
  ['unknown-key', 401, 'KeyDenied'],
  ['tampered', 401, 'KeyTampered'],
  ['expired', 401, 'KeyExpired'],
] as const;

describe.each(failures)('a signing key whose provider says %s', (reason, status, code) => {
  test(`refuses every form of request with ${status} ${code}, stores nothing, and is audited by the operation`, async () => {
    const clock = virtualClock(Date.now());
    const telemetry = {
      ...createMetricRegistry({ version: '1', runtime: 'test' }),
      log: () => {},
    };
    await using world = await open({
      clock,
      telemetry,
      settings: { SVC_KEY_MAX_AGE: '24h', SVC_SIGV2_PRESIGN: 'true', SVC_DEK_CACHE_TTL: '30s' },
    });
    users.set(world, await openUser(world, 'carol', { policy: allow('s3:*') }));
    const secretKey = await world.rotate();
    if (reason === 'expired') await clock.advance(24 * hourMs);
    else world.failing.reason = reason;
    for (const secret of [secretKey, alice.secretKey])
      for (const [name, asked] of Object.entries(await everyForm(world, secret))) {
        const answer = await asked;
        expect([name, answer.status]).toEqual([name, status]);
        if (name !== 'head') expect([name, answer.code]).toEqual([name, code]);
        expect([name, answer.header('retry-after')]).toEqual([name, status === 503 ? '30' : undefined]);
      }
    const rows = (await auditRows(world.context)).filter(({ error }) => error === code);
    const actions = new Set(rows.map(({ action }) => action));
    for (const action of ['PutObject', 'PostObject', 'DeleteObject', 'CreateMultipartUpload'])
      expect([action, actions.has(action)]).toEqual([action, true]);
    for (const action of ['GetObject', 'HeadObject', 'ListObjectsV2'])
      expect([action, actions.has(action)]).toEqual([action, status === 401]);
    expect(rows.every(({ resource }) => resource === 'bucket:bucket')).toBe(true);
    const metrics = (await world.admin.get('/metrics')).text;
    const labels = { 'key-unavailable': 'unavailable', throttled: 'unavailable', 'unknown-key': 'denied' };
    const label = labels[reason as keyof typeof labels] ?? reason;
    expect(metrics).toMatch(new RegExp(`svc_kms_decrypt_total\\{outcome="${label}"\\} [1-9]`));

    world.failing.reason = undefined;
    await clock.advance(2_000);
    const now = reason === 'expired' ? await world.rotate() : secretKey;
    expect((await world.signing(now).get('/bucket?list-type=2')).all('Key')).toEqual(['key']);
    expect((await world.signing(now).get('/bucket?uploads')).all('Key')).toEqual([]);
  });
});

test.each([false, true])(
  'a form that arrives slowly is judged again at its end (rotated meanwhile: %s)',
  async (isRotated) => {
    const clock = virtualClock(Date.now());
    await using world = await open({ clock });
    const form = signForm(
      { ...alice, secretKey: await world.rotate() },
      {
        conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']],
        now: clock.now(),
      },
    );
    const posted = await world.anonymous.post('/bucket', {
      body: encodeForm([...fieldsOf({ key: 'slow', ...form }), fileOf('content')]),
      headers: multipart(),
      async *arriving(body) {
        yield body.subarray(0, -20);
        if (isRotated) await world.rotate();
        await clock.advance(2_000);
        yield body.subarray(-20);
      },
    });
    expect(outcome(posted)).toEqual(isRotated ? [403, 'AccessDenied'] : [204, '']);
  },
);

test('without key_id the provider key is SVC_KMS_DEFAULT_KEY_ID, then the one with the name of the bucket', async () => {
  await using world = await open({}, false);
  await world.client.put('/second');
  const rotate = async (bucket: string) => {
    const { status, text } = await world.admin.post(`/admin/v1/buckets/${bucket}/signing-key/rotate`);
    return [status, JSON.parse(text).key_id ?? JSON.parse(text).code];
  };
  expect(await rotate('second')).toEqual([200, 'second']);
  expect(await rotate('bucket')).toEqual([400, 'KMS.NotFoundException']);
  await using other = await open({ settings: { SVC_KMS_DEFAULT_KEY_ID: 'alias/main' } });
  await other.client.put('/second');
  const { text } = await other.admin.post('/admin/v1/buckets/second/signing-key/rotate', { body: '{}' });
  expect(JSON.parse(text).key_id).toBe('first');
});

test('the fields of a rotation and of the status have their units', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 0, 0, 0, 900));
  await using world = await open({ clock });
  const made = JSON.parse((await world.admin.post(`${path}/rotate`)).text);
  const row = await findBucket(world.context.metadata, 'bucket');
  const wrapped = Buffer.from(row?.row.signingKey?.wrapped ?? '', 'base64');
  expect(Buffer.from(made.secret_access_key, 'hex')).toHaveLength(32);
  expect(made).toEqual({
    key_id: 'first',
    secret_access_key: made.secret_access_key.toLowerCase(),
    created_at: Date.UTC(2026, 0, 1) / 1000,
    wrapped_dek_length: wrapped.length,
  });
  expect(wrapped.includes(Buffer.from(made.secret_access_key, 'hex'))).toBe(false);
  await clock.advance(6 * hourMs);
  expect(await world.status()).toEqual({
    key_id: 'first',
    created_at: made.created_at,
    age_days: 0.25,
    max_age_days: 90,
    expired: false,
  });
  const deleted = await world.admin.delete(path);
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  const gone = await world.admin.get(`${path}/status`);
  expect([gone.status, JSON.parse(gone.text).code]).toEqual([404, 'NoSuchSigningKey']);
});

describe('a rotation whose metadata write', () => {
  const failing = (apply: boolean) => {
    const state = { isFailing: false };
    const wrap = (context: Context): Context => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          const isFailing = state.isFailing && at.table.name === 'buckets';
          if (isFailing && !apply) throw new StoreUnavailable('no answer');
          const outcome = await context.metadata.commit(at, changes, options);
          if (isFailing) throw new StoreUnavailable('no answer');
          return outcome;
        },
      }),
    });
    return { state, wrap };
  };

  test('fails leaves the former envelope and its date, and the next rotation recovers', async () => {
    const clock = virtualClock(Date.now());
    const { state, wrap } = failing(false);
    await using world = await open({ clock, wrap });
    const secret = await world.rotate();
    const before = await world.status();
    await clock.advance(hourMs);
    state.isFailing = true;
    const failed = await world.admin.post(`${path}/rotate`);
    expect([failed.status, failed.text]).toEqual([503, expect.not.stringContaining('secret')]);
    state.isFailing = false;
    expect((await world.status()).created_at).toBe(before.created_at);
    expect((await world.signing(secret).get('/bucket/key')).text).toBe('text');
    const next = await world.rotate();
    expect((await world.status()).created_at).toBe(before.created_at + 3_600);
    expect((await world.signing(next).get('/bucket/key')).text).toBe('text');
    expect((await world.signing(secret).get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
  });

  test('was applied without an answer holds the new key, and the next rotation recovers', async () => {
    const { state, wrap } = failing(true);
    await using world = await open({ wrap });
    const secret = await world.rotate();
    state.isFailing = true;
    expect((await world.admin.post(`${path}/rotate`)).status).toBe(503);
    state.isFailing = false;
    for (const known of [secret, alice.secretKey])
      expect((await world.signing(known).get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
    const next = await world.rotate();
    expect((await world.signing(next).get('/bucket/key')).text).toBe('text');
  });
});

test('a rotation and a deletion at once leave one of them, and the answers say which', async () => {
  await using world = await open();
  for (let round = 0; round < 10; round += 1) {
    const former = await world.rotate();
    const [rotated, deleted] = await Promise.all([
      world.admin.post(`${path}/rotate`),
      world.admin.delete(path),
    ]);
    expect([200, 409]).toContain(rotated.status);
    expect([204, 409]).toContain(deleted.status);
    const key = (await findBucket(world.context.metadata, 'bucket'))?.row.signingKey;
    const holds =
      key === undefined
        ? alice.secretKey
        : rotated.status === 200
          ? JSON.parse(rotated.text).secret_access_key
          : former;
    expect((await world.signing(holds).get('/bucket/key')).text).toBe('text');
    await world.admin.delete(path);
  }
});

test('nothing leaves the bucket by a copy that another key signed, whatever names the source', async () => {
  await using world = await open();
  const made = await acting(world)('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
  const [alias, arn] = [made.one('Alias') ?? '', made.one('AccessPointArn') ?? ''];
  await world.client.put('/plain');
  await world.client.put('/keyed');
  const uploadId = (await world.client.post('/plain/stolen?uploads')).one('UploadId') ?? '';
  await world.rotate();
  const otherKey = await world.rotate('keyed');
  const part = `/plain/stolen?partNumber=1&uploadId=${uploadId}`;
  for (const source of [
    '/bucket/key',
    'bucket/key',
    `${alias}/key`,
    `${arn}/object/key`,
    '/bucket/key?versionId=null',
  ])
    for (const [client, to] of [
      [world.client, '/plain/stolen'],
      [world.client, part],
      [world.signing(otherKey), '/keyed/stolen'],
    ] as const) {
      const copied = await client.put(to, { headers: { 'x-amz-copy-source': source } });
      expect([source, to, ...outcome(copied)]).toEqual([source, to, 403, 'AccessDenied']);
    }
  expect((await world.client.get('/plain')).all('Key')).toEqual([]);
});

test('a bucket that is deleted and made again has no signing key', async () => {
  await using world = await open();
  const signing = world.signing(await world.rotate());
  await signing.delete('/bucket/key');
  expect((await signing.delete('/bucket')).status).toBe(204);
  expect((await world.client.put('/bucket')).status).toBe(200);
  expect((await world.client.put('/bucket/key', { body: 'x' })).status).toBe(200);
  expect((await signing.get('/bucket/key')).code).toBe('SignatureDoesNotMatch');
});

test('CreateBucket of a bucket with a signing key is signed with it, and IAM, STS and ListBuckets are not', async () => {
  await using world = await open();
  const signing: Client = world.signing(await world.rotate());
  expect((await world.client.put('/bucket')).code).toBe('SignatureDoesNotMatch');
  expect((await signing.put('/bucket')).status).toBe(200);
  expect((await world.client.get('/')).status).toBe(200);
  expect((await signing.get('/')).code).toBe('SignatureDoesNotMatch');
  const iam = (client: Client) => client.post('/?Action=GetCallerIdentity&Version=2011-06-15');
  expect([(await iam(world.client)).status, (await iam(signing)).status]).toEqual([200, 403]);
});
