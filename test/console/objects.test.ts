/** The Objects page. */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { fill, send } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('the Objects page', () => {
  test('browses levels by address and keyboard, filters loaded rows, and jumps to a prefix', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await using tab = await world.open('/buckets/photos');
    const { page } = tab;
    await page.waitForURL('**/buckets/photos/objects**');
    await page.getByRole('link', { name: '2026/' }).click();
    await page.waitForURL('**/objects/2026');
    await page.getByRole('link', { name: '1/' }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'report-0.csv' }).waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'report-0.csv' }).click();
    const panel = page.getByRole('region', { name: 'report-0.csv' });
    await panel.getByText('Place of the bytes').waitFor();
    expect(page.url()).toContain('key=');
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: 'photos/' }).click();
    await page.getByRole('textbox', { name: 'Go to a prefix' }).fill('2026/3/rep');
    await page.getByRole('button', { name: 'Go', exact: true }).click();
    await page.getByRole('link', { name: 'report-2.csv' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('searchbox').fill('nothing-like-it');
    await page.getByText('No row matches the filter.').waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('downloads, and makes links for others', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/inbox');
    await send(world.server, 'PUT', '/inbox/small.txt', { body: 'two' });
    await using tab = await world.open('/buckets/inbox/objects');
    const { page } = tab;
    await page.getByRole('link', { name: 'small.txt' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('small.txt');
    expect(await readFile(await download.path(), 'utf8')).toBe('two');
    await page.getByRole('button', { name: 'Create link' }).click();
    const copy = page.getByRole('button', { name: /^Copy: http/ });
    const link = (await copy.getAttribute('title')) ?? '';
    expect(await (await fetch(link)).text()).toBe('two');
    const other = link.replace('small.txt', 'other.txt');
    expect((await fetch(other)).status).toBe(403);
    expect((await fetch(link, { method: 'DELETE' })).status).toBe(403);
    // It ends with the log-in.
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Account' }).click();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect(await (await fetch(link)).text()).toContain('<Code>ExpiredToken</Code>');
  });

  test('a link for others lives as long as it says, also where the credentials of the page are old', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/inbox');
    await send(world.server, 'PUT', '/inbox/small.txt', { body: 'two' });
    await using tab = await world.open('/buckets/inbox/objects');
    const { page } = tab;
    const issued: Promise<{ readonly sessionToken: string; readonly expiresAt: string }>[] = [];
    page.on('response', (response) => {
      if (response.url().endsWith('/admin/v1/session/credentials')) issued.push(response.json());
    });
    await tab.go('/buckets/inbox/objects?key=small.txt');
    await page.getByRole('button', { name: 'Create link' }).waitFor();
    // The list of the page has used credentials already.
    expect(issued.length).toBeGreaterThan(0);
    const begun = Date.now();
    await page.getByLabel('It works for').selectOption('15');
    await page.getByRole('button', { name: 'Create link' }).click();
    await page.getByText('It ends in 15 min').waitFor();
    const link = await page.getByRole('button', { name: /^Copy: http/ }).getAttribute('title');
    const { searchParams } = new URL(link ?? '');
    expect(searchParams.get('X-Amz-Expires')).toBe('900');
    const credentials = (await Promise.all(issued)).find(
      ({ sessionToken }) => sessionToken === searchParams.get('X-Amz-Security-Token'),
    );
    expect(Date.parse(credentials?.expiresAt ?? '')).toBeGreaterThanOrEqual(begun + 15 * 60_000);
  });

  test('shows the rule that expires an object, to operators and to tenants', async () => {
    await using world = await openConsole();
    const { server } = world;
    const as = testCredentials.alice;
    await send(server, 'PUT', '/logs', { as });
    await send(server, 'PUT', '/logs', {
      as,
      query: { lifecycle: '' },
      body: '<LifecycleConfiguration><Rule><ID>old &amp; gone</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>',
    });
    await send(server, 'PUT', '/logs/today.log', { as, body: 'x'.repeat(1_500) });
    for (const caller of [testCredentials.root, as]) {
      await using tab = await world.open('/buckets/logs/objects?key=today.log', { as: caller });
      const panel = tab.page.getByRole('region', { name: 'today.log' });
      await panel.getByText('by rule old & gone').waitFor();
      await panel.getByText(/^in 3 d/).waitFor();
      // Human in the cell, exact on hover.
      const size = panel.getByText('1.46 KiB').first();
      await size.waitFor();
      expect(await size.getAttribute('title')).toBe('1,500 bytes');
      expect(await panel.locator('time').first().getAttribute('title')).toMatch(
        /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n.+ \(local\)$/,
      );
    }
  });

  test('shows until when an object is locked, to operators and to tenants', async () => {
    await using world = await openConsole();
    const { server } = world;
    const as = testCredentials.alice;
    await send(server, 'PUT', '/vault', { as, headers: { 'x-amz-bucket-object-lock-enabled': 'true' } });
    await send(server, 'PUT', '/vault/deed', { as, body: 'deed' });
    const until = new Date(Date.now() + 4 * 86_400_000 - 60_000).toISOString();
    await send(server, 'PUT', '/vault/deed', {
      as,
      query: { retention: '' },
      body: `<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>${until}</RetainUntilDate></Retention>`,
    });
    for (const caller of [testCredentials.root, as]) {
      await using tab = await world.open('/buckets/vault/objects?key=deed', { as: caller });
      const panel = tab.page.getByRole('region', { name: 'deed' });
      await panel.getByText('GOVERNANCE').waitFor();
      await panel.getByText(/^in 3 d$/).waitFor();
    }
  });

  test('shows hostile keys as texts, and deletes them after a confirmation in numbers', async () => {
    const keys = [
      '<img src=x onerror="window.hacked=1">.html',
      '\u202Egnp.exe',
      'tab\there',
      'bell\u0007.txt',
      'k'.repeat(1_024),
      'a b+c%d&e=f?g#h',
      '..up/.hidden',
      './../dots',
    ];
    await using world = await openConsole();
    await send(world.server, 'PUT', '/hostile');
    for (const key of keys) await send(world.server, 'PUT', `/hostile/${key}`, { body: 'x' }).catch(() => {});
    await using tab = await world.open('/buckets/hostile/objects');
    const { page } = tab;
    await page.getByText('<img src=x onerror', { exact: false }).first().waitFor();
    await page.getByRole('link', { name: '‹U+202E›gnp.exe' }).waitFor();
    await page.getByRole('link', { name: 'bell‹U+0007›.txt' }).waitFor();
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
    await page.getByRole('link', { name: 'a b+c%d&e=f?g#h' }).click();
    await page.getByRole('region', { name: 'a b+c%d&e=f?g#h' }).getByText('Place of the bytes').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: '..up/' }).click();
    await page.getByRole('link', { name: '.hidden' }).waitFor();
    await page.goBack();
    await page.getByLabel('Select all loaded objects').check();
    await page.getByRole('button', { name: 'Delete (7)' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete 7 objects?' });
    await dialog.getByText('This cannot be undone.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await dialog.getByLabel('Type hostile to confirm').fill('hostile');
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'a b+c%d&e=f?g#h' }).waitFor({ state: 'detached' });
    expect(await page.getByRole('checkbox', { name: /^Select (?!all)/ }).count()).toBe(0);
  });

  test('serves a tenant by the storage protocol, and offers a reader neither upload nor deletion', async () => {
    await using world = await openConsole();
    const alice = testCredentials.alice;
    await send(world.server, 'PUT', '/of-alice', { as: alice });
    await send(world.server, 'PUT', '/of-alice/note.txt', { as: alice, body: 'hello' });
    await using tenant = await world.open('/buckets/of-alice/objects', { as: alice });
    await tenant.page.getByRole('link', { name: 'note.txt' }).click();
    await tenant.page.getByRole('region', { name: 'note.txt' }).getByText('Content-Type').waitFor();
    await tenant.page.getByRole('button', { name: 'Upload' }).waitFor();
    await send(world.server, 'PUT', '/readable');
    await send(world.server, 'PUT', '/readable/doc.txt', { body: 'x' });
    const reader = await openUser(world.server, 'reader', { actions: ['s3:ListBucket', 's3:GetObject'] });
    await using tab = await world.open('/buckets/readable/objects', { as: reader });
    await tab.page.getByRole('link', { name: 'doc.txt' }).waitFor();
    expect(await tab.page.getByRole('button', { name: 'Upload' }).count()).toBe(0);
    expect(await tab.page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
  });
});
