/**
 * A level of many keys in Chromium, measured by hand: `node test/console/million-keys.ts [keys] [seconds]`. It prints the time to the first
 * rows, and the heap while the list is scrolled for so many seconds. More than a million keys would take hours to write: this script lists
 * them in the gateway's place, because the heap is that of the page.
 */
import type { Page } from 'playwright-core';
import { buildConsole } from '../../console/build.ts';
import { fillKeys } from './bucket-rows.ts';
import { send } from './seeds.ts';
import { openConsole } from './world.ts';

const [keys = 1_000_000, seconds = 180] = process.argv.slice(2).map(Number);
const keyOf = (number: number): string => `object-${String(number).padStart(8, '0')}`;
const storedMax = 1_000_000;
const pageMax = 1_000;
const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** Answers ListObjectsV2 of the bucket; a token is the number of the first key of its page. */
const listInstead = (page: Page): Promise<unknown> =>
  page.route(/\/many\?.*list-type=2/, (route) => {
    const first = Number(new URL(route.request().url()).searchParams.get('continuation-token') ?? 0);
    const end = Math.min(keys, first + pageMax);
    const contents = Array.from(
      { length: end - first },
      (_, at) =>
        `<Contents><Key>${keyOf(first + at)}</Key><LastModified>2026-11-26T00:00:00.000Z</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>0</Size><StorageClass>STANDARD</StorageClass></Contents>`,
    );
    const next = end < keys ? `<NextContinuationToken>${end}</NextContinuationToken>` : '';
    return route.fulfill({
      contentType: 'application/xml',
      body: `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>${next}${contents.join('')}</ListBucketResult>`,
    });
  });

await buildConsole();
await using world = await openConsole();
await send(world.server, 'PUT', '/many');
if (keys <= storedMax) await fillKeys(world.server, 'many', { count: keys, keyOf });
await using tab = await world.open('/buckets');
const { page } = tab;
if (keys > storedMax) await listInstead(page);
const debug = await page.context().newCDPSession(page);
const heap = async (): Promise<number> => {
  await debug.send('HeapProfiler.collectGarbage');
  return (await debug.send('Runtime.getHeapUsage')).usedSize;
};

const times: number[] = [];
for (let turn = 0; turn < 5; turn += 1) {
  await tab.go('/buckets');
  times.push(
    await page.evaluate(async () => {
      const opener = [...document.querySelectorAll<HTMLElement>('a, button')].find(
        ({ textContent }) => textContent?.trim() === 'many',
      );
      if (opener === undefined) throw new Error('the list of buckets has no such row');
      const begun = performance.now();
      opener.click();
      while (document.querySelector('[data-row] .control') === null)
        await new Promise((resolve) => requestAnimationFrame(resolve));
      return performance.now() - begun;
    }),
  );
}
console.log(`first rows of ${keys} keys: ${times.map((ms) => `${Math.round(ms)} ms`).join(', ')}`);

const before = await heap();
console.log(`heap at the first row: ${mb(before)}`);
const begun = Date.now();
const passed = (): number => Math.round((Date.now() - begun) / 1_000);
while (passed() < seconds) {
  const seen = await page.evaluate(async (forMs) => {
    const until = Date.now() + forMs;
    const region = document.querySelector('.table-region.is-virtual');
    while (Date.now() < until) {
      region?.scrollBy({ top: 12_000 });
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    return Number(region?.querySelector('table')?.getAttribute('aria-rowcount') ?? 1) - 1;
  }, 15_000);
  const now = await heap();
  console.log(
    `${passed()} s: ${seen} rows were loaded, heap ${mb(now)}, ${mb(Math.max(0, now - before))} more`,
  );
}
