/** The AWS SDK through a gateway whose upstream is another gateway: the objects stored upstream, and the reads of upstream clients. */
import { createReadStream } from 'node:fs';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstreamServer, type UpstreamEngine } from '../support/engines/upstream.ts';
import { openSdk, type Sdk } from './drivers.ts';
import { mib, sha } from './world.ts';

const Bucket = 'sdk-bucket';
let upstream: UpstreamEngine;
let sdk: Sdk;
beforeAll(async () => {
  upstream = await startUpstreamServer();
  sdk = await openSdk({
    settings: {
      ...upstream.environment,
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: upstream.bucket,
      SVC_GC_INTERVAL: '100ms',
      SVC_GC_GRACE: '0s',
    },
  });
  await sdk.client.send(new CreateBucketCommand({ Bucket }));
});
afterAll(async () => {
  await sdk?.stop();
  await upstream?.[Symbol.asyncDispose]();
});

const shaOf = async (Key: string): Promise<string> => {
  const { Body } = await sdk.client.send(new GetObjectCommand({ Bucket, Key }));
  return sha((await Body?.transformToByteArray()) ?? new Uint8Array());
};

test('puts, uploads in parts, reads ranges, copies, lists and deletes', async () => {
  const { client, world } = sdk;
  const large = world.file('large.bin', 23 * mib);
  await client.send(new PutObjectCommand({ Bucket, Key: 'small é', Body: 'hello' }));
  await new Upload({
    client,
    params: { Bucket, Key: 'large', Body: createReadStream(large.path) },
    partSize: 6 * mib,
  }).done();
  await client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource: `${Bucket}/large` }));
  expect([await shaOf('large'), await shaOf('copy')]).toEqual([large.sha, large.sha]);
  const { Body } = await client.send(
    new GetObjectCommand({ Bucket, Key: 'large', Range: 'bytes=6291450-6291465' }),
  );
  const range = (await Body?.transformToByteArray()) ?? new Uint8Array();
  expect(Buffer.compare(range, large.bytes.subarray(6_291_450, 6_291_466))).toBe(0);
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  expect(Contents.map(({ Key, Size }) => [Key, Size])).toEqual([
    ['copy', 23 * mib],
    ['large', 23 * mib],
    ['small é', 5],
  ]);
  // The upstream stores one object for each object of the first gateway.
  expect((await upstream.sizes()).sort((a, b) => a - b)).toEqual([5, 23 * mib, 23 * mib]);
  const Objects = Contents.map(({ Key = '' }) => ({ Key }));
  await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  await client.send(new DeleteBucketCommand({ Bucket }));
  await expect.poll(() => upstream.sizes(), { timeout: 120_000, interval: 200 }).toEqual([]);
});
