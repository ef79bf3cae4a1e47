/** The tab Usage of a bucket. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { closeDays, dayBefore } from './usage-days.ts';
import { type ConsoleWorld, noChromium, openConsole, type Tab } from './world.ts';

/** A day of a class that a spreadsheet would take for a formula, and of more byte-seconds than a number holds exactly. */
const hostile = '=HYPERLINK("http://x","y")';
const digits = '9007199254740993';

const saved = async ({ page }: Tab, click: () => Promise<void>): Promise<readonly [string, string]> => {
  const [download] = await Promise.all([page.waitForEvent('download'), click()]);
  return [download.suggestedFilename(), await readFile(await download.path(), 'utf8')];
};

describe.skipIf(noChromium !== undefined)('the tab Usage of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
    await send(world.server, 'PUT', '/photos');
    await send(world.server, 'PUT', '/fresh');
    await send(world.server, 'PUT', '/photos/cat', { body: 'x'.repeat(2_048) });
    await closeDays(world.server, 'photos', [
      { ago: 2, storageClass: 'STANDARD', byteSeconds: String(86_400 * 3 * 1024 ** 2), objects: 3 },
      { ago: 1, storageClass: 'STANDARD', byteSeconds: digits, objects: 5 },
      { ago: 1, storageClass: hostile, byteSeconds: '86400', objects: 1 },
      { ago: 40, storageClass: 'GLACIER', byteSeconds: '0', objects: 9 },
    ]);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('shows closed days by class, and the address restores the span', async () => {
    await using tab = await world.open('/buckets/photos/usage');
    const { page } = tab;
    await page.getByText('2 days closed. Days are UTC.').waitFor();
    const days = page.getByRole('region', { name: 'Storage by day' });
    await days
      .getByRole('row')
      .filter({ hasText: dayBefore(2) })
      .getByText('3 MiB')
      .waitFor();
    // The last digit is lost in a number.
    await days.getByRole('cell', { name: '9,007,199,254,740,993' }).waitFor();
    expect(await page.getByText('GLACIER').count()).toBe(0);
    await page.getByRole('button', { name: '90 days' }).click();
    await days.getByText('GLACIER').waitFor();
    expect(page.url()).toContain('days=90');
    await page.reload();
    await page.getByText('3 days closed. Days are UTC.').waitFor();
    await page.getByRole('button', { name: 'Show as table' }).first().click();
    await page.getByRole('columnheader', { name: hostile }).first().waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('exports CSV in which no cell is a formula, with every digit', async () => {
    await using tab = await world.open('/buckets/photos/usage');
    const [name, text] = await saved(tab, () =>
      tab.page.getByRole('button', { name: 'Export CSV' }).first().click(),
    );
    expect(name).toBe('photos-usage.csv');
    expect(text.split('\r\n')).toEqual([
      'bucket,day,storageClass,byteSeconds,objectCountAvg,objectCountMax',
      `photos,${dayBefore(2)},STANDARD,${86_400 * 3 * 1024 ** 2},3,4`,
      `photos,${dayBefore(1)},"'=HYPERLINK(""http://x"",""y"")",86400,1,2`,
      `photos,${dayBefore(1)},STANDARD,${digits},5,6`,
      '',
    ]);
  });

  test('exports the charges of FOCUS in which no cell is a formula', async () => {
    await using tab = await world.open('/buckets/photos/usage');
    const { page } = tab;
    const [name, text] = await saved(tab, () => page.getByRole('button', { name: 'Export FOCUS' }).click());
    expect(name).toBe('photos-focus.csv');
    const [head = '', ...lines] = text.trimEnd().split('\r\n');
    const skuAt = head.split(',').indexOf('SkuId');
    const amountAt = head.split(',').indexOf('ConsumedQuantity');
    const storage = lines.filter((line) => line.includes('B-Seconds'));
    expect(storage).toHaveLength(3);
    const last = storage.at(-1)?.replace('"Storage, STANDARD"', '').split(',') ?? [];
    expect([last[skuAt], last[amountAt]]).toEqual(['STANDARD', digits]);
    expect(storage[1]).toContain(`"'=HYPERLINK(""http://x"",""y"")"`);
    expect(text).toContain(`${dayBefore(1)}T00:00:00Z`);
  });

  test('a quota is set in three steps, shown with its use, and what is no size is refused at its field', async () => {
    await using tab = await world.open('/buckets/photos/usage');
    const { page } = tab;
    await page.getByText('This bucket has no quota.').waitFor();
    await page.getByRole('button', { name: 'Set quota' }).click();
    expect(page.url()).toContain('quota=1');
    const panel = page.getByRole('region', { name: 'Set quota' });
    await panel.getByLabel('Size').fill('many');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.locator('.field .fault', { hasText: 'maxBytes must be' }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByLabel('Size').fill('4KiB');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.waitFor({ state: 'detached' });
    await page.getByText('2 KiB of 4 KiB (50%)').waitFor();
    const stored = await send(world.server, 'GET', '/admin/v1/buckets/photos/quota');
    expect(await stored.json()).toMatchObject({ maxBytes: 4_096, maxObjects: 0, maxBytesPerObject: 0 });
  });

  test('a quota form sends only the changed limits, so that one which another client set meanwhile stays, and refuses 0', async () => {
    const at = '/admin/v1/buckets/photos/quota';
    await using tab = await world.open('/buckets/photos/usage?quota=1');
    const panel = tab.page.getByRole('region', { name: 'Set quota' });
    await panel.getByLabel('Objects').fill('0');
    await send(world.server, 'PUT', at, { body: JSON.stringify({ maxBytes: 2 ** 30 }) });
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.locator('.field .fault', { hasText: '0 would mean unlimited' }).waitFor();
    await panel.getByLabel('Objects').fill('77');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.waitFor({ state: 'detached' });
    const stored = await send(world.server, 'GET', at);
    expect(await stored.json()).toMatchObject({ maxBytes: 2 ** 30, maxObjects: 77 });
  });

  /** Saves a form while another client sets another number of objects between the reading of the form and its write. */
  async function expectRace(page: Tab['page'], at: string): Promise<void> {
    const panel = page.getByRole('region', { name: 'Set quota' });
    const save = panel.getByRole('button', { name: 'Save' });
    const stored = async () => (await send(world.server, 'GET', at)).json();
    await page.route(`**${at}`, async (route) => {
      if (route.request().method() === 'PUT')
        await send(world.server, 'PUT', at, { body: JSON.stringify({ maxObjects: 111 }) });
      await route.continue();
    });
    await save.click();
    await panel.getByText('PreconditionFailed').waitFor();
    expect(await stored()).toMatchObject({ maxObjects: 111 });
    await page.unrouteAll();
    await save.click();
    await panel.getByText('Another client has set this to 111 meanwhile').waitFor();
    await save.click();
    await panel.waitFor({ state: 'detached' });
    expect(await stored()).toMatchObject({ maxObjects: 88 });
  }

  test('a quota form replaces a limit that another client has set since it was edited only after it has shown it', async () => {
    const at = '/admin/v1/buckets/photos/quota';
    await using tab = await world.open('/buckets/photos/usage?quota=1');
    const panel = tab.page.getByRole('region', { name: 'Set quota' });
    await panel.getByLabel('Objects').fill('88');
    await send(world.server, 'PUT', at, { body: JSON.stringify({ maxObjects: 99 }) });
    const save = panel.getByRole('button', { name: 'Save' });
    await save.click();
    await panel.getByText('Another client has set this to 99 meanwhile').waitFor();
    const stored = async () => (await send(world.server, 'GET', at)).json();
    expect(await stored()).toMatchObject({ maxObjects: 99 });
    expect(await tab.axe()).toEqual([]);
    await expectRace(tab.page, at);
  });

  test('the first quota of a bucket replaces none that another client sets between the reading of the form and its write', async () => {
    const at = '/admin/v1/buckets/fresh/quota';
    await using tab = await world.open('/buckets/fresh/usage?quota=1');
    const panel = tab.page.getByRole('region', { name: 'Set quota' });
    await panel.getByLabel('Objects').fill('88');
    await expectRace(tab.page, at);
  });

  test('a bucket without a closed day says when one comes', async () => {
    await using tab = await world.open('/buckets/fresh/usage', { width: 'phone', scheme: 'dark' });
    await tab.page.getByText('No day of this span has been closed yet.').waitFor();
    await tab.page.getByText('The bucket is empty.').waitFor();
    expect(await tab.axe()).toEqual([]);
  });

  test('speaks German', async () => {
    await using tab = await world.open('/buckets/photos/usage', { locale: 'de-DE' });
    await tab.page.getByText('2 Tage abgeschlossen. Tage sind UTC.').waitFor();
    await tab.page.getByRole('cell', { name: '9.007.199.254.740.993' }).waitFor();
  });

  test('a refusal is shown with its code, and what policy forbids is not offered', async () => {
    const reader = await openUser(world.server, 'meter', {
      actions: ['admin:ListBuckets', 'admin:GetBucket', 'admin:GetBucketUsage'],
    });
    await using tab = await world.open('/buckets/photos/usage', { as: reader });
    await tab.page.getByText('2 days closed. Days are UTC.').waitFor();
    expect(await tab.page.getByRole('button', { name: 'Set quota' }).count()).toBe(0);
    expect(await tab.page.getByText('Requests by requester').count()).toBe(0);
    const blind = await openUser(world.server, 'blind', {
      actions: ['admin:ListBuckets', 'admin:GetBucket'],
    });
    await using other = await world.open('/buckets/photos/usage', { as: blind });
    await other.page.getByText('Your policies do not allow admin:GetBucketUsage.').waitFor();
    await other.go('/buckets/photos/objects/');
    expect(await other.page.getByRole('navigation', { name: 'Bucket' }).getByText('Usage').count()).toBe(0);
  });

  test('a tenant sees the usage of its own bucket, and none of another', async () => {
    await send(world.server, 'PUT', '/of-alice', { as: testCredentials.alice });
    await using tab = await world.open('/buckets/of-alice/usage', { as: testCredentials.alice });
    await tab.page.getByText('No day of this span has been closed yet.').waitFor();
    expect(await tab.page.getByRole('button', { name: 'Set quota' }).count()).toBe(0);
    await tab.go('/buckets/photos/usage');
    await tab.page.getByText('Your policies do not allow admin:GetBucketUsage.').waitFor();
    expect(await tab.page.getByText('STANDARD').count()).toBe(0);
  });
});
