/** The key provider over a key file: wrapping, refusals, and reading its file. */
import { describe, expect, test } from 'vitest';
import { nodeCipher, nodeHasher } from '../../src/backends/crypto/node.ts';
import { describeKey } from '../../src/backends/keys/key-requests.ts';
import { localHsm } from '../../src/backends/keys/local-hsm.ts';
import { hsmKeys } from '../../src/config/keys.ts';
import { readConfig } from '../../src/config/read-config.ts';
import type { KeyFailure } from '../../src/ports/key-provider.ts';
import { systemRandom } from '../../src/ports/random.ts';

const random = systemRandom();
const provider = (keys: Readonly<Record<string, number>>) =>
  localHsm({
    keys: new Map(Object.entries(keys).map(([id, seed]) => [id, Buffer.alloc(32, seed)])),
    aliases: new Map([['alias/main', 'one']]),
    cipher: nodeCipher(),
    hasher: nodeHasher(),
    random,
  });
const reasonOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'none',
    (failure: KeyFailure) => failure.reason,
  );

describe('local-hsm', () => {
  const hsm = provider({ one: 1, two: 2 });
  const context = { a: '1', b: '2' };

  test('unwraps what it generated and what it wrapped', async () => {
    const { key, ...generated } = await hsm.generate('alias/main', context);
    expect([key.length, generated.keyId]).toEqual([32, 'one']);
    expect(await hsm.unwrap(generated, { b: '2', a: '1' })).toEqual(key);
    const mine = random.bytes(32);
    expect(await hsm.unwrap(await hsm.wrap('two', mine, context), context)).toEqual(mine);
  });

  test('denies under another key, also one that only has its name', async () => {
    const { wrapped } = await hsm.generate('one', context);
    expect(await reasonOf(hsm.unwrap({ keyId: 'two', wrapped }, context))).toBe('denied');
    expect(await reasonOf(provider({ one: 9 }).unwrap({ keyId: 'one', wrapped }, context))).toBe('denied');
  });

  test('refuses what was changed, truncated, or wrapped for another purpose', async () => {
    const { wrapped } = await hsm.generate('one', context);
    const changed = wrapped.slice();
    changed[wrapped.length - 1] = (changed[wrapped.length - 1] as number) ^ 1;
    for (const tampered of [changed, wrapped.subarray(0, 20), new Uint8Array(0)])
      expect(await reasonOf(hsm.unwrap({ keyId: 'one', wrapped: tampered }, context))).toBe('tampered');
    expect(await reasonOf(hsm.unwrap({ keyId: 'one', wrapped }, { a: '1' }))).toBe('tampered');
  });

  test('unwraps with its own keys only', async () => {
    for (const name of ['three', 'alias/none', '__proto__', ''])
      expect(await reasonOf(hsm.generate(name, {}))).toBe('unknown-key');
    const { wrapped } = await hsm.generate('one', {});
    expect(await reasonOf(hsm.unwrap({ keyId: 'three', wrapped }, {}))).toBe('unknown-key');
  });
});

describe('the policy of a key', () => {
  const of = (id: string, more: object = {}) => {
    const accounts = new Map([
      ['named', ['a', 'b']],
      ['open', ['*']],
    ]);
    return describeKey(id, { accounts, ...more });
  };

  test('is that of the accounts that it names, for both uses', () => {
    const both = new Set(['a', 'b']);
    const more = { soleAccount: 'c', defaultKeyId: 'named' };
    expect(of('named', more)).toEqual({ keyId: 'named', encryptsFor: both, decryptsFor: both });
    expect(of('open')).toEqual({ keyId: 'open', encryptsFor: 'every', decryptsFor: 'every' });
  });

  test('that names none: it decrypts for readers, and encrypts for the only account or as the default', () => {
    const bare = { keyId: 'bare', decryptsFor: 'reader' };
    expect(of('bare')).toEqual({ ...bare, encryptsFor: new Set() });
    expect(of('bare', { soleAccount: 'a' })).toEqual({ ...bare, encryptsFor: new Set(['a']) });
    expect(of('bare', { defaultKeyId: 'bare' })).toEqual({ ...bare, encryptsFor: 'every' });
  });
});

describe('a key file', () => {
  const good = Buffer.alloc(32, 1).toString('base64');
  const faultsOf = (text: string) => {
    const read = hsmKeys(text);
    return 'faults' in read ? read.faults : [];
  };

  test('names keys and aliases', () => {
    const read = hsmKeys(JSON.stringify({ one: good, 'alias/main': 'one' }));
    expect('value' in read && [[...read.value.keys.keys()], [...read.value.aliases]]).toEqual([
      ['one'],
      [['alias/main', 'one']],
    ]);
  });

  test('names the accounts of keys', () => {
    const text = JSON.stringify({
      one: { key: good, accounts: ['a', '*'] },
      two: { key: good },
      three: good,
    });
    const read = hsmKeys(text);
    expect('value' in read && [[...read.value.keys.keys()], [...read.value.accounts]]).toEqual([
      ['one', 'two', 'three'],
      [['one', ['a', '*']]],
    ]);
    const accounts = (given: unknown) => faultsOf(JSON.stringify({ one: { key: good, accounts: given } }));
    for (const given of ['a', [''], ['a b'], [1], {}, null])
      expect(accounts(given)).toEqual([
        ': the accounts of "one" are not a list of at most 1000 account ids or "*"',
      ]);
    expect(faultsOf(JSON.stringify({ one: { key: good, account: ['a'] } }))).toEqual([
      ': "one" has a field that is neither "key" nor "accounts"',
    ]);
  });

  test('is refused with every fault, and without a key', () => {
    const bad = `${good.slice(0, 20)}`;
    const faults = faultsOf(
      JSON.stringify({ one: bad, 'a b': good, 'alias/main': 'none', 'alias/other': 3 }),
    );
    expect(faults).toEqual([
      ': "one" is not the base64 of 32 bytes',
      ': "a b" cannot be the id of a key',
      ': "alias/other" is not the id of a key',
      ': "alias/main" stands for no key of this file',
    ]);
    for (const text of ['', '[]', 'null', '"x"', '{'])
      expect(faultsOf(text)).toEqual(['is not a JSON object of key ids and keys']);
    expect(faultsOf('{}')).toEqual(['has no key']);
  });

  test('and the provider go together', () => {
    expect(readConfig({ SVC_KEY_PROVIDER: 'local-hsm' }).faults).toEqual([
      'SVC_KEY_PROVIDER=local-hsm needs SVC_HSM_KEYS_FILE',
    ]);
    expect(readConfig({ SVC_HSM_KEYS_FILE: 'keys.json' }).faults).toHaveLength(1);
    expect(readConfig({ SVC_KEY_PROVIDER: 'transit', SVC_HSM_KEYS_FILE: 'keys.json' }).faults).toHaveLength(
      2,
    );
  });
});
