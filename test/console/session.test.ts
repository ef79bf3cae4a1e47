/** The session of the console in several tabs: log-out, expiry, other callers. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { endAll, keysOf, serving } from '../runtimes/command.ts';
import { freePorts } from '../support/engines/ports.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { send } from './seeds.ts';
import { browse, fillLogin, noChromium, openConsole, settled } from './world.ts';

describe.skipIf(noChromium !== undefined)('the session', () => {
  test('opens the page of its address after the right key, and refuses a wrong one', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage', { as: undefined });
    // A refusal would be an error in the log of the browser.
    const asked: string[] = [];
    tab.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await tab.go('/storage');
    expect(asked.filter((path) => !path.startsWith('/console/'))).toEqual([]);
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

  test('the address and the key that a first start prints open the console', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'sluice-first-'));
    try {
      const first = await serving(['--data-dir', directory]);
      const url = /^ {2}console +(\S+)$/m.exec(first.stdout)?.[1] ?? '';
      const [accessKey = '', secretKey = ''] = keysOf(first);
      expect(url).toBe(`${first.url}/console/`);
      await using browsing = await browse(url.replace(/\/console\/$/, ''));
      await using tab = await browsing.open('/', { as: undefined });
      await fillLogin(tab, { accessKey, secretKey });
      await tab.page.getByText('Storage is healthy.').waitFor();
    } finally {
      await endAll();
      await rm(directory, { recursive: true, force: true });
    }
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

  test('a form goes on where its log-in ended: the secret is typed at once, and the refusal is gone', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/limited');
    await using tab = await world.open('/buckets/limited/usage?quota=1');
    const panel = tab.page.getByRole('region', { name: 'Set quota' });
    await panel.getByLabel('Objects').fill('5');
    await send(world.server, 'DELETE', '/admin/v1/logins');
    await panel.getByRole('button', { name: 'Save' }).click();
    await tab.page.getByText('Your log-in has ended').waitFor();
    await panel.locator('.failure').waitFor({ state: 'attached' });
    await tab.page.keyboard.type(testCredentials.root.secretKey);
    await tab.page.keyboard.press('Enter');
    await tab.page.getByText('Your log-in has ended').waitFor({ state: 'detached' });
    await panel.locator('.failure').waitFor({ state: 'detached' });
    expect(await panel.getByLabel('Objects').inputValue()).toBe('5');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.waitFor({ state: 'detached' });
  });

  test('a page that is refused something is asked for once, not again and again', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/me', { as: testCredentials.alice });
    let last = Date.now();
    let count = 0;
    tab.page.on('request', () => {
      last = Date.now();
      count += 1;
    });
    await tab.page.goto(`${world.server.url}/console/iam/users/root-account/billing`);
    await tab.page.getByText('AccessDenied').first().waitFor();
    await expect.poll(() => Date.now() - last > 1_500).toBe(true);
    expect(count).toBeLessThan(60);
  });

  test('a cookie that was planted before the log-in is replaced by it, and stays without rights', async () => {
    await using world = await openConsole();
    const { url } = world.server;
    // A log-in of the attacker, and a value that the attacker made up.
    await using attacker = await world.open('/', { as: testCredentials.alice });
    const [planted] = await attacker.context.cookies();
    for (const value of [planted?.value ?? '', 'f'.repeat(64)]) {
      await using tab = await world.open('/', { as: undefined });
      await tab.context.addCookies([
        { name: 'sluice-login', value, url, httpOnly: true, sameSite: 'Strict' },
      ]);
      await tab.page.goto(`${url}/console/me`);
      await settled(tab.page);
      if (value === planted?.value) {
        // The victim is in the attacker's account, and the page says so; it logs out and in.
        await tab.page
          .getByText(/alice-account/)
          .first()
          .waitFor();
        await tab.page.getByRole('button', { name: 'Log out' }).click();
      }
      await tab.page.getByRole('heading', { name: 'Log in' }).waitFor();
      await fillLogin(tab, testCredentials.root);
      await tab.page
        .getByText(/root-account/)
        .first()
        .waitFor();
      const cookies = await tab.context.cookies();
      expect(cookies).toHaveLength(1);
      expect(cookies[0]?.value).not.toBe(value);
      expect(cookies[0]).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
      const stale = await fetch(`${url}/admin/v1/clusters`, { headers: { cookie: `sluice-login=${value}` } });
      expect(stale.status).toBe(403);
    }
  });

  test('with SVC_ADMIN_LISTEN pages read and write storage at its own address, where the cookie of the log-in proves nothing', async () => {
    const [listen, admin] = await freePorts(2);
    const server = await startServer({
      env: { SVC_LISTEN: `127.0.0.1:${listen}`, SVC_ADMIN_LISTEN: `127.0.0.1:${admin}` },
    });
    await using browsing = await browse(`http://127.0.0.1:${admin}`);
    try {
      await send(server, 'PUT', '/inbox');
      await send(server, 'PUT', '/inbox/first.txt', { body: 'one' });
      await using tab = await browsing.open('/buckets/inbox/objects');
      const { page } = tab;
      const sent: Promise<string | undefined>[] = [];
      page.on('request', (request) => {
        if (request.url().startsWith(server.url))
          sent.push(request.headerValue('cookie').then((cookie) => cookie ?? undefined));
      });
      await page.getByRole('link', { name: 'first.txt' }).waitFor();
      const file = { name: 'second.txt', mimeType: 'text/plain', buffer: Buffer.from('two') };
      await page.locator('.tools-line input[type=file]:not([webkitdirectory])').setInputFiles(file);
      await page.getByRole('link', { name: 'second.txt' }).waitFor();
      expect(await (await send(server, 'GET', '/inbox/second.txt')).text()).toBe('two');
      expect(sent.length).toBeGreaterThan(0);
      expect((await Promise.all(sent)).filter((cookie) => cookie !== undefined)).toEqual([]);
      // The browser sends the cookie of a host to all its ports: opened there, it is no caller.
      const opened = await page.goto(`${server.url}/inbox/first.txt`);
      expect(opened?.status()).toBe(403);
      expect((await page.goto(`${server.url}/console/`))?.status()).toBeGreaterThanOrEqual(400);
      expect((await page.goto(`${server.url}/admin/v1/clusters`))?.status()).toBeGreaterThanOrEqual(400);
    } finally {
      await server.stop();
    }
  });
});
