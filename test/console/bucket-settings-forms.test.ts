/** The tab Settings of a bucket: configurations as forms that are generated from their schemas, and as XML. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configurationFamilies } from '../../src/protocol/schemas/families.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Pair, type Tab } from './world.ts';

const storedOf = async ({ server }: ConsoleWorld, bucket: string): Promise<Record<string, unknown>> => {
  const reply = await send(server, 'GET', `/admin/v1/buckets/${bucket}/configurations`);
  return ((await reply.json()) as { configurations: Record<string, unknown> }).configurations;
};

describe.skipIf(noChromium !== undefined)('configurations as forms and as XML', () => {
  let world: ConsoleWorld;
  let tenant: Pair;
  beforeAll(async () => {
    world = await openConsole();
    tenant = world.server.credentials.numbered;
    for (const bucket of ['forms', 'texts', 'reads']) await send(world.server, 'PUT', `/${bucket}`);
    for (const bucket of ['tenant-forms', 'tenant-texts'])
      await send(world.server, 'PUT', `/${bucket}`, { as: tenant });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  const panelOf = ({ page }: Tab, family: string) => page.getByRole('region', { name: family, exact: true });

  test('a form has the fields of the schema, with their limits, and a refusal is shown at its field', async () => {
    await using tab = await world.open('/buckets/forms/settings?family=cors');
    const panel = panelOf(tab, 'cors');
    const rule = panel.getByRole('group', { name: 'CORSRule 1', exact: true });
    await rule.getByLabel('AllowedMethod').fill('GET\nFETCH<b>');
    const age = rule.getByLabel('MaxAgeSeconds');
    await age.fill('-1');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText(/would be refused\. Nothing was stored\./).waitFor();
    await rule.locator('[data-path$="MaxAgeSeconds"] .fault').waitFor();
    expect(await storedOf(world, 'forms')).not.toHaveProperty('cors');
    await panel.getByRole('button', { name: 'Show' }).first().click();
    expect(await age.evaluate((element) => element === document.activeElement)).toBe(true);
    expect(await tab.axe()).toEqual([]);
    await age.fill('60');
    await panel.getByRole('button', { name: 'Check' }).click();
    // A rule of the family, beyond its schema.
    await rule.locator('[data-path$="AllowedMethod"] .fault').waitFor();
    await rule.getByLabel('AllowedMethod').fill('GET');
    await panel.getByRole('button', { name: 'CORSRule', exact: true }).click();
    const second = panel.getByRole('group', { name: 'CORSRule 2', exact: true });
    await second.getByLabel('AllowedOrigin').fill('https://b.example');
    await second.getByLabel('AllowedMethod').fill('PUT');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await storedOf(world, 'forms')).toMatchObject({
      cors: {
        CORSRule: [
          { AllowedMethod: ['GET'], MaxAgeSeconds: 60 },
          { AllowedMethod: ['PUT'], AllowedOrigin: ['https://b.example'] },
        ],
      },
    });
    await panel.getByText('at most 255 characters').first().waitFor();
    await second.getByRole('button', { name: 'Remove CORSRule 2' }).click();
    await panel.getByRole('region', { name: 'Changes' }).getByText('https://b.example').waitFor();
  });

  test('groups that are optional are added and removed, choices are chosen, and the address names the view', async () => {
    await using tab = await world.open('/buckets/forms/settings?family=lifecycle', {
      width: 'phone',
      scheme: 'dark',
    });
    const { page } = tab;
    const panel = panelOf(tab, 'lifecycle');
    const rule = panel.getByRole('group', { name: 'Rule 1', exact: true });
    await rule.getByLabel('Status').selectOption('Disabled');
    await rule.getByRole('button', { name: 'Remove Expiration' }).click();
    await rule.getByRole('button', { name: 'Transition', exact: true }).click();
    const transition = rule.getByRole('group', { name: 'Transition 1' });
    await transition.getByLabel('Days').fill('30');
    await transition.getByLabel('StorageClass').fill('STANDARD_IA');
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'JSON', exact: true }).click();
    await page.waitForURL(/view=json/);
    const text = await panel.getByLabel('Document (JSON)').inputValue();
    expect(JSON.parse(text)).toEqual({
      Rule: [
        {
          ID: 'old-logs',
          Status: 'Disabled',
          Filter: { Prefix: 'logs/' },
          Transition: [{ Days: 30, StorageClass: 'STANDARD_IA' }],
        },
      ],
    });
    await panel.getByLabel('Document (JSON)').fill('{');
    await panel.getByRole('button', { name: 'Form', exact: true }).click();
    await panel.getByText('The document is not JSON.').waitFor();
    await page.reload();
    await panel.getByRole('group', { name: 'Rule 1', exact: true }).waitFor();
  });

  test('every family has a form, and a form that is only looked at changes nothing', async () => {
    await using tab = await world.open('/buckets/reads/settings');
    for (const family of configurationFamilies) {
      const entry = family === 'inventory' ? '&entry=daily' : '';
      await tab.go(`/buckets/reads/settings?family=${family}${entry}&view=form`);
      const panel = panelOf(tab, family);
      await panel.locator('[data-path]').first().waitFor();
      await panel.getByRole('button', { name: 'JSON', exact: true }).click();
      const before = await panel.getByLabel('Document (JSON)').inputValue();
      await panel.getByRole('button', { name: 'Form', exact: true }).click();
      await panel.locator('[data-path]').first().waitFor();
      await panel.getByRole('button', { name: 'JSON', exact: true }).click();
      expect([family, await panel.getByLabel('Document (JSON)').inputValue()]).toEqual([family, before]);
    }
    await tab.go('/buckets/reads/settings?family=policy&view=form');
    const panel = panelOf(tab, 'policy');
    const statement = panel.getByRole('group', { name: 'Statement 1' });
    await statement.getByLabel('Action', { exact: true }).fill('s3:GetObject\ns3:GetObjectVersion');
    await statement.getByLabel('Principal', { exact: true }).fill('{"AWS": ');
    await statement.locator('[data-path$="Principal"] .fault').waitFor();
    expect(await tab.axe()).toEqual([]);
    // A fault is not stored, and a statement that moves up brings its own parts.
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText(/would be refused/).waitFor();
    await panel.getByRole('button', { name: 'Statement', exact: true }).click();
    const second = panel.getByRole('group', { name: 'Statement 2' });
    await second.getByRole('button', { name: 'Principal', exact: true }).click();
    await second.getByLabel('Principal', { exact: true }).fill('*');
    await statement.getByRole('button', { name: 'Remove Statement 1' }).click();
    await second.waitFor({ state: 'detached' });
    expect(await statement.getByLabel('Principal', { exact: true }).inputValue()).toMatch(/^"?\*"?$/);
    await statement.getByLabel('Action', { exact: true }).fill('s3:GetObject\ns3:GetObjectVersion');
    await statement.getByLabel('Resource', { exact: true }).fill('arn:aws:s3:::reads/*');
    await statement.getByLabel('Principal', { exact: true }).fill('{"AWS": "root-account"}');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await storedOf(world, 'reads')).toMatchObject({
      policy: {
        Statement: [{ Principal: { AWS: 'root-account' }, Action: ['s3:GetObject', 's3:GetObjectVersion'] }],
      },
    });
  });

  const lifecycleXml = (days: string): string => `<?xml version="1.0"?>
<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Rule>
    <ID>from docs &lt;b&gt;</ID>
    <Filter>
      <Prefix>documents/</Prefix>
    </Filter>
    <Status>Enabled</Status>
    <Expiration>
      <Days>${days}</Days>
    </Expiration>
  </Rule>
</LifecycleConfiguration>`;

  test('XML is pasted from documentation, its refusals lead to its lines, and its other views follow', async () => {
    await using tab = await world.open('/buckets/texts/settings?family=lifecycle&view=xml');
    const panel = panelOf(tab, 'lifecycle');
    const area = panel.getByLabel('Document (XML)');
    expect(await area.inputValue()).toContain('<Prefix>logs/</Prefix>');
    await area.fill(lifecycleXml('three'));
    await panel.getByText(/Days must be a whole number/).waitFor();
    await panel.getByRole('button', { name: 'Save' }).click();
    expect(await storedOf(world, 'texts')).not.toHaveProperty('lifecycle');
    await area.fill(lifecycleXml('0'));
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText(/would be refused\. Nothing was stored\./).waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel
      .getByRole('button', { name: /^Line / })
      .first()
      .click();
    const line = await area.evaluate(
      (element: HTMLTextAreaElement) => element.value.slice(element.selectionStart).split('\n', 1)[0],
    );
    expect(line).toMatch(/^<(Expiration|Days)>/);
    await area.fill(lifecycleXml('365'));
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await storedOf(world, 'texts')).toMatchObject({
      lifecycle: {
        Rule: [{ ID: 'from docs <b>', Filter: { Prefix: 'documents/' }, Expiration: { Days: 365 } }],
      },
    });
    await area.fill(lifecycleXml('366'));
    await panel.getByRole('region', { name: 'Changes' }).getByText('<Days>366</Days>').waitFor();
    await panel.getByRole('button', { name: 'Form', exact: true }).click();
    const days = panel.getByRole('group', { name: 'Expiration' }).getByLabel('Days');
    expect(await days.inputValue()).toBe('366');
    await days.fill('90');
    await panel.getByRole('button', { name: 'XML', exact: true }).click();
    expect(await area.inputValue()).toContain('<Days>90</Days>');
    // The document is no configuration of another family.
    await area.fill('<Tagging></Tagging>');
    await panel.getByText('The root element must be LifecycleConfiguration, not Tagging').waitFor();
    await area.fill('<!DOCTYPE a [<!ENTITY b "c">]><LifecycleConfiguration/>');
    await panel.locator('.field .fault').waitFor();
  });

  test('a tenant saves a form and XML by the storage protocol', async () => {
    await using tab = await world.open('/buckets/tenant-forms/settings?family=website', { as: tenant });
    const panel = panelOf(tab, 'website');
    await panel.getByRole('group', { name: 'IndexDocument' }).getByLabel('Suffix').fill('a/b');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('InvalidArgument').waitFor();
    await panel.getByRole('group', { name: 'IndexDocument' }).getByLabel('Suffix').fill('start.html');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Saved.').waitFor();
    expect(await storedOf(world, 'tenant-forms')).toMatchObject({
      website: { IndexDocument: { Suffix: 'start.html' } },
    });
    await tab.go('/buckets/tenant-texts/settings?family=tagging&view=xml');
    const tags = panelOf(tab, 'tagging');
    await tags
      .getByLabel('Document (XML)')
      .fill('<Tagging><TagSet><Tag><Key>team</Key><Value>web</Value></Tag></TagSet></Tagging>');
    await tags.getByRole('button', { name: 'Save' }).click();
    await tags.getByText('Saved.').waitFor();
    expect(await storedOf(world, 'tenant-texts')).toMatchObject({
      tagging: { TagSet: [{ Key: 'team', Value: 'web' }] },
    });
    expect(await tab.axe()).toEqual([]);
  });

  test('a reader sees the form without buttons', async () => {
    const reader = await openUser(world.server, 'forms-reader', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:ListBucketConfigurations', 'admin:GetOpenApi'],
    });
    await send(world.server, 'PUT', '/admin/v1/buckets/reads/configurations/tagging', {
      body: '{"TagSet":[{"Key":"team","Value":"web"}]}',
      headers: { 'content-type': 'application/json' },
    });
    await using tab = await world.open('/buckets/reads/settings?family=tagging', {
      as: reader,
      locale: 'de-DE',
    });
    const panel = panelOf(tab, 'tagging');
    await panel.getByRole('group', { name: 'TagSet 1' }).getByLabel('Key').waitFor();
    expect(await panel.getByLabel('Value').getAttribute('readonly')).not.toBeNull();
    expect(await panel.getByRole('button', { name: /TagSet|entfernen|Prüfen/ }).count()).toBe(0);
  });
});
