/** The Buckets page. */
import type { Locator, Request } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { fill, send } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

const publicRead = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::photos/*' }],
});

/** The texts that an input has while a user types, however busy the machine is. */
const typeWithoutPause = (input: Locator, ...texts: readonly string[]) =>
  input.evaluate((element, texts) => {
    for (const text of texts) {
      (element as HTMLInputElement).value = text;
      element.dispatchEvent(new Event('input', { bubbles: true }));
    }
  }, texts);

/** The prefixes that a request asks for, alone or in a batch of reads. */
const prefixesOf = (request: Request): readonly string[] =>
  [...`${request.url()} ${request.postData() ?? ''}`.matchAll(/prefix(?:=|":")(\w+)/g)].map(
    ([, prefix = '']) => prefix,
  );

describe.skipIf(noChromium !== undefined)('the Buckets page', () => {
  test('searches all buckets by prefix on the server, and the address restores the search', async () => {
    await using world = await openConsole();
    for (let n = 0; n < 105; n += 1) await send(world.server, 'PUT', `/many-${String(n).padStart(4, '0')}`);
    // Beyond the first page of the list: a filter of loaded rows would not find it.
    await send(world.server, 'PUT', '/zebra-last');
    await using tab = await world.open('/buckets');
    const { page } = tab;
    await page.getByText('More than 100 buckets.').waitFor();
    expect(await page.getByText('zebra-last').count()).toBe(0);
    await page.keyboard.press('/');
    await page.keyboard.type('zeb');
    await page.getByRole('link', { name: 'zebra-last' }).waitFor();
    await page.getByText('1 bucket begins with “zeb”.').waitFor();
    expect(page.url()).toContain('q=zeb');
    await page.reload();
    await page.getByRole('link', { name: 'zebra-last' }).waitFor();
    await tab.go('/buckets?q=none-such');
    await page.getByText('No bucket begins with “none-such”.').waitFor();
    await page.getByRole('button', { name: 'Clear the filter' }).click();
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.getByText(/^106 buckets with/).waitFor();
  });

  test('rows are links: Ctrl, Shift and the middle button open another tab, a plain click does not load the page anew', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    await send(world.server, 'PUT', '/photos/a/cat.txt', { body: 'meow' });
    await using tab = await world.open('/buckets');
    const { page, context } = tab;
    const row = page.getByRole('row').filter({ hasText: 'photos' });
    const link = row.getByRole('link', { name: 'photos' });
    expect(await link.getAttribute('href')).toBe('/console/buckets/photos');
    const elsewhere = row.getByText('private', { exact: true });
    const ways = [
      () => link.click({ modifiers: ['Control'] }),
      () => link.click({ button: 'middle' }),
      () => elsewhere.click({ modifiers: ['Control'] }),
      () => elsewhere.click({ modifiers: ['Shift'] }),
      () => elsewhere.click({ button: 'middle' }),
    ];
    for (const way of ways) {
      const [opened] = await Promise.all([context.waitForEvent('page'), way()]);
      await opened.getByRole('link', { name: 'a/' }).waitFor();
      await opened.close();
      expect(new URL(page.url()).pathname).toBe('/console/buckets');
    }
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    await elsewhere.click();
    await page.getByRole('link', { name: 'a/' }).click();
    // A panel is a part of its page: the address of its row is that of the page with it.
    const object = page.getByRole('link', { name: 'cat.txt' });
    expect(await object.getAttribute('href')).toBe('/console/buckets/photos/objects/a?key=a%2Fcat.txt');
    await object.click();
    await page.getByRole('region', { name: 'cat.txt' }).waitFor();
    expect(await page.evaluate(() => 'isSamePage' in globalThis)).toBe(true);
  });

  test('a search is asked for when the typing pauses or at once on Enter, is one entry of the history, and keeps what is typed', async () => {
    await using world = await openConsole();
    for (const name of ['zebra', 'zeppelin', 'lion']) await send(world.server, 'PUT', `/${name}`);
    await using tab = await world.open('/buckets');
    const { page } = tab;
    const prefixes: string[] = [];
    page.on('request', (request) => prefixes.push(...prefixesOf(request)));
    const input = page.getByRole('searchbox');
    const before = await page.evaluate(() => history.length);
    await typeWithoutPause(input, 'z', 'ze', 'zeb');
    await page.getByRole('link', { name: 'lion' }).waitFor({ state: 'detached' });
    await page.getByText('1 bucket begins with “zeb”.').waitFor();
    await typeWithoutPause(input, 'ze', 'zep');
    await page.getByText('1 bucket begins with “zep”.').waitFor();
    expect(new Set(prefixes)).toEqual(new Set(['zeb', 'zep']));
    expect(await page.evaluate(() => history.length)).toBe(before + 1);
    await page.goBack();
    await page.getByRole('link', { name: 'lion' }).waitFor();
    expect(await input.inputValue()).toBe('');
    // Without the pause: what is typed while an answer is waited for stays.
    await input.fill('ze');
    await input.press('Enter');
    expect(page.url()).toContain('q=ze');
    await input.pressSequentially('brazzz', { delay: 5 });
    expect(await input.inputValue()).toBe('zebrazzz');
    await page.getByText('No bucket begins with “zebrazzz”.').waitFor();
    await page.getByRole('button', { name: 'Clear the filter' }).click();
    await page.getByRole('link', { name: 'lion' }).waitFor();
    expect(await input.inputValue()).toBe('');
  });

  test('while a search is answered, says of the rows of the search before what that one found', async () => {
    await using world = await openConsole();
    for (const name of ['zebra', 'lion']) await send(world.server, 'PUT', `/${name}`);
    await using tab = await world.open('/buckets?q=zeb');
    const { page } = tab;
    const ofZebra = page.getByText('1 bucket begins with “zeb”.');
    const noGiraffe = page.getByText('No bucket begins with “gi”.');
    await ofZebra.waitFor();
    /** Enters a prefix, looks at the page while its answer is held back, and lets it come. */
    const search = async (prefix: string, look: () => Promise<void>) => {
      const held = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      await page.route('**/admin/v1/**', async (route, request) => {
        if (prefixesOf(request).includes(prefix)) {
          asked.resolve();
          await held.promise;
        }
        await route.continue();
      });
      await page.getByRole('searchbox').fill(prefix);
      await asked.promise;
      await look();
      held.resolve();
      await page.unrouteAll({ behavior: 'wait' });
    };
    await search('gi', () => ofZebra.waitFor());
    await noGiraffe.waitFor();
    await search('li', () => noGiraffe.waitFor());
    await page.getByText('1 bucket begins with “li”.').waitFor();
  });

  test('shows what is public, and creates a versioned bucket', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await send(world.server, 'DELETE', '/photos', { query: { publicAccessBlock: '' } }).catch(() => {});
    await send(world.server, 'PUT', '/photos', { body: publicRead, query: { policy: '' } });
    await using tab = await world.open('/buckets');
    const { page } = tab;
    const rows = page.getByRole('row');
    await rows.filter({ hasText: 'photos' }).getByText('public', { exact: true }).waitFor();
    await rows.filter({ hasText: 'invoices' }).getByText('private', { exact: true }).waitFor();
    // Its days were closed; those of the others were not.
    await rows
      .filter({ hasText: 'photos' })
      .getByRole('img', { name: /^From .* GiB in \d+ days$/ })
      .waitFor();
    await rows.filter({ hasText: 'invoices' }).getByTitle('Known from the second closed day on.').waitFor();
    await page.getByRole('button', { name: 'Create bucket' }).click();
    expect(page.url()).toContain('create=1');
    const panel = page.getByRole('region', { name: 'Create bucket' });
    await panel.getByLabel('Name').fill('Not A Name');
    await panel.getByRole('button', { name: 'Create bucket' }).click();
    await panel.getByText('InvalidBucketName').waitFor();
    await panel.getByLabel('Name').fill('fresh-bucket');
    await panel.getByLabel(/Keep old versions/).check();
    await panel.getByRole('button', { name: 'Create bucket' }).click();
    await panel.waitFor({ state: 'detached' });
    await rows.filter({ hasText: 'fresh-bucket' }).getByText('enabled').waitFor();
  });

  test('shows a tenant the buckets of its account, and offers only what its policies allow', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    const reader = await openUser(world.server, 'reader', { actions: ['admin:ListBuckets'] });
    await using tab = await world.open('/buckets', { as: reader });
    await tab.page.getByRole('link', { name: 'photos' }).waitFor();
    expect(await tab.page.getByRole('button', { name: 'Create bucket' }).count()).toBe(0);
    await send(world.server, 'PUT', '/of-alice', { as: testCredentials.alice });
    await using tenant = await world.open('/buckets', { as: testCredentials.alice });
    await tenant.page.getByRole('link', { name: 'of-alice' }).waitFor();
    await tenant.page.getByRole('button', { name: 'Create bucket' }).waitFor();
    expect(await tenant.page.getByText('photos').count()).toBe(0);
  });
});
