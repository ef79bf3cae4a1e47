/** The AWS SDK for JavaScript with its default settings: client-s3, lib-storage and the presigner. */
import { createReadStream } from 'node:fs';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectsCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  NoSuchKey,
  PutObjectCommand,
  paginateListObjectsV2,
  waitUntilBucketExists,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSdk, type Sdk } from './drivers.ts';
import { keyCount, largeBytes, mib, type SampleFile, sha, wideKeys } from './world.ts';

const Bucket = 'sdk-bucket';
const parallel = 16;
let sdk: Sdk;
let client: Sdk['client'];
let large: SampleFile;

beforeAll(async () => {
  sdk = await openSdk();
  const { world } = sdk;
  client = sdk.client;
  large = world.file('large.bin', largeBytes);
  await client.send(new CreateBucketCommand({ Bucket }));
});
afterAll(() => sdk?.stop());

/** The hash of the body that GetObject returns. */
async function shaOf(Key: string): Promise<string> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
  return sha((await Body?.transformToByteArray()) ?? new Uint8Array());
}

test('a bucket that was made exists and is listed', async () => {
  await waitUntilBucketExists({ client, maxWaitTime: 10 }, { Bucket });
  const { Buckets } = await client.send(new ListBucketsCommand({}));
  expect(Buckets?.map(({ Name }) => Name)).toContain(Bucket);
});

test('a small object keeps its bytes, metadata and the checksum that the client chose', async () => {
  const put = {
    Bucket,
    Key: 'small é.txt',
    Body: 'hello',
    ContentType: 'text/plain',
    Metadata: { colour: 'blue' },
  };
  const { ChecksumCRC32, ETag } = await client.send(new PutObjectCommand(put));
  expect({ ChecksumCRC32, ETag }).toEqual({
    ChecksumCRC32: 'NhCmhg==',
    ETag: '"5d41402abc4b2a76b9719d911017c592"',
  });
  const got = await client.send(new GetObjectCommand({ Bucket, Key: put.Key }));
  expect(await got.Body?.transformToString()).toBe('hello');
  expect(got).toMatchObject({ ContentType: 'text/plain', Metadata: { colour: 'blue' }, ChecksumCRC32 });
});

test('a stream of unknown length goes up in parts, and 100 MiB come back as they went', async () => {
  const upload = new Upload({
    client,
    params: { Bucket, Key: 'large.bin', Body: createReadStream(large.path) },
  });
  const { ETag } = await upload.done();
  expect(ETag).toMatch(/-20"$/);
  expect(await shaOf('large.bin')).toBe(large.sha);
});

test.each(['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const)(
  'parts that carry %s make an object that carries it',
  async (ChecksumAlgorithm) => {
    const Body = large.bytes.subarray(0, 11 * mib);
    const Key = `parts-${ChecksumAlgorithm}`;
    await new Upload({ client, params: { Bucket, Key, Body, ChecksumAlgorithm } }).done();
    const got = await client.send(
      new GetObjectAttributesCommand({
        Bucket,
        Key,
        ObjectAttributes: ['Checksum', 'ObjectParts', 'ObjectSize'],
      }),
    );
    expect(got.ObjectSize).toBe(Body.length);
    expect(got.ObjectParts?.TotalPartsCount).toBe(3);
    expect(got.Checksum).toHaveProperty(`Checksum${ChecksumAlgorithm}`);
    expect(await shaOf(Key)).toBe(sha(Body));
  },
);

test('2,500 keys are listed in order, each once', async () => {
  const waiting = wideKeys().values();
  const lane = async (): Promise<void> => {
    for (const Key of waiting) await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  };
  await Promise.all(Array.from({ length: parallel }, lane));
  const keys: (string | undefined)[] = [];
  for await (const page of paginateListObjectsV2({ client }, { Bucket, Prefix: 'wide/' }))
    keys.push(...(page.Contents ?? []).map(({ Key }) => Key));
  expect(keys).toEqual(wideKeys());
});

test('a range brings its bytes alone', async () => {
  const Range = `bytes=${5 * mib - 3}-${5 * mib + 4}`;
  const got = await client.send(new GetObjectCommand({ Bucket, Key: 'large.bin', Range }));
  const bytes = await got.Body?.transformToByteArray();
  expect(Buffer.from(bytes ?? [])).toEqual(large.bytes.subarray(5 * mib - 3, 5 * mib + 5));
  expect(got.ContentRange).toBe(`bytes ${5 * mib - 3}-${5 * mib + 4}/${largeBytes}`);
});

test('a presigned URL puts, and another gets', async () => {
  const Key = 'presigned é.bin';
  const put = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key }));
  const get = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key }));
  expect((await fetch(put, { method: 'PUT', body: 'by url' })).status).toBe(200);
  expect(await (await fetch(get)).text()).toBe('by url');
});

test('a copy has the bytes and the metadata of its source', async () => {
  const CopySource = `${Bucket}/${encodeURIComponent('small é.txt')}`;
  await client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource }));
  const got = await client.send(new HeadObjectCommand({ Bucket, Key: 'copy' }));
  expect(got).toMatchObject({ ContentLength: 5, ContentType: 'text/plain', Metadata: { colour: 'blue' } });
});

test('a condition that fails and a key that is not there are errors with their names', async () => {
  const put = new PutObjectCommand({ Bucket, Key: 'copy', Body: 'x', IfNoneMatch: '*' });
  await expect(client.send(put)).rejects.toMatchObject({ name: 'PreconditionFailed' });
  const get = client.send(new GetObjectCommand({ Bucket, Key: 'missing' }));
  await expect(get).rejects.toBeInstanceOf(NoSuchKey);
});

test('DeleteObjects removes a thousand keys at a time, and DeleteBucket the empty bucket', async () => {
  let deleted = 0;
  for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket })) {
    const Objects = Contents.map(({ Key = '' }) => ({ Key }));
    const { Deleted, Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    expect(Errors ?? []).toEqual([]);
    deleted += Deleted?.length ?? 0;
  }
  expect(deleted).toBeGreaterThan(keyCount);
  await client.send(new DeleteBucketCommand({ Bucket }));
  const { Buckets } = await client.send(new ListBucketsCommand({}));
  expect(Buckets ?? []).toEqual([]);
});
