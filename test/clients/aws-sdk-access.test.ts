/** The AWS SDK for JavaScript with its default settings on ACLs, policies and access points. */
import { Agent } from 'node:http';
import type { LookupFunction } from 'node:net';
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { accessSettings, anonymously, domain, everyone, policyOf } from './access.ts';
import { startWorld, type World } from './world.ts';

const Bucket = 'sdk-access';
const numbered = testCredentials.numbered;
let world: World;
let client: s3.S3Client;

/** Resolves every host name to this machine. */
const lookup: LookupFunction = (_host, options, done) =>
  options.all === true ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);

beforeAll(async () => {
  world = await startWorld(() => ({}), accessSettings);
  client = new s3.S3Client({
    endpoint: `http://${domain}:${new URL(world.url).port}`,
    // An access point's ARN names the bucket's region, but the SDK uses its own region by default.
    region: 'default',
    credentials: { accessKeyId: numbered.accessKey, secretAccessKey: numbered.secretKey },
    requestHandler: { httpAgent: new Agent({ keepAlive: true, lookup }) },
  });
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  await client.send(new s3.PutObjectCommand({ Bucket, Key: 'key', Body: 'x' }));
});
afterAll(async () => {
  client?.destroy();
  await world?.stop();
});

test('ACLs are canned, granted, and put as they were got', async () => {
  await client.send(new s3.PutBucketAclCommand({ Bucket, ACL: 'public-read-write' }));
  const { Grants = [] } = await client.send(new s3.GetBucketAclCommand({ Bucket }));
  expect(Grants.map(({ Permission }) => Permission)).toEqual(['READ', 'WRITE', 'FULL_CONTROL']);
  await client.send(new s3.PutObjectAclCommand({ Bucket, Key: 'key', GrantRead: `uri="${everyone}"` }));
  expect(await anonymously(world.url, `/${Bucket}/key`)).toBe(200);
  const acl = await client.send(new s3.GetObjectAclCommand({ Bucket, Key: 'key' }));
  const AccessControlPolicy = { Owner: acl.Owner, Grants: acl.Grants };
  await client.send(new s3.PutObjectAclCommand({ Bucket, Key: 'key', AccessControlPolicy }));
  expect((await client.send(new s3.GetObjectAclCommand({ Bucket, Key: 'key' }))).Grants).toEqual(acl.Grants);
  await client.send(new s3.PutObjectAclCommand({ Bucket, Key: 'key', ACL: 'private' }));
  expect(await anonymously(world.url, `/${Bucket}/key`)).toBe(403);
  await client.send(new s3.PutBucketAclCommand({ Bucket, ACL: 'private' }));
});

test('a policy is put, returned, evaluated and deleted', async () => {
  await client.send(new s3.PutBucketPolicyCommand({ Bucket, Policy: policyOf(Bucket) }));
  expect((await client.send(new s3.GetBucketPolicyCommand({ Bucket }))).Policy).toBe(policyOf(Bucket));
  const { PolicyStatus } = await client.send(new s3.GetBucketPolicyStatusCommand({ Bucket }));
  expect(PolicyStatus).toEqual({ IsPublic: true });
  expect(await anonymously(world.url, `/${Bucket}/key`)).toBe(200);
  await client.send(new s3.DeleteBucketPolicyCommand({ Bucket }));
  await expect(client.send(new s3.GetBucketPolicyCommand({ Bucket }))).rejects.toMatchObject({
    name: 'NoSuchBucketPolicy',
  });
});

test('an access point is used by its ARN and by its alias', async () => {
  // The SDK has S3 Control in a separate package; the action is the same.
  const { host } = new URL(world.url);
  const sign = signer({ accessKey: numbered.accessKey, secretKey: numbered.secretKey, host });
  const query = { Action: 'CreateAccessPoint', Name: 'photos', Bucket };
  const { target, headers } = sign.request({ method: 'GET', path: '/', query });
  const made = await (await fetch(world.url + target, { headers })).text();
  const [, arn = '', alias = ''] =
    /<AccessPointArn>(.*)<\/AccessPointArn><Alias>(.*)<\/Alias>/.exec(made) ?? [];
  for (const name of [arn, alias]) {
    await client.send(new s3.PutObjectCommand({ Bucket: name, Key: 'a/b', Body: 'sent' }));
    const { Body } = await client.send(new s3.GetObjectCommand({ Bucket: name, Key: 'a/b' }));
    expect(await Body?.transformToString()).toBe('sent');
    const { Contents = [] } = await client.send(new s3.ListObjectsV2Command({ Bucket: name }));
    expect(Contents.map(({ Key }) => Key)).toEqual(['a/b', 'key']);
    const { AccessPointAlias } = await client.send(new s3.HeadBucketCommand({ Bucket: name }));
    expect(AccessPointAlias).toBe(true);
  }
});
