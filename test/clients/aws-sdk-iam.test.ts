/** The AWS SDK for JavaScript with its default settings on IAM and STS. */
import * as iam from '@aws-sdk/client-iam';
import * as s3 from '@aws-sdk/client-s3';
import * as sts from '@aws-sdk/client-sts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { region, startWorld, type World } from './world.ts';

let world: World;
let users: iam.IAMClient;
let tokens: sts.STSClient;

const clientOf = (credentials: s3.S3ClientConfig['credentials'] & object): s3.S3Client =>
  new s3.S3Client({ endpoint: world.url, region, credentials, forcePathStyle: true });

type Signing = Pick<iam.AccessKey, 'AccessKeyId' | 'SecretAccessKey'> &
  Partial<Pick<sts.Credentials, 'SessionToken'>>;

/** Converts an access key or a session into the credentials of an SDK client. */
const signing = ({ AccessKeyId, SecretAccessKey, SessionToken }: Signing) => ({
  accessKeyId: AccessKeyId ?? '',
  secretAccessKey: SecretAccessKey ?? '',
  ...(SessionToken === undefined ? {} : { sessionToken: SessionToken }),
});

const documentOf = (statement: object): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', ...statement }] });
const mayAll = documentOf({ Action: 's3:*', Resource: '*' });

beforeAll(async () => {
  world = await startWorld(() => ({}));
  const { accessKey: accessKeyId, secretKey: secretAccessKey } = world.user;
  const config = { endpoint: world.url, region, credentials: { accessKeyId, secretAccessKey } };
  users = new iam.IAMClient(config);
  tokens = new sts.STSClient(config);
});
afterAll(async () => {
  users?.destroy();
  tokens?.destroy();
  await world?.stop();
});

test('a user is created, tagged, listed and found by name, and signs with its own key', async () => {
  const UserName = 'grace';
  const { User } = await users.send(new iam.CreateUserCommand({ UserName, Path: '/staff/' }));
  expect(User?.Arn).toBe('arn:aws:iam::alice-account:user/staff/grace');
  expect(User?.CreateDate).toBeInstanceOf(Date);
  await users.send(new iam.TagUserCommand({ UserName, Tags: [{ Key: 'Team', Value: 'ü' }] }));
  const { Tags } = await users.send(new iam.ListUserTagsCommand({ UserName }));
  expect(Tags).toEqual([{ Key: 'Team', Value: 'ü' }]);
  await users.send(new iam.UntagUserCommand({ UserName, TagKeys: ['Team'] }));
  expect((await users.send(new iam.ListUserTagsCommand({ UserName }))).Tags).toEqual([]);

  const put = new iam.PutUserPolicyCommand({ UserName, PolicyName: 'p', PolicyDocument: mayAll });
  await users.send(put);
  const got = await users.send(new iam.GetUserPolicyCommand({ UserName, PolicyName: 'p' }));
  expect(decodeURIComponent(got.PolicyDocument ?? '')).toBe(mayAll);

  await users.send(new iam.CreateUserCommand({ UserName: 'heidi' }));
  const listed: (string | undefined)[] = [];
  for await (const { Users = [] } of iam.paginateListUsers({ client: users, pageSize: 1 }, {}))
    listed.push(...Users.map((each) => each.UserName));
  expect(listed).toEqual(['grace', 'heidi']);

  const { AccessKey } = await users.send(new iam.CreateAccessKeyCommand({ UserName }));
  const client = clientOf(signing(AccessKey as iam.AccessKey));
  await client.send(new s3.CreateBucketCommand({ Bucket: 'sdk-iam' }));
  const { Buckets = [] } = await client.send(new s3.ListBucketsCommand());
  expect(Buckets.map(({ Name }) => Name)).toEqual(['sdk-iam']);
  client.destroy();
});

test.each([
  ['EntityAlreadyExists', 409, new iam.CreateUserCommand({ UserName: 'heidi' })],
  ['NoSuchEntity', 404, new iam.GetUserCommand({ UserName: 'nobody' })],
  [
    'MalformedPolicyDocument',
    400,
    new iam.PutUserPolicyCommand({ UserName: 'heidi', PolicyName: 'p', PolicyDocument: '{}' }),
  ],
] as const)('a refusal is %s', async (code, status, command) => {
  const refused = await users.send(command as iam.GetUserCommand).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(iam.IAMServiceException);
  expect(refused).toMatchObject({
    Error: { Code: code },
    $metadata: { httpStatusCode: status },
  });
});

test('a role is assumed, and its session does what the role may within its boundary', async () => {
  const RoleName = 'sdk';
  const AssumeRolePolicyDocument = documentOf({
    Principal: { AWS: 'alice-account' },
    Action: 'sts:AssumeRole',
  });
  const made = await users.send(new iam.CreateRoleCommand({ RoleName, AssumeRolePolicyDocument }));
  await users.send(new iam.PutRolePolicyCommand({ RoleName, PolicyName: 'p', PolicyDocument: mayAll }));
  const readOnly = documentOf({ Action: ['s3:GetObject', 's3:ListBucket'], Resource: '*' });
  const { Policy } = await users.send(
    new iam.CreatePolicyCommand({ PolicyName: 'read-only', PolicyDocument: readOnly }),
  );
  const assume = new sts.AssumeRoleCommand({ RoleArn: made.Role?.Arn, RoleSessionName: 'one' });
  const { Credentials, AssumedRoleUser } = await tokens.send(assume);
  expect(AssumedRoleUser?.Arn).toBe('arn:aws:sts::alice-account:assumed-role/sdk/one');

  const session = clientOf(signing(Credentials as sts.Credentials));
  const put = () =>
    session.send(new s3.PutObjectCommand({ Bucket: 'sdk-iam', Key: 'key', Body: 'by a session' }));
  await put();
  const boundary = { RoleName, PermissionsBoundary: Policy?.Arn };
  await users.send(new iam.PutRolePermissionsBoundaryCommand(boundary));
  await expect(put()).rejects.toMatchObject({ name: 'AccessDenied' });
  const { Body } = await session.send(new s3.GetObjectCommand({ Bucket: 'sdk-iam', Key: 'key' }));
  expect(await Body?.transformToString()).toBe('by a session');
  await users.send(new iam.DeleteRolePermissionsBoundaryCommand({ RoleName }));
  await put();
  session.destroy();

  const asSession = new sts.STSClient({
    endpoint: world.url,
    region,
    credentials: signing(Credentials as sts.Credentials),
  });
  const { Account, Arn } = await asSession.send(new sts.GetCallerIdentityCommand({}));
  expect({ Account, Arn }).toEqual({ Account: 'alice-account', Arn: AssumedRoleUser?.Arn });
  asSession.destroy();
});
