/** `sluice compact`: beside a running gateway, killed halfway, over a damaged row. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { checkPages } from '../../src/backends/metadata/embedded/check-pages.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { startServer } from '../support/server.ts';
import { sender } from './client.ts';

const root = join(import.meta.dirname, '../..');
let directory: string;
const metadata = (...names: string[]): string => join(directory, 'metadata', ...names);
const sizeOf = (): number => statSync(metadata('data.mdb')).size;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-compact-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

interface Run {
  readonly code: number | null;
  readonly text: string;
}

function begin(command: 'compact' | 'fsck', flags: readonly string[] = []): ChildProcess {
  const args = [join(root, 'src/runtime/cli.ts'), command, '--data-dir', directory, ...flags];
  return spawn(process.execPath, args, { cwd: root });
}

async function run(command: 'compact' | 'fsck', flags: readonly string[]): Promise<Run> {
  const child = begin(command, flags);
  let text = '';
  child.stdout?.on('data', (some) => (text += String(some)));
  child.stderr?.on('data', (some) => (text += String(some)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, text };
}
const compact = (...flags: readonly string[]): Promise<Run> => run('compact', flags);

async function served(use: (world: GatewayWorld) => Promise<void>): Promise<void> {
  await using world = await openGateway({ settings: { SVC_DATA_DIR: directory, SVC_FSYNC: 'never' } });
  await use(world);
}

const keyAt = (i: number): string => `photo-${String(i).padStart(5, '0')}`;
async function fill({ client }: GatewayWorld, count: number): Promise<void> {
  await client.put('/bucket');
  for (let start = 0; start < count; start += 100) {
    const puts = Array.from({ length: Math.min(100, count - start) }, (_, i) => {
      const key = keyAt(start + i);
      return client.put(`/bucket/${key}`, { body: key, headers: { 'x-amz-meta-mark': `mark-of-${key}` } });
    });
    for (const { status } of await Promise.all(puts)) expect(status).toBe(200);
  }
}

/** The rows in lmdb's file. */
function rowsIn(path: string): number {
  const descriptor = openSync(path, 'r');
  try {
    let rows = 0;
    for (const { faults } of checkPages(descriptor, () => (rows += 1))) expect(faults).toEqual([]);
    return rows;
  } finally {
    closeSync(descriptor);
  }
}

test('after 10,000 deletions sluice compact frees space, and the remaining objects are served', async () => {
  await served(async (world) => {
    await fill(world, 10_000);
    for (let start = 0; start < 10_000; start += 100) {
      const keys = Array.from({ length: 100 }, (_, i) => keyAt(start + i)).filter((key) => key !== keyAt(77));
      await Promise.all(keys.map((key) => world.client.delete(`/bucket/${key}`)));
    }
  });
  const before = sizeOf();
  const rows = rowsIn(metadata('data.mdb'));
  const { code, text } = await compact('--json');
  expect([code, text]).toEqual([0, expect.any(String)]);
  const { summary } = JSON.parse(text);
  expect(summary).toEqual({ rows, dropped: 0, bytesBefore: before, bytesAfter: sizeOf() });
  expect(sizeOf()).toBeLessThan(before * 0.8);
  expect(rowsIn(metadata('data.mdb'))).toBe(rows);
  expect(statSync(metadata('data.mdb.before-compact')).size).toBe(before);
  expect(statSync(metadata('data.mdb')).mode & 0o777).toBe(0o600);
  await served(async ({ client }) => {
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([keyAt(77)]);
    expect((await client.get(`/bucket/${keyAt(77)}`)).text).toBe(keyAt(77));
    expect((await client.put('/bucket/after', { body: 'x' })).status).toBe(200);
  });
  // The start has removed the old file.
  expect(existsSync(metadata('data.mdb.before-compact'))).toBe(false);
  expect((await compact('--discard-old')).text).toMatch(
    /^\d+ rows, \d+ bytes before, \d+ bytes after, 0 damaged dropped\n$/,
  );
  expect(existsSync(metadata('data.mdb.before-compact'))).toBe(false);
});

test('sluice compact is refused beside a gateway that runs, and changes nothing', async () => {
  const server = await startServer({ dataDir: directory });
  try {
    const { ino } = statSync(metadata('data.mdb'));
    const { code, text } = await compact();
    expect(code).toBe(1);
    expect(text).toMatch(/^sluice: another process uses .*: stop every gateway/);
    expect(statSync(metadata('data.mdb')).ino).toBe(ino);
    expect(existsSync(metadata('compacting'))).toBe(false);
  } finally {
    await server.stop();
  }
  expect((await compact()).code).toBe(0);
});

test('sluice compact killed at any moment leaves a whole file, and the next start serves it', async () => {
  await served((world) => fill(world, 3000));
  const rows = rowsIn(metadata('data.mdb'));
  const moments = [
    () => existsSync(metadata('compacting')),
    () =>
      existsSync(metadata('compacting', 'data.mdb')) && statSync(metadata('compacting', 'data.mdb')).size > 0,
    () => existsSync(metadata('data.mdb.before-compact')),
  ];
  let killedMidway = 0;
  for (const isNow of moments) {
    const child = begin('compact');
    const ended = once(child, 'close');
    while (!isNow() && child.exitCode === null) await new Promise((resolve) => setImmediate(resolve));
    child.kill('SIGKILL');
    await ended;
    if (child.signalCode === 'SIGKILL' && existsSync(metadata('compacting'))) killedMidway += 1;
    expect(rowsIn(metadata('data.mdb'))).toBe(rows);
    await rm(metadata('data.mdb.before-compact'), { force: true });
  }
  expect(killedMidway).toBeGreaterThan(0);
  await served(async ({ client }) => {
    expect((await client.get(`/bucket/${keyAt(2999)}`)).text).toBe(keyAt(2999));
  });
  expect(existsSync(metadata('compacting'))).toBe(false);
  expect((await compact()).code).toBe(0);
});

test('--drop-damaged names the damaged row and leaves it out; all other keys are served', async () => {
  await served((world) => fill(world, 40));
  const bytes = readFileSync(metadata('data.mdb'));
  const mark = Buffer.from(`mark-of-${keyAt(27)}`);
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1))
    bytes[at + 3] = (bytes[at + 3] as number) ^ 2;
  writeFileSync(metadata('data.mdb'), bytes);

  const refused = await compact();
  expect(refused.code).toBe(1);
  expect(refused.text).toMatch(/photo-00027.*checksum/);
  expect(refused.text).toMatch(/nothing was changed: --drop-damaged/);
  expect(readFileSync(metadata('data.mdb')).equals(bytes)).toBe(true);

  const dropped = await compact('--drop-damaged');
  expect(dropped.code).toBe(0);
  expect(dropped.text).toMatch(/photo-00027.*checksum/);
  expect(dropped.text).toMatch(/[1-9]\d* damaged dropped\n$/);
  await served(async ({ client }) => {
    const keys = Array.from({ length: 40 }, (_, i) => keyAt(i)).filter((key) => key !== keyAt(27));
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual(keys);
    expect((await client.get(`/bucket/${keyAt(27)}`)).status).toBe(404);
    for (const key of keys) expect((await client.get(`/bucket/${key}`)).text).toBe(key);
  });
  // The next step of docs/recovery.md: the object's bytes still exist, and its row is rebuilt from their back-references.
  const fsck = (...flags: string[]): Promise<Run> => run('fsck', flags);
  expect((await fsck('--rebuild')).text).toMatch(/1 rebuilt, 0 left/);
  await served(async ({ client }) => {
    expect((await client.get(`/bucket/${keyAt(27)}`)).text).toBe(keyAt(27));
  });
  expect((await fsck('--fix')).code).toBe(0);
});

test('a damaged row of the catalog is never left out', async () => {
  await served((world) => fill(world, 10));
  const bytes = readFileSync(metadata('data.mdb'));
  const note = Buffer.from('\u0001objects');
  let flips = 0;
  for (let at = bytes.indexOf(note); at >= 0; at = bytes.indexOf(note, at + 1)) {
    const value = at + note.length + 8;
    bytes[value] = (bytes[value] as number) ^ 1;
    flips += 1;
  }
  expect(flips).toBeGreaterThan(0);
  writeFileSync(metadata('data.mdb'), bytes);
  const { code, text } = await compact('--drop-damaged');
  expect([code, text]).toEqual([1, expect.stringMatching(/catalog[\s\S]*nothing was changed/)]);
  expect(readFileSync(metadata('data.mdb')).equals(bytes)).toBe(true);
});

test('compact is refused for other metadata, and with unknown flags', async () => {
  expect((await compact('--meta-backend', 'memory')).code).toBe(2);
  expect((await compact('--drop')).code).toBe(2);
});

test('whether a gateway starts before, during or after a compaction, what it acknowledges is kept', async () => {
  await served((world) => fill(world, 500));
  const kept: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    const compacting = begin('compact');
    const ended = once(compacting, 'close');
    // In the third round the gateway starts in the middle of the compaction.
    while (round === 2 && compacting.exitCode === null && !existsSync(metadata('compacting')))
      await new Promise((resolve) => setImmediate(resolve));
    const server = await startServer({ dataDir: directory }).catch((cause: unknown) => {
      expect(String(cause)).toMatch(/a compaction replaced the files/);
      return undefined;
    });
    if (server !== undefined) {
      const send = sender({ url: server.url, ...server.credentials.root });
      await send('PUT', '/late');
      expect((await send('PUT', `/late/round-${round}`, { body: 'x' })).status).toBe(200);
      kept.push(`/late/round-${round}`);
      await server.stop();
    }
    await ended;
  }
  const server = await startServer({ dataDir: directory });
  const send = sender({ url: server.url, ...server.credentials.root });
  for (const path of kept) expect((await send('GET', path)).status, path).toBe(200);
  await server.stop();
});
