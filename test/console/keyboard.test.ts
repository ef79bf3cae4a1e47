/** Tab reaches every control of a page, in the order of the page, and the control with the focus looks different. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, builtPages, panels } from './addresses.ts';
import { fill, send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Tab } from './world.ts';

const addresses = [
  ...builtPages.map((name) => [name, addressOf(name, 'typical')] as const),
  ...Object.entries(panels),
];

interface Walk {
  /** Controls that Tab did not reach. */
  readonly missed: readonly string[];
  /** Controls that look the same with the focus as without it. */
  readonly unseen: readonly string[];
  /** Controls that got the focus before one that stands before them. */
  readonly disordered: readonly string[];
}

/** Presses Tab until the focus has gone around. */
async function walk({ page }: Tab): Promise<Walk> {
  await page.evaluate(() => {
    const selector =
      'a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, iframe, [tabindex="0"]';
    const inert = (element: Element) => element.closest('[inert]') !== null;
    const controls = [...document.querySelectorAll<HTMLElement>(selector)].filter(
      (each) => each.checkVisibility({ visibilityProperty: true }) && each.tabIndex >= 0 && !inert(each),
    );
    const state = { controls, order: [] as number[], unseen: [] as string[] };
    Object.assign(globalThis, { tabWalk: state });
    (document.activeElement as HTMLElement | null)?.blur();
  });
  const count = await page.evaluate(
    () => (globalThis as unknown as { tabWalk: { controls: unknown[] } }).tabWalk.controls.length,
  );
  // The document of a frame and what the browser itself shows take further presses.
  let found = 0;
  for (let press = 0; press < 2 * count + 8 && found < count; press += 1) {
    await page.keyboard.press('Tab');
    found = await page.evaluate(() => {
      const { tabWalk } = globalThis as unknown as {
        tabWalk: { controls: HTMLElement[]; order: number[]; unseen: string[] };
      };
      const focused = document.activeElement as HTMLElement | null;
      const index = focused === null ? -1 : tabWalk.controls.indexOf(focused);
      if (focused === null || index < 0 || tabWalk.order.includes(index)) return tabWalk.order.length;
      tabWalk.order.push(index);
      // A document in a frame shows its focus itself.
      if (focused.tagName === 'IFRAME') return tabWalk.order.length;
      const { outlineStyle, outlineWidth } = getComputedStyle(focused);
      if (outlineStyle === 'none' || outlineWidth === '0px')
        tabWalk.unseen.push(focused.outerHTML.slice(0, 120));
      return tabWalk.order.length;
    });
  }
  return page.evaluate(() => {
    const { tabWalk } = globalThis as unknown as {
      tabWalk: { controls: HTMLElement[]; order: number[]; unseen: string[] };
    };
    const { controls, order, unseen } = tabWalk;
    const text = (index: number) => controls[index]?.outerHTML.slice(0, 120) ?? '';
    // The focus begins in an open panel, and goes around: one step back is the way from the end to the begin.
    const back = order.filter((index, at) => at > 0 && index < (order[at - 1] ?? 0));
    return {
      missed: controls.flatMap((each, index) =>
        order.includes(index) || !each.isConnected ? [] : [text(index)],
      ),
      unseen,
      disordered: back.slice(1).map(text),
    };
  });
}

/** What has the focus outside of some elements when Tab is pressed forty times. */
async function reachedOutside({ page }: Tab, inside: string): Promise<readonly string[]> {
  const reached = new Set<string>();
  for (let press = 0; press < 40; press += 1) {
    await page.keyboard.press('Tab');
    const outside = await page.evaluate((selector) => {
      const { activeElement } = document;
      if (activeElement === document.body || activeElement?.closest(selector)) return undefined;
      return activeElement?.outerHTML.slice(0, 80);
    }, inside);
    if (outside !== undefined) reached.add(outside);
  }
  return [...reached];
}

describe.skipIf(noChromium !== undefined)('the keyboard', () => {
  let world: ConsoleWorld;
  let loggedIn: Tab;
  beforeAll(async () => {
    world = await openConsole();
    await fill(world.server, 'typical');
    loggedIn = await world.open('/');
  });
  afterAll(async () => {
    await loggedIn[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  test.each(addresses)('reaches every control of %s with Tab, in order and visibly', async (_, address) => {
    await using tab = await world.open(address, { beside: loggedIn });
    expect(await walk(tab)).toEqual({ missed: [], unseen: [], disordered: [] });
  });

  // The other two are opened by what the page shows.
  test.each(Object.entries(panels).filter(([name]) => name !== 'decided' && name !== 'users'))(
    'on a phone, nothing that panel %s covers can have the focus',
    async (_, address) => {
      await using tab = await world.open(address, { beside: loggedIn });
      const { page } = tab;
      await page.locator('.panel').waitFor();
      await page.setViewportSize({ width: 390, height: 844 });
      expect(await reachedOutside(tab, '.panel, .upload-bar')).toEqual([]);
      await page.setViewportSize({ width: 1280, height: 800 });
      expect(await reachedOutside(tab, '.panel, .upload-bar')).not.toEqual([]);
    },
  );

  test('on a phone, the focus returns from a panel to the row that it covered', async () => {
    await using tab = await world.open('/clusters', { beside: loggedIn });
    const { page } = tab;
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('link', { name: 'default' }).first().focus();
    const focused = () => page.evaluate(() => document.activeElement?.outerHTML);
    const opener = await focused();
    await page.keyboard.press('Enter');
    const panel = page.getByRole('region', { name: 'default' });
    await panel.waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await expect.poll(focused, { timeout: 60_000 }).toBe(opener);
  });

  test('nothing that the sheet of pages covers can have the focus, until it is closed', async () => {
    await using tab = await world.open('/buckets', { beside: loggedIn });
    const { page } = tab;
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.locator('.is-sheet').waitFor();
    expect(await reachedOutside(tab, '.is-sheet')).toEqual([]);
    await page.keyboard.press('Escape');
    await page.locator('.is-sheet').waitFor({ state: 'detached' });
    expect(await reachedOutside(tab, '.rail')).not.toEqual([]);
  });

  test('a dialog begins at the field to be filled, Esc closes it and then its panel, and each time the focus returns to what opened it', async () => {
    await using tab = await world.open('/clusters', { beside: loggedIn });
    const { page } = tab;
    const focused = () =>
      expect.poll(() => page.evaluate(() => document.activeElement?.textContent), { timeout: 60_000 });
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    const panel = page.getByRole('region', { name: 'default' });
    await panel.getByRole('button', { name: 'Evacuate' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Evacuate default?' });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await focused().toBe('Evacuate');
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await focused().toContain('default');
    await tab.go('/buckets/photos/danger');
    await page.getByRole('button', { name: 'Empty the bucket' }).focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Type photos to confirm').and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await focused().toBe('Empty the bucket');
  });

  test('where what has the focus vanishes, the focus goes to a row beside it, or to what surrounds it', async () => {
    const { server } = world;
    const json = { 'content-type': 'application/json' };
    const post = (path: string, body: object) =>
      send(server, 'POST', `/admin/v1/accounts/alice-account${path}`, {
        body: JSON.stringify(body),
        headers: json,
      });
    for (const name of ['Anna', 'Berta', 'Clara']) await post('/users', { name });
    for (const name of ['eaters', 'readers', 'writers']) {
      await post('/groups', { name });
      await send(server, 'PUT', `/admin/v1/accounts/alice-account/groups/${name}/users/Anna`, {
        body: '{}',
        headers: json,
      });
    }
    await using tab = await world.open('/iam/users?account=alice-account', { beside: loggedIn });
    const { page } = tab;
    const focused = () =>
      expect.poll(
        () =>
          page.evaluate(() => {
            const { tagName = '', textContent = '' } = document.activeElement ?? {};
            return tagName === 'BODY' ? 'nothing' : textContent;
          }),
        { timeout: 60_000 },
      );
    const openRow = async (name: string) => {
      await page.getByRole('link', { name, exact: true }).focus();
      await page.keyboard.press('Enter');
      const panel = page.getByRole('region', { name, exact: true });
      await panel.getByText('arn:aws:iam').first().waitFor();
      return panel;
    };
    // A row's own button.
    const panel = await openRow('Anna');
    const groups = panel.getByRole('listitem').filter({ hasText: /eaters|readers|writers/ });
    await expect.poll(() => groups.count(), { timeout: 60_000 }).toBe(3);
    for (const next of ['writers', 'eaters']) {
      await groups
        .filter({ hasText: next === 'writers' ? 'readers' : 'writers' })
        .getByRole('button')
        .focus();
      await page.keyboard.press('Enter');
      await focused().toContain(next);
    }
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    await focused().toBe('Anna');
    // A panel and a dialog, whose row is deleted.
    await (await openRow('Berta')).getByRole('button', { name: 'Delete' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/^Type/).fill('Berta');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await focused().toMatch(/^Clara/);
    // A busy button keeps it, also where the gateway refuses.
    await page.getByRole('button', { name: 'Create user' }).focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Name', { exact: true }).fill('Anna');
    const create = page
      .getByRole('region', { name: 'Create user' })
      .getByRole('button', { name: 'Create user' });
    await create.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await focused().toBe('Create user');
  });
});
