/** `sluice fsck` rebuilds a lost index from stored bytes. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { repairAlone } from '../../src/workers/fsck.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { type Send, sender } from './client.ts';

const root = join(import.meta.dirname, '../..');
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-fsck-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

interface Run {
  readonly code: number;
  readonly stderr: string;
  readonly lines: readonly Readonly<Record<string, unknown>>[];
}

function fsck(...flags: readonly string[]): Promise<Run> {
  const args = [join(root, 'src/runtime/cli.ts'), 'fsck', '--data-dir', directory, '--json', ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      const lines = stdout.split('\n').filter((line) => line !== '');
      resolve({ code, stderr, lines: lines.map((line) => JSON.parse(line)) });
    });
  });
}

async function served(use: (send: Send, server: TestServer) => Promise<void>): Promise<void> {
  const server = await startServer({ dataDir: directory });
  try {
    await use(sender({ url: server.url, ...server.credentials.root }), server);
  } finally {
    await server.stop();
  }
}

test('an index that is lost whole is made again, and what is left over goes', async () => {
  const bodies = new Map(
    Array.from({ length: 12 }, (_, i) => [`/bucket/key-${i}`, 'x'.repeat(i * 50_000 + 1)]),
  );
  await served(async (send) => {
    await send('PUT', '/bucket');
    for (const path of bodies.keys()) await send('PUT', path, { body: 'overwritten' });
    for (const [path, body] of bodies) expect((await send('PUT', path, { body })).status).toBe(200);
  });
  expect((await fsck()).code).toBe(0);
  await rm(join(directory, 'metadata'), { recursive: true });

  const reported = await fsck('--fix');
  expect(reported.code).toBe(1);
  const [{ bucketId, left } = {}] = reported.lines;
  expect(left).toMatch(/--rebuild/);
  const rebuilt = await fsck('--rebuild', `--bucket=${bucketId}:bucket:root-account`);
  expect(rebuilt.lines.at(-1)).toEqual({ summary: { rebuilt: 13, left: 0 } });
  expect(rebuilt.code).toBe(0);
  await served(async (send) => {
    for (const [path, body] of bodies) {
      const found = await send('GET', path);
      expect([found.status, found.text === body]).toEqual([200, true]);
    }
  });
  // The former contents of the keys are unowned, because the deletion queue was lost with the index.
  const fixed = await fsck('--fix');
  expect(fixed.code).toBe(0);
  expect(fixed.lines.at(-1)).toMatchObject({ summary: { versions: 12 } });
  expect((await fsck('--resume')).code).toBe(0);
});

test('a packed segment with a damaged table is a finding of fsck, and --rebuild makes the keys of all other files again', async () => {
  const bodies = new Map(
    Array.from({ length: 3 }, (_, i) => [`/bucket/key-${i}`, 'x'.repeat(i * 300_000 + 1)]),
  );
  const segments = join(directory, 'chunks/default/segments');
  await served(async (send) => {
    await send('PUT', '/bucket');
    for (const key of ['lost', 'deleted', 'deleted-too']) await send('PUT', `/bucket/${key}`, { body: key });
  });
  const config = configWith({ SVC_DATA_DIR: directory, SVC_GC_GRACE: '0s' });
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  for await (const { extent, owner } of context.bytes.find('default', ''))
    if (owner.key !== 'lost') await context.bytes.remove([extent]);
  await context.bytes.compact?.(new AbortController().signal);
  await close();
  const [packed = ''] = (await readdir(segments)).filter((name) => name.endsWith('.seg'));
  const bytes = await readFile(join(segments, packed));
  bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
  await writeFile(join(segments, packed), bytes);
  await served(async (send) => {
    for (const [path, body] of bodies) expect((await send('PUT', path, { body })).status).toBe(200);
  });
  const extent = packed.replace('.seg', '');
  const found = await fsck();
  expect([found.code, found.stderr]).toEqual([1, '']);
  expect(found.lines).toContainEqual(expect.objectContaining({ kind: 'unowned', extent }));
  expect(found.lines.at(-1)).toHaveProperty('summary');
  await rm(join(directory, 'metadata'), { recursive: true });
  const { lines } = await fsck();
  const bucketId = lines.find((line) => Boolean(line['bucketId']))?.['bucketId'];
  const rebuilt = await fsck('--rebuild', `--bucket=${bucketId}:bucket:root-account`);
  expect([rebuilt.code, rebuilt.stderr]).toEqual([1, '']);
  expect(rebuilt.lines.at(-1)).toEqual({ summary: { rebuilt: 4, left: 1 } });
  await served(async (send) => {
    for (const [path, body] of bodies) expect((await send('GET', path)).text === body).toBe(true);
  });
});

test('flags that do not go together are refused, and nothing is done', async () => {
  await served(async (send) => {
    await send('PUT', '/bucket');
  });
  for (const flags of [
    ['--rebuild', '--fix'],
    ['--rebuild', '--drop-missing'],
    [`--bucket=${'0'.repeat(32)}:bucket:root`],
    ['--rebuild', '--bucket=bucket'],
    ['--bucket'],
    ['--repair'],
  ]) {
    const { code, stderr, lines } = await fsck(...flags);
    expect([code, lines], flags.join(' ')).toEqual([2, []]);
    expect(stderr).toMatch(/^sluice: /);
  }
});

test('--fix and --rebuild are refused while another run that changes something lives; a run that only reports is not', async () => {
  await served(async (send) => {
    await send('PUT', '/bucket');
  });
  const config = configWith({ SVC_DATA_DIR: directory });
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    await repairAlone(context, new AbortController().signal, async () => {
      const [reported, ...refused] = await Promise.all([fsck(), fsck('--fix'), fsck('--rebuild')]);
      expect(reported?.code).toBe(0);
      for (const { code, stderr, lines } of refused) {
        expect([code, lines]).toEqual([1, []]);
        expect(stderr).toMatch(/^sluice: another run of fsck that changes something is under way/);
      }
    });
  } finally {
    await close();
  }
  expect((await fsck('--rebuild')).code).toBe(0);
});
