/** The AWS SDK for JavaScript with its default settings, over TLS: every way of server-side encryption. */
import {
  CopyObjectCommand,
  CreateBucketCommand,
  GetBucketEncryptionCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketEncryptionCommand,
  PutObjectCommand,
  UpdateObjectEncryptionCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyOf } from '../support/encryption.ts';
import { openSdk, type Sdk } from './drivers.ts';
import { encrypting } from './encrypting.ts';
import { mib, type SampleFile, sha } from './world.ts';

const Bucket = 'sdk-encrypted';
let sdk: Sdk;
let client: Sdk['client'];
let large: SampleFile;

beforeAll(async () => {
  sdk = await openSdk(encrypting());
  client = sdk.client;
  large = sdk.world.file('large.bin', 12 * mib + 5);
  await client.send(new CreateBucketCommand({ Bucket }));
});
afterAll(() => sdk?.stop());

const customer = (seed: number) => ({
  SSECustomerAlgorithm: 'AES256',
  SSECustomerKey: keyOf(seed).toString('base64'),
});
const source = (seed: number) => ({
  CopySourceSSECustomerAlgorithm: 'AES256',
  CopySourceSSECustomerKey: keyOf(seed).toString('base64'),
});

interface Way {
  readonly name: string;
  readonly write: object;
  readonly read: object;
  readonly copy: object;
  readonly shown: object;
}
const ways: readonly Way[] = [
  {
    name: 'SSE-S3',
    write: { ServerSideEncryption: 'AES256' },
    read: {},
    copy: {},
    shown: { ServerSideEncryption: 'AES256' },
  },
  {
    name: 'SSE-KMS',
    write: { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'alias/main', BucketKeyEnabled: true },
    read: {},
    copy: {},
    shown: { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'first', BucketKeyEnabled: true },
  },
  {
    name: 'SSE-C',
    write: customer(1),
    read: customer(1),
    copy: source(1),
    shown: { SSECustomerAlgorithm: 'AES256', SSECustomerKeyMD5: expect.any(String) },
  },
];

test.each(ways)('$name: put, head, get and copy', async ({ name, write, read, copy, shown }) => {
  const Key = `small-${name}`;
  expect(await client.send(new PutObjectCommand({ Bucket, Key, Body: 'hello', ...write }))).toMatchObject(
    shown,
  );
  expect(await client.send(new HeadObjectCommand({ Bucket, Key, ...read }))).toMatchObject({
    ContentLength: 5,
    ...shown,
  });
  const got = await client.send(new GetObjectCommand({ Bucket, Key, ...read }));
  expect(got).toMatchObject(shown);
  expect(await got.Body?.transformToString()).toBe('hello');
  const copying = { Bucket, Key: `${Key}-copy`, CopySource: `${Bucket}/${Key}`, ...copy, ...write };
  expect(await client.send(new CopyObjectCommand(copying))).toMatchObject(shown);
  const copied = await client.send(new GetObjectCommand({ Bucket, Key: `${Key}-copy`, ...read }));
  expect(await copied.Body?.transformToString()).toBe('hello');
});

test.each(ways)(
  '$name: a multipart upload is read whole and in a range',
  async ({ name, write, read, shown }) => {
    const Key = `large-${name}`;
    await new Upload({ client, params: { Bucket, Key, Body: large.bytes, ...write } }).done();
    const got = await client.send(new GetObjectCommand({ Bucket, Key, ...read }));
    expect(got).toMatchObject(shown);
    expect(sha((await got.Body?.transformToByteArray()) ?? new Uint8Array())).toBe(large.sha);
    const Range = `bytes=${5 * mib - 3}-${5 * mib + 4}`;
    const range = await client.send(new GetObjectCommand({ Bucket, Key, Range, ...read }));
    expect(Buffer.from((await range.Body?.transformToByteArray()) ?? [])).toEqual(
      large.bytes.subarray(5 * mib - 3, 5 * mib + 5),
    );
  },
);

test('without the key, or with another, the errors have their names', async () => {
  const Key = 'small-SSE-C';
  const refused = (given: object) => client.send(new GetObjectCommand({ Bucket, Key, ...given }));
  await expect(refused({})).rejects.toMatchObject({ name: 'InvalidRequest' });
  await expect(refused(customer(2))).rejects.toMatchObject({ name: 'AccessDenied' });
  const unknown = { Bucket, Key, Body: 'x', ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'third' } as const;
  await expect(client.send(new PutObjectCommand(unknown))).rejects.toMatchObject({
    name: 'KMS.NotFoundException',
  });
});

test('a key is changed without moving the object', async () => {
  const Key = 'small-SSE-S3';
  const before = await client.send(new HeadObjectCommand({ Bucket, Key }));
  const ObjectEncryption = { SSEKMS: { KMSKeyArn: 'arn:aws:kms:us-east-1:000000000000:key/second' } };
  await client.send(new UpdateObjectEncryptionCommand({ Bucket, Key, ObjectEncryption }));
  const after = await client.send(new HeadObjectCommand({ Bucket, Key }));
  expect(after).toMatchObject({ ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'second', ETag: before.ETag });
  expect(after.LastModified).toEqual(before.LastModified);
});

test('a bucket’s default encrypts objects whose requests name no encryption', async () => {
  const Rules = [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' as const } }];
  await client.send(new PutBucketEncryptionCommand({ Bucket, ServerSideEncryptionConfiguration: { Rules } }));
  const { ServerSideEncryptionConfiguration } = await client.send(new GetBucketEncryptionCommand({ Bucket }));
  expect(ServerSideEncryptionConfiguration?.Rules).toMatchObject(Rules);
  const put = await client.send(new PutObjectCommand({ Bucket, Key: 'default', Body: 'hello' }));
  expect(put.ServerSideEncryption).toBe('AES256');
});
