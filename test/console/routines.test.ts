/**
 * Routines of an operator that no other file of this folder has, each in at most three steps after the log-in. The table of all routines
 * is in docs/console.md.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cliPath } from '../runtimes/command.ts';
import { loadClient } from '../support/load-client.ts';
import { replicateTo, startSite } from '../support/replicating-servers.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { openWebhookSink, status, type WebhookSink } from '../support/webhook-sink.ts';
import { isOnEngines, onEngines } from './on-engines.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, settled } from './world.ts';

const notification =
  '<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event>' +
  '<Queue>arn:aws:sqs:default:root-account:hook</Queue></QueueConfiguration></NotificationConfiguration>';

describe.skipIf(noChromium !== undefined)('the routines of an operator', () => {
  let world: ConsoleWorld;
  let sink: WebhookSink;
  let directory = '';
  beforeAll(async () => {
    sink = await openWebhookSink();
    directory = await mkdtemp(join(tmpdir(), 'sluice-routines-'));
    const dataDir = join(directory, 'data');
    // The clusters of the first start are live; one that the settings name later is pending.
    const before = await startServer(onEngines({ dataDir, env: { SVC_POOL_CLUSTERS: 'a' } }));
    await before.stop();
    world = await openConsole({
      dataDir,
      env: {
        SVC_POOL_CLUSTERS: 'a,b',
        SVC_INTENT_TTL: '1s',
        SVC_REBALANCE_INTERVAL: '100ms',
        SVC_GC_INTERVAL: '100ms',
        SVC_GC_GRACE: '0s',
        SVC_EGRESS_ALLOW: '127.0.0.0/8',
        SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', accounts: ['*'], type: 'webhook', url: sink.url }]),
        SVC_REPLICATION_INTERVAL: '100ms',
        SVC_NOTIFY_INTERVAL: '100ms',
        SVC_NOTIFY_RETRY_MAX: '1s',
        SVC_BUCKETSTATS_INTERVAL: '1s',
      },
    });
    await send(world.server, 'PUT', '/photos');
    for (const key of ['a', 'b', 'c'])
      await send(world.server, 'PUT', `/photos/${key}`, { body: 'x'.repeat(200_000) });
  });
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]();
    await sink?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const countLetters = async () => {
    const listed = await send(world.server, 'GET', '/admin/v1/notify/dead-letters');
    return ((await listed.json()) as { readonly rows: readonly object[] }).rows.length;
  };

  test('a new cluster takes writes after its weight was chosen', async () => {
    await using tab = await world.open('/clusters');
    const { page } = tab;
    await page.getByRole('row').filter({ hasText: 'pending' }).getByRole('link').first().click();
    const panel = page.getByRole('region').filter({ has: page.getByRole('spinbutton') });
    await panel.getByRole('spinbutton').fill('100');
    await panel.getByRole('button', { name: 'Activate' }).click();
    await page.getByRole('row').filter({ hasText: 'pending' }).waitFor({ state: 'detached' });
    await page.locator('[data-row]').filter({ hasText: '50%' }).nth(1).waitFor();
  });

  test('a cluster is evacuated, its page says what is left and why it cannot be removed yet, and it takes writes again', async () => {
    await using tab = await world.open('/clusters?cluster=a');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'a', exact: true });
    await panel.getByRole('button', { name: 'Evacuate' }).click();
    await page
      .getByRole('dialog')
      .getByText(/It concerns/)
      .waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Evacuate' }).click();
    await panel.getByRole('progressbar').waitFor();
    await panel.getByText('0 B · 0 versions').waitFor();
    await panel.getByText(/^The drain began less than a minute ago/).waitFor();
    expect(await tab.axe()).toEqual([]);
    await panel.getByRole('button', { name: 'Take writes again' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Take writes again' }).click();
    await panel.getByRole('button', { name: 'Stop writes' }).waitFor();
    expect(await (await send(world.server, 'GET', '/photos/a')).text()).toHaveLength(200_000);
  });

  // Backups are of embedded metadata.
  test.skipIf(isOnEngines)(
    'the Storage page says when the last backup ended, or that there was none',
    async () => {
      await using tab = await world.open('/storage');
      const { page } = tab;
      await page.getByText('sluice backup has not run yet.').waitFor();
      const { dataDir } = world.server;
      const args = [cliPath, 'backup', '--data-dir', dataDir, `--to=${join(directory, 'backup')}`];
      await promisify(execFile)(process.execPath, args, {
        cwd: join(import.meta.dirname, '../..'),
        env: { PATH: process.env['PATH'] ?? '', SVC_POOL_CLUSTERS: 'a,b' },
      });
      await page.reload();
      await page.getByText('complete', { exact: true }).waitFor();
      expect(await tab.axe()).toEqual([]);
    },
  );

  test('a request is found by its id from anywhere, and its waterfall is shown', async () => {
    const reply = await send(world.server, 'GET', '/photos/b');
    const id = reply.headers.get('x-amz-request-id') ?? '';
    await reply.arrayBuffer();
    await using tab = await world.open('/workers');
    const { page } = tab;
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Command palette' }).fill(id);
    await page.getByRole('option', { name: /trace/i }).click();
    await page.getByRole('heading', { name: 'GetObject', level: 1 }).waitFor();
    await page.locator('.waterfall li').first().waitFor();
    expect(page.url()).toContain(id);
  });

  test('events that a target refused are delivered again', async () => {
    sink.answer = status(503);
    await send(world.server, 'PUT', '/photos', { body: notification, query: { notification: '' } });
    await send(world.server, 'PUT', '/photos/event', { body: 'x' });
    // With that of the test event of the configuration.
    await expect.poll(countLetters).toBe(2);
    sink.answer = status(204);
    sink.received.length = 0;
    await using tab = await world.open('/events');
    const { page } = tab;
    await page.getByRole('button', { name: 'Send all again' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Send all again' }).click();
    await page.getByText('Every event was delivered.').waitFor();
    // Both, so that none of them is refused again in the next test.
    const isReceived = (text: string) => sink.received.some(({ body }) => body.includes(text));
    await expect.poll(() => isReceived('"event"') && isReceived('s3:TestEvent')).toBe(true);
  });

  test('events that a target refused are told apart by event and key, and discarded by their number', async () => {
    sink.answer = status(503);
    await send(world.server, 'PUT', '/letters');
    await send(world.server, 'PUT', '/letters', { body: notification, query: { notification: '' } });
    const keys = ['one letter', 'two+letters'];
    const store = (key: string) => send(world.server, 'PUT', `/letters/${key}`, { body: 'x' });
    for (const key of keys) await store(key);
    // With that of the test event of the configuration.
    await expect.poll(countLetters).toBe(3);
    await using tab = await world.open('/events');
    const { page } = tab;
    for (const key of keys)
      await page.getByRole('row', { name: `letters/${key} ObjectCreated:Put` }).waitFor();
    await page.getByText('3 events could not be delivered.').waitFor();
    expect(await tab.axe()).toEqual([]);
    // One that comes after the page has read the list is not discarded unseen.
    await store('three');
    await expect.poll(countLetters).toBe(4);
    await page.getByRole('button', { name: 'Discard all' }).click();
    const dialog = page.getByRole('dialog', { name: /^Discard \d events\?$/ });
    const confirm = dialog.getByRole('button', { name: 'Discard all' });
    expect(await confirm.isDisabled()).toBe(true);
    // A poll may have read the list again.
    const [counted = ''] = /\d/.exec(await dialog.getByRole('heading').innerText()) ?? [];
    await dialog.getByLabel(`Type ${counted} to confirm`).fill(counted);
    await confirm.click();
    await dialog.waitFor({ state: 'detached' });
    expect(await countLetters()).toBe(4 - Number(counted));
  });

  test('what a bucket held before its rules is replicated after a resync', async () => {
    const far = await startSite();
    const client = loadClient(world.server.url, testCredentials.root);
    try {
      await send(world.server, 'PUT', '/bucket');
      await send(world.server, 'PUT', '/bucket', {
        body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
        query: { versioning: '' },
      });
      await send(world.server, 'PUT', '/bucket/before', { body: 'the rules' });
      await replicateTo(client, far.server);
      await using tab = await world.open('/buckets/bucket/automation');
      const { page } = tab;
      await page.getByRole('button', { name: 'Resync' }).click();
      await page.getByRole('dialog').getByText('9 B').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Resync' }).click();
      await page.getByText('1 version was queued.').waitFor();
      await expect
        .poll(() => send(far.server, 'GET', '/bucket/before').then((reply) => reply.text(), String))
        .toBe('the rules');
      // The rule's destination, with what waits for it: nothing while it answers, and a version once it does not.
      const destination = page
        .getByRole('region', { name: 'Destinations' })
        .getByRole('row')
        .filter({ hasText: '/bucket' });
      await page.getByText('None was given up.').waitFor();
      await expect.poll(() => destination.innerText()).toMatch(/^far\/bucket\s.*\s0\s/s);
      expect(await tab.axe()).toEqual([]);
      await far.server.stop();
      await send(world.server, 'PUT', '/bucket/later', { body: 'waits' });
      await expect
        .poll(async () => {
          await tab.go('/buckets/bucket/automation');
          return destination.innerText();
        })
        .toMatch(/\s1\s/);
      expect(await tab.axe()).toEqual([]);
    } finally {
      client.close();
      far.client.close();
      await far.server.stop();
    }
  });

  test('capacity by cluster and by class is on the first page', async () => {
    await using tab = await world.open('/');
    const { page } = tab;
    const clusters = page.getByRole('region', { name: 'Capacity by cluster' });
    await clusters.getByText('b', { exact: true }).waitFor();
    await expect
      .poll(async () => {
        await page.reload();
        await settled(page);
        return page.getByText(/KiB in \d+ objects\./).count();
      })
      .toBeGreaterThan(0);
  });

  test('the support bundle is one click, and holds no secret', async () => {
    await using tab = await world.open('/settings');
    const { page } = tab;
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Support bundle' }).click(),
    ]);
    expect(download.suggestedFilename()).toMatch(/^sluice-support.*\.tar$/);
    const text = await readFile(await download.path(), 'latin1');
    expect(text).toContain('settings.json');
    expect(text).not.toContain(world.server.credentials.root.secretKey);
  });
});
