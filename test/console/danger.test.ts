/** The danger zone of a bucket. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { isOnEngines } from './on-engines.ts';
import { openUser, pauseWorker } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('the danger zone of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    for (const bucket of ['photos', 'films', 'spare', 'given']) await send(world.server, 'PUT', `/${bucket}`);
    for (const bucket of ['photos', 'films'])
      for (const key of ['a', 'b', 'c'])
        await send(world.server, 'PUT', `/${bucket}/${key}`, { body: 'x'.repeat(1_024) });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('a bucket is emptied after its name was typed, with what it concerns in numbers', async () => {
    await using tab = await world.open('/buckets/photos/danger');
    const { page } = tab;
    await page.getByRole('button', { name: 'Empty the bucket' }).click();
    const dialog = page.getByRole('dialog', { name: 'Empty photos?' });
    await dialog.getByText('This cannot be undone.').waitFor();
    await dialog.getByText('3 KiB').waitFor();
    const button = dialog.getByRole('button', { name: 'Empty the bucket' });
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel('Type photos to confirm').fill('photo');
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel('Type photos to confirm').fill('photos');
    expect(await tab.axe()).toEqual([]);
    await button.click();
    await page.getByText(/Deleted: 3 versions, 0 delete markers, 0 uploads\. Nothing was left\./).waitFor();
    await page.getByText('0 objects, 0 B').waitFor();
  });

  test('an emptying that runs shows how far it is and why it waits, and is cancelled', async () => {
    await pauseWorker(world.server, 'force-empty', 'a <b>look</b> first');
    await send(world.server, 'POST', '/admin/v1/buckets/films/force-empty');
    await using tab = await world.open('/buckets/films/danger');
    const { page } = tab;
    await page.getByRole('progressbar', { name: 'Emptying' }).waitFor();
    await page.getByText('a <b>look</b> first').waitFor();
    await page.getByText(/0 B \/ 3 KiB/).waitFor();
    expect(await page.getByRole('button', { name: 'Empty the bucket' }).count()).toBe(0);
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('An operator cancelled it.').waitFor();
    await page.getByRole('button', { name: 'Empty the bucket' }).waitFor();
    await send(world.server, 'POST', '/admin/v1/workers/force-empty/resume', { body: '{}' });
    await send(world.server, 'GET', '/films/a');
  });

  test('a bucket that is not empty is not deleted, and the reason names what is in it', async () => {
    await using tab = await world.open('/buckets/films/danger', { width: 'phone', scheme: 'dark' });
    const { page } = tab;
    await page.getByRole('button', { name: 'Delete the bucket' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete films?' });
    await dialog.getByText(/It holds 3 objects and versions/).waitFor();
    await dialog.getByLabel('Type films to confirm').fill('films');
    await dialog.getByRole('button', { name: 'Delete the bucket' }).click();
    const failure = dialog.getByRole('alert');
    await failure.getByText('BucketNotEmpty').waitFor();
    await failure.getByText(/The bucket films has 3 objects; the first key is "a"/).waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  test('an empty bucket is deleted, and the list of buckets is shown', async () => {
    await using tab = await world.open('/buckets/spare/danger');
    const { page } = tab;
    await page.getByRole('button', { name: 'Delete the bucket' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Type spare to confirm').fill('spare');
    await dialog.getByRole('button', { name: 'Delete the bucket' }).click();
    await page.getByRole('heading', { name: 'Buckets', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'films' }).waitFor();
    expect(await page.getByRole('link', { name: 'spare' }).count()).toBe(0);
  });

  test('a bucket gets another owner, and what became of its policy is said', async () => {
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Deny', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::given/x' },
      ],
    });
    await send(world.server, 'PUT', '/given', { body: policy, query: { policy: '' } });
    await using tab = await world.open('/buckets/given/danger');
    const { page } = tab;
    await page.getByRole('button', { name: 'Change the owner' }).click();
    expect(page.url()).toContain('owner=1');
    const panel = page.getByRole('region', { name: 'Change the owner' });
    await panel.getByRole('combobox', { name: 'New owner' }).selectOption('alice-account');
    await panel.getByLabel(/Drop the policy/).check();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Change the owner' }).click();
    await page.getByText('Its policy was dropped.').waitFor();
    await page.getByText('arn:aws:s3:::given/x').waitFor();
    await page.getByText('owned by alice').waitFor();
  });

  test('a bucket gets more shards, and the reason why no row moved is shown', async () => {
    await using tab = await world.open('/buckets/films/danger');
    const { page } = tab;
    await page.getByRole('button', { name: 'More shards' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Shards').selectOption('256');
    await dialog.getByText('This cannot be undone.').waitFor();
    await dialog.getByRole('button', { name: 'More shards' }).click();
    // Only a store that keeps shards apart has rows to move.
    await page.getByText(isOnEngines ? /to 256 shards/ : /to 256 shards, with 0 rows moved/).waitFor();
    await page.getByText(/has 256 shards/).waitFor();
  });

  test('only what policy allows is offered, and tenants have no danger zone', async () => {
    const cleaner = await openUser(world.server, 'cleaner', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:DeleteBucket'],
    });
    await using tab = await world.open('/buckets/films/danger', { as: cleaner, locale: 'de-DE' });
    await tab.page.getByRole('button', { name: 'Bucket löschen' }).waitFor();
    for (const name of ['Bucket leeren', 'Besitzer ändern', 'Mehr Shards'])
      expect(await tab.page.getByRole('button', { name }).count()).toBe(0);
    await send(world.server, 'PUT', '/of-alice', { as: testCredentials.alice });
    await using tenant = await world.open('/buckets/of-alice/objects/', { as: testCredentials.alice });
    await tenant.page.getByRole('link', { name: 'Usage' }).waitFor();
    expect(await tenant.page.getByRole('link', { name: 'Danger zone' }).count()).toBe(0);
    await tenant.go('/buckets/of-alice/danger');
    await tenant.page.waitForURL(/of-alice\/objects/);
  });
});
