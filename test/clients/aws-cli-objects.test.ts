/** The AWS CLI with its default settings on object metadata: tags, locks, restores, attributes. */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { authenticator } from '../support/authenticator.ts';
import { type AwsCli, openAwsCli } from './drivers.ts';
import { installed } from './installed.ts';

let cli: AwsCli;
beforeAll(async () => {
  cli = await openAwsCli();
  writeFileSync(cli.world.path('body'), 'content');
});
afterAll(() => cli?.world.stop());

const refusal = async (bucket: string, operation: string, ...args: string[]): Promise<string | undefined> => {
  const { stderr } = await cli.attempt('s3api', operation, '--bucket', bucket, ...args);
  return /\((\w+)\)/.exec(stderr)?.[1];
};
const key = ['--key', 'key'] as const;

test('tags are put, returned, counted and deleted', async () => {
  const api = cli.apiOf('cli-tags');
  await api('create-bucket');
  await api('put-object', ...key, '--body', 'body', '--tagging', 'a=1');
  expect(await api('get-object-tagging', ...key)).toEqual({ TagSet: [{ Key: 'a', Value: '1' }] });
  const TagSet = [
    { Key: 'team', Value: 'blue' },
    { Key: 'ü', Value: 'é e' },
  ];
  await api('put-object-tagging', ...key, '--tagging', JSON.stringify({ TagSet }));
  expect(await api('get-object-tagging', ...key)).toEqual({ TagSet });
  expect(await api('get-object', ...key, 'tagged.back')).toMatchObject({ TagCount: 2 });
  await api('delete-object-tagging', ...key);
  expect(await api('get-object-tagging', ...key)).toEqual({ TagSet: [] });
});

test('a locked version stays until its lock is taken off, and a bucket tells its default', async () => {
  const bucket = 'cli-locked';
  const api = cli.apiOf(bucket);
  await api('create-bucket', '--object-lock-enabled-for-bucket');
  const Rule = { DefaultRetention: { Mode: 'GOVERNANCE', Years: 1 } };
  const configuration = { ObjectLockEnabled: 'Enabled', Rule };
  await api('put-object-lock-configuration', '--object-lock-configuration', JSON.stringify(configuration));
  expect(await api('get-object-lock-configuration')).toEqual({ ObjectLockConfiguration: configuration });
  const { VersionId } = await api('put-object', ...key, '--body', 'body');
  const version = [...key, '--version-id', String(VersionId)] as const;
  expect(await api('head-object', ...key)).toMatchObject({ ObjectLockMode: 'GOVERNANCE' });
  await api('put-object-legal-hold', ...version, '--legal-hold', 'Status=ON');
  expect(await api('get-object-legal-hold', ...version)).toEqual({ LegalHold: { Status: 'ON' } });
  const bypassing = [...version, '--bypass-governance-retention'] as const;
  expect(await refusal(bucket, 'delete-object', ...bypassing)).toBe('AccessDenied');
  await api('put-object-legal-hold', ...version, '--legal-hold', 'Status=OFF');
  const until = new Date(Date.now() + 1000 * 86_400_000).toISOString();
  const retained = ['--retention', `Mode=GOVERNANCE,RetainUntilDate=${until}`] as const;
  await api('put-object-retention', ...version, ...retained);
  const told = (await api('get-object-retention', ...version)) as { Retention: Record<string, string> };
  expect(Date.parse(told.Retention['RetainUntilDate'] ?? '')).toBe(Date.parse(until));
  expect(await refusal(bucket, 'delete-object', ...version)).toBe('AccessDenied');
  const shorter = `Mode=GOVERNANCE,RetainUntilDate=${new Date(Date.now() + 86_400_000).toISOString()}`;
  expect(await refusal(bucket, 'put-object-retention', ...version, '--retention', shorter)).toBe(
    'AccessDenied',
  );
  await api('put-object-retention', ...bypassing, '--retention', shorter);
  await api('delete-object', ...bypassing);
  await api('delete-bucket');
});

test('an archived object is read once it is restored, and copied into another class', async () => {
  const bucket = 'cli-archive';
  const api = cli.apiOf(bucket);
  await api('create-bucket');
  await cli.aws('s3', 'cp', '--storage-class', 'GLACIER', 'body', `s3://${bucket}/key`);
  expect(await refusal(bucket, 'get-object', ...key, 'archived.back')).toBe('InvalidObjectState');
  await api('restore-object', ...key, '--restore-request', 'Days=1,GlacierJobParameters={Tier=Expedited}');
  expect((await api('head-object', ...key))['Restore']).toMatch(/^ongoing-request="false", expiry-date="/);
  await api('get-object', ...key, 'archived.back');
  const onto = ['--copy-source', `${bucket}/key`, '--storage-class', 'STANDARD'] as const;
  await api('copy-object', ...key, ...onto);
  expect(await api('head-object', ...key)).not.toHaveProperty('StorageClass');
  const chosen = ['--object-attributes', 'ETag', 'ObjectSize', 'StorageClass'] as const;
  expect(await api('get-object-attributes', ...key, ...chosen)).toMatchObject({
    ObjectSize: 7,
    StorageClass: 'STANDARD',
  });
});

test('MFA delete is turned on with a code of the owner, and no version goes without one', async () => {
  const { accessKey, secretKey, owner } = cli.world.server.credentials.root;
  const as = [
    `AWS_ACCESS_KEY_ID=${accessKey}`,
    `AWS_SECRET_ACCESS_KEY=${secretKey}`,
    installed('aws'),
  ] as const;
  const root = async (...args: string[]) => JSON.parse((await cli.world.run('env', ...as, ...args)) || '{}');
  const name = [
    '--virtual-mfa-device-name',
    'root-device',
    '--bootstrap-method',
    'Base32StringSeed',
  ] as const;
  const made = await root('iam', 'create-virtual-mfa-device', ...name, '--outfile', 'seed');
  const serial = made.VirtualMFADevice.SerialNumber as string;
  // The CLI writes the seed in the form that a user types into an authenticator; the API returns that text in base64.
  const seed = readFileSync(cli.world.path('seed')).toString('base64');
  const app = authenticator(seed, Date.now);
  const codes = ['--authentication-code1', app.code(-1), '--authentication-code2', app.code()] as const;
  await root('iam', 'enable-mfa-device', '--user-name', owner, '--serial-number', serial, ...codes);
  const about = ['--bucket', 'cli-mfa'] as const;
  await root('s3api', 'create-bucket', ...about);
  const enabled = ['--versioning-configuration', 'Status=Enabled,MFADelete=Enabled'] as const;
  const mfa = ['--mfa', `${serial} ${app.code(1)}`] as const;
  await root('s3api', 'put-bucket-versioning', ...about, ...enabled, ...mfa);
  expect(await root('s3api', 'get-bucket-versioning', ...about)).toEqual({
    Status: 'Enabled',
    MFADelete: 'Enabled',
  });
  const { VersionId } = await root('s3api', 'put-object', ...about, ...key, '--body', 'body');
  const version = [...about, ...key, '--version-id', VersionId] as const;
  const refused = await cli.world.attempt('env', ...as, 's3api', 'delete-object', ...version);
  expect(refused.stderr).toContain('AccessDenied');
  await root('s3api', 'delete-object', ...about, ...key);
});
