/** Flipped bits in the metadata file: clients get an error with a clear code, never a wrong answer. */
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkPages } from '../../src/backends/metadata/embedded/check-pages.ts';
import { latestMeta } from '../../src/backends/metadata/embedded/meta-page.ts';
import { patchFile } from '../support/damage-metadata.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';

let directory = '';
const dataFile = (): string => join(directory, 'metadata', 'data.mdb');
const openWorld = (): Promise<GatewayWorld> => openGateway({ settings: { SVC_DATA_DIR: directory } });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const keys = Array.from({ length: 40 }, (_, index) => `photo-${index + 10}`);

async function fill(): Promise<void> {
  await using world = await openWorld();
  await world.client.put('/bucket');
  for (const key of keys) {
    const headers = { 'x-amz-meta-mark': `mark-of-${key}` };
    expect((await world.client.put(`/bucket/${key}`, { body: key, headers })).status).toBe(200);
  }
}

/** Flips a bit of the last non-zero byte of `text`, in every copy in the file, those on free pages included. */
async function flip(text: string): Promise<void> {
  const bytes = await readFile(dataFile());
  const wanted = Buffer.from(text);
  let flips = 0;
  for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at + 1)) {
    const last = at + text.replace('\0', '').length - 1;
    bytes[last] = (bytes[last] as number) ^ 2;
    flips += 1;
  }
  expect(flips).toBeGreaterThan(0);
  await writeFile(dataFile(), bytes);
}

const isDamaged = ({ status, code }: Answer): void =>
  expect({ status, code }).toEqual({ status: 500, code: 'MetadataDamaged' });

describe('with a damaged metadata file', () => {
  it.each([
    ['in the value of its row', 'mark-of-photo-27'],
    ['in the key of its row', 'photo-27\0'],
  ])('GetObject of a key with a flipped bit %s answers 500 MetadataDamaged', async (_, text) => {
    await fill();
    await flip(text);
    await using world = await openWorld();
    isDamaged(await world.client.get('/bucket/photo-27'));
    expect((await world.client.get('/bucket/photo-13')).status).toBe(200);
    expect((await world.client.get('/bucket/photo-44')).status).toBe(200);
  });

  it.each([
    ['value', 'mark-of-photo-27'],
    ['key', 'photo-27\0'],
  ])(
    'ListObjectsV2 over a row with a flipped bit in its %s answers 500, never a list without it',
    async (_, text) => {
      await fill();
      await flip(text);
      await using world = await openWorld();
      isDamaged(await world.client.get('/bucket?list-type=2'));
      isDamaged(await world.client.get('/bucket?list-type=2&start-after=photo-26&max-keys=2'));
      expect((await world.client.get('/bucket?list-type=2&max-keys=5')).status).toBe(200);
    },
  );

  it('a conditional PUT over a damaged row is refused, and overwrites nothing', async () => {
    await fill();
    await flip('photo-27\0');
    await using world = await openWorld();
    const headers = { 'if-none-match': '*' };
    isDamaged(await world.client.put('/bucket/photo-27', { body: 'new', headers }));
  });

  it('the log names the table and the row', async () => {
    await fill();
    await flip('mark-of-photo-27');
    await using world = await openWorld();
    const log = vi.spyOn(world.context.telemetry, 'log');
    await world.client.get('/bucket/photo-27');
    const errors = log.mock.calls.filter(([level]) => level === 'ERROR');
    expect(errors).toHaveLength(1);
    expect(errors[0]?.[1]).toBe('metadata is damaged: see docs/recovery.md');
    expect(errors[0]?.[2]).toMatchObject({ table: 'objects', row: expect.stringContaining('photo-27') });
  });

  it('many reads of a damaged row leave the others readable', async () => {
    await fill();
    await flip('mark-of-photo-27');
    await using world = await openWorld();
    for (let round = 0; round < 300; round += 1) await world.client.get('/bucket?list-type=2');
    expect((await world.client.get('/bucket/photo-13')).status).toBe(200);
    expect((await world.client.put('/bucket/photo-99', { body: 'new' })).status).toBe(200);
  });

  it('a file that was cut short is refused with its sizes, before it is mapped', async () => {
    await fill();
    // Leave only one page behind the two meta pages, because the last pages may be free ones, which a file may lack.
    await truncate(dataFile(), 3 * 4096);
    await expect(openWorld()).rejects.toThrow(
      /data\.mdb is damaged: the file ends before page \d+; docs\/recovery\.md/,
    );
  });

  const patchMetaPage = (page: 0 | 1, at: number): Promise<void> =>
    patchFile(dataFile(), (bytes) => {
      const place = page * 4096 + at;
      bytes[place] = (bytes[place] ?? 0) ^ 255;
    });

  it.each([
    ['flags', 18],
    ['magic number', 24],
    ['format', 28],
    ['size of a page', 48],
  ])(
    'a file whose first meta page has damaged %s is refused, before lmdb ends the process',
    async (_, at) => {
      await fill();
      await patchMetaPage(0, at);
      await expect(openWorld()).rejects.toThrow(
        /data\.mdb is damaged: its first meta page is damaged; docs\/recovery\.md/,
      );
    },
  );

  it('where the magic number of the second meta page is damaged, which lmdb does not compare, its commits count', async () => {
    await fill();
    await patchMetaPage(1, 24);
    await using world = await openWorld();
    const descriptor = openSync(dataFile(), 'r');
    try {
      const latestPages = new Set<number>();
      for (let n = 0; latestPages.size < 2 && n < 100; n += 1) {
        expect((await world.client.put(`/bucket/later-${n}`, { body: 'x' })).status).toBe(200);
        const bytes = await readFile(dataFile());
        const [first = 0n, second = 0n] = [0, 4096].map((page) => bytes.readBigUInt64LE(page + 152));
        latestPages.add(second > first ? 1 : 0);
        expect(latestMeta(descriptor)?.transaction).toBe(Number(second > first ? second : first));
      }
      expect(latestPages.size).toBe(2);
      expect([...checkPages(descriptor)].flatMap(({ faults }) => faults)).toEqual([]);
    } finally {
      closeSync(descriptor);
    }
  });

  it('a file of another format is refused', async () => {
    const database = open<unknown, string>({ path: join(directory, 'metadata'), noSubdir: false });
    await database.put('a row', ['of an earlier release']);
    await database.close();
    await expect(openWorld()).rejects.toThrow('the data directory has no note of its format');
  });
});
