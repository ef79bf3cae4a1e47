/** An idle page asks for little: at most 130 requests an hour, of which the health of storage needs 120. */
import { expect, test } from 'vitest';
import { inParallel } from '../../src/base/concurrency.ts';
import { addressOf, builtPages } from './addresses.ts';
import { installTime, passTime } from './hour.ts';
import { fill } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

const perHourMax = 130;
const minutes = 2;
const tabs = 3;

test.skipIf(noChromium !== undefined)(
  `every page makes at most ${perHourMax} requests an hour while it is idle`,
  async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    const found: Record<string, number> = {};
    const names = builtPages.values();
    // Each with a browser context of its own, because the tabs of one have one clock.
    await inParallel(tabs, Array.from({ length: tabs }), async () => {
      await using tab = await world.open('/me');
      await installTime(tab.page);
      for (const name of names) {
        await tab.go(addressOf(name, 'typical'));
        // What a page reads late is no poll.
        await passTime(tab.page, 10);
        found[name] = (await passTime(tab.page, minutes * 60)).requests;
      }
    });
    const tooMany = Object.entries(found).filter(([, requests]) => requests > (perHourMax * minutes) / 60);
    expect(tooMany, JSON.stringify(found)).toEqual([]);
  },
);
