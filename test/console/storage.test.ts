/** The Storage page. */
import { describe, expect, test, vi } from 'vitest';
import { answerRead } from './reads.ts';
import { fill, send } from './seeds.ts';
import { noChromium, openConsole } from './world.ts';

describe.skipIf(noChromium !== undefined)('the Storage page', () => {
  test('shows nodes, pools and classes, sorts by the address, and starts fsck after it was confirmed', async () => {
    await using world = await openConsole({ env: { SVC_BUCKETSTATS_INTERVAL: '1m' } });
    await fill(world.server, 'typical');
    await using tab = await world.open('/storage');
    const { page } = tab;
    await page.getByText('All metadata nodes and data pools answer.').waitFor();
    await page.getByRole('region', { name: 'Metadata' }).getByText('embedded').waitFor();
    const pools = page.getByRole('region', { name: 'Data pools' });
    const heads = await pools.getByRole('columnheader').allInnerTexts();
    const cells = await pools.getByRole('row').nth(1).getByRole('cell').allInnerTexts();
    expect(cells[heads.indexOf('Free')]).toMatch(/^[\d.,]+\s\wi?B$/);
    await pools.getByRole('button', { name: 'Used' }).click();
    expect(page.url()).toContain('pools-sort=used');
    expect(await pools.getByRole('columnheader', { name: 'Used' }).getAttribute('aria-sort')).toBe(
      'ascending',
    );
    await page.getByRole('button', { name: 'Run fsck' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('changes nothing').waitFor();
    await dialog.getByRole('button', { name: 'Run fsck' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('no findings').waitFor();
  });

  test('shows the health of the last day as a strip, once it is recorded', async () => {
    await using world = await openConsole();
    await vi.waitFor(
      async () => {
        const reply = await send(world.server, 'GET', '/admin/v1/storage/health/history');
        expect(((await reply.json()) as { readonly changes: readonly unknown[] }).changes).toHaveLength(1);
      },
      { timeout: 60_000, interval: 300 },
    );
    await using tab = await world.open('/storage', { width: 'phone', scheme: 'dark' });
    await tab.page.getByRole('img', { name: /^Healthy all the time\. Recorded for / }).waitFor();
    expect(await tab.axe()).toEqual([]);
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  });

  test('explains memory instead of showing an empty table', async () => {
    await using world = await openConsole({ dataDir: 'memory' });
    await using tab = await world.open('/storage');
    await tab.page.getByText('Metadata lives in the memory of this process.').waitFor();
    await tab.page.getByText('Objects live in the memory of this process.').waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('shows a refusal with its code and request, and what was read before', async () => {
    await using world = await openConsole();
    await using tab = await world.open('/storage');
    const { page } = tab;
    const meta = { operation: 'GetStorageMeta', path: '/storage/meta' };
    const own = await answerRead(page, meta, () => ({
      status: 503,
      json: {
        code: 'ServiceUnavailable',
        message: 'The <b>store</b> does not answer.',
        request_id: 'REQUEST0000000001',
      },
    }));
    await tab.go('/storage');
    const failure = page.getByRole('alert').first();
    await failure.getByText('The <b>store</b> does not answer.').waitFor();
    await failure.getByText('ServiceUnavailable').waitFor();
    await failure.getByText('REQUEST0000000001').waitFor();
    await own.end();
    await failure.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('region', { name: 'Metadata' }).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });
});
