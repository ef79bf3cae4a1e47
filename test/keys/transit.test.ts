/** Keys of a real transit engine: signing keys and SSE-KMS by the front door, its logins, its faults, and how often it is asked. */
import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/ports/clock.ts';
import { provider } from '../support/encryption.ts';
import { expectNoSecret, recordEverything } from '../support/everything-recorded.ts';
import { exportingTracer } from '../support/exporting-tracer.ts';
import { alice, type GatewayWorld } from '../support/gateway.ts';
import { openKeyProxy } from '../support/key-proxy.ts';
import { holdsOneOfManyRotations, isBoundToItsBucket } from '../support/signing-key-laws.ts';
import {
  engine,
  frame,
  keysOf,
  makeKey,
  noTransit,
  openTransitWorld as open,
  refused,
  secretFile,
  server,
  startTransit,
} from '../support/transit-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

let running: AsyncDisposable | undefined;
beforeAll(async () => {
  if (noTransit === undefined) running = await startTransit();
});
afterAll(async () => running?.[Symbol.asyncDispose]());

describe.skipIf(noTransit !== undefined)('transit', () => {
  test('the first request after a cache miss costs one call, further ones none, for signing keys and SSE-KMS', async () => {
    const clock = virtualClock();
    const key = await makeKey({ derived: true });
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key, SVC_DEK_CACHE_TTL: '30s' }, { clock });
    const { proxy } = world;
    const secretKey = await world.rotate();
    const signing = world.as({ credential: { ...alice, secretKey } });
    const calls = async (run: () => Promise<{ readonly status: number }>) => {
      const before = proxy.seen.length;
      const answers = await Promise.all(Array.from({ length: 20 }, run));
      expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
      return proxy.seen.slice(before);
    };
    expect((await signing.put('/bucket/key', { body: 'text', headers: provider(key) })).status).toBe(200);
    await clock.advance(30_000);
    // One for the signing key of the bucket, one for the key of the object.
    const get = () => signing.get('/bucket/key');
    expect(await calls(get)).toEqual([1, 2].map(() => `POST /v1/transit/decrypt/${key}`));
    expect(await calls(get)).toEqual([]);
    await clock.advance(30_000);
    expect(await calls(() => signing.head('/bucket/key'))).toEqual([`POST /v1/transit/decrypt/${key}`]);
    expect((await get()).text).toBe('text');
  });

  test('each call of a traced request names its span in traceparent', async () => {
    const { wrap, causes } = exportingTracer();
    const key = await makeKey();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { wrap });
    const { proxy, client } = world;
    expect((await client.put('/bucket/key', { body: 'text', headers: provider() })).status).toBe(200);
    expect((await client.get('/bucket/key')).text).toBe('text');
    const named = (path: string) => proxy.causes.filter((_, n) => proxy.seen[n]?.endsWith(path));
    expect(named(`/encrypt/${key}`)).toEqual(causes('keys.generate'));
    expect(named(`/keys/${key}`)).toEqual(causes('keys.generate'));
    expect(named(`/decrypt/${key}`)).toEqual(causes('keys.unwrap'));
    expect([named(`/encrypt/${key}`).length, named(`/decrypt/${key}`).length]).toEqual([1, 1]);
    // A login serves many requests.
    expect(named('/login')).toEqual(['']);
  });

  test.each(['token', 'approle', 'kubernetes'])('logs in by %s', async (method) => {
    const key = await makeKey();
    await using world = await open({
      SVC_TRANSIT_AUTH: method,
      SVC_TRANSIT_TOKEN_FILE: await secretFile('root'),
      SVC_TRANSIT_ROLE: 'sluice',
      SVC_TRANSIT_JWT_FILE: await secretFile('jwt'),
      SVC_KMS_DEFAULT_KEY_ID: key,
    });
    expect((await world.client.put('/bucket/key', { body: 'text', headers: provider() })).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
  });

  test('uses the namespace of the settings', async () => {
    const key = await makeKey({}, 'team/a');
    await using world = await open({ SVC_TRANSIT_NAMESPACE: 'team/a', SVC_KMS_DEFAULT_KEY_ID: key });
    await using other = await open({ SVC_KMS_DEFAULT_KEY_ID: key });
    const put = ({ client }: GatewayWorld) => client.put('/bucket/key', { body: 'x', headers: provider() });
    expect((await put(world)).status).toBe(200);
    expect(refused(await put(other))).toEqual([400, 'KMS.NotFoundException']);
  });

  test('a login that is refused makes 503, and the next one that is accepted serves', async () => {
    const key = await makeKey();
    const file = await secretFile('wrong');
    await using world = await open({ SVC_TRANSIT_SECRET_ID_FILE: file, SVC_KMS_DEFAULT_KEY_ID: key });
    const put = () => world.client.put('/bucket/key', { body: 'x', headers: provider() });
    const answer = await put();
    expect([...refused(answer), answer.header('retry-after')]).toEqual([503, 'KMSUnavailable', '30']);
    expect((await world.client.put('/bucket/plain', { body: 'x' })).status).toBe(200);
    await writeFile(file, 'secret');
    expect((await put()).status).toBe(200);
    expect(JSON.stringify(world.logged)).not.toMatch(/wrong|secret\b/);
  });

  test('neither tokens nor secret ids are in logs, traces, metrics, audit rows or the support bundle', async () => {
    const record = recordEverything();
    const refusedId = 'a-secret-id-that-is-refused';
    const file = await secretFile(refusedId);
    const settings = { SVC_TRANSIT_SECRET_ID_FILE: file, SVC_KMS_DEFAULT_KEY_ID: await makeKey() };
    await using world = await open(settings, record);
    const put = async () => (await world.client.put('/bucket/k', { body: 'x', headers: provider() })).status;
    expect(await put()).toBe(503);
    await writeFile(file, 'secret');
    expect(await put()).toBe(200);
    await frame('revoke');
    expect(await put()).toBe(200);
    const tokens = new Set(world.proxy.tokens.filter((token) => token !== ''));
    expect(tokens.size).toBe(2);
    expectNoSecret(
      await record.read(world),
      new Map([
        ['refused secret id', refusedId],
        ...[...tokens].map((token, n) => [`token ${n}`, token] as const),
      ]),
    );
  });

  test('tokens are renewed before they end, and replaced when they cannot be', async () => {
    const key = await makeKey();
    try {
      await frame('life?seconds=1.5');
      await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key });
      const { proxy } = world;
      const until = async (text: string, times: number) => {
        while (proxy.count(text) < times) await systemClock.sleep(20);
      };
      await until('renew-self', 1);
      expect(proxy.count('login')).toBe(1);
      await frame('life?seconds=1.5&renewable=false');
      await frame('revoke');
      await until('login', 3);
      expect((await world.client.put('/bucket/k', { body: 'x', headers: provider() })).status).toBe(200);
    } finally {
      await frame('life?seconds=3600');
    }
  });

  test('a token that lives for years is renewed once a day', async () => {
    const key = await makeKey();
    const clock = virtualClock();
    try {
      await frame(`life?seconds=${3 * 365 * 86_400}`);
      await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { clock });
      expect((await world.client.put('/bucket/k', { body: 'x', headers: provider() })).status).toBe(200);
      for (const times of [1, 2]) {
        await clock.advance(23 * 3_600_000);
        expect(world.proxy.count('renew-self')).toBe(times - 1);
        await clock.advance(3_600_000);
        await vi.waitFor(() => expect(world.proxy.count('renew-self')).toBe(times), { timeout: 60_000 });
        const waits = () => clock.slept.filter((ms) => ms === 24 * 3_600_000).length;
        await vi.waitFor(() => expect(waits()).toBe(times + 1), { timeout: 60_000 });
      }
      expect(world.proxy.count('login')).toBe(1);
    } finally {
      await frame('life?seconds=3600');
    }
  });

  test('a token that is revoked in mid-flight is replaced, and the request is served', async () => {
    const key = await makeKey();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key });
    await world.client.put('/bucket/key', { body: 'text', headers: provider() });
    await frame('revoke');
    const all = await Promise.all(Array.from({ length: 10 }, () => world.client.get('/bucket/key')));
    expect(all.map(({ text }) => text)).toEqual(Array(10).fill('text'));
    expect(world.proxy.count('login')).toBe(2);
  });

  test('rotated keys decrypt what their former versions wrapped, until min_decryption_version refuses it', async () => {
    const key = await makeKey();
    const clock = virtualClock();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { clock });
    const put = (at: string) => world.client.put(at, { body: 'text', headers: provider() });
    await put('/bucket/old');
    await engine(`keys/${key}/rotate`, {});
    await put('/bucket/new');
    const get = async (at: string) => {
      await clock.advance(3_600_000);
      return world.client.get(at);
    };
    expect((await get('/bucket/old')).text).toBe('text');
    await engine(`keys/${key}/config`, { min_decryption_version: 2 });
    expect(refused(await get('/bucket/old'))).toEqual([401, 'KeyDenied']);
    expect((await get('/bucket/new')).text).toBe('text');
  });

  test('a key that is gone, that another one replaced, or that may not be used refuses the request', async () => {
    const key = await makeKey();
    const clock = virtualClock();
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key }, { clock });
    const secretKey = await world.rotate();
    const signing = world.as({ credential: { ...alice, secretKey } });
    const put = (keyId: string) => signing.put('/bucket/key', { body: 'x', headers: provider(keyId) });
    expect((await put(key)).status).toBe(200);
    await engine('keys/forbidden-key', {});
    await world.client.put('/plain');
    for (const [name, ...outcome] of [
      ['forbidden-key', 401, 'KeyDenied'],
      ['absent', 400, 'KMS.NotFoundException'],
      ['alias/none', 400, 'KMS.NotFoundException'],
      ['../../sys/raw', 400, 'KMS.NotFoundException'],
    ] as const) {
      const answer = await world.client.put('/plain/key', { body: 'x', headers: provider(name) });
      expect([name, ...refused(answer)]).toEqual([name, ...outcome]);
    }
    await engine(`keys/${key}/config`, { deletion_allowed: true });
    await fetch(`http://127.0.0.1:${server.port}/v1/transit/keys/${key}`, {
      method: 'DELETE',
      headers: { 'x-vault-token': 'root' },
    });
    await clock.advance(3_600_000);
    expect(refused(await signing.get('/bucket/key'))).toEqual([401, 'KeyDenied']);
    await engine(`keys/${key}`, {});
    await clock.advance(3_600_000);
    expect(refused(await signing.get('/bucket/key'))).toEqual([401, 'KeyTampered']);
  });

  test.each([
    ['hang', 'hang'],
    ['garbage', 'garbage'],
    ['an answer that is cut off', 'cut'],
    ['an answer without end', 'long'],
    ['500', { status: 500 }],
    ['503 of a sealed server', { status: 503, body: '{"errors":["Vault is sealed"]}' }],
    ['a redirect', { status: 307, headers: { location: 'http://127.0.0.1:1/' } }],
    ['JSON of another shape', { status: 200, body: '{"data":{"plaintext":7}}' }],
  ] as const)(
    '%s makes 503 with Retry-After; what needs no key is served, and readiness shows the component',
    async (_, fault) => {
      const key = await makeKey();
      await using world = await open({
        SVC_KMS_DEFAULT_KEY_ID: key,
        // Long enough for what must succeed, on a busy machine.
        SVC_KEY_TIMEOUT: fault === 'hang' ? '1s' : '5s',
        SVC_DEK_CACHE_TTL: '30s',
      });
      const { client, proxy } = world;
      for (const at of ['/bucket/key', '/bucket/later'])
        expect((await client.put(at, { body: 'text', headers: provider() })).status).toBe(200);
      Object.assign(proxy, { fault, on: '/' });
      const before = proxy.count('decrypt');
      const answer = await client.get('/bucket/key');
      expect([...refused(answer), answer.header('retry-after')]).toEqual([503, 'KMSUnavailable', '30']);
      expect(proxy.count('decrypt') - before).toBeLessThanOrEqual(3);
      expect((await client.put('/bucket/plain', { body: 'plain' })).status).toBe(200);
      expect((await client.get('/bucket/plain')).text).toBe('plain');
      expect(await keysOf(world)).toEqual([200, 'failed']);
      proxy.fault = undefined;
      // A failure is remembered for a second, by wrapped key.
      expect((await client.get('/bucket/later')).text).toBe('text');
      await vi.waitFor(async () => expect(await keysOf(world)).toEqual([200, 'ok']), { timeout: 60_000 });
    },
  );

  test('a gateway starts while the engine is down, and serves keys once it is up', async () => {
    const key = await makeKey();
    const proxy = await openKeyProxy(server.port);
    Object.assign(proxy, { fault: { status: 503 } });
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: key, SVC_TRANSIT_ADDR: proxy.url });
    const put = () => world.client.put('/bucket/key', { body: 'text', headers: provider() });
    expect(refused(await put())).toEqual([503, 'KMSUnavailable']);
    expect((await world.client.put('/bucket/plain', { body: 'x' })).status).toBe(200);
    proxy.fault = undefined;
    expect((await put()).status).toBe(200);
    await proxy[Symbol.asyncDispose]();
  });

  test('an address that SVC_EGRESS_ALLOW does not contain is not connected to', async () => {
    await using world = await open({ SVC_EGRESS_ALLOW: '' });
    const answer = await world.client.put('/bucket/key', { body: 'x', headers: provider('absent') });
    expect(refused(answer)).toEqual([503, 'KMSUnavailable']);
    expect(world.proxy.seen).toEqual([]);
    expect(
      world.logged.map((line) => String((line as { 2?: { cause?: unknown } })[2]?.cause)).join(),
    ).toMatch(/SVC_EGRESS_ALLOW does not contain it/);
  });

  test('a signing key is bound to its bucket, also under a key that is not derived', async () => {
    for (const derived of [false, true]) {
      await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: await makeKey({ derived }) });
      await isBoundToItsBucket(world);
    }
  });

  test('of rotations at once one is answered, and its secret holds', async () => {
    await using world = await open({ SVC_KMS_DEFAULT_KEY_ID: await makeKey() });
    await holdsOneOfManyRotations(world);
  });
});
