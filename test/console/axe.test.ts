/** Every page that is built, in light and dark, on a phone, a tablet and a desktop: axe finds nothing to complain about. */
import { describe, expect, test } from 'vitest';
import { addressOf, builtPages } from './addresses.ts';
import { fill, send } from './seeds.ts';
import { noChromium, openConsole, type Scheme, type Width, widths } from './world.ts';

const schemes: readonly Scheme[] = ['light', 'dark'];

describe.skipIf(noChromium !== undefined)('accessibility', () => {
  test('no page violates a rule of axe at any width, in light and dark', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await send(world.server, 'GET', '/missing').catch(() => {});
    for (const scheme of schemes)
      for (const width of Object.keys(widths) as Width[]) {
        await using tab = await world.open('/', { scheme, width });
        for (const name of builtPages) {
          await tab.go(addressOf(name, 'typical'));
          expect([name, scheme, width, await tab.axe()]).toEqual([name, scheme, width, []]);
        }
      }
  });

  test('the log-in page, the palette, the list of keys and the account menu do not either', async () => {
    await using world = await openConsole();
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
