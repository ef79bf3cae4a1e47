/** What every page has: rail, breadcrumb, palette, keyboard, theme, language, health. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { openUser } from './people.ts';
import { answerRead, refusalsIn } from './reads.ts';
import { noChromium, openConsole } from './world.ts';

/** Answers for the health of storage, in place of the gateway's own. */
async function answerHealth(page: Page, next: () => object): Promise<() => number> {
  const health = { operation: 'GetStorageHealth', path: '/storage/health' };
  return (await answerRead(page, health, () => ({ json: next() }))).asked;
}

describe.skipIf(noChromium !== undefined)('the shell', () => {
  test('opens pages, buckets and actions from the palette, and focuses by keys', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { page } = tab;
    await page.keyboard.press('Control+k');
    await page.locator('.palette-input:focus').waitFor();
    await page.keyboard.type('stor');
    await page.getByRole('option', { name: /^Storage/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
    expect(await page.title()).toBe('Storage · Console');
    await page.keyboard.press('Control+k');
    await page.locator('.palette-input:focus').waitFor();
    await page.keyboard.type('dark');
    await page.getByRole('option', { name: /dark/i }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('html[data-theme="dark"]').waitFor();
    await page.reload();
    await page.locator('html[data-theme="dark"]').waitFor();
    await page.getByRole('region', { name: 'Metadata' }).waitFor();
    await page.locator('[data-row]').first().waitFor();
    await page.keyboard.press('j');
    await page.locator('[data-row]:focus').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  });

  test('the palette opens what was typed, also where Enter comes before the entries are shown', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { page } = tab;
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').evaluate((input) => {
      // The cast: the palette's field is an input.
      (input as HTMLInputElement).value = 'stor';
      input.dispatchEvent(new Event('input', { bubbles: true }));
      input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    });
    await page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
  });

  test('shows a banner for each new set of warnings until that is dismissed', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { page } = tab;
    let warnings = ['schema versions disagree: a, b', 'HEALTH_WARN: 1 osd down'];
    await answerHealth(page, () => ({ ok: false, source: 'wide-column', warnings }));
    await tab.go('/storage');
    await page.getByText('Storage has 2 warnings').waitFor();
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('Storage has 2 warnings').waitFor({ state: 'detached' });
    warnings = warnings.toReversed();
    await tab.go('/');
    await page.getByRole('link', { name: '2 storage warnings' }).waitFor();
    expect(await page.getByText('Storage has 2 warnings').count()).toBe(0);
    warnings = ['pd endpoints unreachable: <img src=x onerror=alert(1)>'];
    await tab.go('/');
    await page.getByText('Storage has a warning').waitFor();
    await page.getByText('<img src=x onerror=alert(1)>').waitFor();
  });

  test('reads the health every 30 seconds while the tab is visible, and not while it is hidden', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { page } = tab;
    await page.clock.install();
    const asked = await answerHealth(page, () => ({ ok: true, source: 'memory', warnings: [] }));
    await tab.go('/');
    const show = (state: 'visible' | 'hidden') =>
      page.evaluate((value) => {
        Object.defineProperty(document, 'visibilityState', { value, configurable: true });
        document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));
      }, state);
    const passed = async (seconds: number) => {
      const before = asked();
      for (let second = 0; second < seconds; second += 10) {
        await page.clock.runFor(10_000);
        await page.waitForTimeout(50);
      }
      return asked() - before;
    };
    expect(await passed(120)).toBe(4);
    await show('hidden');
    expect(await passed(300)).toBe(0);
  });

  test('is in German where the browser prefers it or the user chooses it', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage', { locale: 'de-DE' });
    await tab.page.getByRole('heading', { name: 'Speicher', level: 1 }).waitFor();
    expect(await tab.page.locator('html').getAttribute('lang')).toBe('de');
    await tab.page.getByRole('button', { name: 'Konto' }).click();
    await tab.page.getByLabel('Sprache').selectOption('en');
    await tab.page.getByRole('heading', { name: 'Storage', level: 1 }).waitFor();
  });

  test('says that an address has no page', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/no/such/page');
    await tab.page.getByText('There is no such page.').waitFor();
  });

  test('greys what policies forbid, with the operation, and does not offer forbidden actions', async () => {
    await using world = await openConsole();
    const pair = await openUser(world.server, 'narrow', {
      actions: ['admin:GetStorageHealth', 'admin:ListClusters'],
    });
    await using tab = await world.open('/', { as: pair });
    const { page } = tab;
    await page.getByRole('region', { name: 'Capacity by cluster' }).waitFor();
    await page.getByText('Your policies do not allow admin:GetStorageMeta.').waitFor({ state: 'attached' });
    expect(
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Storage' }).count(),
    ).toBe(0);
    expect(await page.getByRole('region').count()).toBe(1);
    await tab.go('/storage');
    expect(await page.getByRole('button', { name: 'Run fsck' }).count()).toBe(0);
    const asked: Promise<readonly string[]>[] = [];
    page.on('response', (response) => asked.push(refusalsIn(response)));
    await tab.go('/');
    expect((await Promise.all(asked)).flat()).toEqual([]);
  });
});
