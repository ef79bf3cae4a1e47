/** Access points on the tab Access of a bucket. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, settled } from './world.ts';

const jsonHeaders = { 'content-type': 'application/json' };
const policyOf = (arn: string, account: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: `arn:aws:iam::${account}:root` },
        Action: 's3:GetObject',
        Resource: `${arn}/object/*`,
      },
    ],
  });

describe.skipIf(noChromium !== undefined)('access points of a bucket', () => {
  let world: ConsoleWorld;
  const { alice, numbered } = testCredentials;
  beforeAll(async () => {
    world = await openConsole();
    for (const bucket of ['photos', 'plain']) await send(world.server, 'PUT', `/${bucket}`, { as: alice });
    await send(world.server, 'PUT', '/photos/cat', { body: 'meow', as: alice });
    await send(world.server, 'PUT', '/of-tenant', { as: numbered });
    await send(world.server, 'PUT', '/of-tenant/cat', { body: 'meow', as: numbered });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const create = async (bucket: string, accessPoint: string) =>
    (await (
      await send(world.server, 'POST', `/admin/v1/buckets/${bucket}/access-points`, {
        body: JSON.stringify({ accessPoint }),
        headers: jsonHeaders,
      })
    ).json()) as { readonly alias: string };

  test('an operator creates one for the account of the bucket, gives it a policy, and deletes it', async () => {
    await using tab = await world.open('/buckets/photos/access');
    const { page } = tab;
    await page.getByText('The bucket has no access point', { exact: false }).waitFor();
    await page.getByRole('button', { name: 'Create access point' }).click();
    await page.getByLabel('Name').fill('Bad Name');
    await page.getByRole('button', { name: 'Create access point' }).last().click();
    await page.getByText('MalformedJSON').waitFor();
    await page.getByLabel('Name').fill('readers');
    await page.getByRole('button', { name: 'Create access point' }).last().click();
    const panel = page.getByRole('region', { name: 'readers' });
    await panel.getByText('alice-account', { exact: true }).waitFor();
    expect(new URL(page.url()).searchParams.get('point')).toBe('readers');
    await page.getByText('Blocks public access. No policy: it adds no permission.').waitFor();
    expect(await tab.axe()).toEqual([]);
    // A proposal is shown, and nothing is stored.
    await panel.getByText('Not stored yet', { exact: false }).waitFor();
    await panel.getByLabel('Document').fill('{"Statement":[]}');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('MalformedPolicy').waitFor();
    const [, arn = ''] = await panel.locator('.copy .code').allTextContents();
    expect(arn).toMatch(/:alice-account:accesspoint\/readers$/);
    await panel.getByLabel('Document').fill(policyOf(arn, 'alice-account'));
    await panel.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Blocks public access. Its policy has 1 statement.').waitFor();
    await page.reload();
    await settled(page);
    expect(await panel.getByLabel('Document').inputValue()).toContain(`${arn}/object/*`);
    await panel.getByRole('button', { name: 'Remove policy' }).click();
    await page.getByRole('dialog').getByText('Statements of the policy').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove policy' }).click();
    await panel.getByText('Not stored yet', { exact: false }).waitFor();
    await panel.getByRole('button', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Delete' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('readers');
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('The bucket has no access point', { exact: false }).waitFor();
    expect(new URL(page.url()).searchParams.get('point')).toBe(null);
  });

  test('a tenant does the same by the storage protocol, in German and on a phone; its objects are read by the alias', async () => {
    await using tab = await world.open('/buckets/of-tenant/access', {
      as: numbered,
      width: 'phone',
      scheme: 'dark',
      locale: 'de-DE',
    });
    const { page } = tab;
    const admin: string[] = [];
    page.on('request', (request) => {
      if (/admin\/v1\/buckets\/[^/]+\/access-points/.test(request.url())) admin.push(request.url());
    });
    await page.getByText('Der Bucket hat keinen Zugangspunkt', { exact: false }).waitFor();
    await page.getByRole('button', { name: 'Zugangspunkt anlegen' }).click();
    await page.getByLabel('Name').fill('mine');
    await page.getByLabel('Öffentlichen Zugriff sperren').uncheck();
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Zugangspunkt anlegen' }).last().click();
    const panel = page.getByRole('region', { name: 'mine' });
    await panel.getByText('Sperrt öffentlichen Zugriff nicht.').waitFor();
    expect(await tab.axe()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await panel.getByRole('button', { name: 'Speichern' }).click();
    // The panel covers the row.
    const row = page.getByText('Seine Richtlinie hat 1 Statement.');
    await row.waitFor({ state: 'attached' });
    const alias = (await panel.locator('.copy .code').first().textContent()) ?? '';
    expect(alias).toMatch(/^mine-.*-s3alias$/);
    const reply = await send(world.server, 'GET', `/${alias}/cat`, { as: numbered });
    expect(await reply.text()).toBe('meow');
    // The question about a caller goes through the access point too.
    await panel.getByRole('button', { name: 'Schließen' }).click();
    await row.waitFor();
    await page.getByLabel('Zugangspunkt', { exact: true }).fill('mine');
    await page.getByRole('button', { name: 'Fragen' }).click();
    await page.getByText('anonym').first().waitFor();
    await page.reload();
    await settled(page);
    expect(await page.getByLabel('Zugangspunkt', { exact: true }).inputValue()).toBe('mine');
    await page.getByRole('link', { name: 'Details mine' }).click();
    await panel.getByRole('button', { name: 'Löschen' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('mine');
    await page.getByRole('dialog').getByRole('button', { name: 'Löschen' }).click();
    await page.getByText('Der Bucket hat keinen Zugangspunkt', { exact: false }).waitFor();
    expect(admin).toEqual([]);
  });

  test('only what policies allow is offered', async () => {
    await create('photos', 'team');
    const actions = ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListBucketConfigurations'];
    const reader = await openUser(world.server, 'point-reader', {
      actions: [...actions, 'admin:ListBucketAccessPoints', 'admin:GetBucketAccessPoint'],
    });
    await using tab = await world.open('/buckets/photos/access?point=team', { as: reader });
    const { page } = tab;
    await page.getByRole('region', { name: 'team' }).getByText('No policy: it adds no permission.').waitFor();
    for (const name of ['Create access point', 'Delete', 'Save'])
      expect(await page.getByRole('button', { name }).count()).toBe(0);
    await page.keyboard.press('Escape');
    expect(new URL(page.url()).searchParams.get('point')).toBe(null);
    // Of another account, and forbidden: the tab has no card of them.
    const blind = await openUser(world.server, 'point-blind', { actions });
    await using other = await world.open('/buckets/photos/access', { as: blind });
    await other.page.getByText('What decides').waitFor();
    expect(await other.page.getByText('Access points').count()).toBe(0);
    // A user of the tenant lists them by the storage protocol.
    await create('of-tenant', 'seen');
    const user = await openUser(world.server, 'point-user', {
      account: numbered.owner,
      actions: ['s3:GetBucketPolicy', 's3:ListAccessPoints', 's3:GetAccessPoint'],
    });
    await using third = await world.open('/buckets/of-tenant/access?point=seen', { as: user });
    await third.page.getByText('Blocks public access. No policy', { exact: false }).waitFor();
    expect(await third.page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
  });
});
