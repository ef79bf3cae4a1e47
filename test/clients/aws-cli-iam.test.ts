/** The AWS CLI with its default settings on IAM and STS: users, policies, roles that profiles assume, MFA devices. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { authenticator } from '../support/authenticator.ts';
import { allow, trusting } from '../support/iam-users.ts';
import { type AwsCli, openAwsCli } from './drivers.ts';
import { installed } from './installed.ts';
import type { Ran } from './world.ts';

const account = 'alice-account';
const bucket = 'cli-iam';
const arn = (rest: string): string => `arn:aws:iam::${account}:${rest}`;

interface Keys {
  readonly AccessKeyId: string;
  readonly SecretAccessKey: string;
  readonly SessionToken?: string;
}

let cli: AwsCli;
beforeAll(async () => {
  cli = await openAwsCli();
  await cli.aws('s3', 'mb', `s3://${bucket}`);
});
afterAll(() => cli?.world.stop());

// biome-ignore lint/suspicious/noExplicitAny: whatever the CLI prints.
type Printed = any;
const parse = (text: string): Printed => (text.trim() === '' ? {} : JSON.parse(text));
const iam = async (...args: string[]): Promise<Printed> => parse(await cli.aws('iam', ...args));
const sts = async (...args: string[]): Promise<Printed> => parse(await cli.aws('sts', ...args));

/** Runs the CLI with other access keys. */
const as = (keys: Keys, ...args: string[]): Promise<Ran> =>
  cli.world.attempt(
    'env',
    `AWS_ACCESS_KEY_ID=${keys.AccessKeyId}`,
    `AWS_SECRET_ACCESS_KEY=${keys.SecretAccessKey}`,
    ...(keys.SessionToken === undefined ? [] : [`AWS_SESSION_TOKEN=${keys.SessionToken}`]),
    installed('aws'),
    ...args,
  );
const lists = async (keys: Keys): Promise<boolean> =>
  (await as(keys, 's3', 'ls', `s3://${bucket}`)).code === 0;

async function userWithKey(name: string): Promise<Keys> {
  const user = ['--user-name', name] as const;
  const made = await iam('create-user', ...user);
  expect(made.User).toMatchObject({ UserName: name, Path: '/', Arn: arn(`user/${name}`) });
  return (await iam('create-access-key', ...user)).AccessKey;
}

test('GetCallerIdentity returns the caller', async () => {
  expect(await sts('get-caller-identity')).toMatchObject({ Account: account, Arn: arn('user/alice') });
});

test('a user gets a key that signs, for what its policies say, as long as the key is active', async () => {
  const keys = await userWithKey('carol');
  const user = ['--user-name', 'carol'] as const;
  expect(await lists(keys)).toBe(false);
  const policy = ['--policy-name', 'lists', '--policy-document', allow('s3:ListBucket')] as const;
  await iam('put-user-policy', ...user, ...policy);
  expect(await lists(keys)).toBe(true);
  const shown = await iam('get-user-policy', ...user, '--policy-name', 'lists');
  expect(shown.PolicyDocument).toEqual(JSON.parse(allow('s3:ListBucket')));
  expect(await iam('list-user-policies', ...user)).toEqual({ PolicyNames: ['lists'] });
  const key = ['--access-key-id', keys.AccessKeyId] as const;
  const used = await iam('get-access-key-last-used', ...key);
  expect(used).toMatchObject({ UserName: 'carol', AccessKeyLastUsed: { ServiceName: 's3' } });
  await iam('update-access-key', ...user, ...key, '--status', 'Inactive');
  expect(await lists(keys)).toBe(false);
  expect((await iam('list-access-keys', ...user)).AccessKeyMetadata).toMatchObject([{ Status: 'Inactive' }]);
  const early = await cli.attempt('iam', 'delete-user', ...user);
  expect(early.stderr).toContain('(DeleteConflict)');
  await iam('delete-access-key', ...user, ...key);
  await iam('delete-user-policy', ...user, '--policy-name', 'lists');
  await iam('delete-user', ...user);
  const gone = await cli.attempt('iam', 'get-user', ...user);
  expect(gone.stderr).toContain(
    '(NoSuchEntity) when calling the GetUser operation: The user with name carol',
  );
});

test('lists come whole, page by page', async () => {
  const names = Array.from({ length: 5 }, (_, index) => `page-${index}`);
  for (const name of names) await iam('create-user', '--user-name', name, '--path', '/pages/');
  const listed = await iam('list-users', '--path-prefix', '/pages/', '--page-size', '2');
  expect(listed.Users.map(({ UserName }: { UserName: string }) => UserName)).toEqual(names);
  await cli.aws('iam', 'wait', 'user-exists', '--user-name', 'page-0');
  for (const name of names) await iam('delete-user', '--user-name', name);
});

test('managed policies have versions and are attached to groups', async () => {
  const keys = await userWithKey('dave');
  const made = await iam(
    'create-policy',
    '--policy-name',
    'p',
    '--policy-document',
    allow('s3:ListAllMyBuckets'),
  );
  const policy = ['--policy-arn', made.Policy.Arn] as const;
  expect(made.Policy).toMatchObject({ Arn: arn('policy/p'), DefaultVersionId: 'v1', AttachmentCount: 0 });
  const group = ['--group-name', 'readers'] as const;
  await iam('create-group', ...group);
  await iam('add-user-to-group', ...group, '--user-name', 'dave');
  await iam('attach-group-policy', ...group, ...policy);
  expect(await lists(keys)).toBe(false);
  const version = ['--policy-document', allow('s3:ListBucket'), '--set-as-default'] as const;
  expect((await iam('create-policy-version', ...policy, ...version)).PolicyVersion.VersionId).toBe('v2');
  expect(await lists(keys)).toBe(true);
  expect(await iam('list-entities-for-policy', ...policy)).toMatchObject({
    PolicyGroups: [{ GroupName: 'readers' }],
    PolicyUsers: [],
    PolicyRoles: [],
  });
  const old = await iam('get-policy-version', ...policy, '--version-id', 'v1');
  expect(old.PolicyVersion.Document).toEqual(JSON.parse(allow('s3:ListAllMyBuckets')));
  const readOnly = 'arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess';
  await iam('attach-user-policy', '--user-name', 'dave', '--policy-arn', readOnly);
  expect(await iam('list-attached-user-policies', '--user-name', 'dave')).toEqual({
    AttachedPolicies: [{ PolicyName: 'AmazonS3ReadOnlyAccess', PolicyArn: readOnly }],
  });
  const trial = [
    '--policy-source-arn',
    arn('user/dave'),
    '--action-names',
    's3:GetObject',
    's3:PutObject',
  ] as const;
  const tried = (await iam('simulate-principal-policy', ...trial)) as {
    EvaluationResults: { EvalDecision: string }[];
  };
  expect(tried.EvaluationResults.map(({ EvalDecision }) => EvalDecision)).toEqual([
    'allowed',
    'implicitDeny',
  ]);
  expect((await iam('get-account-summary')).SummaryMap).toMatchObject({ Users: 1, Groups: 1, Policies: 1 });
});

test('a profile assumes a role, and its session is what the role may do', async () => {
  const trust = trusting({ AWS: account });
  const role = ['--role-name', 'reader'] as const;
  await iam('create-role', ...role, '--assume-role-policy-document', trust, '--tags', 'Key=Team,Value=blue');
  const document = ['--policy-name', 'p', '--policy-document', allow('s3:ListBucket')] as const;
  await iam('put-role-policy', ...role, ...document);
  expect((await iam('get-role', ...role)).Role).toMatchObject({
    Arn: arn('role/reader'),
    AssumeRolePolicyDocument: JSON.parse(trust),
    MaxSessionDuration: 3_600,
    Tags: [{ Key: 'Team', Value: 'blue' }],
  });
  mkdirSync(cli.world.path('.aws'));
  const profile = `[profile reader]\nrole_arn = ${arn('role/reader')}\ncredential_source = Environment\n`;
  writeFileSync(cli.world.path('.aws/config'), profile);
  const who = parse(await cli.aws('--profile', 'reader', 'sts', 'get-caller-identity'));
  expect(who.Arn).toMatch(/^arn:aws:sts::alice-account:assumed-role\/reader\/botocore-session-\d+$/);
  await cli.aws('--profile', 'reader', 's3', 'ls', `s3://${bucket}`);
  const refused = await cli.attempt('--profile', 'reader', 's3api', 'get-bucket-acl', '--bucket', bucket);
  expect(refused.stderr).toContain('(AccessDenied)');
  const session = ['--role-arn', arn('role/reader'), '--role-session-name', 'by-hand'] as const;
  const limited = await sts(
    'assume-role',
    ...session,
    '--policy',
    allow('s3:GetObject'),
    '--duration-seconds',
    '900',
  );
  expect(limited.AssumedRoleUser.Arn).toBe('arn:aws:sts::alice-account:assumed-role/reader/by-hand');
  expect(await lists(limited.Credentials)).toBe(false);
  expect(await lists((await sts('assume-role', ...session)).Credentials)).toBe(true);
});

test('a device is enabled, and its code makes a session', async () => {
  const keys = await userWithKey('erin');
  await iam(
    'attach-user-policy',
    '--user-name',
    'erin',
    '--policy-arn',
    'arn:aws:iam::aws:policy/AmazonS3FullAccess',
  );
  const device = ['--virtual-mfa-device-name', 'phone', '--bootstrap-method', 'Base32StringSeed'] as const;
  const made = await iam('create-virtual-mfa-device', ...device, '--outfile', 'phone-seed');
  const serial = made.VirtualMFADevice.SerialNumber as string;
  const app = authenticator(readFileSync(cli.world.path('phone-seed')).toString('base64'), Date.now);
  const named = ['--user-name', 'erin', '--serial-number', serial] as const;
  const codes = ['--authentication-code1', app.code(-1), '--authentication-code2', app.code()] as const;
  await iam('enable-mfa-device', ...named, ...codes);
  expect((await iam('list-mfa-devices', '--user-name', 'erin')).MFADevices).toMatchObject([
    { SerialNumber: serial },
  ]);
  // Computed once and sent twice, because the authenticator may move to its next code in between.
  const shown = ['--serial-number', serial, '--token-code', app.code(1)] as const;
  const token = await as(keys, 'sts', 'get-session-token', ...shown);
  expect(token.stderr).toBe('');
  expect(await lists(parse(token.stdout).Credentials)).toBe(true);
  const again = await as(keys, 'sts', 'get-session-token', ...shown);
  expect(again.stderr).toContain('(AccessDenied)');
});
