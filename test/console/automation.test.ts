/** What a bucket does by itself, and the targets that its events go to, in Chromium. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { loadClient } from '../support/load-client.ts';
import { makeRootRole } from '../support/replicating-servers.ts';
import { roleArnOf } from '../support/replication-role.ts';
import { testCredentials } from '../support/server.ts';
import { openWebhookSink, status, type WebhookSink } from '../support/webhook-sink.ts';
import { tablesBeyond } from './best-practices.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, widths } from './world.ts';

const patience = { timeout: 180_000, interval: 300 };

const put = (world: ConsoleWorld, family: string, document: object, bucket = 'busy') =>
  send(world.server, 'PUT', `/admin/v1/buckets/${bucket}/configurations/${family}`, {
    body: JSON.stringify(document),
  });

describe.skipIf(noChromium !== undefined)('what buckets do by themselves', () => {
  let sink: WebhookSink;
  let world: ConsoleWorld;
  beforeAll(async () => {
    sink = await openWebhookSink();
    world = await openConsole({
      env: {
        SVC_NOTIFY_TARGETS: JSON.stringify([{ id: 'hook', type: 'webhook', url: sink.url, accounts: ['*'] }]),
        SVC_EGRESS_ALLOW: '127.0.0.0/8',
        SVC_LIFECYCLE_INTERVAL: '1s',
        SVC_REPLICATION_INTERVAL: '1s',
        SVC_NOTIFY_INTERVAL: '500ms',
        SVC_NOTIFY_RETRY_MAX: '1s',
      },
    });
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await sink[Symbol.asyncDispose]();
  });

  test('a bucket shows what it does by itself: lifecycle, replication, notifications, inventory, access log', async () => {
    for (const bucket of ['busy', 'idle', 'logs']) await send(world.server, 'PUT', `/${bucket}`);
    await put(world, 'lifecycle', {
      Rule: [
        {
          ID: 'sweep',
          Status: 'Enabled',
          Filter: { Prefix: 'old/' },
          Expiration: { Date: '2020-01-01T00:00:00Z' },
        },
      ],
    });
    // Objects that come after a pass are due the next day: a dry run finds them, and the pass that is asked for.
    const isDone = async () => {
      const reply = await send(world.server, 'GET', '/admin/v1/buckets/busy/lifecycle');
      return ((await reply.json()) as { readonly state: string }).state === 'done';
    };
    await vi.waitFor(async () => expect(await isDone()).toBe(true), patience);
    for (const key of ['old/1', 'old/<b>2</b>', 'new/1'])
      await send(world.server, 'PUT', `/busy/${key}`, { body: 'x' });
    await put(world, 'notification', {
      QueueConfiguration: [
        {
          Id: 'new',
          Event: ['s3:ObjectCreated:*'],
          Filter: { S3Key: { FilterRule: [{ Name: 'prefix', Value: 'new/' }] } },
          Queue: 'arn:aws:sqs:default:root-account:hook',
        },
      ],
    });
    await put(world, 'inventory/daily', {
      Id: 'daily',
      IsEnabled: true,
      Destination: {
        S3BucketDestination: { Bucket: 'arn:aws:s3:::logs', Format: 'CSV', Prefix: 'inventory' },
      },
      Schedule: { Frequency: 'Daily' },
      IncludedObjectVersions: 'All',
    });
    await put(world, 'logging', { LoggingEnabled: { TargetBucket: 'logs', TargetPrefix: 'lines/' } });
    await using tab = await world.open('/buckets/busy/automation');
    const { page } = tab;
    const part = (name: string) => page.locator('section.card', { has: page.getByRole('heading', { name }) });
    // The lifecycle: what a pass would do, then the pass, which says how much it concerns.
    await part('Lifecycle').getByRole('button', { name: 'What would it do?' }).click();
    await page.getByRole('dialog').getByText('old/<b>2</b>').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.keyboard.press('Escape');
    await part('Lifecycle').getByRole('button', { name: 'Run now' }).click();
    const confirm = page.getByRole('dialog');
    await confirm.getByText('Versions and uploads that it acts on').waitFor();
    expect(await confirm.locator('dd').textContent()).toBe('2');
    await confirm.getByRole('button', { name: 'Run now' }).click();
    await confirm.waitFor({ state: 'detached' });
    // Notifications: the target, its keys, its test.
    const row = part('Notifications').getByRole('row', { name: /hook/ });
    await row.getByText('new/*').waitFor();
    await row.getByText('takes events').waitFor();
    sink.answer = status(200);
    await row.getByRole('button', { name: 'Test of hook' }).click();
    await page.getByRole('dialog').getByText('The target acknowledged the test event.').waitFor();
    await page.keyboard.press('Escape');
    // The inventory: not written yet, then written.
    await part('Inventory').getByText('not written yet').waitFor();
    await part('Inventory').getByRole('button', { name: 'Run now daily' }).click();
    await part('Inventory')
      .getByText(/running|done/)
      .waitFor();
    await part('Access log').getByRole('link', { name: 'logs/lines/' }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await tab.go('/buckets/idle/automation');
    expect(await page.getByText('not set', { exact: true }).count()).toBe(5);
  });

  test('a tenant sees what its bucket does by itself, and nothing of what accounts share', async () => {
    const { numbered: tenant } = world.server.credentials;
    for (const bucket of ['of-tenant', 'its-logs'])
      await send(world.server, 'PUT', `/${bucket}`, { as: tenant });
    await put(world, 'versioning', { Status: 'Enabled' }, 'of-tenant');
    await put(
      world,
      'inventory/weekly',
      {
        Id: 'weekly',
        IsEnabled: true,
        Destination: { S3BucketDestination: { Bucket: 'arn:aws:s3:::its-logs', Format: 'CSV' } },
        Schedule: { Frequency: 'Weekly' },
        IncludedObjectVersions: 'All',
      },
      'of-tenant',
    );
    await put(
      world,
      'logging',
      { LoggingEnabled: { TargetBucket: 'its-logs', TargetPrefix: 'lines/' } },
      'of-tenant',
    );
    const QueueConfiguration = [
      { Id: 'all', Event: ['s3:ObjectCreated:*'], Queue: `arn:aws:sqs:default:${tenant.owner}:hook` },
    ];
    await put(world, 'notification', { QueueConfiguration }, 'of-tenant');
    await using tab = await world.open('/buckets/of-tenant/automation', { as: tenant });
    const { page } = tab;
    const part = (name: string) => page.locator('section.card', { has: page.getByRole('heading', { name }) });
    const targets = part('Notifications').getByRole('row', { name: /hook/ });
    await targets.getByText('ObjectCreated:*').waitFor();
    await part('Inventory').getByText('not written yet').waitFor();
    await part('Access log').getByRole('link', { name: 'its-logs/lines/' }).waitFor();
    await part('Replication').getByText('not set').waitFor();
    // Targets are shared: neither their state nor their backlog is shown, and nothing is sent.
    for (const name of ['State', 'Waiting', 'Dead letters'])
      expect([name, await part('Notifications').getByRole('columnheader', { name }).count()]).toEqual([
        name,
        0,
      ]);
    expect(await page.getByRole('button', { name: /Run now|Test of/ }).count()).toBe(0);
    expect(await tab.axe()).toEqual([]);
    await part('Inventory').getByRole('link', { name: 'Configure Inventory' }).click();
    await page.waitForURL(/settings\?family=inventory/);
    // A user sees what its policies allow it to read.
    const actions = ['s3:ListBucket', 's3:GetBucketLogging', 's3:GetLifecycleConfiguration'];
    const reader = await openUser(world.server, 'logs-reader', { account: tenant.owner, actions });
    await using narrow = await world.open('/buckets/of-tenant/automation', {
      as: reader,
      width: 'phone',
      scheme: 'dark',
    });
    await narrow.page.getByText('replication, notification, inventory').waitFor();
    await narrow.page.getByRole('heading', { name: /^Access log/ }).waitFor();
    expect(
      await narrow.page.getByRole('heading', { name: /^(Inventory|Notifications|Replication)/ }).count(),
    ).toBe(0);
    expect(await narrow.axe()).toEqual([]);
  });

  test('who sees what of it: a tenant in its language, a restricted operator no buttons, and others nothing', async () => {
    const { alice } = world.server.credentials;
    await send(world.server, 'PUT', '/of-alice-2', { as: alice });
    await using tenant = await world.open('/buckets/of-alice-2/automation', {
      as: alice,
      locale: 'de-DE',
      width: 'phone',
      scheme: 'dark',
    });
    await tenant.page.getByRole('heading', { name: 'Zugriffsprotokoll nicht gesetzt' }).waitFor();
    await tenant.page.getByRole('heading', { name: 'Lebenszyklus nicht gesetzt' }).waitFor();
    expect(await tenant.axe()).toEqual([]);
    const reader = await openUser(world.server, 'automation-reader', {
      actions: ['admin:ListBucketConfigurations', 'admin:GetLifecycle'],
    });
    await using restricted = await world.open('/buckets/busy/automation', { as: reader });
    await restricted.page.getByRole('heading', { name: 'Notifications' }).waitFor();
    expect(await restricted.page.getByRole('button', { name: /Run now|Test of|What would/ }).count()).toBe(0);
    const blind = await openUser(world.server, 'automation-blind', { actions: ['admin:GetBucket'] });
    await using other = await world.open('/buckets/busy/automation', { as: blind });
    await other.page.getByText('Your policies do not allow admin:ListBucketConfigurations.').waitFor();
  });

  test('a target and a destination that fail say why, on their pages and on that of the bucket', async () => {
    const { server } = world;
    sink.answer = status(503);
    await send(server, 'PUT', '/failing');
    await put(world, 'versioning', { Status: 'Enabled' }, 'failing');
    await makeRootRole(loadClient(server.url, testCredentials.root));
    const peer = {
      endpoint: 'http://127.0.0.1:1',
      region: 'us-east-1',
      accessKey: 'AKIAFARPEER',
      secretKey: 'far-peer-secret-123',
      accounts: [{ account: '*', buckets: ['*'] }],
    };
    await send(server, 'PUT', '/admin/v1/replication/peers/far', { body: JSON.stringify(peer) });
    const Rule = [
      {
        ID: 'all',
        Priority: 1,
        Filter: { Prefix: '' },
        Status: 'Enabled',
        Destination: { Bucket: 'arn:sluice:replication::far:failing' },
        DeleteMarkerReplication: { Status: 'Disabled' },
      },
    ];
    await put(world, 'replication', { Role: roleArnOf('root-account'), Rule }, 'failing');
    const Queue = 'arn:aws:sqs:default:root-account:hook';
    const QueueConfiguration = [{ Id: 'all', Event: ['s3:ObjectCreated:*'], Queue }];
    await put(world, 'notification', { QueueConfiguration }, 'failing');
    await send(server, 'PUT', '/failing/1', { body: 'x' });
    const statesAt = async (path: string) =>
      JSON.stringify(await (await send(server, 'GET', `/admin/v1${path}`)).json());
    for (const path of ['/replication/status', '/notify/targets'])
      await vi.waitFor(async () => expect(await statesAt(path)).toContain('"failing"'), patience);
    await using tab = await world.open('/replication');
    const { page } = tab;
    const errors = page.getByRole('listitem');
    await errors.filter({ hasText: 'far/failing' }).getByText('ECONNREFUSED').waitFor();
    expect(await tab.axe()).toEqual([]);
    await tab.go('/events');
    await errors.filter({ hasText: 'hook' }).getByText('the sink answered 503').first().waitFor();
    await tab.go('/buckets/failing/automation');
    await errors.filter({ hasText: 'far/failing' }).getByText('ECONNREFUSED').waitFor();
    await errors.filter({ hasText: 'hook' }).getByText('the sink answered 503').first().waitFor();
    expect(await tab.axe()).toEqual([]);
    // The German words are longer.
    for (const locale of ['en-US', 'de-DE']) {
      await using narrow = await world.open('/events', { locale });
      for (const path of [
        '/events',
        '/replication',
        '/buckets/failing/automation',
        '/buckets/failing/versions',
      ]) {
        await narrow.go(path);
        expect([locale, path, await tablesBeyond(narrow.page, [390, widths.tablet])]).toEqual([
          locale,
          path,
          {},
        ]);
      }
    }
  });

  test('a target of events is tested in two steps, and its answer is shown', async () => {
    sink.answer = status(500);
    sink.received.length = 0;
    await using tab = await world.open('/events');
    const { page } = tab;
    await page.getByRole('button', { name: 'Test of hook' }).click();
    const dialog = page.getByRole('dialog', { name: 'Test of hook' });
    await dialog.getByText('not taken').waitFor();
    await dialog.getByText('the sink answered 500').waitFor();
    expect(await tab.axe()).toEqual([]);
    sink.answer = status(200);
    await dialog.getByRole('button', { name: 'Send another' }).click();
    await dialog.getByText('The target acknowledged the test event.').waitFor();
    // The worker goes on with what the bucket of the test above has queued, a test event of its configuration too: those name the bucket.
    const asked = sink.received
      .map(({ body }) => JSON.parse(body))
      .filter(({ Bucket, Records }) => Bucket === undefined && Records === undefined);
    expect(asked.map(({ Event }) => Event)).toEqual(['s3:TestEvent', 's3:TestEvent']);
  });
});
