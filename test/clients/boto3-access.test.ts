/** boto3 with its default settings on ACLs, policies and access points. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { accessSettings, byName, everyone } from './access.ts';
import { installed } from './installed.ts';
import { awsKeys, startWorld, type World } from './world.ts';

const numbered = testCredentials.numbered;
let world: World;
const step = async (name: string): Promise<unknown> =>
  JSON.parse(
    await world.run(
      installed('python'),
      join(import.meta.dirname, 'boto3-access.py'),
      name,
      numbered.owner,
      everyone,
    ),
  );

beforeAll(async () => {
  world = await startWorld(
    (place) => ({ ...awsKeys({ ...place, user: numbered }), ...byName(place) }),
    accessSettings,
  );
});
afterAll(() => world?.stop());

test('ACLs, policies and access points are driven one after the other', async () => {
  expect(await step('acls')).toEqual([
    ['READ', 'FULL_CONTROL'],
    ['READ'],
    true,
    ['FULL_CONTROL'],
    'InvalidRequest',
  ]);
  expect(await step('policies')).toEqual([
    'NoSuchBucketPolicy',
    true,
    { PolicyStatus: { IsPublic: true } },
    'MalformedPolicy',
    'NoSuchBucketPolicy',
  ]);
  expect(await step('access_points')).toEqual([
    `arn:aws:s3:default:${numbered.owner}:accesspoint/photos`,
    'sent',
    ['copy', 'key'],
    'sent',
    ['copy', 'key'],
    ['photos'],
    'NoSuchAccessPointPolicy',
    'BucketHasAccessPointsAttached',
    'NoSuchAccessPoint',
  ]);
});
