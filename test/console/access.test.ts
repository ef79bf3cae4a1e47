/** The tab Access of a bucket. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'Read',
      Effect: 'Allow',
      Principal: '*',
      Action: ['s3:GetObject'],
      Resource: 'arn:aws:s3:::photos/public/*',
    },
    {
      Effect: 'Deny',
      Principal: { AWS: 'arn:aws:iam::alice-account:root' },
      NotAction: 's3:ListBucket',
      Resource: ['arn:aws:s3:::photos', 'arn:aws:s3:::photos/*'],
      Condition: { StringLike: { 'aws:UserAgent': '<b>*</b>' } },
    },
  ],
});

describe.skipIf(noChromium !== undefined)('the tab Access of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    for (const bucket of ['photos', 'plain']) await send(world.server, 'PUT', `/${bucket}`);
    await send(world.server, 'DELETE', '/photos', { query: { publicAccessBlock: '' } }).catch(() => {});
    await send(world.server, 'PUT', '/photos', { body: policy, query: { policy: '' } });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('says what decides in one sentence each, and leads to the document', async () => {
    await using tab = await world.open('/buckets/photos/access');
    const { page } = tab;
    await page.getByText('2 statements. It allows something to everyone.').waitFor();
    const rows = page.getByRole('region', { name: 'Statements of the policy' }).getByRole('row');
    await rows.filter({ hasText: 'Allow' }).getByText('s3:GetObject').waitFor();
    await rows.filter({ hasText: 'Deny' }).getByText('all but s3:ListBucket').waitFor();
    await rows.filter({ hasText: 'Deny' }).getByText('<b>*</b>').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('link', { name: 'Edit Policy' }).click();
    await page.getByRole('region', { name: 'policy' }).getByLabel('Document (JSON)').waitFor();
    await tab.go('/buckets/plain/access');
    await page.getByText('There is no policy').waitFor();
  });

  test('says whether a caller may do something and by which statement, and the address keeps the question', async () => {
    await using tab = await world.open('/buckets/photos/access', { width: 'phone', scheme: 'dark' });
    const { page } = tab;
    await page.getByLabel('Key of an object').fill('public/cat');
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('allowed', { exact: true }).waitFor();
    await page.getByRole('region', { name: 'Statement' }).getByText('Read').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByLabel('Key of an object').fill('private/cat');
    await page.getByLabel('Access key').fill(testCredentials.alice.accessKey);
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('denied', { exact: true }).waitFor();
    await page.reload();
    expect(await page.getByLabel('Key of an object').inputValue()).toBe('private/cat');
  });

  test('only what policy allows is offered', async () => {
    const reader = await openUser(world.server, 'access-reader', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListBucketConfigurations'],
    });
    await using tab = await world.open('/buckets/photos/access', { as: reader, locale: 'de-DE' });
    await tab.page.getByText('2 Statements. Sie erlaubt allen etwas.').waitFor();
    expect(await tab.page.getByText('Darf jemand das?').count()).toBe(0);
    const blind = await openUser(world.server, 'access-blind', { actions: ['admin:GetBucket'] });
    await using other = await world.open('/buckets/photos/access', { as: blind });
    await other.page.getByText('Your policies do not allow admin:ListBucketConfigurations.').waitFor();
    const partial = await openUser(world.server, 'access-partial', {
      actions: ['admin:ListBucketConfigurations'],
    });
    await using third = await world.open('/buckets/photos/access', { as: partial });
    await third.page.getByText('Your policies do not allow admin:GetBucket.').waitFor();
  });
});
