/**
 * Measures the console in Chromium by the browser's own timeline, and prints the table of docs/benchmarks.md:
 * `node test/console/budget-table.ts`. Times are medians, from the event that began it to the frame that shows the result.
 */
import type { CDPSession, Page } from 'playwright-core';
import { buildConsole } from '../../console/build.ts';
import { inParallel } from '../../src/base/concurrency.ts';
import { testCredentials } from '../support/server.ts';
import { addressOf } from './addresses.ts';
import { installTime, passTime } from './hour.ts';
import { fill, send } from './seeds.ts';
import { type ConsoleWorld, fillLogin, openConsole, settled } from './world.ts';

const rounds = 7;
const firstRow = 'main [data-row]';
const manyBuckets = 10_000;
const manyClusters = 100;
/** Of the card of the Overview. */
const shownClusters = 8;
const hourSeconds = 3_600;

interface Row {
  readonly what: string;
  readonly measured: string;
  /** Absent: there is none. */
  readonly bound?: string;
  readonly isMet?: boolean;
}
const rows: Row[] = [];
const note = (what: string, measured: number, bound: number | undefined, unit: string): void => {
  const amount = (value: number) =>
    `${value.toLocaleString('en', { maximumFractionDigits: 1 })} ${unit}`.trim();
  rows.push({
    what,
    measured: amount(measured),
    ...(bound === undefined ? {} : { bound: `≤ ${amount(bound)}`, isMet: measured <= bound }),
  });
};

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** @returns ms from `begin`, an event of the page that the callback causes, to the frame that shows a row below this heading */
async function timeOf(
  page: Page,
  { begin, heading }: { readonly begin: string; readonly heading: string },
  act: () => Promise<unknown>,
): Promise<number> {
  await page.evaluate(
    ([type, title, row]) => {
      performance.clearMarks();
      addEventListener(type, () => performance.mark('begin'), { capture: true, once: true });
      const isShown = () =>
        document.querySelector('h1')?.textContent === title && document.querySelector(row) !== null;
      const look = (): void => {
        if (performance.getEntriesByName('begin').length > 0 && isShown())
          // The frame after the one that is being made has been shown.
          requestAnimationFrame(() => setTimeout(() => performance.mark('shown')));
        else requestAnimationFrame(look);
      };
      look();
    },
    [begin, heading, firstRow] as const,
  );
  await act();
  await page.waitForFunction(() => performance.getEntriesByName('shown').length > 0);
  return page.evaluate(() => performance.measure('took', 'begin', 'shown').duration);
}

/** @returns ms from the begin of the navigation to the frame that shows the selector */
async function timeOfLoad(page: Page, url: string, shown: string): Promise<number> {
  await page.goto(url, { waitUntil: 'commit' });
  return page.evaluate(
    (selector) =>
      new Promise<number>((resolve) => {
        const look = (): void => {
          if (document.querySelector(selector) !== null)
            requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
          else requestAnimationFrame(look);
        };
        look();
      }),
    shown,
  );
}

/** Bytes of scripts and style sheets as they were sent. */
const sentBytes = (page: Page): Promise<number> =>
  page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter(({ name }) => /\.(?:js|css)$/.test(name))
      .reduce((sum, entry) => sum + (entry as PerformanceResourceTiming).encodedBodySize, 0),
  );

async function measureLogIn(world: ConsoleWorld): Promise<void> {
  const times: number[] = [];
  const loads: number[] = [];
  let bytes = 0;
  for (let round = 0; round < rounds; round += 1) {
    await using tab = await world.open('/storage', { as: undefined });
    bytes = await sentBytes(tab.page);
    times.push(
      await timeOf(tab.page, { begin: 'submit', heading: 'Storage' }, () =>
        fillLogin(tab, testCredentials.root),
      ),
    );
    loads.push(await timeOfLoad(tab.page, `${world.server.url}/console/storage`, firstRow));
  }
  note('scripts and styles sent before the log-in form, gzip', bytes / 1000, 90, 'kB');
  note('from the log-in to the painted table of Storage', median(times), 1_000, 'ms');
  note('Storage opened by its address, logged in', median(loads), 1_000, 'ms');
  await using tab = await world.open('/');
  note('the same for the Overview with its chart, gzip', (await sentBytes(tab.page)) / 1000, 150, 'kB');
}

async function measureNavigation(world: ConsoleWorld): Promise<void> {
  await using tab = await world.open('/clusters');
  const { page } = tab;
  const rail = page.getByRole('navigation', { name: 'Pages' });
  const times: number[] = [];
  for (let round = 0; round <= rounds; round += 1)
    for (const name of ['Workers', 'Buckets', 'Clusters']) {
      const link = rail.getByRole('link', { name, exact: true });
      await link.hover();
      const took = await timeOf(page, { begin: 'click', heading: name }, () => link.click());
      await settled(page);
      // The first round fills the cache.
      if (round > 0) times.push(took);
    }
  note('from a click in the rail to the painted table, cached', median(times), 100, 'ms');
}

async function measureMany(): Promise<void> {
  const clusters = Array.from({ length: manyClusters }, (_, at) => `cluster-${at}`).join(',');
  await using world = await openConsole({ dataDir: 'memory', env: { SVC_POOL_CLUSTERS: clusters } });
  const names = Array.from({ length: manyBuckets }, (_, at) => `bucket-${String(at).padStart(5, '0')}`);
  await inParallel(16, names, (name) => send(world.server, 'PUT', `/${name}`));
  const times: number[] = [];
  await using tab = await world.open('/me');
  for (let round = 0; round < rounds; round += 1) {
    const last = `[aria-label="Capacity by cluster"] tr:nth-child(${shownClusters})`;
    times.push(await timeOfLoad(tab.page, `${world.server.url}/console/`, last));
  }
  note(
    `Overview with ${manyBuckets.toLocaleString('en')} buckets and ${manyClusters} clusters, to the last row of its capacity`,
    median(times),
    1_000,
    'ms',
  );
  const lists: number[] = [];
  for (let round = 0; round < rounds; round += 1)
    lists.push(await timeOfLoad(tab.page, `${world.server.url}/console/buckets`, firstRow));
  note(`the first rows of ${manyBuckets.toLocaleString('en')} buckets`, median(lists), 500, 'ms');
}

const heapOf = async (session: CDPSession): Promise<number> => {
  await session.send('HeapProfiler.collectGarbage');
  return (await session.send('Runtime.getHeapUsage')).usedSize;
};

async function measureHour(world: ConsoleWorld): Promise<void> {
  for (const name of ['buckets', 'overview', 'storage', 'clusters', 'traces', 'audit']) {
    await using tab = await world.open('/me');
    await installTime(tab.page);
    await tab.go(addressOf(name, 'typical'));
    const session = await tab.context.newCDPSession(tab.page);
    await tab.page.clock.runFor(60_000);
    const before = await heapOf(session);
    const { requests, bytes } = await passTime(tab.page, hourSeconds);
    const title = `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
    note(`requests of an hour on ${title}`, requests, 130, '');
    note('bytes of their replies', bytes / 1000, undefined, 'kB');
    note('growth of its heap', Math.max(0, (await heapOf(session)) - before) / 1e6, 1, 'MB');
  }
}

await buildConsole();
{
  await using world = await openConsole();
  await fill(world.server, 'typical');
  await measureLogIn(world);
  await measureNavigation(world);
  await measureHour(world);
}
await measureMany();
console.log('| what | measured | bound | |\n|---|---|---|---|');
for (const { what, measured, bound = '', isMet } of rows)
  console.log(
    `| ${what} | ${measured} | ${bound} | ${isMet === undefined ? '' : isMet ? 'met' : '**missed**'} |`,
  );
