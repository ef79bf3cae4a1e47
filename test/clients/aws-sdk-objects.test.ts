/** The AWS SDK for JavaScript with its default settings on object tags, Object Lock, restores and parts. */
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  DeleteObjectTaggingCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectLegalHoldCommand,
  GetObjectLockConfigurationCommand,
  GetObjectRetentionCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  InvalidObjectState,
  ListObjectVersionsCommand,
  PutObjectCommand,
  PutObjectLegalHoldCommand,
  PutObjectLockConfigurationCommand,
  PutObjectRetentionCommand,
  PutObjectTaggingCommand,
  RestoreObjectCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSdk, type Sdk } from './drivers.ts';
import { mib } from './world.ts';

const Bucket = 'sdk-objects';
const dayMs = 86_400_000;
let sdk: Sdk;
let client: Sdk['client'];

beforeAll(async () => {
  sdk = await openSdk();
  client = sdk.client;
  await client.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
});
afterAll(() => sdk?.stop());

test('tags are put, returned, counted and deleted', async () => {
  const at = { Bucket, Key: 'tagged é' };
  await client.send(new PutObjectCommand({ ...at, Body: 'x', Tagging: 'a=1' }));
  const told = async () => (await client.send(new GetObjectTaggingCommand(at))).TagSet;
  expect(await told()).toEqual([{ Key: 'a', Value: '1' }]);
  const TagSet = [{ Key: 'b', Value: 'ü' }];
  await client.send(new PutObjectTaggingCommand({ ...at, Tagging: { TagSet } }));
  expect(await told()).toEqual(TagSet);
  expect((await client.send(new GetObjectCommand(at))).TagCount).toBe(1);
  await client.send(new DeleteObjectTaggingCommand(at));
  expect(await told()).toEqual([]);
});

test('retention and legal hold keep a version, one by one and in bulk', async () => {
  const Key = 'held';
  const until = new Date(Math.ceil(Date.now() / 1000) * 1000 + dayMs);
  const { VersionId = '' } = await client.send(
    new PutObjectCommand({
      Bucket,
      Key,
      Body: 'x',
      ObjectLockMode: 'GOVERNANCE',
      ObjectLockRetainUntilDate: until,
      ObjectLockLegalHoldStatus: 'ON',
    }),
  );
  const at = { Bucket, Key, VersionId };
  expect((await client.send(new GetObjectRetentionCommand(at))).Retention).toEqual({
    Mode: 'GOVERNANCE',
    RetainUntilDate: until,
  });
  expect(await client.send(new HeadObjectCommand(at))).toMatchObject({
    ObjectLockMode: 'GOVERNANCE',
    ObjectLockRetainUntilDate: until,
    ObjectLockLegalHoldStatus: 'ON',
  });
  const BypassGovernanceRetention = true;
  const remove = () => client.send(new DeleteObjectCommand({ ...at, BypassGovernanceRetention }));
  await expect(remove()).rejects.toMatchObject({ name: 'AccessDenied' });
  await client.send(new PutObjectLegalHoldCommand({ ...at, LegalHold: { Status: 'OFF' } }));
  expect((await client.send(new GetObjectLegalHoldCommand(at))).LegalHold).toEqual({ Status: 'OFF' });
  const Delete = { Objects: [{ Key, VersionId }] };
  const { Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete }));
  expect(Errors).toMatchObject([{ Key, VersionId, Code: 'AccessDenied' }]);
  const Retention = { Mode: 'COMPLIANCE' as const, RetainUntilDate: until };
  await client.send(new PutObjectRetentionCommand({ ...at, Retention, BypassGovernanceRetention }));
  await expect(remove()).rejects.toMatchObject({ name: 'AccessDenied' });
});

test('a default retention is put and returned', async () => {
  const Rule = { DefaultRetention: { Mode: 'COMPLIANCE' as const, Days: 3 } };
  const ObjectLockConfiguration = { ObjectLockEnabled: 'Enabled' as const, Rule };
  await client.send(new PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration }));
  const told = await client.send(new GetObjectLockConfigurationCommand({ Bucket }));
  expect(told.ObjectLockConfiguration).toEqual(ObjectLockConfiguration);
});

test('an archived object is refused by its error, restored, read, and listed with its expiry', async () => {
  const at = { Bucket, Key: 'archived' };
  await client.send(new PutObjectCommand({ ...at, Body: 'archived', StorageClass: 'GLACIER' }));
  const refused: unknown = await client.send(new GetObjectCommand(at)).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(InvalidObjectState);
  expect(refused).toMatchObject({ StorageClass: 'GLACIER' });
  await client.send(new RestoreObjectCommand({ ...at, RestoreRequest: { Days: 1 } }));
  const got = await client.send(new GetObjectCommand(at));
  expect([await got.Body?.transformToString(), got.Restore?.slice(0, 23)]).toEqual([
    'archived',
    'ongoing-request="false"',
  ]);
  const { Versions } = await client.send(
    new ListObjectVersionsCommand({
      Bucket,
      Prefix: 'archived',
      OptionalObjectAttributes: ['RestoreStatus'],
    }),
  );
  const expiry = Versions?.[0]?.RestoreStatus?.RestoreExpiryDate?.getTime() ?? 0;
  expect(expiry).toBeGreaterThan(Date.now() + dayMs);
});

test('the parts of an object are returned in pages', async () => {
  const at = { Bucket, Key: 'parts' };
  const Body = Buffer.alloc(11 * mib, 'parts');
  await new Upload({ client, params: { ...at, Body, ChecksumAlgorithm: 'SHA256' } }).done();
  const seen: unknown[] = [];
  let PartNumberMarker: string | undefined;
  for (let page = 0; page < 3; page += 1) {
    const { ObjectParts, ETag } = await client.send(
      new GetObjectAttributesCommand({
        ...at,
        ObjectAttributes: ['ETag', 'ObjectParts'],
        MaxParts: 1,
        ...(PartNumberMarker === undefined ? {} : { PartNumberMarker }),
      }),
    );
    expect([ETag?.slice(-2), ObjectParts?.TotalPartsCount, ObjectParts?.IsTruncated]).toEqual([
      '-3',
      3,
      page < 2,
    ]);
    for (const each of ObjectParts?.Parts ?? [])
      seen.push([each.PartNumber, each.Size, each.ChecksumSHA256?.length]);
    PartNumberMarker = ObjectParts?.NextPartNumberMarker;
  }
  expect(seen).toEqual([
    [1, 5 * mib, 44],
    [2, 5 * mib, 44],
    [3, mib, 44],
  ]);
});
