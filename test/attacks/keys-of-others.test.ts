/** A tenant names another tenant's key, in every spelling under which a key can be found. */
import { describe, expect, test } from 'vitest';
import type { SettingName } from '../../src/config.ts';
import { policyOf } from '../support/access.ts';
import { encryptingSettings, keyOf, provider, writeKeyFile } from '../support/encryption.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

const keys = {
  payroll: { key: keyOf(1).toString('base64'), accounts: ['alice-account'] },
  own: { key: keyOf(2).toString('base64'), accounts: ['bob-account'] },
  'alias/payroll': 'payroll',
};
const open = async () => {
  const SVC_HSM_KEYS_FILE = await writeKeyFile(keys);
  const world = await openGateway({ settings: { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE } });
  await world.bob.put('/of-bob');
  return world;
};

const spellings = [
  'payroll',
  'alias/payroll',
  'arn:aws:kms:default:alice-account:key/payroll',
  'arn:aws:kms:default:bob-account:key/payroll',
  'arn:aws:kms:default:bob-account:alias/payroll',
  'arn:aws-cn:kms:::key/payroll',
  'arn:x:kms:a:b:key/payroll',
  'ARN:aws:kms:default:alice-account:key/payroll',
  'arn:aws:kms:default:alice-account:key/alias/payroll',
  'key/payroll',
  'Payroll',
  'alias//payroll',
  'alias/alias/payroll',
  'pay%72oll',
  'payroll/',
  './payroll',
  'own,payroll',
];

describe('the key of another account', () => {
  test.each(spellings)('%s encrypts nothing, in a request and as a bucket’s default', async (key) => {
    await using world = await open();
    const { bob } = world;
    const refusals = [
      await bob.put('/of-bob/key', { body: 'x', headers: provider(key) }),
      await bob.post('/of-bob/key?uploads', { headers: provider(key) }),
    ];
    for (const { status, code } of refusals)
      expect([
        [403, 'AccessDenied'],
        [400, 'KMS.NotFoundException'],
      ]).toContainEqual([status, code]);
    const body = `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>${key}</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`;
    await bob.put('/of-bob?encryption', { body });
    const byDefault = await bob.put('/of-bob/key', { body: 'x' });
    // Either PutBucketEncryption was refused, so the bucket has no default, or the name leads to no key, so the PUT is refused.
    expect([200, 400]).toContain(byDefault.status);
    expect(byDefault.header('*-server-side-encryption-aws-kms-key-id')).toBeUndefined();
  });

  test('is not found by the name of a bucket', async () => {
    await using world = await open();
    await world.bob.put('/payroll');
    const refused = await world.bob.put('/payroll/key', { body: 'x', headers: provider() });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
  });

  test('works in each of its spellings for its own account, and another account’s key for that account', async () => {
    await using world = await open();
    for (const key of ['own', 'arn:aws:kms:default:bob-account:key/own'])
      expect((await world.bob.put('/of-bob/key', { body: 'x', headers: provider(key) })).status).toBe(200);
    await world.client.put('/of-alice');
    for (const key of spellings.slice(0, 3))
      expect((await world.client.put('/of-alice/key', { body: 'x', headers: provider(key) })).status).toBe(
        200,
      );
  });
});

describe('the refusal of another account’s key', () => {
  const id = 'k-71ad5e';
  const secretly = {
    [id]: { key: keyOf(1).toString('base64'), accounts: ['alice-account'] },
    'alias/pay': id,
  };
  const openSecretly = async (settings: Partial<Record<SettingName, string>> = {}) => {
    const SVC_HSM_KEYS_FILE = await writeKeyFile(secretly);
    const world = await openGateway({
      settings: { ...(await encryptingSettings()), SVC_HSM_KEYS_FILE, ...settings },
    });
    await world.bob.put('/of-bob');
    return world;
  };
  const refusalsOf = async ({ bob }: GatewayWorld, key: string | undefined): Promise<readonly Answer[]> => [
    await bob.put('/of-bob/key', { body: 'x', headers: provider(key) }),
    await bob.put('/of-bob/key', { headers: { ...provider(key), '*-copy-source': '/of-bob/source' } }),
    await bob.post('/of-bob/key?uploads', { headers: provider(key) }),
  ];
  const isRefusedSilently = ({ status, code, text }: Answer): void => {
    expect([status, code], text).toEqual([403, 'AccessDenied']);
    expect(text).not.toContain(id);
  };

  test('does not tell which key an alias stands for', async () => {
    await using world = await openSecretly();
    await world.bob.put('/of-bob/source', { body: 'x' });
    const body =
      '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>alias/pay</KMSMasterKeyID></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>';
    const refused = [
      ...(await refusalsOf(world, 'alias/pay')),
      await world.bob.put('/of-bob?encryption', { body }),
    ];
    for (const each of refused) {
      isRefusedSilently(each);
      expect(each.text).toContain('arn:aws:kms:default:bob-account:alias/pay');
    }
  });

  test('does not tell the default key of the operator, to anonymous callers either', async () => {
    await using world = await openSecretly({ SVC_KMS_DEFAULT_KEY_ID: id });
    const { bob, anonymous } = world;
    await bob.put('/of-bob/source', { body: 'x' });
    for (const each of await refusalsOf(world, undefined)) {
      isRefusedSilently(each);
      expect(each.text).toContain('the default key');
    }
    await bob.put('/of-bob?policy', {
      body: policyOf({ Action: 's3:PutObject', Resource: 'arn:aws:s3:::of-bob/*' }),
    });
    isRefusedSilently(await anonymous.put('/of-bob/key', { body: 'x', headers: provider() }));
  });
});
