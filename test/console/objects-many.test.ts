/** The Objects page over a bucket of many keys: it scrolls through all of them, and its memory does not grow. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fillKeys } from './bucket-rows.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const count = 20_000;
/** Long keys: what stays in memory of 15,000 rows would be 15 MB. */
const nameOf = (number: number): string => `object-${String(number).padStart(8, '0')}-${'k'.repeat(900)}`;
const heapGrowthMax = 6_000_000;

/** After garbage collection. */
async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

/** Scrolls in steps, as a wheel does, until the row is on the screen. */
const scrollTo = (page: Page, row: number): Promise<unknown> =>
  page.waitForFunction(
    ({ target, name }) => {
      const region = document.querySelector('.table-region.is-virtual');
      const shown = [...(region?.querySelectorAll('[data-row]') ?? [])];
      if (shown.some(({ textContent }) => textContent.includes(name))) return true;
      const first = shown[0]?.getAttribute('aria-rowindex');
      const distance = first === null || first === undefined ? 0 : (target + 2 - Number(first) - 12) * 44;
      region?.scrollBy({ top: Math.max(-20_000, Math.min(20_000, distance)) });
      return false;
    },
    { target: row, name: nameOf(row).slice(0, 16) },
    { polling: 'raf' },
  );

describe.skipIf(noChromium !== undefined)('a bucket of many keys', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('is scrolled to its end and back, with only the pages around what is seen in memory', async () => {
    await send(world.server, 'PUT', '/many');
    await fillKeys(world.server, 'many', { count, keyOf: nameOf });
    await using tab = await world.open('/buckets/many/objects');
    const { page } = tab;
    await page.getByText('Shown: the first 1,000 rows.').waitFor();
    await scrollTo(page, 3_000);
    const before = await heapOf(page);
    for (const row of [7_000, 11_000, 15_000, count - 1]) await scrollTo(page, row);
    await page.getByRole('button', { name: 'Load more' }).waitFor({ state: 'detached' });
    expect(await page.getByRole('table').getAttribute('aria-rowcount')).toBe(String(count + 1));
    // Renderings and replies that are under way hold rows for a moment; rows that the page keeps stay in every measurement.
    await expect
      .poll(async () => (await heapOf(page)) - before, { timeout: 60_000, interval: 500 })
      .toBeLessThan(heapGrowthMax);
    await scrollTo(page, 9_000);
    await page.getByRole('searchbox').fill('no-such-key');
    await page.getByText('No row matches the filter.').waitFor();
  });

  test('shows no key twice and leaves none out where another client changes what is loaded', async () => {
    await send(world.server, 'PUT', '/shifting');
    await fillKeys(world.server, 'shifting', { count: 2_500, keyOf: nameOf });
    await using tab = await world.open('/buckets/shifting/objects');
    const { page } = tab;
    await scrollTo(page, 1_000);
    // The first page has one key more now than a page may have.
    await send(world.server, 'PUT', '/shifting/object-00000500-a');
    await page.getByRole('checkbox', { name: `Select ${nameOf(995)}` }).check();
    await page.getByRole('button', { name: 'Delete (1)' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('1 object deleted.').waitFor();
    const shown = () =>
      page
        .locator('[data-row] bdi')
        .evaluateAll((cells) => cells.map((cell) => Number(cell.textContent?.slice(7, 15))));
    await expect
      .poll(async () => (await shown()).filter((number) => number >= 990 && number <= 1_005), {
        timeout: 60_000,
      })
      .toEqual([990, 991, 992, 993, 994, 996, 997, 998, 999, 1_000, 1_001, 1_002, 1_003, 1_004, 1_005]);
  });
});
