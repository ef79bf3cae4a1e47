/** The page of an account's bill. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { closeDays, dayBefore } from './usage-days.ts';
import { type ConsoleWorld, noChromium, openConsole, settled } from './world.ts';

/** Two days of one month that has ended or is about to: the day after the 1st, or the day before another. */
const first = 40;
const month = dayBefore(first).slice(0, 7);
const second = dayBefore(first + 1).startsWith(month) ? first + 1 : first - 1;
const digits = '9007199254740993';

describe.skipIf(noChromium !== undefined)('the page of a bill', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole({ env: { SVC_USAGE_TRAFFIC_INTERVAL: '1s' } });
    for (const bucket of ['photos', 'videos']) await send(world.server, 'PUT', `/${bucket}`);
    await send(world.server, 'PUT', '/photos/cat', { body: 'x'.repeat(2_048) });
    await send(world.server, 'GET', '/photos/cat');
    await closeDays(world.server, 'photos', [
      { ago: first, storageClass: 'STANDARD', byteSeconds: String(86_400 * 4 * 1024 ** 3), objects: 3 },
      { ago: second, storageClass: 'STANDARD', byteSeconds: String(86_400 * 2 * 1024 ** 3), objects: 5 },
    ]);
    await closeDays(world.server, 'videos', [
      { ago: first, storageClass: '=GLACIER()', byteSeconds: digits, objects: 1 },
    ]);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('the address without /console leads to the bill, with sums by bucket, and the address restores the month', async () => {
    await using tab = await world.open('/');
    const { page } = tab;
    await page.goto(`${world.server.url}/iam/users/root-account/billing`);
    await settled(page);
    expect(new URL(page.url()).pathname).toBe('/console/iam/users/root-account/billing');
    await page.getByRole('heading', { name: 'Billing of root-account' }).waitFor();
    await page.getByRole('combobox', { name: 'Month' }).selectOption(month);
    await page.getByText('2 days closed. Days are UTC.').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'photos' }).first();
    // 6 GiB-days over two days.
    await row.getByText('3 GiB').waitFor();
    await row.getByText('154.619').waitFor();
    await page.getByTitle(/^9,007,199,254,740,993 byte-seconds/).waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.reload();
    await settled(page);
    await page.getByText('2 days closed. Days are UTC.').waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV' }).first().click(),
    ]);
    expect(download.suggestedFilename()).toBe(`root-account-${month}-storage.csv`);
    const lines = (await readFile(await download.path(), 'utf8')).split('\r\n');
    expect(lines).toContain(`videos,${dayBefore(first)},'=GLACIER(),${digits},1,2`);
    expect(lines).toHaveLength(5);
  });

  test('the present month shows requests by bucket; a month without a closed day says when one comes', async () => {
    const path = '/admin/v1/iam/users/root-account/traffic';
    await expect
      .poll(async () => (await send(world.server, 'GET', path)).text(), { timeout: 60_000, interval: 200 })
      .toContain('photos');
    await using tab = await world.open('/iam/users/root-account/billing', { width: 'phone', scheme: 'dark' });
    const { page } = tab;
    await page.getByText('No day of this month is closed for this account.').waitFor();
    await page.getByRole('region', { name: 'Requests by bucket' }).getByText('photos').waitFor();
    expect(await tab.axe()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  });

  test('a tenant sees its own bill and no other; the page of a user names the account that is billed', async () => {
    await using tab = await world.open('/iam/users/alice-account/billing', { as: testCredentials.alice });
    const { page } = tab;
    await page.getByText(/0 B stored on average, 0 requests/).waitFor();
    // A parent that the caller may not open is no link.
    const crumbs = page.getByRole('navigation', { name: 'Breadcrumb' });
    expect(await crumbs.innerText()).toContain('Identity');
    expect(await crumbs.getByRole('link').count()).toBe(0);
    await tab.go('/iam/users/root-account/billing');
    await page.getByText('AccessDenied').waitFor();
    await using other = await world.open('/iam/users/carol/billing?account=root-account', {
      locale: 'de-DE',
    });
    await other.page.getByText(/carol ist ein Benutzer von root-account/).waitFor();
    const blind = await openUser(world.server, 'blind', { actions: ['admin:ListBuckets'] });
    await using forbidden = await world.open('/iam/users/root-account/billing', { as: blind });
    await forbidden.page.getByText('Your policies do not allow admin:GetUserUsage.').waitFor();
  });
});
