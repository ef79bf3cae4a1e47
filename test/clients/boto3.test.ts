/** boto3 with its default settings: each test runs one step of boto3-client.py in a separate process. */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Boto, openBoto } from './drivers.ts';
import { keyCount, largeBytes, mib, type SampleFile, type World, wideKeys } from './world.ts';

let boto: Boto;
let world: World;
let large: SampleFile;

beforeAll(async () => {
  boto = await openBoto('boto3-client.py');
  world = boto.world;
  large = world.file('large.bin', largeBytes);
});
afterAll(() => world?.stop());

const step = (name: string, ...args: string[]): Promise<unknown> => boto.step(name, ...args);

test('a bucket that was made is there and is listed', async () => {
  expect(await step('make')).toEqual(['boto-bucket']);
});

test('a small object keeps its bytes, metadata and the checksum that the client chose', async () => {
  expect(await step('small')).toEqual({
    etag: '"5d41402abc4b2a76b9719d911017c592"',
    crc32: 'NhCmhg==',
    body: 'hello',
    type: 'text/plain',
    metadata: { colour: 'blue' },
  });
});

test('100 MiB are uploaded in 13 parts and downloaded unchanged', async () => {
  const { etag, ...rest } = (await step('large', large.path)) as { etag: string };
  expect(etag).toMatch(/-13"$/);
  expect(rest).toEqual({ size: largeBytes, sha: large.sha });
});

test('2,500 keys are listed in order, each once, by both listings', async () => {
  writeFileSync(world.path('keys.json'), JSON.stringify(wideKeys()));
  expect(await step('wide', world.path('keys.json'))).toEqual({ v1: wideKeys(), v2: wideKeys() });
});

test('a range brings its bytes alone', async () => {
  expect(await step('byte_range')).toEqual({
    body: large.bytes.subarray(5 * mib, 5 * mib + 10).toString('hex'),
    range: `bytes ${5 * mib}-${5 * mib + 9}/${largeBytes}`,
  });
});

test('the URLs that it presigns put and get, those of version 2 and those of version 4', async () => {
  const told = { body: 'by url', type: 'text/x-chosen' };
  expect(await step('presign')).toEqual({
    'us-east-1': { ...told, version: 2 },
    'eu-central-1': { ...told, version: 4 },
  });
});

test('names that need every kind of escape are put, got, copied, listed and deleted', async () => {
  expect(await step('names')).toEqual({ listed: true, deleted: true });
});

test('copies keep bytes and metadata, in one request and by parts', async () => {
  expect(await step('copy')).toEqual({ metadata: { colour: 'blue' }, type: 'text/plain', sha: large.sha });
});

test('errors carry their codes', async () => {
  expect(await step('errors')).toEqual([
    ['NoSuchKey', 404],
    ['NoSuchBucket', 404],
    ['PreconditionFailed', 412],
    ['BucketNotEmpty', 409],
  ]);
});

test('versions and delete markers are listed and deleted, and their bucket with them', async () => {
  // boto3 sorts delete markers behind versions, in any order of the response.
  expect(await step('versions')).toEqual([
    ['key', false, 3],
    ['key', false, 3],
    ['key', true, null],
  ]);
});

test('DeleteObjects removes a thousand keys at a time, and DeleteBucket the empty bucket', async () => {
  expect(await step('remove')).toEqual({ count: keyCount + 6, errors: [], buckets: [] });
});
