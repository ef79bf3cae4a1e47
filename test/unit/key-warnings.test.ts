/** The warnings at the start about keys without accounts, and about proxies. */
import { expect, test } from 'vitest';
import { loadConfiguration } from '../../src/runtime/compose/configuration.ts';
import { keyOf, writeKeyFile } from '../support/encryption.ts';
import { alice, bob } from '../support/gateway.ts';

const key = keyOf(1).toString('base64');
const warningsOf = async (credentials: readonly object[], more: Readonly<Record<string, string>> = {}) => {
  const file = await writeKeyFile({ bare: key, named: { key, accounts: ['alice-account'] } });
  const env = {
    SVC_KEY_PROVIDER: 'local-hsm',
    SVC_HSM_KEYS_FILE: file,
    SVC_CREDENTIALS: JSON.stringify(credentials),
    ...more,
  };
  const { warnings, faults } = await loadConfiguration({ env, flags: {}, prepares: false });
  expect(faults).toEqual([]);
  return warnings.filter((warning) => warning.includes('SVC_HSM_KEYS_FILE'));
};

test('a start with several accounts names the keys that encrypt for none of them', async () => {
  expect(await warningsOf([alice, bob])).toEqual([
    expect.stringMatching(/1 of the keys name no accounts \(bare\)\. .*"accounts": \["<account>"\]\}$/),
  ]);
  expect(await warningsOf([alice])).toEqual([]);
  expect(await warningsOf([alice, bob], { SVC_KMS_DEFAULT_KEY_ID: 'bare' })).toEqual([]);
});

test.each([
  ['0.0.0.0/0', 1],
  ['10.0.0.0/8, ::/0', 1],
  ['::ffff:0:0/96', 1],
  ['10.0.0.0/8, 2001:db8::/96, 0.0.0.0', 0],
])('a start that trusts the proxies %s has %i warnings that every client is one', async (proxies, count) => {
  const env = { SVC_CREDENTIALS: JSON.stringify([alice]), SVC_TRUSTED_PROXIES: proxies };
  const { warnings, faults } = await loadConfiguration({ env, flags: {}, prepares: false });
  expect(faults).toEqual([]);
  expect(warnings.filter((warning) => warning.includes('SVC_TRUSTED_PROXIES'))).toHaveLength(count);
});
