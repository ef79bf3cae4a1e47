/** What every page has: rail, breadcrumb, palette, keyboard, theme, language, health. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { addressOf, builtPages } from './addresses.ts';
import { installTime, passTime } from './hour.ts';
import { openUser } from './people.ts';
import { answerRead, refusalsIn } from './reads.ts';
import { send } from './seeds.ts';
import { noChromium, openConsole, settled, type Tab } from './world.ts';

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

  test('the palette finds buckets, users and accounts by a part of their names, and begins a new bucket', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    const narrow = await openUser(world.server, 'Nadja', { actions: ['admin:ListBuckets'] });
    await using tab = await world.open('/');
    const { page } = tab;
    const find = async (text: string, option: RegExp) => {
      await page.keyboard.press('Control+k');
      await page.locator('.palette-input:focus').waitFor();
      await page.keyboard.type(text);
      await page.getByRole('option', { name: option }).click();
    };
    await find('adja', /^Nadja Users$/);
    await page.getByRole('region', { name: 'Nadja' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/console/iam/users');
    await find('alice', /^alice-account Accounts$/);
    await page.getByRole('region', { name: 'alice-account' }).waitFor();
    await find('pho', /^photos Buckets$/);
    await page.getByRole('heading', { name: 'photos', level: 1 }).waitFor();
    await find('create b', /^Create bucket Actions$/);
    await page.getByRole('region', { name: 'Create bucket' }).waitFor();
    // What policies forbid is not offered.
    await using other = await world.open('/buckets', { as: narrow });
    const refused: Promise<readonly string[]>[] = [];
    other.page.on('response', (response) => refused.push(refusalsIn(response)));
    await other.page.keyboard.press('Control+k');
    await other.page.locator('.palette-input:focus').waitFor();
    await other.page.keyboard.type('a');
    await settled(other.page);
    const offered = await other.page.getByRole('option').allInnerTexts();
    expect(offered.filter((text) => /Create bucket|Users|Accounts/.test(text))).toEqual([]);
    expect((await Promise.all(refused)).flat()).toEqual([]);
  });

  test('keys go to the filter, to the next and previous row, into a row and out of it, and the address restores all of it', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/workers?sort=-worker');
    const { page } = tab;
    const press = (key: string) => page.keyboard.press(key);
    await press('/');
    await page.locator('[data-filter]:focus').waitFor();
    // Keys that type into a field are not taken.
    await page.keyboard.type('re');
    await page.waitForURL(/[?&]q=re/);
    const rowAt = (at: number) => page.locator('[data-row]').nth(at);
    await page.locator('main').focus();
    const names = await page.locator('[data-row] .row-opener').allInnerTexts();
    expect(names.length).toBeGreaterThan(2);
    expect(names).toEqual(names.toSorted().reverse());
    expect(names.every((name) => name.includes('re'))).toBe(true);
    for (const key of ['j', 'j', 'k']) await press(key);
    await rowAt(0).and(page.locator(':focus')).waitFor();
    await press('j');
    await press('Enter');
    const panel = page.getByRole('region', { name: names[1] ?? '' });
    await panel.waitFor();
    // Another tab, as from a pasted link: filter, sort and panel.
    await using pasted = await world.open(page.url().slice(`${world.server.url}/console`.length), {
      beside: tab,
    });
    await pasted.page.getByRole('region', { name: names[1] ?? '' }).waitFor();
    expect(await pasted.page.locator('[data-row] .row-opener').allInnerTexts()).toEqual(names);
    await page.goBack();
    await panel.waitFor({ state: 'detached' });
    await page.goForward();
    await panel.waitFor();
    await press('Escape');
    await panel.waitFor({ state: 'detached' });
    await press('?');
    await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
    await press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
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

  test('the rail has words on a desktop, icons on a tablet, and is a sheet on a phone', async () => {
    await using world = await openConsole();
    const rail = ({ page }: Tab) => page.getByRole('navigation', { name: 'Pages' });
    const widthOf = async (tab: Tab) => (await rail(tab).boundingBox())?.width ?? 0;
    await using desktop = await world.open('/storage');
    expect(await widthOf(desktop)).toBeGreaterThan(200);
    await using tablet = await world.open('/storage', { width: 'tablet' });
    expect(await widthOf(tablet)).toBeLessThan(80);
    // An icon has its word for those who cannot see it.
    await rail(tablet).getByRole('link', { name: 'Clusters' }).click();
    await tablet.page.getByRole('heading', { name: 'Clusters', level: 1 }).waitFor();
    await using phone = await world.open('/storage', { width: 'phone' });
    const { page } = phone;
    expect(await rail(phone).isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Menu' }).click();
    await rail(phone).getByRole('link', { name: 'Clusters' }).click();
    await page.getByRole('heading', { name: 'Clusters', level: 1 }).waitFor();
    expect(await rail(phone).isVisible()).toBe(false);
    const menu = page.getByRole('button', { name: 'Menu' });
    await menu.focus();
    await page.keyboard.press('Enter');
    await page.locator('.rail .sheet-close:focus').waitFor();
    await page.keyboard.press('Escape');
    await rail(phone).waitFor({ state: 'hidden' });
    await menu.and(page.locator(':focus')).waitFor();
    const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
    for (const each of [desktop, tablet, phone]) expect(await each.page.evaluate(overflow)).toBe(0);
  });

  test('tabs that a phone has no room for are hinted at by a shadow at that edge, and the open tab is in view', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    await using tab = await world.open('/buckets/photos/objects', { width: 'phone' });
    const { page } = tab;
    const nav = page.getByRole('navigation', { name: 'Bucket', exact: true });
    /** What an edge looks like, above the words of the tabs. */
    const edges = async (): Promise<readonly string[]> => {
      const { x, y, width } = (await nav.boundingBox()) ?? { x: 0, y: 0, width: 0 };
      const strip = async (left: number) => {
        const clip = { x: left, y: y + 2, width: 8, height: 2 };
        return (await page.screenshot({ clip })).toString('base64');
      };
      return [await strip(x), await strip(x + width / 2), await strip(x + width - 8)];
    };
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await tab.go('/buckets/photos/objects');
      const [begin, plain, more] = await edges();
      expect(begin).toBe(plain);
      expect(more).not.toBe(plain);
      await tab.go('/buckets/photos/danger');
      const [before, middle, end] = await edges();
      expect(before).not.toBe(middle);
      expect(end).toBe(middle);
      await tab.go('/buckets/photos/settings');
      const { x = 0, width = 0 } = (await nav.locator('.is-open').boundingBox()) ?? {};
      expect(x).toBeGreaterThanOrEqual(16);
      expect(x + width).toBeLessThanOrEqual(360 - 16);
    }
  });

  test('the placeholders of filters are not cut on a phone, in both languages', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    for (const locale of ['en-US', 'de-DE']) {
      await using tab = await world.open('/', { width: 'phone', locale });
      for (const path of ['/audit', '/buckets', '/buckets/photos/versions', '/traces']) {
        await tab.go(path);
        const cut: string[] = [];
        for (const input of await tab.page.locator('.filter input').all()) {
          const [placeholder, begin, width] = await input.evaluate((element) => {
            const { font, paddingLeft } = getComputedStyle(element);
            const context = new OffscreenCanvas(1, 1).getContext('2d');
            if (context === null) throw new Error('no canvas');
            context.font = font;
            const text = (element as HTMLInputElement).placeholder;
            return [text, Number.parseFloat(paddingLeft), context.measureText(text).width] as const;
          });
          const { x = 0, y = 0, height = 0 } = (await input.boundingBox()) ?? {};
          // The text alone, with its last letter: an input of more room shows the same where nothing is cut.
          const clip = { x: x + begin, y: y + 8, width: Math.ceil(width), height: height - 16 };
          const shoot = async () => (await tab.page.screenshot({ clip, fullPage: true })).toString('base64');
          const before = await shoot();
          await input.evaluate((element) => {
            element.style.width = `${element.clientWidth + 100}px`;
          });
          if ((await shoot()) !== before) cut.push(placeholder);
        }
        expect(cut, `${locale} ${path}`).toEqual([]);
      }
    }
  });

  test('every page shows that it loads while the gateway has not answered', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    await using tab = await world.open('/me');
    const { page } = tab;
    await page.route(/\/admin\/v1\/(?!session$)|\/photos\/?\?/, () => {});
    // The others read nothing before the caller has filled a form.
    const reading = builtPages.filter((name) => name !== 'me' && name !== 'why');
    for (const name of reading) {
      await page.goto(`${world.server.url}/console${addressOf(name, 'typical')}`);
      const skeleton = page.locator('.content .skeleton.is-late').first();
      await skeleton.waitFor().catch((cause: unknown) => {
        throw new Error(`${name} shows nothing`, { cause });
      });
    }
  });

  test('an error of a proxy, which has no reason, is told apart from the sentences of the gateway', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/me');
    const { page } = tab;
    const html = { status: 500, contentType: 'text/html', body: '<h1>oops</h1>' };
    await page.route(/\/admin\/v1\/(?!session)/, (route) => route.fulfill(html));
    await page.goto(`${world.server.url}/console/clusters`);
    const failure = page.getByRole('alert');
    await failure.getByText('answered with an error and gave no reason').waitFor();
    expect(await failure.getByText('HTTP 500').count()).toBe(1);
    await failure.getByRole('button', { name: 'Try again' }).waitFor();
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
    await installTime(page);
    const asked = await answerHealth(page, () => ({ ok: true, source: 'memory', warnings: [] }));
    await tab.go('/');
    const show = (state: 'visible' | 'hidden') =>
      page.evaluate((value) => {
        Object.defineProperty(document, 'visibilityState', { value, configurable: true });
        document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));
      }, state);
    const passed = async (seconds: number) => {
      const before = asked();
      await passTime(page, seconds);
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

  test('names the account of the caller, because every account has a root', async () => {
    await using world = await openConsole();
    for (const as of [world.server.credentials.numbered, testCredentials.root]) {
      await using tab = await world.open('/me', { as });
      await tab.page.getByRole('button', { name: `Account: ${as.owner} / root` }).click();
      const arn = tab.page.getByText(`arn:aws:iam::${as.owner}:root`).last();
      await arn.waitFor();
      // The whole of it is in sight.
      expect(await arn.evaluate(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)).toBe(false);
      expect(await tab.axe()).toEqual([]);
    }
  });

  test('code of a page that does not arrive is a failure within the shell, and the document is loaded anew only for another build', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/');
    const { page } = tab;
    const documents: string[] = [];
    page.on('request', (request) => {
      if (request.isNavigationRequest()) documents.push(request.url());
    });
    const open = (name: string) =>
      page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
    const failed = page.getByText('This page could not be loaded.');
    for (const [name, status] of [
      ['Storage', 503],
      ['Workers', 404],
      ['Events', undefined],
    ] as const) {
      const code = `**/console/assets/${name.toLowerCase()}-*.js`;
      await page.route(code, (route) => (status === undefined ? route.abort() : route.fulfill({ status })));
      await open(name);
      await failed.waitFor();
      await page.unroute(code);
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
    }
    expect(documents).toEqual([]);
    await page.route('**/console/assets/traces-*.js', (route) => route.fulfill({ status: 404 }));
    await page.route('**/console/', async (route) => {
      const reply = await route.fetch();
      await route.fulfill({ response: reply, body: (await reply.text()).replaceAll('/main-', '/main-new') });
    });
    await Promise.all([page.waitForEvent('load'), open('Traces')]);
    // It is still the old build: a second reload would help as little as the first. The button is free when that was decided.
    await failed.waitFor();
    await page.getByRole('button', { name: 'Try again', disabled: false }).waitFor();
    expect(documents).toHaveLength(1);
  });

  test('without a network, pages say that the gateway does not answer, and what was confirmed is not done later', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage');
    const { page, context } = tab;
    const begun: string[] = [];
    page.on('requestfinished', (request) => {
      if (request.method() === 'POST') begun.push(new URL(request.url()).pathname);
    });
    const unreachable = page.getByText('The gateway does not answer.');
    await context.setOffline(true);
    await page.getByRole('button', { name: 'Run fsck' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Run fsck' }).click();
    await dialog.getByText('The gateway does not answer.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    await context.setOffline(false);
    await tab.go('/buckets');
    await context.setOffline(true);
    await page.getByRole('searchbox').fill('x');
    await unreachable.waitFor();
    await context.setOffline(false);
    // The failure goes by itself with the network that is back.
    await page.getByText('No bucket begins with “x”.').last().waitFor();
    expect(await unreachable.count()).toBe(0);
    expect(begun.filter((path) => path.includes('fsck'))).toEqual([]);
  });

  test('is printed in dark letters on white, without what leads to other pages', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage', { scheme: 'dark' });
    const { page } = tab;
    await page.evaluate(() => document.documentElement.setAttribute('data-theme', 'dark'));
    await page.emulateMedia({ media: 'print' });
    const colours = await page.evaluate(() =>
      ['html', '.card'].map((each) => {
        const { color, backgroundColor } = getComputedStyle(document.querySelector(each) ?? document.body);
        return `${color} on ${backgroundColor}`;
      }),
    );
    expect(colours).toEqual([
      'rgb(28, 29, 33) on rgb(255, 255, 255)',
      'rgb(28, 29, 33) on rgb(255, 255, 255)',
    ]);
    expect(await page.getByRole('navigation', { name: 'Pages' }).isVisible()).toBe(false);
    expect(await page.getByRole('heading', { name: 'Storage', level: 1 }).isVisible()).toBe(true);
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
