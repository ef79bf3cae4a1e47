/** The tab Settings of a bucket: its configurations as JSON. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessFamilies, automationFamilies, storageFamilies } from '../../console/storage/families.ts';
import { type ConfigurationFamily, configurationFamilies } from '../../src/protocol/schemas/families.ts';
import { policyOf } from '../support/access.ts';
import { pageOf } from './addresses.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const at = '/admin/v1/buckets/photos/configurations';
const storedOf = async ({ server }: ConsoleWorld): Promise<Record<string, unknown>> => {
  const reply = await send(server, 'GET', at);
  return ((await reply.json()) as { configurations: Record<string, unknown> }).configurations;
};

describe.skipIf(noChromium !== undefined)('the tab Settings of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    await send(world.server, 'PUT', '/photos');
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('a configuration is checked, saved and removed, and refusals lead to their lines', async () => {
    await using tab = await world.open('/buckets/photos/settings');
    const { page } = tab;
    await page.getByText(/ of 16 configurations are set\./).waitFor();
    await page.getByRole('link', { name: 'cors' }).click();
    expect(page.url()).toContain('family=cors');
    const panel = page.getByRole('region', { name: 'cors' });
    await panel.getByText(/This is an example/).waitFor();
    await panel.getByRole('button', { name: 'JSON', exact: true }).click();
    const area = panel.getByLabel('Document (JSON)');
    const wrong = {
      CORSRule: [{ AllowedOrigin: ['*'], AllowedMethod: ['GET', 'FETCH<b>'], MaxAgeSeconds: -1 }],
    };
    await area.fill(JSON.stringify(wrong, null, 2));
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText(/would be refused\. Nothing was stored\./).waitFor();
    await panel.getByText('CORSRule[0].MaxAgeSeconds').first().waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Line 11' }).first().click();
    const line = await area.evaluate(
      (element: HTMLTextAreaElement) => element.value.slice(0, element.selectionStart).split('\n').length,
    );
    expect(line).toBe(11);
    expect(await storedOf(world)).not.toHaveProperty('cors');
    await area.fill('{"CORSRule": [');
    await panel.getByRole('button', { name: 'Check' }).click();
    await panel.locator('.field .fault').waitFor();
    await area.fill('{"CORSRule":[{"AllowedOrigin":["https://a.example"],"AllowedMethod":["GET"]}]}');
    await panel.getByRole('button', { name: 'Check' }).click();
    await panel.getByText('The gateway would accept this document.').waitFor();
    expect(await storedOf(world)).not.toHaveProperty('cors');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await storedOf(world)).toMatchObject({
      cors: { CORSRule: [{ AllowedOrigin: ['https://a.example'], AllowedMethod: ['GET'] }] },
    });
    await page.reload();
    await panel.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await panel.waitFor({ state: 'detached' });
    expect(await storedOf(world)).not.toHaveProperty('cors');
  });

  test('a document that another client has replaced since the panel was opened is not replaced unseen', async () => {
    const policyNamed = (Sid: string) =>
      policyOf({ Sid, Effect: 'Deny', Action: 's3:PutObject', Resource: 'arn:aws:s3:::shared/*' });
    const tenant = await openUser(world.server, 'sharer', { actions: ['s3:*BucketPolicy', 's3:ListBucket'] });
    await send(world.server, 'PUT', '/shared');
    for (const as of [undefined, tenant]) {
      await send(world.server, 'PUT', '/shared', { query: { policy: '' }, body: policyNamed('first') });
      await using tab = await world.open('/buckets/shared/settings?family=policy', as && { as });
      const panel = tab.page.getByRole('region', { name: 'policy' });
      const area = panel.getByLabel('Document (JSON)');
      await area.fill((await area.inputValue()).replace('first', 'mine'));
      await send(world.server, 'PUT', '/shared', { query: { policy: '' }, body: policyNamed('colleague') });
      const save = panel.getByRole('button', { name: 'Save' });
      await save.click();
      await panel.getByText('It was changed since you opened it').waitFor();
      await panel.locator('del', { hasText: 'colleague' }).waitFor();
      const stored = async () =>
        (await send(world.server, 'GET', '/shared', { query: { policy: '' } })).text();
      expect(await stored()).toContain('colleague');
      expect(await tab.axe()).toEqual([]);
      await panel.getByRole('button', { name: 'Take what is stored now' }).click();
      await panel.getByText('It was changed since you opened it').waitFor({ state: 'detached' });
      expect(await area.inputValue()).toContain('colleague');
      await area.fill((await area.inputValue()).replace('colleague', 'mine'));
      await send(world.server, 'PUT', '/shared', { query: { policy: '' }, body: policyNamed('another') });
      await save.click();
      await panel.locator('del', { hasText: 'another' }).waitFor();
      await save.click();
      await panel.getByText('Saved.').waitFor();
      expect(await stored()).toContain('mine');
      // The form stays open, and its own save is no change of another client.
      await area.fill((await area.inputValue()).replace('mine', 'again'));
      await save.click();
      await panel.getByText('Saved.').waitFor();
      expect(await stored()).toContain('again');
    }
  });

  test('an edited form is left only after a question; one that was saved, cancelled or not edited without', async () => {
    await send(world.server, 'PUT', '/edited');
    await using tab = await world.open('/buckets/edited/settings');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'cors' });
    const area = panel.getByLabel('Document (JSON)');
    const question = page.getByRole('dialog', { name: 'Discard your changes?' });
    const openEditor = async () => {
      await page.getByRole('link', { name: 'cors' }).click();
      await panel.getByRole('button', { name: 'JSON', exact: true }).click();
    };
    await openEditor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await openEditor();
    await area.fill('{"CORSRule":[{"AllowedOrigin":["https://mine.example"],"AllowedMethod":["GET"]}]}');
    for (const leave of [
      () => page.keyboard.press('Escape'),
      () => page.evaluate(() => history.back()),
      () => page.getByRole('link', { name: 'lifecycle' }).click(),
      () => page.getByRole('link', { name: 'Usage' }).click(),
    ]) {
      await leave();
      await question.getByRole('button', { name: 'Stay' }).click();
      await question.waitFor({ state: 'detached' });
      expect(await area.inputValue()).toContain('mine.example');
    }
    // Another view of the same text leaves nothing.
    await panel.getByRole('button', { name: 'Form', exact: true }).click();
    await panel.getByRole('button', { name: 'JSON', exact: true }).click();
    await page.keyboard.press('Escape');
    await question.getByRole('button', { name: 'Discard' }).click();
    await panel.waitFor({ state: 'detached' });
    await openEditor();
    expect(await area.inputValue()).not.toContain('mine.example');
    await area.fill('{"CORSRule":[{"AllowedOrigin":["https://mine.example"],"AllowedMethod":["GET"]}]}');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await tab.go('/buckets/edited/usage?quota=1');
    await page.getByLabel('Objects', { exact: true }).fill('3');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('region', { name: 'Set quota' }).waitFor({ state: 'detached' });
  });

  test('what a rule between parts refuses is shown too, and the fields of a family have their values', async () => {
    await using tab = await world.open('/buckets/photos/settings?family=lifecycle&view=json', {
      width: 'phone',
      scheme: 'dark',
    });
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'lifecycle' });
    await panel.getByText('Fields').click();
    await panel
      .getByRole('row')
      .filter({ hasText: 'Rule[].Status' })
      .getByText('Enabled | Disabled')
      .waitFor();
    const same = { ID: 'twice', Status: 'Enabled', Filter: { Prefix: '' }, Expiration: { Days: 1 } };
    await panel.getByLabel('Document (JSON)').fill(JSON.stringify({ Rule: [same, same] }));
    await panel.getByRole('button', { name: 'Check' }).click();
    await panel.getByText(/would be refused/).waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('an inventory is added by its id', async () => {
    await using tab = await world.open('/buckets/photos/settings?family=inventory');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'inventory' });
    await panel.getByLabel('Id of another entry').fill('daily');
    await panel.getByRole('button', { name: 'Open' }).click();
    await page.waitForURL(/entry=daily/);
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    await page.getByText('1 entry').waitFor();
    expect(await storedOf(world)).toMatchObject({ inventory: { daily: { Id: 'daily' } } });
    await page.goBack();
    await panel.getByRole('link', { name: 'daily' }).waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('every example has the form that the gateway takes, and what cannot be removed has no button', async () => {
    const file: string = '../../console/pages/bucket-settings/samples.ts';
    const { samples } = (await import(file)) as {
      readonly samples: Readonly<Record<string, (bucket: string, id: string) => object>>;
    };
    for (const [family, sample] of Object.entries(samples)) {
      const id = family === 'inventory' ? '/one' : '';
      const reply = await send(world.server, 'PUT', `${at}/${family}${id}`, {
        query: { 'dry-run': 'true' },
        body: JSON.stringify(sample('photos', 'one')),
        headers: { 'content-type': 'application/json' },
      });
      const { refusals } = (await reply.json()) as {
        readonly refusals: readonly { readonly code: string }[];
      };
      expect([family, refusals.filter(({ code }) => code === 'MalformedJSON')]).toEqual([family, []]);
    }
    for (const family of ['versioning', 'object-lock'])
      await expect(send(world.server, 'DELETE', `${at}/${family}`)).rejects.toThrow('405');
    await send(world.server, 'PUT', `${at}/versioning`, {
      body: '{"Status":"Enabled"}',
      headers: { 'content-type': 'application/json' },
    });
    await using tab = await world.open('/buckets/photos/settings?family=versioning');
    const panel = tab.page.getByRole('region', { name: 'versioning' });
    await panel.getByRole('button', { name: 'Save' }).waitFor();
    expect(await panel.getByRole('button', { name: 'Remove' }).count()).toBe(0);
  });

  test('a tenant reads, checks, saves and removes configurations by the storage protocol', async () => {
    const tenant = world.server.credentials.numbered;
    await send(world.server, 'PUT', '/of-tenant', { as: tenant });
    const stored = (parameter: string): Promise<string> =>
      send(world.server, 'GET', '/of-tenant', { query: { [parameter]: '' }, as: tenant }).then(
        (reply) => reply.text(),
        String,
      );
    await using tab = await world.open('/buckets/of-tenant/settings', { as: tenant });
    const { page } = tab;
    await page.getByText('1 of 16 configurations are set.').waitFor();
    await page.getByRole('link', { name: 'cors' }).click();
    const panel = page.getByRole('region', { name: 'cors' });
    await panel.getByRole('button', { name: 'JSON', exact: true }).click();
    const area = panel.getByLabel('Document (JSON)');
    const corsOf = (origin: string, method: string): string =>
      JSON.stringify({ CORSRule: [{ AllowedOrigin: [origin], AllowedMethod: [method] }] }, null, 2);
    // The form is checked in the page, the rules of the family by the gateway.
    await area.fill(corsOf('https://a.example', 'GET').replace('"CORSRule"', '"CORSRules"'));
    await panel.getByRole('button', { name: 'Check' }).click();
    await panel.getByText(/would be refused\. Nothing was stored\./).waitFor();
    await area.fill(corsOf('https://a.example', 'FETCH'));
    await panel.getByRole('button', { name: 'Check' }).click();
    await panel.getByText('The document has the form of its family.').waitFor();
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('InvalidRequest').waitFor();
    expect(await stored('cors')).toContain('404');
    await area.fill(corsOf('https://<a>.example', 'GET'));
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await stored('cors')).toContain('https://&lt;a&gt;.example');
    await page.getByText('2 of 16 configurations are set.').waitFor();
    await area.fill(corsOf('https://<b>.example', 'GET'));
    await panel.getByRole('region', { name: 'Changes' }).getByText('<b>').waitFor();
    await panel.getByText('Fields').click();
    await panel.getByText('CORSRule[].AllowedMethod').waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await panel.waitFor({ state: 'detached' });
    expect(await stored('cors')).toContain('404');
  });

  test('a tenant stores a lifecycle, an inventory and a policy, and reads them again', async () => {
    const tenant = world.server.credentials.numbered;
    await send(world.server, 'PUT', '/of-tenant-too', { as: tenant });
    await using tab = await world.open('/buckets/of-tenant-too/settings', { as: tenant });
    const { page } = tab;
    const save = async (family: string, document?: object): Promise<void> => {
      await page.getByRole('link', { name: family, exact: true }).click();
      const panel = page.getByRole('region', { name: family, exact: true });
      if (family === 'inventory') {
        await panel.getByLabel('Id of another entry').fill('daily');
        await panel.getByRole('button', { name: 'Open' }).click();
      }
      await panel.getByRole('button', { name: 'JSON', exact: true }).click();
      if (document !== undefined) await panel.getByLabel('Document (JSON)').fill(JSON.stringify(document));
      await panel.getByRole('button', { name: 'Save' }).click();
      await panel.getByText('Saved.').waitFor();
      await page.keyboard.press('Escape');
      await panel.waitFor({ state: 'detached' });
    };
    const rule = { ID: 'r', Status: 'Enabled', Filter: { Prefix: 'l/' }, Expiration: { Days: 9 } };
    const lifecycle = { Rule: [rule], TransitionDefaultMinimumObjectSize: 'varies_by_storage_class' };
    await save('lifecycle', lifecycle);
    await save('inventory');
    const statement = {
      Effect: 'Allow',
      Principal: { AWS: tenant.owner },
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::of-tenant-too/*',
    };
    await save('policy', { Version: '2012-10-17', Statement: [statement] });
    await page.getByText('4 of 16 configurations are set.').waitFor();
    const reply = await send(world.server, 'GET', '/admin/v1/buckets/of-tenant-too/configurations');
    const { configurations } = (await reply.json()) as { readonly configurations: Record<string, unknown> };
    expect(configurations).toMatchObject({
      lifecycle,
      inventory: { daily: { Id: 'daily' } },
      policy: { Statement: [statement] },
    });
    await page.getByRole('link', { name: 'lifecycle', exact: true }).click();
    await page.getByRole('button', { name: 'JSON', exact: true }).click();
    const area = page.getByRole('region', { name: 'lifecycle' }).getByLabel('Document (JSON)');
    expect(JSON.parse(await area.inputValue())).toMatchObject(lifecycle);
  });

  test('a reader cannot save, and the tab is not shown to those who may not list', async () => {
    const reader = await openUser(world.server, 'settings-reader', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListBucketConfigurations'],
    });
    await using tab = await world.open('/buckets/photos/settings?family=acl', {
      as: reader,
      locale: 'de-DE',
    });
    const panel = tab.page.getByRole('region', { name: 'acl' });
    await panel.getByText('Ihre Richtlinien erlauben Ihnen nicht, sie zu ändern.').waitFor();
    for (const name of ['Prüfen', 'Entfernen'])
      expect(await panel.getByRole('button', { name }).count()).toBe(0);
    const blind = await openUser(world.server, 'no-settings', { actions: ['admin:GetBucket'] });
    await using other = await world.open('/buckets/photos/settings', { as: blind });
    await other.page.getByText('Your policies do not allow admin:ListBucketConfigurations.').waitFor();
    await other.go('/buckets/photos/objects/');
    const tabs = other.page.getByRole('navigation', { name: 'Bucket' });
    await tabs.getByText('Objects').waitFor();
    expect(await tabs.getByText('Settings').count()).toBe(0);
  });
});

test('the tabs Settings, Access and Automation of a bucket begin with the actions that read their families', () => {
  const needsOf = (name: string) => pageOf(name).storageNeeds?.toSorted();
  const toReads = (families: readonly ConfigurationFamily[]) =>
    families.map((family) => storageFamilies[family].reads).toSorted();
  expect(needsOf('bucketSettings')).toEqual(toReads(configurationFamilies));
  expect(needsOf('access')).toEqual(toReads(accessFamilies));
  expect(needsOf('automation')).toEqual(toReads(automationFamilies));
});
