/**
 * Pictures of every page, to be looked at: `npm run console:shots [-- page…]` writes
 * .cache/console-shots/<page>-<seed>-<scheme>-<width>.png.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { buildConsole } from '../../console/build.ts';
import { addressOf, builtPages, pageOf, panels } from './addresses.ts';
import { fill, parametersOf, type Seed, seeds, send } from './seeds.ts';
import { type ConsoleWorld, openConsole, settled, type Tab, widths } from './world.ts';

const folder = join(import.meta.dirname, '../../.cache/console-shots');
const schemes = ['light', 'dark'] as const;
const sizes = ['phone', 'desktop'] as const;
const heightMax = 3_000;

const text = (name: string, bytes = 2_000) => ({
  name,
  mimeType: 'text/plain',
  buffer: Buffer.alloc(bytes, 120),
});

/** Every state of an upload that a page without a reload has; the request of one never ends. */
async function openUploads(tab: Tab): Promise<void> {
  const { page } = tab;
  await page.route(/(?:running|paused)\.csv$/, () => {});
  await tab.go('/buckets/photos/objects/2026/1?uploads=open');
  await page
    .locator('.tools-line input[type=file]:not([webkitdirectory])')
    .setInputFiles([
      text('report-0.csv'),
      text('exceeds.iso', 200_000),
      text('done.csv'),
      text('paused.csv'),
      text('running.csv'),
      text(`${'a-very-long-name-'.repeat(20)}.csv`),
      text('\u202Egnp.exe'),
      text('x'.repeat(1_100)),
    ]);
  await page.getByRole('button', { name: 'Pause paused.csv' }).click();
  await page.getByText('exists already').first().waitFor();
}

/** What is no page but looked at too, and how it is opened on the overview. */
const extras: Readonly<Record<string, (tab: Tab) => Promise<void>>> = {
  palette: ({ page }) => page.keyboard.press('Control+k'),
  keys: ({ page }) => page.keyboard.press('?'),
  menu: ({ page }) => page.getByRole('button', { name: 'Account' }).click(),
  'upload-bar': openUploads,
  sheet: async ({ page }) => {
    const button = page.getByRole('button', { name: 'Menu' });
    if (await button.isVisible()) await button.click();
  },
};

/** Fails all reads of a page, also those within a batch; the session and its permissions stay. */
async function failReads(page: Page): Promise<void> {
  await page.route(/\/admin\/v1\/(?!session)/, (route) =>
    route.fulfill({
      // Not 503, which pages ask again twice.
      status: 409,
      json: {
        code: 'OperationAborted',
        message: 'The cluster ceph-eu-west-1 does not answer: connect ETIMEDOUT 10.0.0.1:6789.',
        request_id: '0123456789ABCDEF',
      },
    }),
  );
}

async function shoot(world: ConsoleWorld, seed: Seed, asked: readonly string[]): Promise<void> {
  const wants = (name: string) => asked.length === 0 || asked.includes(name);
  const isInBucket = (name: string) => name === 'bucket' || pageOf(name).within === 'bucket';
  if (seed === 'empty') {
    await shootPages(world, seed, { wants, names: builtPages.filter((name) => !isInBucket(name)) });
    // The tabs of a bucket that holds nothing, after the pages of a gateway that holds no bucket.
    await send(world.server, 'PUT', `/${parametersOf.empty['bucket']}`);
    await shootPages(world, seed, { wants, names: builtPages.filter(isInBucket) });
  } else await shootPages(world, seed, { wants, names: builtPages });
}

interface Wanted {
  readonly wants: (name: string) => boolean;
  readonly names: readonly string[];
}

async function shootPages(world: ConsoleWorld, seed: Seed, { wants, names }: Wanted): Promise<void> {
  for (const scheme of schemes)
    for (const width of sizes) {
      await using tab = await world.open('/', { scheme, width });
      const shot = async (name: string, isWhole = true) => {
        const path = join(folder, `${name}-${seed}-${scheme}-${widths[width]}.png`);
        // What is as high as the window, such as the rail, would end in the middle of a picture of the whole page.
        const height = isWhole ? await tab.page.evaluate(() => document.documentElement.scrollHeight) : 0;
        const window = { width: widths[width], height: Math.max(900, Math.min(height, heightMax)) };
        await tab.page.setViewportSize(window);
        await tab.page.screenshot({ path });
        await tab.page.setViewportSize({ ...window, height: 900 });
      };
      for (const name of names.filter(wants)) {
        await tab.go(addressOf(name, seed));
        await shot(name);
      }
      if (seed === 'extreme') {
        await failReads(tab.page);
        for (const name of names.filter(wants)) {
          await tab.go(addressOf(name, seed));
          await shot(`failing-${name}`);
        }
      }
      if (seed === 'typical')
        for (const [name, open] of Object.entries(extras).filter(([each]) => wants(each))) {
          await tab.go('/');
          await open(tab);
          await tab.page.waitForTimeout(300);
          await shot(name, false);
        }
      if (seed === 'typical')
        for (const [name, path] of Object.entries(panels).filter(([each]) => wants(each))) {
          await tab.go(path);
          await shot(name, false);
        }
      if (seed !== 'empty' || !wants('login')) continue;
      await using out = await world.open('/', { scheme, width, as: undefined });
      await settled(out.page);
      await out.page.screenshot({
        path: join(folder, `login-${scheme}-${out.page.viewportSize()?.width}.png`),
      });
    }
}

const asked = process.argv.slice(2);
await mkdir(folder, { recursive: true });
await buildConsole();
for (const seed of seeds) {
  // Samples often enough for the pictures.
  await using world = await openConsole({ env: { SVC_BUCKETSTATS_INTERVAL: '2s' } });
  await fill(world.server, seed);
  await shoot(world, seed, asked);
}
console.log(`pictures in ${folder}`);
