/** The Overview page. */
import { describe, expect, test } from 'vitest';
import { fill } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

const hostile = '<img src=x onerror="window.hacked=1">';

describe.skipIf(noChromium !== undefined)('the Overview page', () => {
  test('answers whether storage is healthy, and shows clusters, work and the last refusals as texts', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await fetch(`${world.server.url}/photos/${encodeURIComponent(hostile)}`);
    await using tab = await world.open('/');
    const { page } = tab;
    await page.getByText('Storage is healthy.').waitFor();
    const capacity = page.getByRole('region', { name: 'Capacity by cluster' });
    await capacity.getByText('live').waitFor();
    // The free bytes of the disk.
    expect(await capacity.getByRole('cell').last().innerText()).toMatch(/^[\d.,]+\s\wi?B$/);
    const refusals = page.getByRole('region', { name: 'Last refusals' });
    await refusals.getByText(hostile, { exact: false }).waitFor();
    await refusals.getByText('AccessDenied').waitFor();
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
  });

  test('draws requests over time, and shows the same data as a table', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await using tab = await world.open('/');
    const { page } = tab;
    await page.getByRole('img', { name: 'Requests per second' }).locator('canvas').waitFor();
    await page.getByRole('button', { name: 'Show as table' }).first().click();
    const table = page.getByRole('region', { name: 'Requests per second' });
    expect(await table.getByRole('row').count()).toBe(16);
    await page.getByRole('button', { name: '24 hours' }).click();
    expect(page.url()).toContain('range=day');
    await table.getByRole('row').nth(288).waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('the times of a chart are local, as those of the browser, and its read-out has UTC too', async () => {
    await using world = await openConsole();
    await fill(world.server, 'typical');
    await using tab = await world.open('/me', { timezoneId: 'Asia/Kathmandu' });
    const { page } = tab;
    // What is written on a canvas is in no document.
    await page.addInitScript(() => {
      const drawn: string[] = [];
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        drawn.push(text);
        fillText.call(this, text, ...rest);
      };
      Object.assign(globalThis, { drawn });
    });
    await tab.go('/');
    const chart = page.getByRole('img', { name: 'Requests per second' });
    await chart.locator('canvas').waitFor();
    const drawn = () => page.evaluate(() => (globalThis as unknown as { drawn: string[] }).drawn);
    const minutes = (text: string): number => {
      const [hour = 0, minute = 0] = text.split(':').map(Number);
      return hour * 60 + minute;
    };
    const isTime = (text: string) => /^\d\d:\d\d$/.test(text);
    await expect.poll(async () => (await drawn()).filter(isTime).length).toBeGreaterThan(2);
    // Kathmandu is 5 hours and 45 minutes ahead of UTC; the chart shows the last quarter of an hour.
    const now = minutes(new Date(Date.now() + 345 * 60_000).toISOString().slice(11, 16));
    for (const text of (await drawn()).filter(isTime))
      expect((now - minutes(text) + 1_440) % 1_440, text).toBeLessThan(20);
    await chart.locator('.u-over').hover({ position: { x: 200, y: 80 } });
    const [local = '', utc = ''] = (await chart.locator('.readout').innerText()).split('\n');
    const [at = ''] = /\d\d:\d\d/.exec(local) ?? [];
    const [atUtc = ''] = /\d\d:\d\d(?= UTC$)/.exec(utc) ?? [];
    expect(local).toContain('(local)');
    expect((minutes(at) - minutes(atUtc) + 1_440) % 1_440).toBe(345);
  });

  test('needs fewer than 24 requests, and is usable without any of another host', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage');
    const urls: string[] = [];
    tab.page.on('request', (request) => urls.push(request.url()));
    await tab.go('/');
    expect(urls.filter((url) => !url.startsWith(world.server.url))).toEqual([]);
    // Not the polls of a slow machine.
    expect(new Set(urls).size, urls.join('\n')).toBeLessThan(24);
  });
});
