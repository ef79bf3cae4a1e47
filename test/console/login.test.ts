/** The log-in page of the console, in Chromium. */
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('the log-in page', () => {
  test('opens the page of its address after the right key, and refuses a wrong one', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage', { as: undefined });
    const { page } = tab;
    await page.getByLabel('Access key').fill(testCredentials.root.accessKey);
    await page.getByLabel('Secret key').fill('wrong');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('alert').filter({ hasText: 'is wrong' }).waitFor();
    await page.getByLabel('Secret key').fill(testCredentials.root.secretKey);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/console/storage');
  });
});
