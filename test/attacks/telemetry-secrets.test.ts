/** Logs at DEBUG, traces, metrics and audit rows of many operations contain none of the secrets of the run, in any of their forms. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { KeyProvider } from '../../src/ports/crypto/key-provider.ts';
import { nodeTracing } from '../../src/runtime/processes/node-tracing.ts';
import { configureLog, createLog } from '../../src/telemetry/log.ts';
import { promMetrics } from '../../src/telemetry/prom-metrics.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { toOtlp } from '../../src/telemetry/tracing/otlp-json.ts';
import { deliverNotifications } from '../../src/workers/queues/notify.ts';
import { openActions } from '../support/actions.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { alice, bob, openGateway, operator } from '../support/gateway.ts';
import { allow, openUser, sessionOf } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';
import { signer } from '../support/sign.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

const customerKey = randomBytes(32);
const customer = (prefix = '*-server-side-encryption-customer') => ({
  [`${prefix}-algorithm`]: 'AES256',
  [`${prefix}-key`]: customerKey.toString('base64'),
  [`${prefix}-key-md5`]: createHash('md5').update(customerKey).digest('base64'),
});

/** The forms in which a text may be written. */
const formsOf = (secret: string | Uint8Array): readonly string[] => {
  const bytes = Buffer.from(secret as string);
  const text = typeof secret === 'string' ? secret : bytes.toString('latin1');
  return [
    text,
    ...(typeof secret === 'string' ? [encodeURIComponent(secret)] : []),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ];
};

/** Notes the keys that a provider returns. */
const tapKeys = (keys: KeyProvider, secrets: Map<string, string | Uint8Array>): KeyProvider => ({
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

test('no secret is in logs, traces, metrics or audit rows', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(503);
  const masterKey = randomBytes(32);
  const directory = await mkdtemp(join(tmpdir(), 'sluice-secrets-'));
  const masterKeyFile = join(directory, 'master.key');
  await writeFile(masterKeyFile, masterKey.toString('base64'), { mode: 0o600 });
  const secrets = new Map<string, string | Uint8Array>([
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
  const lines: string[] = [];
  configureLog({ level: 'DEBUG', write: (line) => lines.push(line) });
  const metrics = promMetrics({ version: '1', runtime: 'node', process: false });
  const { exported, tracer } = exportingTracer();
  const target = { id: 'hook', type: 'webhook', url: sink.url };
  await using world = await openGateway({
    telemetry: createTelemetry({ log: createLog(), metrics }),
    settings: {
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
    },
    wrap: ({ keys, sealer, ...context }) => ({
      ...context,
      tracer,
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
  await admin.get('/metrics', { headers: { authorization: 'Bearer token-for-the-metrics' } });
  // Deliveries that fail.
  const stopping = new AbortController();
  const working = deliverNotifications(context)(stopping.signal);
  await expect.poll(() => sink.received.length, { timeout: 20_000 }).toBeGreaterThan(1);
  await expect
    .poll(() => lines.some((line) => line.includes('takes no events')), { timeout: 20_000 })
    .toBe(true);
  stopping.abort();
  await working;

  // Spans for a collector that does not answer.
  const exporting = await nodeTracing(context.config, context.telemetry);
  const exportedRequest = { requestId: '0123456789ABCDEF', operation: 'GetObject' };
  exporting.tracer?.begin({ subject: exportedRequest, kind: 'server', describe: () => ({}) })?.end();
  await exporting.close();
  expect(lines.some((line) => line.includes('spans were not exported'))).toBe(true);

  const recorded = {
    settings: await ok(admin.get('/admin/v1/settings')),
    log: lines.join('\n'),
    traces: JSON.stringify(exported),
    otlp: toOtlp(exported, { resource: {}, systems: { metadata: 'lmdb', data: 'file', keys: 'local-hsm' } }),
    browser: JSON.stringify(tracer.list({ max: 500 }).map(({ requestId }) => tracer.find(requestId, 20))),
    metrics: await metrics.text(),
    audit: JSON.stringify(await auditRows(context)),
  };
  for (const [kind, text] of Object.entries(recorded)) expect(text.length, kind).toBeGreaterThan(500);
  expect(exported.length).toBeGreaterThan(20);
  for (const [name, secret] of secrets) {
    expect(secret.length, name).toBeGreaterThan(7);
    for (const form of formsOf(secret))
      for (const [kind, text] of Object.entries(recorded))
        expect(text.includes(form), `${name} is in ${kind} as ${form.slice(0, 12)}…`).toBe(false);
  }
}, 60_000);
