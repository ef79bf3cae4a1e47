/** The tabs Journal and Versions of a bucket, and the audit log as it comes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const json = { 'content-type': 'application/json' };
const versioned =
  '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>';

describe.skipIf(noChromium !== undefined)('the history of a bucket', () => {
  let world: ConsoleWorld;
  beforeAll(async () => {
    world = await openConsole();
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('the journal shows what changed with the values before and after, by kind and caller, and leads to the trace', async () => {
    const { server } = world;
    const quota = (maxBytes: number) =>
      send(server, 'PUT', '/admin/v1/buckets/diary/quota', {
        body: JSON.stringify({ maxBytes }),
        headers: json,
      });
    await send(server, 'PUT', '/diary');
    await quota(1_000_000);
    await quota(2_000_000);
    await send(server, 'PUT', '/diary', { query: { versioning: '' }, body: versioned });
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: '*', Action: 's3:ListBucket', Resource: 'arn:aws:s3:::diary' },
      ],
    });
    await send(server, 'DELETE', '/diary', { query: { publicAccessBlock: '' } }).catch(() => {});
    await send(server, 'PUT', '/diary', { query: { policy: '' }, body: policy });
    await send(server, 'PUT', '/diary/a‮b<b>', { body: 'x' });
    await send(server, 'DELETE', '/diary/gone');
    const narrow = await openUser(server, 'writer', { actions: ['s3:PutObject'] });
    await send(server, 'PUT', '/diary/by-writer', { body: 'x', as: narrow });
    await send(server, 'DELETE', '/diary/by-writer', { as: narrow }).catch(() => {});
    await using tab = await world.open('/buckets/diary');
    const { page } = tab;
    await page.getByRole('link', { name: 'Journal', exact: true }).click();
    const entries = page.locator('.journal-entry');
    const entry = (text: string) => entries.filter({ hasText: text });
    await entry('PutBucketQuota').first().getByText('maxBytes').waitFor();
    expect(await entry('PutBucketQuota').first().innerText()).toMatch(/maxBytes: 1000000 → 2000000/);
    expect(await entry('PutBucketVersioning').innerText()).toMatch(/versioning: unset → Enabled/);
    // A document is recorded by its digest, whichever protocol has changed it.
    expect(await entry('PutBucketPolicy').innerText()).toMatch(
      /configuration: not set → \d+ characters, SHA-256/,
    );
    expect(await entry('PutObject').first().innerText()).toContain('by-writer');
    await page.getByText('a‹U+202E›b<b>').waitFor();
    expect(await entry('AccessDenied').count()).toBe(0);
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Deletions' }).click();
    await entry('gone').waitFor();
    expect(await entries.count()).toBe(1);
    await page.getByRole('button', { name: 'Refused' }).click();
    await entry('AccessDenied').waitFor();
    await page.getByRole('button', { name: 'All changes' }).click();
    await entry('by-writer')
      .getByRole('button', { name: /Only|user\/writer/ })
      .click();
    await page.waitForFunction(() => document.querySelectorAll('.journal-entry').length === 1);
    expect(page.url()).toContain('identity=');
    await page.reload();
    await entry('by-writer')
      .getByRole('link', { name: /^Details/ })
      .click();
    await page.getByRole('region', { name: 'PutObject' }).getByText('Access key').waitFor();
    await page.goBack();
    await entry('by-writer').getByRole('link', { name: 'Trace' }).waitFor();
    await page.getByLabel('Caller').fill('arn:aws:iam::nobody:root');
    await page.getByLabel('Caller').press('Enter');
    await page.getByText('No change matches.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Show all changes' }).click();
    await entry('PutBucketPolicy').getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    await page.getByRole('cell', { name: 'PutBucketPolicy' }).waitFor();
  });

  test('the journal is read page by page, and is not offered where policy forbids it', async () => {
    const { server } = world;
    await send(server, 'PUT', '/long');
    for (let n = 0; n < 12; n += 1)
      await Promise.all(
        Array.from({ length: 10 }, (_, m) => send(server, 'PUT', `/long/${n}-${m}`, { body: 'x' })),
      );
    await using tab = await world.open('/buckets/long/journal?kind=writes', {
      width: 'phone',
      scheme: 'dark',
    });
    const { page } = tab;
    await page.getByText('Shown: the first 100 rows.').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Load more' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.journal-entry').length === 120);
    const narrow = await openUser(server, 'no-journal', {
      actions: ['admin:GetBucket', 'admin:ListBuckets', 's3:*'],
    });
    await using other = await world.open('/buckets/long', { as: narrow });
    await other.page.getByRole('link', { name: 'Objects' }).waitFor();
    expect(await other.page.getByRole('link', { name: 'Journal' }).count()).toBe(0);
    await other.go('/buckets/long/journal');
    await other.page.getByRole('main').getByText('Your policies do not allow admin:ListAudit.').waitFor();
  });

  test('the audit log of a phone shows each result whole, and its error in the panel of the row', async () => {
    const { server } = world;
    await send(server, 'PUT', '/phones');
    await send(server, 'PUT', '/phones/once', { body: 'x' });
    await send(server, 'PUT', '/phones/once', { body: 'x', headers: { 'if-none-match': '*' } }).catch(
      () => {},
    );
    await using tab = await world.open('/audit?bucket=phones', { width: 'phone' });
    const { page } = tab;
    const row = page.getByRole('row').filter({ hasText: '412' });
    await row.waitFor();
    const [seen, whole] = await page
      .locator('.table-region')
      .evaluate(({ clientWidth, scrollWidth }) => [clientWidth, scrollWidth]);
    expect(whole).toBe(seen);
    await row.getByText('PutObject').click();
    await page.getByRole('region', { name: 'PutObject' }).getByText('412 PreconditionFailed').waitFor();
  });

  test('the audit log follows new rows of every kind that the filter takes, pauses, and goes on where it was', async () => {
    const { server } = world;
    await send(server, 'PUT', '/live');
    await using tab = await world.open('/audit?bucket=live');
    const { page } = tab;
    // How many there were, as a table behind the chart.
    await page.getByRole('img', { name: 'Requests in the log, by result' }).waitFor();
    await page.getByRole('button', { name: 'Show as table' }).click();
    await page.getByRole('columnheader', { name: 'refused' }).waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Follow' }).click();
    await page.getByText('New ones appear by themselves, of all gateways.').waitFor();
    await send(server, 'PUT', '/live/first', { body: 'x' });
    await page.getByText('bucket:live/first').waitFor();
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('paused').waitFor();
    await send(server, 'PUT', '/live/second', { body: 'x' });
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await page.getByText('bucket:live/second').count()).toBe(0);
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByText('bucket:live/second').waitFor();
    expect(await page.getByText('bucket:live/first').count()).toBe(1);
    await page.getByLabel('Kind').selectOption('deletions');
    await page.getByText('No row matches yet.').waitFor();
    await send(server, 'DELETE', '/live/second');
    await page.getByText('bucket:live/second').waitFor();
    await page.getByRole('button', { name: 'Stop following' }).click();
    await page.getByRole('button', { name: 'Follow' }).waitFor();
  });

  test('what policy denies is not followed, and following is not offered without its permission', async () => {
    const { server } = world;
    await send(server, 'PUT', '/seen');
    await send(server, 'PUT', '/hidden');
    const statement = (Effect: string, Action: string[], Resource: string) => ({ Effect, Action, Resource });
    const watcher = await openUser(server, 'watcher', {
      statements: [
        statement('Allow', ['admin:ListAudit', 'admin:FollowAudit'], '*'),
        statement('Deny', ['admin:*'], 'arn:aws:admin:::buckets/hidden*'),
      ],
    });
    await using tab = await world.open('/audit?live=1&kind=writes', { as: watcher });
    const { page } = tab;
    await page.getByText('New ones appear by themselves, of all gateways.').waitFor();
    await send(server, 'PUT', '/hidden/secret', { body: 'x' });
    await send(server, 'PUT', '/seen/open', { body: 'x' });
    await page.getByText('bucket:seen/open').waitFor();
    expect(await page.getByText('bucket:hidden').count()).toBe(0);
    const lister = await openUser(server, 'lister', { actions: ['admin:ListAudit'] });
    await using other = await world.open('/audit', { as: lister });
    await other.page.getByRole('heading', { name: 'Audit' }).waitFor();
    await other.page.getByRole('cell', { name: 'CreateBucket' }).first().waitFor();
    expect(await other.page.getByRole('button', { name: 'Follow' }).count()).toBe(0);
  });

  test('versions are restored, brought back and deleted for good, with the danger in numbers', async () => {
    const { server } = world;
    await send(server, 'PUT', '/states');
    await using empty = await world.open('/buckets/states/versions');
    await empty.page.getByText('There is no version.').first().waitFor();
    expect(await empty.axe()).toEqual([]);
    await send(server, 'PUT', '/states', { query: { versioning: '' }, body: versioned });
    await send(server, 'PUT', '/states/cat', { body: 'one' });
    await send(server, 'PUT', '/states/cat', { body: 'second' });
    await send(server, 'PUT', '/states/dog', { body: 'dog' });
    await send(server, 'DELETE', '/states/dog');
    await using tab = await world.open('/buckets/states/versions');
    const { page } = tab;
    await page.getByText('3 versions of 2 keys · 1 delete marker · 6 B in old versions').waitFor();
    expect(await tab.axe()).toEqual([]);
    // Restore the old state of the cat.
    await page
      .getByRole('row')
      .filter({ hasText: 'cat' })
      .filter({ hasText: 'old' })
      .getByRole('link')
      .click();
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
    await page.getByText('4 versions of 2 keys').waitFor();
    expect(await (await send(server, 'GET', '/states/cat')).text()).toBe('one');
    // Bring the dog back.
    await tab.go('/buckets/states/versions?only=deleted');
    await page.getByRole('row').filter({ hasText: 'dog' }).getByRole('link').click();
    await page.getByRole('button', { name: 'Remove the marker' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the marker' }).click();
    await page.getByText('No loaded version matches.').waitFor();
    await page.getByText('4 versions of 2 keys').waitFor();
    expect(await (await send(server, 'GET', '/states/dog')).text()).toBe('dog');
    // Old versions are deleted for good, after the name of the bucket is typed.
    await tab.go('/buckets/states/versions?only=old');
    await page.getByLabel('Select all that are shown').check();
    await page.getByRole('button', { name: 'Delete 2 versions for good' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.innerText()).toMatch(
      /Versions with bytes\s+2\s+Bytes\s+9 B\s+Latest versions among them\s+0/,
    );
    const remove = dialog.getByRole('button', { name: 'Delete for good' });
    expect(await remove.isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('states');
    expect(await tab.axe()).toEqual([]);
    await remove.click();
    await page.getByText('No loaded version matches.').waitFor();
    await page.getByText('2 versions of 2 keys').waitFor();
    expect(await (await send(server, 'GET', '/states/cat')).text()).toBe('one');
    // The dialog closes after the page has the new rows; until then the page takes no text.
    await dialog.waitFor({ state: 'detached' });
    await page.getByLabel('Key prefix').fill('nothing');
    await page.getByLabel('Key prefix').press('Enter');
    await page.getByText('No key begins with “nothing”.').first().waitFor();
    expect(await page.getByText('There is no version.').count()).toBe(0);
  });

  test('versions are hidden from callers that may not list them, and shown to the tenant that owns the bucket', async () => {
    const { server } = world;
    const { alice } = testCredentials;
    await send(server, 'PUT', '/of-alice', { as: alice });
    await send(server, 'PUT', '/of-alice/thing', { body: 'x', as: alice });
    await using tab = await world.open('/buckets/of-alice', { as: alice, width: 'phone', scheme: 'dark' });
    await tab.page.getByRole('link', { name: 'Versions' }).click();
    await tab.page.getByText('1 version of 1 key').waitFor();
    expect(await tab.axe()).toEqual([]);
    const narrow = await openUser(server, 'no-versions', { actions: ['admin:GetBucket', 's3:ListBucket'] });
    await using other = await world.open('/buckets/states', { as: narrow });
    await other.page.getByRole('link', { name: 'Objects' }).waitFor();
    expect(await other.page.getByRole('link', { name: 'Versions' }).count()).toBe(0);
    await other.go('/buckets/states/versions');
    await other.page
      .getByRole('main')
      .getByText('Your policies do not allow s3:ListBucketVersions.')
      .waitFor();
  });
});
