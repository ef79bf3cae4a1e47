/** boto3 with its default settings on every bucket configuration: one run of boto3-families.py drives them all. */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { awaitDefaultPeer } from '../support/replicating-servers.ts';
import { type Boto, openBoto } from './drivers.ts';
import { expectedOf, familiesOf, familySettings } from './families.ts';

const bucket = 'boto-families';
let boto: Boto;
let told: Record<string, unknown>;

beforeAll(async () => {
  boto = await openBoto('boto3-families.py', { settings: familySettings });
  await awaitDefaultPeer(boto.world.url);
  const file = boto.world.path('families.json');
  writeFileSync(file, JSON.stringify(familiesOf(bucket)));
  told = (await boto.step('drive', bucket, file)) as Record<string, unknown>;
});
afterAll(() => boto?.world.stop());

test.each(familiesOf(bucket))('$of is put, told and taken away', (family) => {
  expect(told[family.of]).toEqual(expectedOf(family));
});
