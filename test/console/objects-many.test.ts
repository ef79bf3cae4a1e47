/** The Objects page over a bucket of many keys: it scrolls through all of them, and its memory does not grow. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { fillKeys } from './bucket-rows.ts';
import { send } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

const count = 20_000;
/** Long keys: what stays in memory of 15,000 rows would be 15 MB. */
const nameOf = (number: number): string => `object-${String(number).padStart(8, '0')}-${'k'.repeat(900)}`;
const heapMax = 6_000_000;

/** After garbage collection. */
async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

/** Scrolls in steps, as a wheel does, until the row is on the screen. */
async function scrollTo(page: Page, row: number): Promise<void> {
  const region = page.getByRole('region', { name: 'Objects' });
  const shown = page.getByRole('button', { name: nameOf(row).slice(0, 16) });
  await expect
    .poll(
      async () => {
        await region.evaluate((element, target) => {
          const first = element.querySelector('[data-row]')?.getAttribute('aria-rowindex');
          if (first === null || first === undefined) return;
          const distance = (target + 2 - Number(first) - 12) * 44;
          element.scrollBy({ top: Math.max(-20_000, Math.min(20_000, distance)) });
        }, row);
        return shown.count();
      },
      { timeout: 60_000, interval: 10 },
    )
    .toBe(1);
}

describe.skipIf(noChromium !== undefined)('a bucket of 20,000 keys', () => {
  test('is scrolled to its end and back, with only the pages around what is seen in memory', async () => {
    await using world = await openConsole();
    await send(world.server, 'PUT', '/many');
    await fillKeys(world.server, 'many', { count, keyOf: nameOf });
    await using tab = await world.open('/buckets/many/objects');
    const { page } = tab;
    await page.getByText('Shown: the first 1,000 rows.').waitFor();
    await scrollTo(page, 3_000);
    const before = await heapOf(page);
    await scrollTo(page, count - 1);
    await page.getByRole('button', { name: 'Load more' }).waitFor({ state: 'detached' });
    expect(await page.getByRole('table').getAttribute('aria-rowcount')).toBe(String(count + 1));
    expect((await heapOf(page)) - before).toBeLessThan(heapMax);
    await scrollTo(page, 9_000);
    // Another client's keys shift the pages; no key is shown twice or left out.
    await send(world.server, 'PUT', '/many/object-00000000');
    await send(world.server, 'DELETE', `/many/${nameOf(1_500)}`);
    await page.reload();
    await page.getByRole('button', { name: 'object-00000000', exact: true }).waitFor();
    await page.getByRole('searchbox').fill('object-00000999');
    await page.getByText('No row matches the filter.').waitFor();
    await page.getByRole('button', { name: 'Clear the filter' }).click();
    await scrollTo(page, 999);
  });
});
