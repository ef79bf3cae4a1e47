/** The panel of an object: previews in a sandbox, versions, tags, and who can read it. */
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Frame, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { portableHasher } from '../../src/backends/crypto/portable.ts';
import { toBase64 } from '../../src/base/text/base64.ts';
import { checksumFacts } from '../../src/domain/content/digests.ts';
import { checksumNames } from '../../src/protocol/schemas/common.ts';
import { type TestServer, testCredentials } from '../support/server.ts';
import { openUser } from './people.ts';
import { send } from './seeds.ts';
import { type ConsoleWorld, noChromium, openConsole, type Tab } from './world.ts';

const mark = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script></pre>';
const bytes = (data: ArrayBuffer | Uint8Array): Uint8Array<ArrayBuffer> => new Uint8Array(data);

/** A second of silence. */
function silence(): Uint8Array<ArrayBuffer> {
  const data = Buffer.alloc(44 + 8_000);
  data.write('RIFF', 0);
  data.writeUInt32LE(36 + 8_000, 4);
  data.write('WAVEfmt ', 8);
  data.writeUInt32LE(16, 16);
  data.writeUInt16LE(1, 20);
  data.writeUInt16LE(1, 22);
  data.writeUInt32LE(8_000, 24);
  data.writeUInt32LE(8_000, 28);
  data.writeUInt16LE(1, 32);
  data.writeUInt16LE(8, 34);
  data.write('data', 36);
  data.writeUInt32LE(8_000, 40);
  return bytes(data.fill(128, 44));
}

const pixel = bytes(
  Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
    'base64',
  ),
);
const pdf =
  '%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 144]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF';

/** The frame of the preview, once its document is there. */
async function previewOf({ page }: Tab, key: string): Promise<Frame> {
  const handle = await page.locator(`iframe[title="Preview of ${key}"]`).elementHandle();
  const frame = await handle?.contentFrame();
  if (!frame) throw new Error(`no frame for ${key}`);
  await frame.waitForLoadState();
  return frame;
}

const open = (page: Page, server: string, key: string, view: string) =>
  page.goto(`${server}/console/buckets/previews/objects?${new URLSearchParams({ key, view })}`);

describe.skipIf(noChromium !== undefined)('the panel of an object', () => {
  let world: ConsoleWorld;
  let server: TestServer;
  beforeAll(async () => {
    world = await openConsole();
    server = world.server;
  });
  afterAll(() => world[Symbol.asyncDispose]());

  test('previews pictures, sound, texts, tables and Parquet in a frame of an opaque origin where nothing runs', async () => {
    await send(server, 'PUT', '/previews');
    const put = (key: string, type: string, body: string | Uint8Array<ArrayBuffer>) =>
      send(server, 'PUT', `/previews/${key}`, { body, headers: { 'content-type': type } });
    await put('page.html', 'text/html', mark);
    await put(
      'drawing.svg',
      'image/svg+xml',
      `<svg xmlns="http://www.w3.org/2000/svg"><script>parent.hacked=1</script></svg>`,
    );
    await put('liar.png', 'image/png', mark);
    await put('dot.png', 'application/octet-stream', pixel);
    await put('silence.wav', 'audio/wav', silence());
    await put('rows.csv', 'text/csv', `name;value\n"${mark.replaceAll('"', '""')}";=cmd\n\u202Ereversed;2\n`);
    await put(
      'data.json',
      'application/json',
      `{"text":${JSON.stringify(mark)},"long":12345678901234567890}`,
    );
    await put('long.log', 'text/plain', 'line\n'.repeat(60_000));
    await put('paper.pdf', 'application/pdf', pdf);
    await put('blob.bin', 'application/x-thing', 'x');
    const table = parquetWriteBuffer({
      columnData: [
        {
          name: '<b>name</b>',
          data: Array.from({ length: 3_000 }, (_, n) => `${mark} ${n}`),
          type: 'STRING',
        },
        { name: 'n', data: Array.from({ length: 3_000 }, (_, n) => BigInt(n)), type: 'INT64' },
      ],
      // The first rows are in two row groups.
      rowGroupSize: [20, 3_000],
    });
    await put('table.parquet', 'application/octet-stream', bytes(table));
    await using tab = await world.open('/buckets/previews/objects');
    const { page } = tab;
    const wholes: string[] = [];
    page.on('request', (request) => {
      const isRead = request.method() === 'GET' && /\/previews\/(?:table|long)/.test(request.url());
      if (isRead && request.headers()['range'] === undefined) wholes.push(request.url());
    });
    const frame = async (key: string) => {
      await open(page, server.url, key, 'preview');
      return previewOf(tab, key);
    };
    const textOf = async (key: string) => (await frame(key)).locator('body').innerText();
    expect(await textOf('page.html')).toBe(mark);
    expect(
      await (await previewOf(tab, 'page.html')).evaluate(() => [origin, document.scripts.length]),
    ).toEqual(['null', 0]);
    expect(await page.locator('iframe').getAttribute('sandbox')).toBe('');
    expect(await textOf('drawing.svg')).toContain('parent.hacked=1');
    expect(await (await frame('liar.png')).evaluate(() => document.images[0]?.naturalWidth)).toBe(0);
    const dot = await frame('dot.png');
    await dot.waitForFunction(() => document.images[0]?.naturalWidth === 1);
    expect(await tab.axe()).toEqual([]);
    const sound = await frame('silence.wav');
    await sound.waitForFunction(() => document.querySelector('audio')?.duration === 1);
    expect((await textOf('rows.csv')).split('\n').map((line) => line.split('\t'))).toEqual([
      ['name', 'value'],
      [mark, '=cmd'],
      ['‹U+202E›reversed', '2'],
    ]);
    expect(await textOf('data.json')).toContain('12345678901234567890');
    expect((await textOf('long.log')).length).toBeLessThan(270_000);
    await page.getByText('Shown: the first 256 KiB of 293 KiB.').waitFor();
    const rows = await textOf('table.parquet');
    expect([...rows.matchAll(/\t(\d+)$/gm)].map(([, n]) => Number(n))).toEqual(
      Array.from({ length: 50 }, (_, n) => n),
    );
    expect(rows).toContain(`${mark} 49\t49`);
    expect(rows).toContain('<b>name</b>');
    expect(rows).toContain('INT64');
    await page.getByText('3,000 rows. Shown: the first 50 rows, and the schema.').waitFor();
    expect(wholes).toEqual([]);
    await open(page, server.url, 'paper.pdf', 'preview');
    await page.locator('iframe[title="Preview of paper.pdf"]').waitFor();
    await open(page, server.url, 'blob.bin', 'preview');
    await page.getByText('There is no preview of application/x-thing.').waitFor();
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
    // A picture that is none is reported by the browser, and sandboxed frames that try to run something would be too.
    expect(tab.problems).toEqual([]);
  });

  test('compares versions, restores one on top, and deletes one for good after its name was typed', async () => {
    await send(server, 'PUT', '/history');
    await send(server, 'PUT', '/history', {
      query: { versioning: '' },
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    });
    const ids: string[] = [];
    for (const colour of ['red', 'blue']) {
      const headers = { 'x-amz-meta-colour': colour, 'x-amz-tagging': `stage=${colour}` };
      const reply = await send(server, 'PUT', '/history/note', { body: `is ${colour}`, headers });
      ids.push(reply.headers.get('x-amz-version-id') ?? '');
    }
    await send(server, 'PUT', '/history/note-2', { body: 'another key' });
    await using tab = await world.open(`/buckets/history/objects?key=note&view=versions`);
    const { page } = tab;
    await page.getByRole('link', { name: `Details: ${ids[0]}` }).click();
    const differences = page.getByRole('region', { name: 'Differences from the latest version' });
    await differences.getByText('x-amz-meta-colour').waitFor();
    await differences.getByText('tag stage').waitFor();
    expect(page.url()).toContain('version=');
    expect(await tab.axe()).toEqual([]);
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
    await expect
      .poll(async () => (await send(server, 'GET', '/history/note')).text(), { timeout: 60_000 })
      .toBe('is red');
    expect((await send(server, 'GET', '/history/note', { query: { versionId: ids[1] ?? '' } })).status).toBe(
      200,
    );
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: `Details: ${ids[1]}` }).click();
    await page.getByRole('button', { name: 'Delete for good' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete this version for good?' });
    expect(await dialog.getByRole('button', { name: 'Delete for good' }).isDisabled()).toBe(true);
    await dialog.getByLabel('Type note to confirm').fill('note');
    await dialog.getByRole('button', { name: 'Delete for good' }).click();
    await page.getByRole('link', { name: `Details: ${ids[1]}` }).waitFor({ state: 'detached' });
    await expect(
      send(server, 'GET', '/history/note', { query: { versionId: ids[1] ?? '' } }),
    ).rejects.toThrow('404');
  });

  test('shows callers without admin:StatObject the checksum of an object, whichever algorithm it has', async () => {
    await send(server, 'PUT', '/summed');
    const statements = [
      { Effect: 'Allow', Action: 's3:ListAllMyBuckets', Resource: '*' },
      {
        Effect: 'Allow',
        Action: ['s3:ListBucket', 's3:GetObject'],
        Resource: ['arn:aws:s3:::summed', 'arn:aws:s3:::summed/*'],
      },
    ];
    const reader = await openUser(server, 'sums', { statements });
    const hasher = portableHasher();
    await using tab = await world.open('/buckets/summed/objects', { as: reader });
    for (const name of checksumNames) {
      const value = toBase64(hasher.once(checksumFacts[name].hash, new TextEncoder().encode(name)));
      const headers = { [`x-amz-checksum-${name.toLowerCase()}`]: value };
      await send(server, 'PUT', `/summed/of-${name}`, { body: name, headers });
      await tab.page.goto(
        `${server.url}/console/buckets/summed/objects?${new URLSearchParams({ key: `of-${name}` })}`,
      );
      const panel = tab.page.getByRole('region', { name: `of-${name}`, exact: true });
      await panel.getByText(`Checksum ${name.toLowerCase()}`, { exact: true }).waitFor({ timeout: 60_000 });
      await panel.getByRole('button', { name: `Copy: ${value}`, exact: true }).waitFor();
    }
  });

  test('changes tags, and says who can read the object and by which statement', async () => {
    await send(server, 'PUT', '/described');
    await send(server, 'PUT', '/described/doc.txt', {
      body: 'x',
      headers: { 'x-amz-meta-note': '<b>bold</b>' },
    });
    await openUser(server, 'reader', { actions: ['s3:GetObject'] });
    await openUser(server, 'other', { actions: ['s3:ListAllMyBuckets'] });
    await using tab = await world.open('/buckets/described/objects?key=doc.txt');
    const { page } = tab;
    const panel = page.getByRole('region', { name: 'doc.txt' });
    await panel.getByText('<b>bold</b>').waitFor();
    await panel.getByText('The object has no tags.').waitFor();
    await panel.getByRole('button', { name: 'Edit tags' }).click();
    await panel.getByLabel('Name 1').fill('team');
    await panel.getByLabel('Value 1').fill('بيانات');
    await panel.getByRole('button', { name: 'Add a tag' }).click();
    await panel.getByLabel('Name 2').fill('stage');
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('بيانات').waitFor();
    const stored = await (await send(server, 'GET', '/described/doc.txt', { query: { tagging: '' } })).text();
    expect(stored).toContain('<Key>stage</Key>');
    // Tags that another client has replaced since the form was opened are not replaced unseen.
    await panel.getByRole('button', { name: 'Edit tags' }).click();
    await panel.getByLabel('Value 2').fill('mine');
    await send(server, 'PUT', '/described/doc.txt', {
      query: { tagging: '' },
      body: '<Tagging><TagSet><Tag><Key>of</Key><Value>colleague</Value></Tag></TagSet></Tagging>',
    });
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.locator('del', { hasText: 'of: colleague' }).waitFor();
    await panel.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('mine', { exact: true }).waitFor();
    await panel.getByRole('button', { name: 'Who can read this?' }).click();
    await panel.getByText(/^2 of \d callers can read this object\.$/).waitFor();
    expect(page.url()).toContain('view=readers');
    const row = panel.getByRole('row', { name: 'User reader' });
    expect(await row.innerText()).toContain('of-reader');
    expect(await panel.getByRole('row', { name: 'User other' }).innerText()).toContain(
      'No statement and no ACL allows it.',
    );
    expect(await panel.getByRole('row', { name: 'Everyone, without a key' }).innerText()).toContain('no');
    expect(await tab.axe()).toEqual([]);
    // From a caller to every statement of its decision, and from the object to one's own.
    await panel.getByRole('row', { name: 'User other' }).getByRole('link', { name: 'Why?' }).click();
    await page.getByRole('heading', { name: 'Decisions' }).waitFor();
    await page.getByText('No statement and no ACL allows it.').waitFor();
    expect(await page.getByLabel('ARN of a caller').inputValue()).toMatch(/:user\/other$/);
    await page.goBack();
    await panel.getByRole('button', { name: 'Details' }).click();
    await panel.getByRole('link', { name: 'Why?' }).click();
    await page.getByRole('heading', { name: 'Decisions' }).waitFor();
    expect(await page.getByLabel('Access key').inputValue()).toBe(testCredentials.root.accessKey);
    expect(await page.getByLabel('Key of an object').inputValue()).toBe('doc.txt');
    await page.locator('.chip', { hasText: 'allowed' }).first().waitFor();
  });
});
