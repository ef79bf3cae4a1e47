/** Accounts share the calls that a key provider takes: one that names keys in vain, or asks too much, does not take it from the others. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { failuresMax, openMs } from '../../src/backends/keys/steady-provider.ts';
import { refusedMax, refusedMs, windowMs } from '../../src/domain/content/named-keys.ts';
import { createMetricRegistry } from '../../src/telemetry/metric-registry.ts';
import { provider } from '../support/encryption.ts';
import { type GatewayWorld, operator } from '../support/gateway.ts';
import { kmsFile, openKmsWorld, outcomeOf, served, unavailable } from '../support/kms-world.ts';
import { makeKey, noTransit, openTransitWorld, startTransit } from '../support/transit-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const measured = () => ({
  ...createMetricRegistry({ version: '1', runtime: 'test' }),
  log: () => {},
});

/** The lines about the key provider in `/metrics`, and what the operator API shows of it. */
const metricsOf = async (world: GatewayWorld) =>
  (await world.as({ credential: operator }).get('/metrics')).text.match(/^svc_k(ey_c|ms_d).*$/gm) ?? [];
const shownOf = async (world: GatewayWorld) =>
  JSON.parse((await world.as({ credential: operator }).get('/admin/v1/keys/provider')).text);

const slowDown = [503, 'SlowDown'];
const notFound = [400, 'KMS.NotFoundException'];
const times = <T>(count: number, run: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => run(index)));

describe('names of keys that a provider refuses', () => {
  test('cost one call each for a while, and an account that tries many is refused, without harm to others', async () => {
    const clock = virtualClock(Date.now());
    await using world = await openKmsWorld({}, { clock });
    const { proxy } = world.double;
    const described = () => proxy.count('DescribeKey');
    expect(await world.put('/bucket/known', world.own)).toEqual(served);
    await world.bob.put('/of-bob');

    const before = described();
    expect(await times(50, () => world.put('/bucket/a', 'alias/none'))).toEqual(Array(50).fill(notFound));
    expect(described() - before).toBe(1);
    const many = await times(100, (index) => world.put('/bucket/a', `alias/none-${index}`));
    expect(many.filter(([, code]) => code === 'KMS.NotFoundException')).toHaveLength(refusedMax - 1);
    expect(many.filter(([, code]) => code === 'SlowDown')).toHaveLength(100 - refusedMax + 1);
    expect(described() - before).toBe(refusedMax);

    // A name that is known serves; another one has to wait, also as the default of a bucket.
    expect(await world.put('/bucket/known', world.own)).toEqual(served);
    expect(await world.put('/bucket/a', 'alias/own')).toEqual(slowDown);
    const rule = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>
      <KMSMasterKeyID>alias/other</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`;
    expect(outcomeOf(await world.client.put('/bucket?encryption', { body: rule }))).toEqual(slowDown);
    const bob = await world.bob.put('/of-bob/key', { body: 'x', headers: provider('alias/own') });
    expect(outcomeOf(bob)).toEqual(served);
    expect((await world.client.get('/bucket/known')).text).toBe('text');
    expect(outcomeOf(await world.client.put('/bucket/plain', { body: 'x' }))).toEqual(served);

    await clock.advance(windowMs);
    expect(await world.put('/bucket/a', 'alias/own')).toEqual(served);
    expect(await world.put('/bucket/a', 'alias/none')).toEqual(notFound);
    // Bob's name, and these two.
    expect(described() - before).toBe(refusedMax + 3);
  });

  test('an anonymous caller spends no calls of an account, and names without end are bounded too', async () => {
    const clock = virtualClock(Date.now());
    await using world = await openKmsWorld({}, { clock });
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: '*', Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' },
      ],
    });
    expect((await world.client.put('/bucket?policy', { body: policy })).status).toBe(204);
    const before = world.double.proxy.count('DescribeKey');
    await times(60, (index) =>
      world.anonymous.put('/bucket/a', { body: 'x', headers: provider(`alias/none-${index}`) }),
    );
    expect(world.double.proxy.count('DescribeKey') - before).toBe(refusedMax);
    expect(await world.put('/bucket/a', 'alias/own')).toEqual(served);
    const long = await world.put('/bucket/a', 'x'.repeat(3_000));
    expect(long[0]).toBe(400);
  });

  test('a key that is made after its name was refused is used once the refusal is forgotten', async () => {
    const clock = virtualClock(Date.now());
    await using world = await openKmsWorld({ SVC_KMS_DEFAULT_KEY_ID: 'alias/late' }, { clock });
    expect(await world.put('/bucket/key')).toEqual(notFound);
    world.double.makeKey('alias/late');
    expect(await world.put('/bucket/key')).toEqual(notFound);
    await clock.advance(refusedMs);
    expect(await world.put('/bucket/key')).toEqual(served);
  });
});

describe('names of keys that exist', () => {
  test('are served however many an account names at once', async () => {
    await using world = await openKmsWorld();
    const count = 3 * refusedMax;
    for (let index = 0; index < count; index += 1) world.double.makeKey(`alias/many-${index}`);
    const put = (index: number) => world.put(`/bucket/${index}`, `alias/many-${index}`);
    // They exist, and the settings give them to nobody.
    expect(await times(count, put)).toEqual(Array(count).fill([403, 'AccessDenied']));
    expect(world.double.proxy.count('DescribeKey')).toBeGreaterThanOrEqual(count);
  });

  // The policy of a key may allow it by the encryption context, which differs between buckets.
  test.each(['before', 'beside'])(
    'serve one caller although another was denied their use %s',
    async (when) => {
      await using world = await openKmsWorld();
      const { proxy } = world.double;
      await world.bob.put('/of-bob');
      const byBob = () => world.bob.put('/of-bob/key', { body: 'x', headers: provider(world.own) });
      Object.assign(proxy, {
        fault: { status: 400, body: '{"__type":"AccessDeniedException","message":"no"}' },
        on: 'GenerateDataKey',
      });
      const denied = byBob();
      if (when === 'before') expect(outcomeOf(await denied)).toEqual([401, 'KeyDenied']);
      else await expect.poll(() => proxy.count('GenerateDataKey')).toBe(1);
      proxy.fault = undefined;
      expect(await world.put('/bucket/key', world.own)).toEqual(served);
      expect(outcomeOf(await denied)).toEqual([401, 'KeyDenied']);
    },
  );
});

describe('a provider that answers', () => {
  test('and throttles one call stays open for the others; throttling has numbers of its own', async () => {
    await using world = await openKmsWorld({}, { telemetry: measured() });
    const { proxy } = world.double;
    expect(await world.put('/bucket/key', world.own)).toEqual(served);
    Object.assign(proxy, {
      fault: { status: 400, body: '{"__type":"ThrottlingException","message":"Rate exceeded"}' },
      on: 'GenerateDataKey',
    });
    for (let i = 0; i < 3 * failuresMax; i += 1)
      expect(await world.put('/bucket/other', world.own)).toEqual(unavailable);
    expect(await world.get('/bucket/key')).toEqual(served);
    expect(await shownOf(world)).toEqual({
      provider: 'cloud-kms',
      state: 'ok',
      circuit: 'closed',
      failures: 0,
    });
    const metrics = await metricsOf(world);
    expect(metrics).toContain('svc_key_circuit_open{provider="cloud-kms"} 0');
    expect(metrics).toContain(
      `svc_key_calls_total{provider="cloud-kms",call="generate",outcome="throttled"} ${3 * failuresMax}`,
    );
    // Known outcomes are exported at 0.
    expect(metrics.filter((line) => !line.endsWith(' 0')).join()).not.toContain('unavailable');
  });

  test.each([
    ['KeyUnavailableException', 500, unavailable],
    ['CustomKeyStoreInvalidStateException', 400, unavailable],
    ['UnsupportedOperationException', 400, [401, 'KeyDenied']],
  ] as const)('%s is about one key: another key serves at once', async (code, status, expected) => {
    await using world = await openKmsWorld();
    const { proxy } = world.double;
    const fault = { status, body: JSON.stringify({ __type: code }) };
    for (let i = 0; i < 2 * failuresMax; i += 1) {
      Object.assign(proxy, { fault, on: 'GenerateDataKey' });
      expect(await world.put(`/bucket/${i}`, world.own)).toEqual(expected);
    }
    proxy.fault = undefined;
    expect(await world.put('/bucket/other', 'alias/main')).toEqual(served);
    expect((await shownOf(world)).failures).toBe(0);
  });

  test('a 400 without an error code, and refused credentials, are failures', async () => {
    await using world = await openKmsWorld({ SVC_KMS_SECRET_KEY_FILE: await kmsFile('wrong') });
    for (let i = 0; i < failuresMax; i += 1)
      expect(await world.put('/bucket/key', world.own)).toEqual(unavailable);
    expect(await shownOf(world)).toMatchObject({
      state: 'failed',
      circuit: 'open',
      lastFailure: { reason: expect.stringContaining('SVC_KMS_CREDENTIALS') },
    });
  });
});

describe.skipIf(noTransit !== undefined)('a transit engine', () => {
  let running: AsyncDisposable | undefined;
  beforeAll(async () => {
    running = await startTransit();
  });
  afterAll(async () => running?.[Symbol.asyncDispose]());

  test('that refuses a use of a key is not away: 401 KeyDenied, and other keys serve', async () => {
    const [key, signs] = [await makeKey(), await makeKey({ type: 'ed25519' })];
    await using world = await openTransitWorld({
      SVC_KMS_DEFAULT_KEY_ID: key,
      SVC_KEY_ACCOUNTS: JSON.stringify({ [signs]: ['*'] }),
    });
    const put = async (keyId: string) =>
      outcomeOf(await world.client.put('/bucket/key', { body: 'x', headers: provider(keyId) }));
    for (let i = 0; i < 2 * failuresMax; i += 1) expect(await put(signs)).toEqual([401, 'KeyDenied']);
    expect(await put(key)).toEqual(served);
    expect(await shownOf(world)).toMatchObject({ circuit: 'closed', failures: 0 });
    const rotated = await world
      .as({ credential: operator })
      .post('/admin/v1/buckets/bucket/signing-key/rotate', { body: JSON.stringify({ key_id: signs }) });
    expect([rotated.status, JSON.parse(rotated.text).code]).toEqual([401, 'KeyDenied']);
  });

  test('that limits the rate, and one that is down: only the second opens the circuit, and both are seen', async () => {
    const clock = virtualClock();
    const key = await makeKey();
    await using world = await openTransitWorld(
      { SVC_KMS_DEFAULT_KEY_ID: key },
      { clock, telemetry: measured() },
    );
    const put = async (at = '/bucket/key') =>
      outcomeOf(await world.client.put(at, { body: 'text', headers: provider() }));
    expect(await put()).toEqual(served);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    Object.assign(world.proxy, {
      fault: { status: 429, body: '{"errors":["rate limit quota exceeded"]}' },
      on: '/',
    });
    for (let i = 0; i < 2 * failuresMax; i += 1) expect(await put()).toEqual(unavailable);
    expect(await shownOf(world)).toMatchObject({ state: 'failed', circuit: 'closed', failures: 0 });
    Object.assign(world.proxy, { fault: { status: 500 } });
    const before = world.proxy.count('encrypt');
    // The names of keys are looked up here, which is no answer of the engine.
    for (let i = 0; i < 3 * failuresMax; i += 1) expect(await put()).toEqual(unavailable);
    expect(world.proxy.count('encrypt') - before).toBe(failuresMax);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    expect(await shownOf(world)).toEqual({
      provider: 'transit',
      state: 'failed',
      problem: expect.stringContaining('in a row'),
      circuit: 'open',
      failures: failuresMax,
      lastFailure: { at: expect.any(Number), reason: expect.stringContaining('500') },
    });
    const metrics = await metricsOf(world);
    expect(metrics).toContain('svc_key_circuit_open{provider="transit"} 1');
    expect(metrics).toContain('svc_key_circuit_opened_total{provider="transit"} 1');
    expect(metrics.join('\n')).toMatch(/call="generate",outcome="refused"} 10\n/);
    world.proxy.fault = undefined;
    await clock.advance(openMs);
    expect(await put('/bucket/later')).toEqual(served);
    expect(await metricsOf(world)).toContain('svc_key_circuit_open{provider="transit"} 0');
  });
});

test('without a key provider the operator API says so', async () => {
  await using world = await openKmsWorld({}, { wrap: ({ keys: _, ...context }) => context });
  expect(await shownOf(world)).toEqual({ provider: 'none' });
});
