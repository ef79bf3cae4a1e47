/** The session of the console in several tabs: log-out, expiry, other callers. */
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { send } from './seeds.ts';
import { fillLogin, noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('the session', () => {
  test('opens the page of its address after the right key, and refuses a wrong one', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage', { as: undefined });
    await fillLogin(tab, { ...testCredentials.root, secretKey: 'wrong' });
    await tab.page.getByRole('alert').filter({ hasText: 'is wrong' }).waitFor();
    await fillLogin(tab, testCredentials.root);
    await tab.page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
    expect(new URL(tab.page.url()).pathname).toBe('/console/storage');
    const stored = await tab.page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    expect(stored).not.toContain(testCredentials.root.secretKey);
    expect(stored).not.toContain('sluice-login');
  });

  test('ends in every tab when one logs out, and a key that is logged in there logs all of them in', async () => {
    await using world = await openConsole();
    await using first = await world.open('/storage');
    await using second = await world.open('/', { beside: first });
    await second.page.getByRole('button', { name: 'Account' }).click();
    await second.page.getByRole('button', { name: 'Log out' }).click();
    await first.page.getByRole('heading', { name: 'Log in' }).waitFor();
    expect((await first.context.request.get(`${world.server.url}/admin/v1/session`)).status()).toBe(403);
    await fillLogin(first, testCredentials.root);
    await second.page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  });

  test('asks for the key over the open page where it was revoked, and goes on at the same state', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage?nodes-sort=-name');
    await send(world.server, 'DELETE', '/admin/v1/logins');
    await tab.page.getByRole('button', { name: 'Run fsck' }).click();
    await tab.page.getByRole('dialog').getByRole('button', { name: 'Run fsck' }).click();
    await tab.page.getByText('Your log-in has ended').waitFor();
    await tab.page.keyboard.press('Escape');
    expect(await tab.page.getByLabel('Access key').inputValue()).toBe(testCredentials.root.accessKey);
    await tab.page.getByLabel('Secret key').fill(testCredentials.root.secretKey);
    await tab.page.getByRole('button', { name: 'Log in' }).click();
    await tab.page.getByText('Your log-in has ended').waitFor({ state: 'detached' });
    expect(tab.page.url()).toContain('/console/storage?nodes-sort=-name');
    await tab.page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
  });
});
