/** boto3 with its default settings, over TLS, on server-side encryption: each test runs one step of boto3-encryption.py. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Boto, openBoto } from './drivers.ts';
import { encrypting } from './encrypting.ts';
import { mib } from './world.ts';

let boto: Boto;
beforeAll(async () => {
  boto = await openBoto('boto3-encryption.py', encrypting());
});
afterAll(() => boto?.world.stop());

test('objects of every kind are put, copied, got and described', async () => {
  expect(await boto.step('small')).toEqual({
    s3: ['hello', 'AES256', null, null],
    kms: ['hello', 'aws:kms', 'second', null],
    c: ['hello', null, null, 'AES256'],
  });
});

test('20 MiB are uploaded in parts, copied by parts, and read in ranges', async () => {
  const { path, sha } = boto.world.file('large.bin', 20 * mib + 3);
  const both = [sha, sha];
  expect(await boto.step('large', path)).toEqual({ s3: both, kms: both, c: both });
});

test('without the key, or with another, the errors have their codes', async () => {
  expect(await boto.step('errors')).toEqual([
    ['InvalidRequest', 400],
    ['AccessDenied', 403],
  ]);
});
