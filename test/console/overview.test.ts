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
    await page.getByRole('region', { name: 'Capacity by cluster' }).getByText('live').waitFor();
    const refusals = page.getByRole('region', { name: 'Last refusals' });
    await refusals.getByText(hostile, { exact: false }).waitFor();
    await refusals.getByText('AccessDenied').waitFor();
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
  });

  test('needs fewer than 20 requests, and is usable without any of another host', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage');
    const urls: string[] = [];
    tab.page.on('request', (request) => urls.push(request.url()));
    await tab.go('/');
    expect(urls.filter((url) => !url.startsWith(world.server.url))).toEqual([]);
    expect(urls.length).toBeLessThan(20);
  });
});
