/**
 * Logs at DEBUG, traces, metrics, audit rows and the support bundle of many operations contain none of the secrets of
 * the run, in any of their forms.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import { type SettingName, settings } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import type { KeyProvider } from '../../src/ports/key-provider.ts';
import { nodeTracing } from '../../src/runtime/processes/node-telemetry.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { openActions } from '../support/actions.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { expectNoSecret, recordEverything, type Secrets } from '../support/everything-recorded.ts';
import { alice, bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { allow, openUser, sessionOf } from '../support/iam-users.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm, signFormV2 } from '../support/post-form.ts';
import { signer } from '../support/sign.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

const customerKey = randomBytes(32);
const customer = (prefix = '*-server-side-encryption-customer') => ({
  [`${prefix}-algorithm`]: 'AES256',
  [`${prefix}-key`]: customerKey.toString('base64'),
  [`${prefix}-key-md5`]: createHash('md5').update(customerKey).digest('base64'),
});

/** Notes the keys that a provider returns. */
const tapKeys = (keys: KeyProvider, secrets: Secrets): KeyProvider => ({
  ...keys,
  async generate(...asked) {
    const drawn = await keys.generate(...asked);
    secrets.set(`key ${secrets.size} that the provider made`, drawn.key.slice());
    return drawn;
  },
  async unwrap(...asked) {
    const key = await keys.unwrap(...asked);
    secrets.set(`key ${secrets.size} that the provider unwrapped`, key.slice());
    return key;
  },
});

const json = { 'content-type': 'application/json' };

/** A browser that logs in, changes something, is refused, and logs out; and a change with an idempotency key, twice. */
async function logInAndOut(world: GatewayWorld, secrets: Secrets): Promise<void> {
  const { anonymous } = world;
  const logIn = (secretKey: string) =>
    anonymous.post('/admin/v1/session', {
      headers: json,
      body: JSON.stringify({ accessKey: operator.accessKey, secretKey }),
    });
  secrets.set('wrong secret key of a log-in', 'not-the-secret-key-of-anybody');
  expect((await logIn('not-the-secret-key-of-anybody')).status).toBe(403);
  const reply = await logIn(operator.secretKey);
  expect(reply.status).toBe(200);
  const [cookie = ''] = (reply.header('set-cookie') ?? '').split(';');
  const { csrfToken } = JSON.parse(reply.text) as { readonly csrfToken: string };
  secrets.set('session cookie', cookie.split('=')[1] ?? '');
  secrets.set('CSRF token', csrfToken);
  const idempotencyKey = randomBytes(18).toString('base64url');
  secrets.set('idempotency key', idempotencyKey);
  secrets.set('wrong CSRF token', 'a-csrf-token-of-another-page');
  const change = (body: string, headers: Readonly<Record<string, string>>) =>
    anonymous.post('/admin/v1/why', { headers: { ...json, cookie, ...headers }, body });
  const question = JSON.stringify({
    accessKey: alice.accessKey,
    action: 's3:GetObject',
    bucket: 'bucket',
    key: 'copy',
  });
  const right = { 'x-csrf-token': csrfToken, 'idempotency-key': idempotencyKey };
  expect((await change(question, right)).status).toBe(200);
  expect((await change(question, right)).status).toBe(200);
  expect((await change(`${question} `, right)).status).toBe(422);
  expect((await change(question, { 'x-csrf-token': 'a-csrf-token-of-another-page' })).status).toBe(403);
  expect((await anonymous.get('/admin/v1/session', { headers: { cookie } })).status).toBe(200);
  const out = await anonymous.delete('/admin/v1/session', { headers: { cookie, 'x-csrf-token': csrfToken } });
  expect(out.status).toBeLessThan(300);
  // An ended log-in, and one that never was.
  for (const each of [cookie, `${cookie.slice(0, -4)}0000`])
    expect((await anonymous.get('/admin/v1/clusters', { headers: { cookie: each } })).status).toBe(403);
}

/** Forms of both versions of signatures: taken, and refused for another content than the signed policy allows. */
async function postForms({ anonymous, client }: GatewayWorld, secrets: Secrets): Promise<void> {
  await client.put('/forms');
  const conditions = [{ bucket: 'forms' }, ['starts-with', '$key', 'form']];
  const forms = [
    signForm(alice, { conditions }),
    signForm({ ...alice, secretKey: 'another-secret-key' }, { conditions }),
    signFormV2(alice, { conditions }),
  ];
  const outcomes: number[] = [];
  for (const [n, signing] of forms.entries()) {
    for (const key of ['form/key', 'elsewhere']) {
      const body = encodeForm([...fieldsOf({ key, ...signing }), fileOf('x')]);
      outcomes.push((await anonymous.post('/forms', { body, headers: multipart() })).status);
    }
    secrets.set(`signature of form ${n}`, String(signing['signature'] ?? signing['x-amz-signature']));
  }
  expect(outcomes).toEqual([204, 403, 403, 403, 204, 403]);
}

test('no secret is in logs, traces, metrics, audit rows, their export or the support bundle', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(503);
  const masterKey = randomBytes(32);
  const directory = await mkdtemp(join(tmpdir(), 'sluice-secrets-'));
  const masterKeyFile = join(directory, 'master.key');
  await writeFile(masterKeyFile, masterKey.toString('base64'), { mode: 0o600 });
  const secrets: Secrets = new Map<string, string | Uint8Array>([
    ['master key', masterKey],
    ['headers for the collector', 'token-for-the-collector'],
    ['secret key of alice', alice.secretKey],
    ['secret key of bob', bob.secretKey],
    ['secret key of the operator', operator.secretKey],
    ['SSE-C key', customerKey],
    ['token of a sink', 'hidden-token-of-the-sink'],
    ['password of a sink', 'swordfish-of-the-sink'],
    ['secret of a sink', 'signing-secret-of-the-sink'],
    ['metrics token', 'token-for-the-metrics'],
    ['secret key of a peer', 'secret-key-of-the-peer-0123456789'],
  ]);
  const record = recordEverything();
  const { lines, exported } = record;
  const target = { id: 'hook', accounts: ['*'], type: 'webhook', url: sink.url };
  const given: Partial<Record<SettingName, string>> = {
    ...(await encryptingSettings()),
    SVC_KMS_DEFAULT_KEY_ID: 'first',
    SVC_SSE_C_REQUIRE_TLS: 'false',
    SVC_MASTER_KEY_FILE: masterKeyFile,
    SVC_METRICS_TOKEN: 'token-for-the-metrics',
    SVC_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    SVC_OTLP_HEADERS: 'authorization=Bearer%20token-for-the-collector',
    SVC_TRACE_SAMPLE: '1',
    SVC_SLOW_MS: '1',
    SVC_EGRESS_ALLOW: '127.0.0.0/8',
    SVC_NOTIFY_INTERVAL: '10ms',
    SVC_NOTIFY_TARGETS: JSON.stringify([
      { ...target, token: 'hidden-token-of-the-sink', secret: 'signing-secret-of-the-sink' },
      { ...target, id: 'other', username: 'user', password: 'swordfish-of-the-sink' },
    ]),
    SVC_CREDENTIALS: JSON.stringify([alice, bob, operator]),
  };
  await using world = await openGateway({
    telemetry: record.telemetry,
    settings: given,
    wrap: ({ keys, sealer, ...context }) => ({
      ...record.wrap(context as Context),
      ...(keys === undefined ? {} : { keys: tapKeys(keys, secrets) }),
      sealer: {
        ...sealer,
        under: (key) => sealer.under(key),
        open: (sealed, about) => sealer.open(sealed, about),
        seal(plain, about) {
          if (about.startsWith('object-key')) secrets.set(`key ${secrets.size} of an object`, plain.slice());
          return sealer.seal(plain, about);
        },
      },
    }),
  });
  const { client, context } = world;
  const admin = world.as({ credential: operator });
  const ok = async (asked: ReturnType<typeof client.get>): Promise<string> => {
    const answer = await asked;
    expect([answer.status, answer.text]).toEqual([expect.toSatisfy((code) => code < 300), expect.anything()]);
    return answer.text;
  };

  await ok(client.put('/bucket'));
  const queue = (id: string, events: string) =>
    `<QueueConfiguration><Event>s3:${events}:*</Event><Queue>arn:aws:sqs:default:123456789012:${id}</Queue></QueueConfiguration>`;
  const body = `<NotificationConfiguration>${queue('hook', 'ObjectCreated')}${queue('other', 'ObjectRemoved')}</NotificationConfiguration>`;
  await ok(client.put('/bucket?notification', { body }));
  // Contents, and keys of clients: right, wrong and missing ones.
  await ok(client.put('/bucket/sealed', { body: 'plaintext-of-the-object', headers: customer() }));
  secrets.set('content', 'plaintext-of-the-object');
  await ok(client.get('/bucket/sealed', { headers: customer() }));
  await client.get('/bucket/sealed');
  await client.put('/bucket/sealed', {
    headers: { ...customer(), '*-server-side-encryption-customer-key-md5': 'x' },
  });
  const copy = {
    '*-copy-source': '/bucket/sealed',
    ...customer('*-copy-source-server-side-encryption-customer'),
  };
  await ok(client.put('/bucket/copy', { headers: copy }));
  await ok(client.put('/bucket/wrapped', { body: 'x', headers: { '*-server-side-encryption': 'aws:kms' } }));
  await ok(client.get('/bucket/wrapped'));
  await ok(
    client.put('/bucket/sealed-here', { body: 'x', headers: { '*-server-side-encryption': 'AES256' } }),
  );
  await ok(client.get('/bucket/sealed-here'));
  for (const name of [/provider made/, /provider unwrapped/, /of an object/])
    expect([...secrets.keys()]).toContainEqual(expect.stringMatching(name));
  await ok(client.delete('/bucket/nothing'));
  // Keys of users, sessions, and refused ones.
  const user = await openUser(world, 'user', { policy: allow('s3:*', 'sts:*') });
  secrets.set('secret key of a user', user.credential.secretKey);
  const session = sessionOf(world, await user.act('GetSessionToken', {}));
  secrets.set('secret key of a session', session.options.credential.secretKey);
  secrets.set('session token', session.options.token);
  await world.as(session.options).get('/bucket/sealed', { headers: customer() });
  await world.as({ ...session.options, token: `${session.options.token}x` }).get('/bucket/copy');
  await openActions(world)('CreateAccessKey', { UserName: 'nobody' });
  // Signatures: right ones in headers and URLs, and one by a wrong key.
  const signed = [alice, { ...alice, secretKey: 'another-secret-key' }].flatMap(
    ({ accessKey, secretKey }) => {
      const sign = signer({ accessKey, secretKey, host: 'localhost' });
      return [
        sign.presign({ method: 'GET', path: '/bucket/copy' }),
        sign.request({ method: 'PUT', path: '/bucket/by-header', body: 'x' }),
        sign.presign({
          method: 'GET',
          path: '/bucket/none',
          query: { 'X-Amz-Security-Token': 'given-token' },
        }),
      ];
    },
  );
  for (const request of signed) await client.sendRaw(request);
  secrets.set('token in a URL', 'given-token');
  const signatures = signed.flatMap(({ target: place, headers }) =>
    [place, ...headers.map(([, value]) => value)].flatMap(
      (text) => /Signature=([0-9a-f]{64})/.exec(text)?.slice(1) ?? [],
    ),
  );
  expect(signatures).toHaveLength(6);
  for (const [n, signature] of signatures.entries()) secrets.set(`signature ${n}`, signature);
  // What operators send and get.
  const peer = {
    endpoint: 'http://127.0.0.1:9',
    region: 'default',
    accessKey: 'PEERKEY0000000000001',
    secretKey: 'secret-key-of-the-peer-0123456789',
  };
  await ok(admin.put('/admin/v1/replication/peers/there', { body: JSON.stringify(peer) }));
  await admin.post('/admin/v1/replication/peers/there/check', { body: '{"bucket":"bucket"}' });
  await admin.put('/admin/v1/replication/peers/there', { body: JSON.stringify({ ...peer, region: 7 }) });
  const rotated = JSON.parse(await ok(admin.post('/admin/v1/buckets/bucket/signing-key/rotate')));
  secrets.set('signing key of a bucket', rotated.secret_access_key);
  await client.get('/bucket/copy');
  await ok(world.as({ credential: { ...alice, secretKey: rotated.secret_access_key } }).get('/bucket/copy'));
  await logInAndOut(world, secrets);
  await postForms(world, secrets);
  await admin.get('/metrics', { headers: { authorization: 'Bearer token-for-the-metrics' } });
  // Deliveries that fail.
  const stopping = new AbortController();
  const working = deliverNotifications(context)(stopping.signal);
  await expect.poll(() => sink.received.length, { timeout: 60_000 }).toBeGreaterThan(1);
  await expect
    .poll(() => lines.some((line) => line.includes('does not take an event')), { timeout: 60_000 })
    .toBe(true);
  stopping.abort();
  await working;

  // Spans for a collector that does not answer.
  const exporting = await nodeTracing(context.config, context.telemetry);
  const exportedRequest = { requestId: '0123456789ABCDEF', operation: 'GetObject' };
  exporting.tracer?.begin({ subject: exportedRequest, kind: 'server', describe: () => ({}) })?.end();
  await exporting.close();
  expect(lines.some((line) => line.includes('spans were not exported'))).toBe(true);

  expect(exported.length).toBeGreaterThan(20);
  expectNoSecret(await record.read(world), secrets);
});

test('every secret setting is masked in GET /settings and in the support bundle', async () => {
  const upstream = { id: 'default', bucket: 'bytes', secretKey: 'hidden-key-of-one-upstream' };
  const target = {
    id: 'hook',
    type: 'webhook',
    url: 'http://127.0.0.1:9',
    token: 'hidden-token-of-the-sink',
  };
  const given: Partial<Record<SettingName, string>> = {
    SVC_META_BACKEND: 'wide-column',
    SVC_WIDECOL_HOSTS: '127.0.0.1:9',
    SVC_WIDECOL_USERNAME: 'sluice',
    SVC_WIDECOL_PASSWORD: 'hidden-password-of-the-store',
    SVC_DATA_BACKEND: 'upstream-store',
    SVC_UPSTREAMS: JSON.stringify([upstream]),
    SVC_UPSTREAM_ENDPOINT: 'http://127.0.0.1:9',
    SVC_UPSTREAM_ACCESS_KEY: 'UPSTREAMKEY000000001',
    SVC_UPSTREAM_SECRET_KEY: 'hidden-key-of-the-upstream',
    SVC_CREDENTIALS: JSON.stringify([{ ...alice, secretKey: 'hidden-key-of-alice' }]),
    SVC_MASTER_KEY_FILE: '/dev/null',
    SVC_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    SVC_OTLP_HEADERS: 'authorization=hidden-token-of-the-collector',
    SVC_NOTIFY_TARGETS: JSON.stringify([target]),
    SVC_METRICS_TOKEN: 'hidden-token-of-the-metrics',
  };
  const secretSettings = Object.entries(settings).flatMap(([name, each]) => ('secret' in each ? [name] : []));
  expect(Object.keys(given)).toEqual(expect.arrayContaining(secretSettings));
  const config = configWith(given);
  await using world = await openGateway({ wrap: (context) => ({ ...context, config }) });
  const admin = world.as({ credential: operator });
  for (const path of ['settings', 'support-bundle']) {
    const { status, text } = await admin.get(`/admin/v1/${path}`);
    expect([status, text.includes('SVC_METRICS_TOKEN'), text.match(/hidden-[\w-]+/)]).toEqual([
      200,
      true,
      null,
    ]);
  }
});
