/** The AWS CLI with its default settings on every bucket configuration. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { awaitDefaultPeer } from '../support/replicating-servers.ts';
import { type AwsCli, openAwsCli } from './drivers.ts';
import { type ClientFamily, expectedOf, familiesOf, familySettings } from './families.ts';

const bucket = 'cli-families';
let cli: AwsCli;

beforeAll(async () => {
  cli = await openAwsCli({ settings: familySettings });
  await awaitDefaultPeer(cli.world.url);
  const api = cli.apiOf(bucket);
  await api('create-bucket');
  await api('put-bucket-versioning', '--versioning-configuration', 'Status=Enabled');
});
afterAll(() => cli?.world.stop());

/** `PutBucketCors` is `put-bucket-cors`, `CORSConfiguration` is `cors-configuration`. */
const kebab = (name: string): string =>
  name
    .replace(/([a-z])([A-Z])/g, '$1-$2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1-$2')
    .toLowerCase();

/** The Get response: the document, or the error code. */
async function readConfiguration({ of, more = {} }: ClientFamily): Promise<unknown> {
  const flags = Object.entries(more).flatMap(([name, value]) => [`--${kebab(name)}`, value]);
  const { code, stdout, stderr } = await cli.attempt(
    's3api',
    `get-${kebab(of)}`,
    '--bucket',
    bucket,
    ...flags,
  );
  if (code !== 0) return /\((\w+)\)/.exec(stderr)?.[1];
  return stdout.trim() === '' ? {} : JSON.parse(stdout);
}

test.each(familiesOf(bucket))('$of is put, told and taken away', async (family) => {
  const { of, remove = `Delete${of}`, parameter, value, more = {} } = family;
  const api = cli.apiOf(bucket);
  const flags = Object.entries(more).flatMap(([name, text]) => [`--${kebab(name)}`, text]);
  const put = (document: object) =>
    api(`put-${kebab(of)}`, ...flags, `--${kebab(parameter)}`, JSON.stringify(document));
  const steps = [await readConfiguration(family)];
  await put(value);
  steps.push(await readConfiguration(family));
  if (remove === 'emptied') await put({});
  else await api(kebab(remove), ...flags);
  steps.push(await readConfiguration(family));
  expect(steps).toEqual(expectedOf(family));
});

test('RequestPayment is returned, and inventories are listed', async () => {
  const api = cli.apiOf(bucket);
  expect(await api('get-bucket-request-payment')).toEqual({ Payer: 'BucketOwner' });
  await api('put-bucket-request-payment', '--request-payment-configuration', 'Payer=Requester');
  expect(await api('get-bucket-request-payment')).toEqual({ Payer: 'Requester' });
  expect(await api('list-bucket-inventory-configurations')).toMatchObject({ IsTruncated: false });
});

test('a bucket is created with its tags', async () => {
  const api = cli.apiOf('cli-tagged');
  await api('create-bucket', '--create-bucket-configuration', 'Tags=[{Key=a,Value=1}]');
  expect(await api('get-bucket-tagging')).toEqual({ TagSet: [{ Key: 'a', Value: '1' }] });
});

test('what is left out is refused by its code', async () => {
  const { stderr } = await cli.attempt('s3api', 'get-bucket-accelerate-configuration', '--bucket', bucket);
  expect(stderr).toContain('(NotImplemented)');
});
