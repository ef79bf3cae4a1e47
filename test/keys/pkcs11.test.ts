/** Keys of a real SoftHSM: wrapping in its tokens, versions, several tokens, wrong PINs, and a token that is removed and comes back. */
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pinFlags } from '../../src/backends/keys/cryptoki.ts';
import type { SettingName } from '../../src/config.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { rewrapKeys } from '../../src/workers/rewrap.ts';
import { provider } from '../support/encryption.ts';
import { missingEngine } from '../support/engines/wanted.ts';
import { expectNoSecret, recordEverything } from '../support/everything-recorded.ts';
import { alice, type GatewayWorldOptions, openGateway, operator } from '../support/gateway.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';
import { holdsOneOfManyRotations, isBoundToItsBucket } from '../support/signing-key-laws.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const modulePath = '/usr/lib/softhsm/libsofthsm2.so';
const hasTool = spawnSync('pkcs11-tool', ['--help']).error === undefined;
const missing = missingEngine(
  existsSync(modulePath) && hasTool,
  'needs engines/keys/softhsm/install.sh to have run',
);

const pin = '8305614729';
const wrongPin = '9126405837';
let home: string;
const initToken = (label: string): void => {
  const pins = ['--pin', pin, '--so-pin', '5678'];
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', label, ...pins]);
};
beforeAll(async () => {
  if (missing !== undefined) return;
  home = await mkdtemp(join(tmpdir(), 'sluice-softhsm-'));
  await mkdir(join(home, 'tokens'));
  const conf = join(home, 'softhsm2.conf');
  await writeFile(
    conf,
    `directories.tokendir = ${home}/tokens\nobjectstore.backend = file\nlog.level = ERROR\n`,
  );
  // The module reads it when it is loaded.
  process.env['SOFTHSM2_CONF'] = conf;
  for (const label of ['first', 'second']) initToken(label);
});
afterAll(async () => {
  if (missing === undefined) await rm(home, { recursive: true });
});

/** Makes a key in a token, or a further version of one. */
const makeKey = (label: string, { id = '01', token = 'first', type = 'AES:32' } = {}): string => {
  const args = ['--module', modulePath, '--token-label', token, '--login', '--pin', pin];
  execFileSync('pkcs11-tool', [...args, '--keygen', '--key-type', type, '--label', label, '--id', id], {
    stdio: 'pipe',
  });
  return label;
};
const deleteKey = (label: string, token = 'first'): void => {
  const args = ['--module', modulePath, '--token-label', token, '--login', '--pin', pin];
  execFileSync('pkcs11-tool', [...args, '--delete-object', '--type', 'secrkey', '--label', label], {
    stdio: 'pipe',
  });
};
const drawLabel = (): string => `k${randomBytes(6).toString('hex')}`;

async function open(
  key: string,
  settings: Partial<Record<SettingName, string>> = {},
  options: GatewayWorldOptions = {},
) {
  const pinFile = join(home, randomBytes(4).toString('hex'));
  await writeFile(pinFile, `${pin}\n`, { mode: 0o600 });
  const world = await openGateway({
    ...options,
    settings: {
      SVC_KEY_PROVIDER: 'pkcs11',
      SVC_PKCS11_MODULE: modulePath,
      SVC_PKCS11_TOKENS: 'first,second',
      SVC_PKCS11_PIN_FILE: pinFile,
      SVC_KMS_DEFAULT_KEY_ID: key,
      ...settings,
    },
  });
  await world.client.put('/bucket');
  const outcome = ({ status, code }: { status: number; code: string | undefined }) => [status, code];
  return Object.assign(world, {
    pinFile,
    async rotate() {
      const answer = await world
        .as({ credential: operator })
        .post('/admin/v1/buckets/bucket/signing-key/rotate');
      return JSON.parse(answer.text).secret_access_key as string;
    },
    put: async (at: string, keyId?: string) =>
      outcome(await world.client.put(at, { body: 'text', headers: provider(keyId) })),
    get: async (at: string) => outcome(await world.client.get(at)),
  });
}

const served = [200, ''];
const unavailable = [503, 'KMSUnavailable'];
describe.skipIf(missing !== undefined)('pkcs11', () => {
  test('signing keys and SSE-KMS use keys that never leave the token', async () => {
    const key = makeKey(drawLabel());
    await using world = await open(key);
    expect(await world.put('/bucket/key')).toEqual(served);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    const signing = world.as({ credential: { ...alice, secretKey: await world.rotate() } });
    const all = await Promise.all(Array.from({ length: 20 }, () => signing.get('/bucket/key')));
    expect(all.every(({ text }) => text === 'text')).toBe(true);
  });

  test('a key is found in the second token, and an unknown one is refused', async () => {
    const key = makeKey(drawLabel(), { token: 'second' });
    await using world = await open(key);
    expect(await world.put('/bucket/key')).toEqual(served);
    expect((await world.client.get('/bucket/key')).text).toBe('text');
    await using other = await open(drawLabel());
    expect(await other.put('/bucket/key')).toEqual([400, 'KMS.NotFoundException']);
  });

  test('a key of another kind is refused, and the token goes on serving', async () => {
    const key = makeKey(drawLabel());
    const other = makeKey(drawLabel(), { type: 'GENERIC:32' });
    await using world = await open(key, { SVC_KEY_ACCOUNTS: JSON.stringify({ [other]: ['*'] }) });
    for (let i = 0; i < 6; i += 1) expect(await world.put('/bucket/key', other)).toEqual([401, 'KeyDenied']);
    expect(await world.put('/bucket/key')).toEqual(served);
    const shown = await world.as({ credential: operator }).get('/admin/v1/keys/provider');
    expect(JSON.parse(shown.text)).toEqual({
      provider: 'pkcs11',
      state: 'ok',
      circuit: 'closed',
      failures: 0,
    });
  });

  test('a signing key is bound to its bucket, and of rotations at once one holds', async () => {
    await using world = await open(makeKey(drawLabel()));
    await holdsOneOfManyRotations(world);
    await isBoundToItsBucket(world);
  });

  test('a gateway starts without its token, and serves keys once it is there', async () => {
    const key = drawLabel();
    await using world = await open(key, { SVC_PKCS11_TOKENS: 'late' });
    expect(await world.put('/bucket/key')).toEqual(unavailable);
    expect((await world.client.put('/bucket/plain', { body: 'x' })).status).toBe(200);
    initToken('late');
    makeKey(key, { token: 'late' });
    await expect.poll(() => world.put('/bucket/key'), { timeout: 60_000, interval: 200 }).toEqual(served);
  });

  test('a key that is gone, or that another one replaced, refuses the requests', async () => {
    const key = makeKey(drawLabel());
    const clock = virtualClock(Date.now());
    await using world = await open(key, {}, { clock });
    expect(await world.put('/bucket/key')).toEqual(served);
    const secretKey = await world.rotate();
    const signing = world.as({ credential: { ...alice, secretKey } });
    expect((await signing.get('/bucket/key')).text).toBe('text');
    deleteKey(key);
    await clock.advance(3_600_000);
    const gone = await signing.get('/bucket/key');
    expect([gone.status, gone.code]).toEqual([401, 'KeyDenied']);
    makeKey(key);
    await clock.advance(3_600_000);
    const replaced = await signing.get('/bucket/key');
    expect([replaced.status, replaced.code]).toEqual([401, 'KeyTampered']);
  });

  test('the version with the highest id wraps, and stored keys are wrapped again under it', async () => {
    const key = makeKey(drawLabel());
    await using former = await open(key);
    expect(await former.put('/bucket/key')).toEqual(served);
    makeKey(key, { id: '0a' });
    makeKey(key, { id: '02' });
    const { keys } = former.context;
    const context = { purpose: 'test' };
    // Another gateway has no handles from before.
    await using world = await open(key);
    const drawn = await world.context.keys?.generate(key, context);
    expect([...(drawn?.wrapped.subarray(0, 3) ?? [])]).toEqual([1, 1, 0x0a]);
    expect(await keys?.unwrap(drawn as never, { purpose: 'another' }).catch(({ reason }) => reason)).toBe(
      'unknown-key',
    );
    const { unwrap } = world.context.keys as NonNullable<typeof keys>;
    expect(await unwrap(drawn as never, { purpose: 'another' }).catch(({ reason }) => reason)).toBe(
      'tampered',
    );
    expect(await unwrap(drawn as never, context)).toEqual(drawn?.key);
    expect(await world.context.keys?.rewrap?.(drawn as never, context)).toBeUndefined();

    const admin = former.as({ credential: operator });
    await admin.post('/admin/v1/keys/rewrap');
    const walk = { ...former.context, keys: world.context.keys as NonNullable<typeof keys> };
    while ((await rewrapKeys(walk)(new AbortController().signal)) === 'busy');
    expect(JSON.parse((await admin.get('/admin/v1/keys/rewrap')).text)).toMatchObject({
      objects: 1,
      failed: 0,
    });
  });

  test('a wrong PIN is tried once, so that the token is not locked, and no record contains a PIN', async () => {
    const record = recordEverything();
    const key = makeKey(drawLabel());
    await using world = await open(key, { SVC_PKCS11_TOKENS: 'first' }, record);
    // All sessions of a process share a log-in: only a module that was just initialized asks for the PIN.
    const { openModule } = await import('../../src/backends/keys/pkcs11-token.ts');
    await (await openModule(modulePath)).reset(systemClock);
    await writeFile(world.pinFile, wrongPin);
    // Fewer failures than open the circuit.
    for (let i = 0; i < 4; i += 1) expect(await world.put(`/bucket/${i}`)).toEqual(unavailable);
    const module = await openModule(modulePath);
    const isLow = () =>
      module.run(async (cryptoki) => {
        const flags = await cryptoki.tokenFlags((await cryptoki.findSlot('first')) as bigint);
        return (flags & pinFlags.countLow) !== 0n;
      });
    expect(await isLow()).toBe(true);
    await writeFile(world.pinFile, pin);
    expect(await world.put('/bucket/key')).toEqual(served);
    expect(await isLow()).toBe(false);
    const pins = new Map([
      ['PIN', pin],
      ['wrong PIN', wrongPin],
    ]);
    expectNoSecret(await record.read(world), pins);
  });

  test('while the token is removed requests are refused, and served once it is there again', async () => {
    const key = makeKey(drawLabel());
    await using world = await open(key);
    expect(await world.put('/bucket/key')).toEqual(served);
    await rename(join(home, 'tokens'), join(home, 'away'));
    await mkdir(join(home, 'tokens'));
    expect(await world.put('/bucket/other')).toEqual(unavailable);
    expect(await world.get('/bucket/key')).toEqual(unavailable);
    expect((await world.client.put('/bucket/plain', { body: 'x' })).status).toBe(200);
    await rm(join(home, 'tokens'), { recursive: true });
    await rename(join(home, 'away'), join(home, 'tokens'));
    const until = Date.now() + 60_000;
    while ((await world.put('/bucket/other'))[0] !== 200 && Date.now() < until) await systemClock.sleep(200);
    expect(await world.put('/bucket/other')).toEqual(served);
    expect(await world.get('/bucket/key')).toEqual(served);
  });

  test('a module that exports its list of functions alone serves; one that hangs costs the requests that need it their time-out, then nothing, and does not keep the process from its end', async () => {
    const hanging = join(home, 'hanging.so');
    const source = new URL('../../engines/keys/softhsm/hanging-module.c', import.meta.url).pathname;
    execFileSync('gcc', ['-shared', '-fPIC', `-DSOFTHSM="${modulePath}"`, '-o', hanging, source, '-ldl']);
    const pinFile = join(home, 'pin-of-hanging');
    await writeFile(pinFile, pin, { mode: 0o600 });
    const switchFile = join(home, 'hang');
    const server = await startServer({
      env: {
        SVC_PROCESSES: '1',
        SVC_KEY_PROVIDER: 'pkcs11',
        SVC_PKCS11_MODULE: hanging,
        SVC_PKCS11_TOKENS: 'first',
        SVC_PKCS11_PIN_FILE: pinFile,
        SVC_PKCS11_SESSIONS: '2',
        SVC_KMS_DEFAULT_KEY_ID: makeKey(drawLabel()),
        SVC_KEY_TIMEOUT: '10s',
        SOFTHSM2_CONF: process.env['SOFTHSM2_CONF'] ?? '',
        HANGING_MODULE: switchFile,
      },
    });
    const client = loadClient(server.url, server.credentials.root);
    const put = async (key: string, headers: Record<string, string> = {}) => {
      const from = performance.now();
      const { status } = await client.send({
        method: 'PUT',
        path: pathOf('bucket', key),
        headers,
        body: Buffer.from('x'),
      });
      return { status, ms: performance.now() - from };
    };
    const encrypted = { 'x-amz-server-side-encryption': 'aws:kms' };
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    expect((await put('before', encrypted)).status).toBe(200);
    await writeFile(switchFile, '');
    const first = await Promise.all([put('1', encrypted), put('2', encrypted), put('plain')]);
    expect(first.map(({ status }) => status)).toEqual([503, 503, 200]);
    // Both sessions hang: nothing waits for one.
    const later = await put('3', encrypted);
    expect(later.status).toBe(503);
    expect(later.ms).toBeLessThan(8_000);
    expect((await put('plain')).status).toBe(200);
    client.close();
    const ended = once(server.process, 'exit');
    server.process.kill('SIGTERM');
    await ended;
    expect(server.log()).toContain('a call of the key provider never returned');
    await server.stop();
  });
});
