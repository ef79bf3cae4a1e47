/** Work on many objects: copies, moves, deletions and their undoing, archives. */
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestServer } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole } from './world.ts';

const textOf = async (server: TestServer, path: string): Promise<string> =>
  (await send(server, 'GET', path)).text();
const statusOf = (server: TestServer, path: string): Promise<number> =>
  send(server, 'HEAD', path).then(
    ({ status }) => status,
    (cause: Error) => Number(/: (\d{3}) /.exec(`${cause.message} `)?.[1]),
  );
const choose = (page: Page, name: string) => page.getByRole('checkbox', { name: `Select ${name}` }).check();
const press = (page: Page, name: string) => page.getByRole('button', { name }).click();

/** Names and contents in the central directory of an archive without compression. */
function unpack(zip: Buffer): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  let at = zip.indexOf('PK\u0001\u0002', 0, 'latin1');
  while (at >= 0 && zip.readUInt32LE(at) === 0x02014b50) {
    const [size, name, extra, comment] = [
      zip.readUInt32LE(at + 24),
      zip.readUInt16LE(at + 28),
      zip.readUInt16LE(at + 30),
      zip.readUInt16LE(at + 32),
    ];
    const local = zip.readUInt32LE(at + 42);
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    found[zip.toString('utf8', at + 46, at + 46 + name)] = zip.toString('utf8', start, start + size);
    at += 46 + name + extra + comment;
  }
  return found;
}

describe.skipIf(noChromium !== undefined)('work on many objects', () => {
  let world: ConsoleWorld;
  let server: TestServer;
  beforeAll(async () => {
    world = await openConsole();
    server = world.server;
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('copies and moves rows and whole prefixes after their numbers, and lists what was left out', async () => {
    for (const bucket of ['from', 'target']) await send(server, 'PUT', `/${bucket}`);
    const headers = { 'x-amz-meta-colour': 'blue', 'content-type': 'text/plain' };
    for (let n = 0; n < 5; n += 1)
      await send(server, 'PUT', `/from/dir/sub/${n}.txt`, { body: `${n}`, headers });
    await send(server, 'PUT', '/from/note.txt', { body: 'note', headers });
    await send(server, 'PUT', '/target/2026/dir/sub/3.txt', { body: 'older' });
    await using tab = await world.open('/buckets/from/objects');
    const { page } = tab;
    await choose(page, 'dir/');
    await choose(page, 'note.txt');
    await press(page, 'Copy or move (2)');
    const dialog = page.getByRole('dialog', { name: 'Copy or move 2 rows' });
    await dialog.getByText('The target is where the objects are', { exact: false }).waitFor();
    await dialog.getByLabel('To prefix').fill('dir/deeper/');
    await dialog.getByText('inside of what is chosen', { exact: false }).waitFor();
    await dialog.getByLabel('To bucket').fill('target');
    await dialog.getByLabel('To prefix').fill('2026/');
    expect(await dialog.locator('dl').innerText()).toMatch(/Objects\s+6\s+Size\s+9 B/);
    expect(await tab.axe()).toEqual([]);
    await dialog.getByRole('button', { name: 'Copy', exact: true }).last().click();
    await page.getByText('5 objects copied.').waitFor();
    await page.getByText('1 object was left out').waitFor();
    await page.getByText('PreconditionFailed').waitFor();
    expect(await textOf(server, '/target/2026/dir/sub/3.txt')).toBe('older');
    expect(await textOf(server, '/target/2026/note.txt')).toBe('note');
    const copied = await send(server, 'HEAD', '/target/2026/dir/sub/1.txt');
    expect(copied.headers.get('x-amz-meta-colour')).toBe('blue');
    expect(await textOf(server, '/from/note.txt')).toBe('note');

    await choose(page, 'dir/');
    await press(page, 'Copy or move (1)');
    const second = page.getByRole('dialog', { name: 'Copy or move 1 row' });
    await second.getByRole('button', { name: 'Move', exact: true }).first().click();
    await second.getByLabel('To bucket').fill('target');
    await second.getByLabel('To prefix').fill('moved/');
    await second.getByRole('button', { name: 'Move', exact: true }).last().click();
    await page.getByText('5 objects moved.').waitFor();
    await page.getByRole('link', { name: 'dir/' }).waitFor({ state: 'detached' });
    expect(await textOf(server, '/target/moved/dir/sub/4.txt')).toBe('4');
    expect(await statusOf(server, '/from/dir/sub/4.txt')).toBe(404);
  });

  test('renames an object and a prefix, and never over another object', async () => {
    await send(server, 'PUT', '/names');
    for (const key of ['a.txt', 'taken.txt', 'old/1', 'old/2'])
      await send(server, 'PUT', `/names/${key}`, { body: key });
    await using tab = await world.open('/buckets/names/objects?key=a.txt');
    const { page } = tab;
    await page.getByRole('region', { name: 'a.txt' }).getByRole('button', { name: 'Rename' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rename a.txt' });
    await dialog.getByLabel('New name').fill('taken.txt');
    await dialog.getByRole('button', { name: 'Rename' }).click();
    await page.getByText('1 object was left out').waitFor();
    expect(await textOf(server, '/names/taken.txt')).toBe('taken.txt');
    expect(await textOf(server, '/names/a.txt')).toBe('a.txt');
    await choose(page, 'old/');
    await press(page, 'Rename (1)');
    await page.getByRole('dialog', { name: 'Rename old/' }).getByLabel('New name').fill('new & <b>');
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
    await page.getByText('2 objects moved.').waitFor();
    await page.getByRole('link', { name: 'new & <b>/' }).waitFor();
    expect(await textOf(server, '/names/new & <b>/2')).toBe('old/2');
    expect(await statusOf(server, '/names/old/2')).toBe(404);
  });

  test('shows how far a rename is, goes on while another page is open, and stops between objects', async () => {
    await send(server, 'PUT', '/long');
    for (let n = 0; n < 12; n += 1)
      await send(server, 'PUT', `/long/old/${n}.txt`, { body: 'x'.repeat(1_024) });
    await using tab = await world.open('/buckets/long/objects');
    const { page } = tab;
    const passing = 4;
    let copies = 0;
    await page.route('**/long/new/**', async (route) => {
      copies += 1;
      // The others have no answer until the end of the test.
      if (copies > passing) return;
      await new Promise((resolve) => setTimeout(resolve, 1_200));
      await route.continue();
    });
    await choose(page, 'old/');
    await press(page, 'Rename (1)');
    const dialog = page.getByRole('dialog', { name: 'Rename old/' });
    await dialog.getByLabel('New name').fill('new');
    await dialog.getByRole('button', { name: 'Rename' }).click();
    const bar = page.getByRole('progressbar', { name: 'Moving 12 objects' });
    await page.getByText(/^4 KiB \/ 12 KiB · .+ per second · .+ left$/).waitFor();
    expect(await bar.getAttribute('value')).toBe('4096');
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('button', { name: 'Set quota' }).waitFor();
    await page.getByRole('link', { name: 'Objects', exact: true }).first().click();
    await bar.waitFor();
    await press(page, 'Stop');
    await page.getByText('4 objects moved. Stopped: 8 objects left.').waitFor();
    // What the page itself shows needs no note at its edge.
    expect(await page.locator('.toast').count()).toBe(0);
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async (_, n) => [
        await statusOf(server, `/long/old/${n}.txt`),
        await statusOf(server, `/long/new/${n}.txt`),
      ]),
    );
    expect(statuses.filter(([old, moved]) => old === 404 && moved === 200)).toHaveLength(passing);
    expect(statuses.filter(([old, moved]) => old === 200 && moved === 404)).toHaveLength(12 - passing);
  });

  test('the head of a bucket has the numbers that a deletion, and the removal of a version, leave', async () => {
    await send(server, 'PUT', '/headed');
    for (let n = 0; n < 4; n += 1) await send(server, 'PUT', `/headed/${n}`, { body: 'four' });
    await using tab = await world.open('/buckets/headed/objects');
    const { page } = tab;
    await page.getByText('4 objects, 16 B').waitFor();
    await choose(page, '0');
    await press(page, 'Delete (1)');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('3 objects, 12 B').waitFor();
    await send(server, 'PUT', '/headed', {
      query: { versioning: '' },
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    });
    await send(server, 'PUT', '/headed/1', { body: 'newer' });
    await tab.go('/buckets/headed/versions');
    await page.getByText('4 versions, 17 B').waitFor();
    await page.getByRole('checkbox').nth(1).check();
    await press(page, 'Delete 1 version');
    await page.getByRole('dialog').getByRole('textbox').fill('headed');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete for good' }).click();
    await page.getByText(/^3 versions, /).waitFor();
  });

  test('deletes a prefix in a bucket that keeps versions, and undoes it by removing the markers', async () => {
    await send(server, 'PUT', '/kept');
    await send(server, 'PUT', '/kept', {
      query: { versioning: '' },
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    });
    for (let n = 0; n < 30; n += 1) await send(server, 'PUT', `/kept/logs/${n}`, { body: `${n}` });
    await send(server, 'PUT', '/kept/bell\u0007', { body: 'bell' });
    await using tab = await world.open('/buckets/kept/objects');
    const { page } = tab;
    await page.getByLabel('Select all loaded objects').check();
    await press(page, 'Delete (2)');
    const dialog = page.getByRole('dialog', { name: 'Delete 31 objects?' });
    await dialog.getByText('This can be undone.').waitFor();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('31 objects deleted.').waitFor();
    await page.getByText('Nothing is stored here.').waitFor();
    expect(await statusOf(server, '/kept/logs/7')).toBe(404);
    await press(page, 'Undo: bring back 31 objects');
    await page.getByText('31 objects brought back.').waitFor();
    await page.getByRole('link', { name: 'logs/' }).waitFor();
    expect(await textOf(server, '/kept/logs/7')).toBe('7');
    expect(await textOf(server, '/kept/bell\u0007')).toBe('bell');
    // Another client ends the versioning while the page is open.
    await send(server, 'PUT', '/kept', {
      query: { versioning: '' },
      body: '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>',
    });
    await choose(page, 'logs/');
    await press(page, 'Delete (1)');
    await page.getByRole('dialog', { name: 'Delete 30 objects?' }).waitFor();
    await page.getByRole('dialog').getByText('This cannot be undone.').waitFor();
  });

  test('packs objects of many levels into an archive whose names stay inside of it', async () => {
    await send(server, 'PUT', '/pack');
    const contents = {
      'a/one.txt': 'one',
      'a/ONE.txt': 'shouted',
      'a/..\\..\\evil.sh': 'evil',
      'b.txt': 'b',
    };
    for (const [key, body] of Object.entries(contents)) await send(server, 'PUT', `/pack/${key}`, { body });
    await using tab = await world.open('/buckets/pack/objects');
    const { page } = tab;
    const archive = async () => {
      await page.getByLabel('Select all loaded objects').check();
      await press(page, 'Download as ZIP (2)');
      const dialog = page.getByRole('dialog', { name: 'Download many objects' });
      await dialog.getByRole('button', { name: 'Download as ZIP' }).click();
    };
    const expected = {
      'a/ONE.txt': 'shouted',
      'a/one.txt (2)': 'one',
      'a/.._.._evil.sh': 'evil',
      'b.txt': 'b',
    };
    // A file of the origin stands for the file that a user chooses: the dialog of the system cannot be used here.
    await page.evaluate(() => {
      Object.assign(globalThis, {
        showSaveFilePicker: async () =>
          (await navigator.storage.getDirectory()).getFileHandle('chosen.zip', { create: true }),
      });
    });
    await archive();
    await page.getByText('4 objects packed.').waitFor();
    const streamed = await page.evaluate(async () => {
      const file = await (
        await (await navigator.storage.getDirectory()).getFileHandle('chosen.zip')
      ).getFile();
      return [...new Uint8Array(await file.arrayBuffer())];
    });
    expect(unpack(Buffer.from(streamed))).toEqual(expected);
    await page.evaluate(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'));
    const [download] = await Promise.all([page.waitForEvent('download'), archive()]);
    expect(download.suggestedFilename()).toBe('pack.zip');
    expect(unpack(await readFile(await download.path()))).toEqual(expected);
  });

  test('offers a caller only what its policies allow', async () => {
    await send(server, 'PUT', '/narrow');
    await send(server, 'PUT', '/narrow/doc.txt', { body: 'x' });
    const reader = await openUser(server, 'reader', { actions: ['s3:ListBucket', 's3:GetObject'] });
    await using tab = await world.open('/buckets/narrow/objects', { as: reader });
    await choose(tab.page, 'doc.txt');
    await tab.page.getByRole('button', { name: 'Download as ZIP (1)' }).waitFor();
    for (const name of ['Delete', 'Copy or move', 'Rename'])
      expect([name, await tab.page.getByRole('button', { name }).count()]).toEqual([name, 0]);
  });
});
