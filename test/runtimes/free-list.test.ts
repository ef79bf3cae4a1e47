/** A metadata file with a damaged list of free pages: fsck names the pages, and `sluice compact` repairs the file. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { tables } from '../../src/metadata/tables.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { head, headsOf } from '../contract/metadata-store/tables.ts';
import { freeList, freeListDepth, patchFile } from '../support/damage-metadata.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';

const root = join(import.meta.dirname, '../..');
let directory: string;
let copy: string;
const dataFile = (): string => join(directory, 'metadata/data.mdb');
const openWorld = (): Promise<GatewayWorld> =>
  openGateway({ settings: { SVC_DATA_DIR: directory, SVC_FSYNC: 'never' } });

const keys = Array.from({ length: 40 }, (_, index) => `photo-${index + 10}`);
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-free-list-'));
  copy = `${directory}-copy`;
  await using world = await openWorld();
  await world.client.put('/bucket');
  for (const key of keys) expect((await world.client.put(`/bucket/${key}`, { body: key })).status).toBe(200);
});
afterEach(async () => {
  for (const each of [directory, copy]) await rm(each, { recursive: true, force: true });
});

/** The report of fsck about the file, without a whole run, whose commits could use the page and then end the process. */
async function verify(metadata: string): Promise<readonly unknown[]> {
  const store = embeddedStore({
    directory: metadata,
    clock: systemClock,
    random: systemRandom(),
    durable: false,
  });
  const faults: unknown[] = [];
  for await (const found of store.verify?.(Object.values(tables)) ?? []) faults.push(...found);
  await store.close();
  return faults;
}

interface Ended {
  readonly code: number;
  readonly text: string;
}

function sluice(command: 'fsck' | 'compact', of: string, ...flags: readonly string[]): Promise<Ended> {
  const args = [join(root, 'src/runtime/cli.ts'), command, '--data-dir', of, ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, text: `${stdout}${stderr}` });
    });
  });
}

test('a free list of several levels, which a long read lets grow, is sound', async () => {
  const metadata = join(copy, 'metadata');
  const options = { clock: systemClock, random: systemRandom(), durable: false };
  const store = embeddedStore({ directory: metadata, ...options });
  const put = (key: string) => store.commit(headsOf('b'), [{ put: head('b', key), expect: 'absent' }]);
  // The check gives other work a turn after 16 pages, and the file must have more.
  await Promise.all(Array.from({ length: 2000 }, (_, index) => put(`first-${index}`)));
  // The snapshot of the check keeps commits from using the free pages of the commits after it.
  const reading = store.verify?.([])[Symbol.asyncIterator]();
  expect(await reading?.next()).toEqual({ done: false, value: [] });
  for (let commit = 0; commit < 1000; commit += 1) await put(`key-${commit}`);
  await reading?.return?.();
  await store.close();
  expect(freeListDepth(await readFile(join(metadata, 'data.mdb')))).toBeGreaterThan(1);
  expect(await verify(metadata)).toEqual([]);
});

test.each([
  ['names a page in use', (pages: ReturnType<typeof freeList>) => pages.root, 'in use and in the free list'],
  [
    'names a page twice',
    ({ entries }: ReturnType<typeof freeList>) => entries[1]?.page ?? 0,
    'in the free list twice',
  ],
])(
  'a free list that %s: the check of fsck names the page, and sluice compact keeps every row',
  async (_, pageIn, detail) => {
    expect((await sluice('fsck', directory)).code).toBe(0);
    const before = freeList(await readFile(dataFile()));
    expect(before.entries.length).toBeGreaterThan(1);
    const page = pageIn(before);
    await patchFile(dataFile(), (bytes) => bytes.writeBigInt64LE(BigInt(page), before.entries[0]?.at));

    const fault = `the list of free pages is damaged, and commits may overwrite rows: page ${page} is ${detail}`;
    await cp(directory, copy, { recursive: true });
    expect(await verify(join(copy, 'metadata'))).toEqual([{ detail: fault }]);
    const refused = await sluice('compact', directory);
    expect(refused.text).toContain(fault);
    expect(refused.code).not.toBe(0);
    expect(freeList(await readFile(dataFile())).root).toBe(before.root);
    const compacted = await sluice('compact', directory, '--drop-damaged');
    expect(compacted.text).toMatch(/, 0 damaged dropped\n$/);
    expect(compacted.code).toBe(0);

    const after = await sluice('fsck', directory);
    expect(after.code, after.text).toBe(0);
    await using world = await openWorld();
    expect((await world.client.get('/bucket?list-type=2')).all('Key')).toEqual(keys);
    for (const key of keys) expect((await world.client.get(`/bucket/${key}`)).text).toBe(key);
  },
);
