/** What SoftHSM never does: a token before its last PIN, slow log-ins, and an initialization while calls begin. */
import { expect, test, vi } from 'vitest';
import { type Cryptoki, codes, Pkcs11Error, pinFlags } from '../../../src/backends/keys/cryptoki.ts';
import { pkcs11 } from '../../../src/backends/keys/pkcs11.ts';
import { SecurityModule, Token } from '../../../src/backends/keys/pkcs11-token.ts';
import { systemRandom } from '../../../src/ports/random.ts';
import { virtualClock } from '../../support/virtual-clock.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function open() {
  const clock = virtualClock();
  const state = {
    flags: 0n,
    logins: 0,
    running: 0,
    isLoggedIn: false,
    isInitialized: true,
    login: codes.ok as number,
    encrypt: codes.ok as number,
    decrypt: [] as number[],
  };
  const sealed = new Uint8Array(48);
  const answer = (call: string, code: number): void => {
    if (code !== codes.ok) throw new Pkcs11Error(call, code);
  };
  const cryptoki: Cryptoki = {
    async initialize() {
      await turn();
      state.isInitialized = true;
    },
    async finalize() {
      expect(state.running).toBe(0);
      Object.assign(state, { isLoggedIn: false, isInitialized: false });
      await turn();
    },
    findSlot: async () => 7n,
    tokenFlags: async () => state.flags,
    openSession: async () => 1n,
    closeSession: async () => undefined,
    isLoggedIn: async () => state.isLoggedIn,
    async login() {
      state.logins += 1;
      await turn();
      answer('C_Login', state.login);
      state.isLoggedIn = true;
    },
    findKeys: async () => [{ handle: 1n, id: new Uint8Array([1]) }],
    async encrypt() {
      await turn();
      answer('C_Encrypt', state.encrypt);
      return sealed;
    },
    async decrypt() {
      await turn();
      answer('C_Decrypt', state.decrypt.shift() ?? codes.ok);
      return new Uint8Array(32);
    },
  };
  const module = new SecurityModule(cryptoki);
  const options = { module, sessions: 4, timeoutMs: 5_000, clock, readPin: async () => '1234' };
  const token = new Token({ ...options, label: 'token' });
  const use = (): Promise<unknown> =>
    token.use(async () => 'used').catch((cause: unknown) => (cause as Error).message);
  const users = {} as Parameters<typeof pkcs11>[0]['users'];
  const keys = pkcs11({ ...options, tokens: ['token'], random: systemRandom(), users });
  return { clock, state, module, token, use, keys };
}

test.each([
  ['one more wrong PIN locks token token', pinFlags.finalTry],
  ['the PIN of token token is locked', pinFlags.locked],
])('a log-in is not tried where %s', async (message, flags) => {
  const { state, use, clock } = open();
  state.flags = flags | pinFlags.countLow;
  expect(await use()).toContain(message);
  expect(state.logins).toBe(0);
  // Once the operator has mended it, the same PIN serves.
  state.flags = pinFlags.countLow;
  await clock.advance(2_000);
  expect(await use()).toBe('used');
});

test('a process that has logged in goes on while others use up the tries', async () => {
  const { state, token, use } = open();
  expect(await use()).toBe('used');
  state.flags = pinFlags.finalTry;
  // Two at once need two sessions.
  expect(await Promise.all([token.use(turn), use()])).toEqual([undefined, 'used']);
  expect(state.logins).toBe(1);
});

test.each([codes.pinIncorrect, codes.pinInvalid, codes.pinLength])(
  'requests at the same moment try a wrong PIN once (CKR %i)',
  async (code) => {
    const { state, use } = open();
    state.login = code;
    for (const said of await Promise.all([use(), use(), use(), use()]))
      expect(said).toContain('refused the PIN');
    expect(state.logins).toBe(1);
  },
);

test('a PIN that is locked is tried again, because the SO may unlock it', async () => {
  const { state, use } = open();
  state.login = codes.pinLocked;
  expect(await use()).toContain('locked');
  state.login = codes.ok;
  expect(await use()).toBe('used');
});

test('no call runs while the module is initialized again', async () => {
  const { module, state, clock } = open();
  const call = (): Promise<void> =>
    module.run(async () => {
      state.running += 1;
      for (let i = 0; i < 3; i += 1) {
        expect(state.isInitialized).toBe(true);
        await turn();
      }
      state.running -= 1;
    });
  for (let i = 0; i < 3; i += 1) {
    await Promise.all([call(), module.reset(clock), call()]);
    await clock.advance(2_000);
    await Promise.all([module.reset(clock), call(), call()]);
    await clock.advance(2_000);
  }
});

test('while calls hang in every session further ones are refused at once, and an absent token stalls no other', async () => {
  const { module, token, use, clock } = open();
  const done: (() => void)[] = [];
  const hanging = Array.from({ length: 4 }, () =>
    token.use(() => new Promise<void>((resolve) => done.push(resolve))),
  );
  await vi.waitFor(() => expect(done).toHaveLength(4), { timeout: 60_000 });
  await clock.advance(5_000);
  expect(await use()).toContain('4 calls of the module have not returned');
  // The module is not initialized again beside them, and calls of other tokens do not wait for that.
  const resetting = module.reset(clock);
  const other = module.run(async () => 'another token');
  await clock.advance(1_000);
  await resetting;
  expect(await other).toBe('another token');
  await clock.advance(5_000);
  await module.reset(clock);
  await token.close();
  for (const end of done) end();
  await Promise.all(hanging);
  expect(await use()).toBe('used');
});

test.each([codes.generalError, codes.functionFailed])(
  'CKR %i is tampering only where the device wraps and unwraps another text',
  async (code) => {
    const { keys, state } = open();
    const drawn = await keys.generate('key', {});
    const reason = () => keys.unwrap(drawn, {}).catch((cause) => cause.reason);
    state.decrypt = [code];
    expect(await reason()).toBe('tampered');
    state.decrypt = [code, code];
    expect(await reason()).toBe('unavailable');
    Object.assign(state, { decrypt: [code], encrypt: codes.functionFailed });
    expect(await reason()).toBe('unavailable');
  },
);

test.each([
  ['tampered', 0x40],
  ['tampered', 0x41],
  ['tampered', 0x42],
  ['unavailable', 0x30],
])('a failed unwrap is %s for CKR %i', async (reason, code) => {
  const { keys, state } = open();
  const drawn = await keys.generate('key', {});
  state.decrypt = [code];
  expect(await keys.unwrap(drawn, {}).catch((cause) => cause.reason)).toBe(reason);
});

test('a call for one bucket does not wait for a session behind all calls for another', async () => {
  const { keys } = open();
  const done: string[] = [];
  const inBucket = (name: string, key: string) => ({ 'aws:s3:arn': `arn:aws:s3:::${name}/${key}` });
  const unwrap = async (name: string, key: string): Promise<void> => {
    const { keyId, wrapped } = await keys.wrap('key', new Uint8Array(32), inBucket(name, key));
    await keys.unwrap({ keyId, wrapped }, inBucket(name, key));
    done.push(name);
  };
  const all = Array.from({ length: 100 }, (_, n) => unwrap('many', `k${n}`));
  await vi.waitFor(() => expect(done.length).toBeGreaterThan(0), { timeout: 60_000, interval: 1 });
  const before = done.length;
  await unwrap('few', 'k');
  // Four sessions run when it is called, for each of its two calls.
  expect(done.lastIndexOf('few') - before).toBeLessThan(20);
  await Promise.all(all);
});
