/** Every page that is built, in light and dark, on a phone, a tablet and a desktop: axe finds nothing to complain about. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, builtPages } from './addresses.ts';
import { fill, send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Scheme, type Width, widths } from './world.ts';

const schemes: readonly Scheme[] = ['light', 'dark'];

describe.skipIf(noChromium !== undefined)('accessibility', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    await fill(world.server, 'typical');
    await send(world.server, 'GET', '/missing').catch(() => {});
  });
  afterAll(() => world[Symbol.asyncDispose]());

  // A test for each, because all pages at all widths take longer than a test may on a busy machine.
  const looks = schemes.flatMap((scheme) =>
    (Object.keys(widths) as Width[]).map((width) => ({ scheme, width })),
  );
  test.each(looks)('no page violates a rule of axe, $scheme on a $width', async ({ scheme, width }) => {
    await using tab = await world.open('/', { scheme, width });
    for (const name of builtPages) {
      await tab.go(addressOf(name, 'typical'));
      expect([name, await tab.axe()]).toEqual([name, []]);
    }
  });

  test('the log-in page, the palette, the list of keys and the account menu violate none either', async () => {
    for (const scheme of schemes) {
      await using out = await world.open('/', { scheme, as: undefined });
      expect(await out.axe()).toEqual([]);
      await using tab = await world.open('/', { scheme });
      await tab.page.keyboard.press('Control+k');
      await tab.page.getByRole('combobox', { name: 'Command palette' }).waitFor();
      expect(await tab.axe()).toEqual([]);
      await tab.page.keyboard.press('Escape');
      await tab.page.keyboard.press('?');
      await tab.page.getByRole('heading', { name: 'Keyboard' }).waitFor();
      expect(await tab.axe()).toEqual([]);
      await tab.page.keyboard.press('Escape');
      await tab.page.getByRole('button', { name: 'Account' }).click();
      expect(await tab.axe()).toEqual([]);
    }
  });
});
