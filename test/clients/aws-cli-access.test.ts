/** The AWS CLI with its default settings on ACLs, policies, public access blocks and access points. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { accessSettings, anonymously, byName, everyone, policyOf } from './access.ts';
import { installed } from './installed.ts';
import { awsKeys, startWorld, type World } from './world.ts';

const bucket = 'cli-access';
const numbered = testCredentials.numbered;
let world: World;
const aws = (...args: string[]) => world.run(installed('aws'), ...args);
const json = async (...args: string[]): Promise<Record<string, unknown>> => JSON.parse(await aws(...args));
const api = (operation: string, ...args: string[]) => aws('s3api', operation, '--bucket', bucket, ...args);

beforeAll(async () => {
  world = await startWorld(
    (place) => ({ ...awsKeys({ ...place, user: numbered }), ...byName(place) }),
    accessSettings,
  );
  await api('create-bucket');
  await aws('s3api', 'put-object', '--bucket', bucket, '--key', 'key', '--body', world.file('body', 10).path);
});
afterAll(() => world?.stop());

test('ACLs are canned, granted by headers and by documents, of buckets and of objects', async () => {
  const grants = async (...args: string[]) => (await json('s3api', ...args))['Grants'];
  await api('put-bucket-acl', '--acl', 'public-read');
  expect(await grants('get-bucket-acl', '--bucket', bucket)).toEqual([
    { Grantee: { Type: 'Group', URI: everyone }, Permission: 'READ' },
    {
      Grantee: { ID: numbered.owner, DisplayName: 'numbered', Type: 'CanonicalUser' },
      Permission: 'FULL_CONTROL',
    },
  ]);
  expect(await anonymously(world.url, `/${bucket}`)).toBe(200);
  await api(
    'put-bucket-acl',
    '--grant-full-control',
    `id=${numbered.owner}`,
    '--grant-read',
    'id=alice-account',
  );
  expect(await anonymously(world.url, `/${bucket}`)).toBe(403);
  const told = await json('s3api', 'get-bucket-acl', '--bucket', bucket);
  await api('put-bucket-acl', '--access-control-policy', JSON.stringify(told));
  expect(await json('s3api', 'get-bucket-acl', '--bucket', bucket)).toEqual(told);

  const path = `/${bucket}/key`;
  expect(await anonymously(world.url, path)).toBe(403);
  await api('put-object-acl', '--key', 'key', '--acl', 'public-read');
  expect(await anonymously(world.url, path)).toBe(200);
  expect(await grants('get-object-acl', '--bucket', bucket, '--key', 'key')).toHaveLength(2);
  await api('put-object', '--key', 'granted', '--grant-read', `uri=${everyone}`);
  expect(await anonymously(world.url, `/${bucket}/granted`)).toBe(200);
  await api('put-object-acl', '--key', 'key', '--acl', 'private');
  expect(await anonymously(world.url, path)).toBe(403);
});

test('a policy opens the bucket until a public access block or its end', async () => {
  await api('put-bucket-policy', '--policy', policyOf(bucket));
  expect(await json('s3api', 'get-bucket-policy', '--bucket', bucket)).toEqual({ Policy: policyOf(bucket) });
  expect(await json('s3api', 'get-bucket-policy-status', '--bucket', bucket)).toEqual({
    PolicyStatus: { IsPublic: true },
  });
  expect(await anonymously(world.url, `/${bucket}/key`)).toBe(200);
  await api(
    'put-public-access-block',
    '--public-access-block-configuration',
    'BlockPublicPolicy=true,RestrictPublicBuckets=true',
  );
  expect(await anonymously(world.url, `/${bucket}/key`)).toBe(403);
  const refused = await world.attempt(
    installed('aws'),
    's3api',
    'put-bucket-policy',
    '--bucket',
    bucket,
    '--policy',
    policyOf(bucket),
  );
  expect(refused.stderr).toContain('(AccessDenied)');
  await api('delete-public-access-block');
  await api('delete-bucket-policy');
  expect(await anonymously(world.url, `/${bucket}/key`)).toBe(403);
});

test('access points are made, listed and used by ARN and by alias', async () => {
  const control = (operation: string, ...args: string[]) =>
    aws('s3control', operation, '--account-id', numbered.owner, ...args);
  const made = JSON.parse(await control('create-access-point', '--name', 'photos', '--bucket', bucket));
  const { AccessPointArn, Alias } = made;
  const arn = `arn:aws:s3:default:${numbered.owner}:accesspoint/photos`;
  expect(AccessPointArn).toBe(arn);
  const { AccessPointList } = JSON.parse(await control('list-access-points', '--bucket', bucket));
  expect(AccessPointList).toEqual([
    {
      Name: 'photos',
      NetworkOrigin: 'Internet',
      Bucket: bucket,
      AccessPointArn,
      Alias,
      BucketAccountId: numbered.owner,
    },
  ]);
  expect(JSON.parse(await control('get-access-point', '--name', 'photos'))).toMatchObject({
    Bucket: bucket,
    Alias,
  });
  for (const name of [AccessPointArn, Alias] as string[]) {
    await aws('s3', 'cp', world.file('sent', 100).path, `s3://${name}/sent`);
    expect(await aws('s3', 'ls', `s3://${name}/`)).toContain('sent');
    await aws('s3', 'rm', `s3://${name}/sent`);
  }
  const policy = policyOf('none', { AWS: 'alice-account' }).replace('arn:aws:s3:::none/*', `${arn}/object/*`);
  await control('put-access-point-policy', '--name', 'photos', '--policy', policy);
  expect(JSON.parse(await control('get-access-point-policy', '--name', 'photos'))).toEqual({
    Policy: policy,
  });
  expect(JSON.parse(await control('get-access-point-policy-status', '--name', 'photos'))).toEqual({
    PolicyStatus: { IsPublic: false },
  });
  await control('delete-access-point-policy', '--name', 'photos');
  await control('delete-access-point', '--name', 'photos');
  const gone = await world.attempt(
    installed('aws'),
    's3control',
    'get-access-point',
    '--account-id',
    numbered.owner,
    '--name',
    'photos',
  );
  expect(gone.stderr).toContain('(NoSuchAccessPoint)');
});
