/** The page My account. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const ownKeys = ['iam:ListAccessKeys', 'iam:CreateAccessKey', 'iam:UpdateAccessKey', 'iam:DeleteAccessKey'];

describe.skipIf(noChromium !== undefined)('the page My account', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    const { alice } = testCredentials;
    await send(world.server, 'PUT', '/of-alice', { as: alice });
    await send(world.server, 'PUT', '/of-alice/key', { body: 'x'.repeat(3_072), as: alice });
    await send(world.server, 'PUT', '/admin/v1/iam/users/alice-account/quota', {
      body: '{"totalMaxBytes":"12KiB"}',
    });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('a tenant rotates its own key: the new secret is shown once, and the log-in ends with the old key', async () => {
    const carol = await openUser(world.server, 'carol', { account: 'alice-account', actions: ownKeys });
    await using tab = await world.open('/me', { as: carol });
    const { page } = tab;
    await page.getByText('You are carol of the account alice-account.').waitFor();
    await page.locator('section', { hasText: 'My access keys' }).getByText('this log-in').waitFor();
    await page.getByText('Your policies do not allow admin:GetAccount.').waitFor();
    expect(await page.getByRole('link', { name: 'Identity' }).count()).toBe(0);
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Rotate' }).click();
    const shown = page.getByRole('status', { name: 'New access key' });
    await shown.getByText(/shown this once/).waitFor();
    const [accessKey = '', secretKey = ''] = await shown.locator('.code').allTextContents();
    expect(await tab.axe()).toEqual([]);
    await shown.getByRole('button', { name: 'I have stored it' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/key of this log-in, which ends too/).waitFor();
    expect(await page.content()).not.toContain(secretKey);
    await dialog.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByText('Your log-in has ended.', { exact: false }).waitFor();
    await using next = await world.open('/me', { as: { accessKey, secretKey } });
    await next.page.getByText('inactive').waitFor();
  });

  test('a tenant sees its usage, its quota and its bill, and the page says that its key is in the settings', async () => {
    await using tab = await world.open('/me', {
      as: testCredentials.alice,
      width: 'phone',
      scheme: 'dark',
      locale: 'de-DE',
    });
    const { page } = tab;
    await page.getByText(/^Sie sind .* des Kontos alice-account\.$/).waitFor();
    await page.getByText('3 KiB von 12 KiB').waitFor();
    await page.getByText(/steht in den Einstellungen des Gateways/).waitFor();
    expect(await tab.axe()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await page.getByRole('link', { name: 'Abrechnung' }).click();
    await page.getByRole('heading', { name: 'Abrechnung von alice-account' }).waitFor();
  });

  test('a tenant sees all its log-ins, ends another one, and logs out', async () => {
    const dora = await openUser(world.server, 'dora', { account: 'alice-account', actions: ownKeys });
    await using other = await world.open('/me', { as: dora });
    await using tab = await world.open('/me', { as: dora });
    const { page } = tab;
    const logins = page.getByRole('region', { name: 'My log-ins' });
    // The head, and both log-ins.
    await logins.getByRole('row').nth(2).waitFor();
    await logins.getByText('this log-in').waitFor();
    expect(await tab.axe()).toEqual([]);
    await logins.getByRole('button', { name: 'End the log-in from 127.0.0.1' }).click();
    await logins.getByRole('row').nth(2).waitFor({ state: 'detached' });
    await other.page.reload();
    await other.page.getByRole('heading', { name: 'Log in' }).waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in' }).waitFor();
  });
});
