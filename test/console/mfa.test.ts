/** MFA devices on the pages Identity and My account. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { authenticator } from '../support/authenticator.ts';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, settled, type Tab } from './world.ts';

/** An authenticator app that was given the secret which the page shows once. */
async function appOf({ page }: Tab, title = 'Secret of the device') {
  const shown = page.getByRole('region', { name: title });
  await shown.waitFor();
  const [secret = '', uri = ''] = await shown.locator('.copy .code').allTextContents();
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  expect(uri).toContain(`secret=${secret}&`);
  const app = authenticator(Buffer.from(secret).toString('base64'), Date.now);
  return { app, secret };
}

async function typeCodes({ page }: Tab, first: string, second: string): Promise<void> {
  await page.getByLabel('First code').fill(`${first.slice(0, 3)} ${first.slice(3)}`);
  await page.getByLabel('Next code').fill(second);
}

const listed = async (world: ConsoleWorld, user: string) => {
  const path = '/admin/v1/accounts/root-account/mfa-devices';
  const { rows } = (await (await send(world.server, 'GET', path, { query: { user } })).json()) as {
    readonly rows: readonly { readonly name: string }[];
  };
  return rows.map(({ name }) => name);
};

describe.skipIf(noChromium !== undefined)('MFA devices', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('an operator gives a user a device: the secret is shown once, two codes enable it; it is resynchronized and deactivated', async () => {
    await openUser(world.server, 'ann', { actions: ['s3:ListBucket'] });
    await using tab = await world.open('/iam/users?open=ann');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'ann' });
    await panel.getByText('No MFA device is enabled.').waitFor();
    await panel.getByRole('button', { name: 'Add MFA device' }).click();
    expect(new URL(page.url()).searchParams.get('mfa')).toBe('new');
    await page.reload();
    await settled(page);
    expect(await panel.getByLabel('Name of the device').inputValue()).toBe('mfa-ann');
    await panel.getByRole('button', { name: 'Create secret' }).click();
    const { app, secret } = await appOf(tab);
    expect(await tab.axe()).toEqual([]);
    await typeCodes(tab, app.code(), app.code());
    await panel.getByRole('button', { name: 'Enable' }).click();
    await panel.getByText('InvalidAuthenticationCode').waitFor();
    await typeCodes(tab, app.code(-1), app.code());
    await panel.getByRole('button', { name: 'Enable' }).click();
    await panel.getByText('enabled', { exact: true }).waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(await listed(world, 'ann')).toEqual(['mfa-ann']);

    await panel.getByRole('button', { name: 'Resynchronize' }).click();
    await typeCodes(tab, app.code(9), app.code(10));
    await panel.getByRole('button', { name: 'Resynchronize' }).last().click();
    await panel.getByText('mfa-ann is resynchronized.').waitFor();
    expect(await tab.axe()).toEqual([]);

    await panel.getByRole('button', { name: 'Deactivate' }).last().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Devices that stay').waitFor();
    await dialog.getByRole('button', { name: 'Deactivate' }).click();
    await panel.getByText('No MFA device is enabled.').waitFor();
    expect(await listed(world, 'ann')).toEqual([]);
  });

  test('a device whose page was left before it was enabled is enabled later, or deleted; Cancel deletes it at once', async () => {
    await openUser(world.server, 'bob', { actions: ['s3:ListBucket'] });
    await using tab = await world.open('/iam/users?open=bob&mfa=new');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'bob' });
    await panel.getByRole('button', { name: 'Create secret' }).click();
    const { app } = await appOf(tab);
    await page.reload();
    await settled(page);
    await panel.getByText('not enabled', { exact: true }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Enable' }).click();
    await typeCodes(tab, app.code(-1), app.code());
    await panel.getByRole('button', { name: 'Enable' }).last().click();
    await panel.getByText('enabled', { exact: true }).waitFor();
    await panel.getByRole('button', { name: 'Add MFA device' }).click();
    await panel.getByRole('button', { name: 'Create secret' }).click();
    await panel.getByText('EntityAlreadyExists').waitFor();
    await panel.getByLabel('Name of the device').fill('second');
    await panel.getByRole('button', { name: 'Create secret' }).click();
    await appOf(tab);
    await panel.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('region', { name: 'Secret of the device' }).waitFor({ state: 'detached' });
    await settled(page);
    expect(await panel.getByText('not enabled', { exact: true }).count()).toBe(0);
    tab.problems.length = 0;
  });

  test('a tenant manages its own devices in My account, by the keyboard, in German and on a phone', async () => {
    const actions = ['ListMFADevices', 'CreateVirtualMFADevice', 'EnableMFADevice', 'DeactivateMFADevice'];
    const carol = await openUser(world.server, 'carol', {
      account: 'alice-account',
      actions: [...actions, 'DeleteVirtualMFADevice'].map((each) => `iam:${each}`),
    });
    await using tab = await world.open('/me', {
      as: carol,
      width: 'phone',
      scheme: 'dark',
      locale: 'de-DE',
    });
    const { page } = tab;
    await page.getByText('Kein MFA-Gerät ist eingerichtet.').waitFor();
    await page.getByRole('button', { name: 'MFA-Gerät hinzufügen' }).focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Name des Geräts').focus();
    await page.keyboard.press('Enter');
    const { app } = await appOf(tab, 'Geheimnis des Geräts');
    expect(await tab.axe()).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await page.getByLabel('Erster Code').fill(app.code(-1));
    await page.getByLabel('Nächster Code').fill(app.code());
    await page.keyboard.press('Enter');
    await page.getByText('eingerichtet', { exact: true }).waitFor();
    // IAM does not allow iam:ResyncMFADevice.
    expect(await page.getByRole('button', { name: 'Abgleichen' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Deaktivieren' }).last().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Deaktivieren' }).click();
    await page.getByText('Kein MFA-Gerät ist eingerichtet.').waitFor();
  });

  test('only what policies allow is offered', async () => {
    const reader = await openUser(world.server, 'mfa-reader', {
      actions: ['admin:ListIamUsers', 'admin:GetIamUser', 'admin:ListIamMfaDevices', 'admin:ListAccounts'],
    });
    await using tab = await world.open('/iam/users?open=mfa-reader&mfa=new', { as: reader });
    await tab.page.getByText('No MFA device is enabled.').waitFor();
    for (const name of ['Add MFA device', 'Create secret'])
      expect(await tab.page.getByRole('button', { name }).count()).toBe(0);
    await tab.go('/me');
    await tab.page.getByText('Your policies do not allow iam:ListMFADevices about yourself.').waitFor();
    // The root of an account may do everything about itself.
    await using root = await world.open('/me', { as: testCredentials.root });
    await root.page.getByRole('button', { name: 'Add MFA device' }).waitFor();
  });
});
