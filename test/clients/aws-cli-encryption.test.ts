/** The AWS CLI with its default settings, over TLS: every way of server-side encryption. */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyOf } from '../support/encryption.ts';
import { type AwsCli, openAwsCli } from './drivers.ts';
import { encrypting } from './encrypting.ts';
import { mib, shaOfFile } from './world.ts';

const bucket = 'cli-encrypted';
let cli: AwsCli;
beforeAll(async () => {
  cli = await openAwsCli(encrypting());
  for (const seed of [1, 2]) writeFileSync(cli.world.path(`key-${seed}`), keyOf(seed));
  await cli.aws('s3', 'mb', `s3://${bucket}`);
});
afterAll(() => cli?.world.stop());

const customer = (seed: number): string[] => ['--sse-c', 'AES256', '--sse-c-key', `fileb://key-${seed}`];
const source = ['--sse-c-copy-source', 'AES256', '--sse-c-copy-source-key', 'fileb://key-1'];
const api = (...args: string[]) => cli.apiOf(bucket)(args[0] ?? '', ...args.slice(1));
const ways = [
  { name: 'AES256', write: ['--sse'], read: [], copy: [], shown: { ServerSideEncryption: 'AES256' } },
  {
    name: 'kms',
    write: ['--sse', 'aws:kms', '--sse-kms-key-id', 'second'],
    read: [],
    copy: [],
    shown: { ServerSideEncryption: 'aws:kms', SSEKMSKeyId: 'second' },
  },
  {
    name: 'customer',
    write: customer(1),
    read: customer(1),
    copy: source,
    shown: { SSECustomerAlgorithm: 'AES256' },
  },
] as const;

test.each(ways)(
  '$name: a small file goes up and comes back, and one of 12 MiB, copied onto itself in between',
  async (way) => {
    const [small, large] = [1000, 12 * mib].map((size) => cli.world.file(`${way.name}-${size}`, size));
    for (const file of [small, large]) {
      if (file === undefined) throw new Error('two files');
      const at = `s3://${bucket}/${way.name}-${file.size}`;
      await cli.aws('s3', 'cp', '--no-progress', file.path, at, ...way.write);
      if (file === large) await cli.aws('s3', 'cp', '--no-progress', at, at, ...way.copy, ...way.write);
      await cli.aws('s3', 'cp', '--no-progress', at, 'back', ...way.read);
      expect(await shaOfFile(cli.world.path('back'))).toBe(file.sha);
    }
    const key =
      way.name === 'customer'
        ? ['--sse-customer-algorithm', 'AES256', '--sse-customer-key', 'fileb://key-1']
        : [];
    expect(await api('head-object', '--key', `${way.name}-1000`, ...key)).toMatchObject(way.shown);
  },
);

test('without the key, or with another one, the client prints the reason', async () => {
  const at = `s3://${bucket}/customer-1000`;
  const none = await cli.attempt('s3', 'cp', at, 'back');
  // The response to HEAD has no body, so the CLI knows only the status.
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('(400)')]);
  const other = await cli.attempt('s3', 'cp', at, 'back', ...customer(2));
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('(403)')]);
});

test('a bucket’s default encrypts objects whose requests name no encryption', async () => {
  const rule = { ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: 'first' } };
  const configuration = JSON.stringify({ Rules: [{ ...rule, BucketKeyEnabled: true }] });
  await api('put-bucket-encryption', '--server-side-encryption-configuration', configuration);
  const file = cli.world.file('default', 100);
  await cli.aws('s3', 'cp', file.path, `s3://${bucket}/default`);
  expect(await api('head-object', '--key', 'default')).toMatchObject({
    ServerSideEncryption: 'aws:kms',
    SSEKMSKeyId: 'first',
    BucketKeyEnabled: true,
  });
});
