/** The AWS SDK for JavaScript with its default settings on every bucket configuration. */
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { awaitDefaultPeer } from '../support/replicating-servers.ts';
import { openSdk, type Sdk } from './drivers.ts';
import { type ClientFamily, expectedOf, familiesOf, familySettings } from './families.ts';

const Bucket = 'sdk-families';
let sdk: Sdk;

beforeAll(async () => {
  sdk = await openSdk({ settings: familySettings });
  await awaitDefaultPeer(sdk.world.url);
  await sdk.client.send(new s3.CreateBucketCommand({ Bucket }));
  await ask('PutBucketVersioning', { VersioningConfiguration: { Status: 'Enabled' } });
});
afterAll(() => sdk?.stop());

type Command = new (input: object) => s3.GetBucketCorsCommand;

async function ask(operation: string, input: object): Promise<object> {
  // The cast is safe: the SDK has one class per operation, all with the same constructor.
  const Of = (s3 as unknown as Record<string, Command>)[`${operation}Command`];
  if (Of === undefined) throw new Error(`the SDK has no ${operation}`);
  const { $metadata: _, ...members } = await sdk.client.send(new Of({ Bucket, ...input }));
  return members;
}

/** The Get response: the document, or the error code. */
const readConfiguration = ({ of, more }: ClientFamily): Promise<unknown> =>
  ask(`Get${of}`, { ...more }).catch((error: unknown) => (error as Error).name);

test.each(familiesOf(Bucket))('$of is put, told and taken away', async (family) => {
  const { of, remove = `Delete${of}`, parameter, value, more } = family;
  const steps = [await readConfiguration(family)];
  await ask(`Put${of}`, { ...more, [parameter]: value });
  steps.push(await readConfiguration(family));
  if (remove === 'emptied') await ask(`Put${of}`, { ...more, [parameter]: {} });
  else await ask(remove, { ...more });
  steps.push(await readConfiguration(family));
  expect(steps).toEqual(expectedOf(family));
});

test('RequestPayment is returned, and inventories are listed', async () => {
  expect(await ask('GetBucketRequestPayment', {})).toEqual({ Payer: 'BucketOwner' });
  await ask('PutBucketRequestPayment', { RequestPaymentConfiguration: { Payer: 'Requester' } });
  expect(await ask('GetBucketRequestPayment', {})).toEqual({ Payer: 'Requester' });
  expect(await ask('ListBucketInventoryConfigurations', {})).toEqual({ IsTruncated: false });
});

test('the replies for an object have its expiration', async () => {
  const LifecycleConfiguration = {
    Rules: [{ ID: 'soon', Status: 'Enabled', Filter: { Prefix: '' }, Expiration: { Days: 1 } }],
  };
  await ask('PutBucketLifecycleConfiguration', { LifecycleConfiguration });
  const { Expiration } = await sdk.client.send(new s3.PutObjectCommand({ Bucket, Key: 'key', Body: 'x' }));
  expect(Expiration).toMatch(/^expiry-date="\w{3}, \d\d \w{3} \d{4} 00:00:00 GMT", rule-id="soon"$/);
});

test('what is left out is refused by its code', async () => {
  await expect(ask('GetBucketAccelerateConfiguration', {})).rejects.toMatchObject({ name: 'NotImplemented' });
});
