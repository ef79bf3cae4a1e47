/**
 * Every page that is built and every panel, in light on a phone, a tablet and a desktop, and in dark: axe finds no violation.
 * A page is loaded once, because the load takes longer than axe; width and theme change while it is open.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, builtPages, panels } from './addresses.ts';
import { badPracticesOf, tablesBeyond } from './best-practices.ts';
import { fill, send } from './seeds.ts';
import {
  type ConsoleWorld,
  noChromium,
  openConsole,
  type Scheme,
  type Tab,
  type Width,
  widths,
} from './world.ts';

/** A theme changes colours and nothing else: the other rules run in one of them, and the rules about colours at one width of the other. */
const runsIn: Readonly<
  Record<Scheme, { readonly at: readonly Width[]; readonly rules?: readonly string[] }>
> = {
  light: { at: Object.keys(widths) as Width[] },
  dark: { at: ['desktop'], rules: ['color-contrast', 'link-in-text-block'] },
};
const schemes = Object.keys(runsIn) as Scheme[];
const addresses = [
  ...builtPages.map((name) => [name, addressOf(name, 'typical')] as const),
  ...Object.entries(panels),
];

/** The violations at each width in each theme, by both. */
async function violationsOf(tab: Tab): Promise<Readonly<Record<string, readonly string[]>>> {
  const found: Record<string, readonly string[]> = {};
  for (const colorScheme of schemes) {
    await tab.page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const { at, rules } = runsIn[colorScheme];
    for (const name of at) {
      await tab.page.setViewportSize({ width: widths[name], height: 900 });
      const violations = await tab.axe(rules);
      if (violations.length > 0) found[`${colorScheme}, ${name}`] = violations;
    }
  }
  return found;
}

describe.skipIf(noChromium !== undefined)('accessibility', () => {
  let world: ConsoleWorld;
  let loggedIn: Tab;
  beforeAll(async () => {
    world = await openConsole();
    await fill(world.server, 'typical');
    await send(world.server, 'GET', '/missing').catch(() => {});
    loggedIn = await world.open('/');
  });
  afterAll(async () => {
    await loggedIn[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
  });

  // At the same time, because most of the time of a load is spent in waiting.
  test.concurrent.each(addresses)(
    '%s violates no rule of axe, in light at three widths and in dark, and no best practice, and shows all columns of its tables',
    async (_, address) => {
      await using tab = await world.open(address, { beside: loggedIn });
      expect(await badPracticesOf(tab.page)).toEqual([]);
      expect(await violationsOf(tab)).toEqual({});
      // On a phone, and with as many columns as there are durations, a table may scroll.
      expect(await tablesBeyond(tab.page, [widths.tablet, 1024, widths.desktop])).toEqual({});
    },
  );

  test('the log-in page, the palette, the list of keys and the account menu violate none either', async () => {
    await using out = await world.open('/', { as: undefined });
    expect(await badPracticesOf(out.page)).toEqual([]);
    expect(await violationsOf(out)).toEqual({});
    await using tab = await world.open('/', { beside: loggedIn });
    await tab.page.keyboard.press('Control+k');
    await tab.page.getByRole('combobox', { name: 'Command palette' }).waitFor();
    expect(await violationsOf(tab)).toEqual({});
    await tab.page.keyboard.press('Escape');
    await tab.page.keyboard.press('?');
    await tab.page.getByRole('heading', { name: 'Keyboard' }).waitFor();
    expect(await violationsOf(tab)).toEqual({});
    await tab.page.keyboard.press('Escape');
    await tab.page.getByRole('button', { name: 'Account' }).click();
    expect(await violationsOf(tab)).toEqual({});
  });
});
