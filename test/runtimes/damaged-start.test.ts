/** Rows without which nothing starts: one that is damaged is healed from its copy, or refused in one line that names the way out. */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkPages, type PageFault } from '../../src/backends/metadata/embedded/check-pages.ts';
import { showKey } from '../../src/backends/metadata/embedded/damage.ts';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';
import { cli } from './recovery-site.ts';

const own = mkdtempSync(join(tmpdir(), 'sluice-damaged-start-'));
const sound = join(own, 'sound');
const dataDir = join(own, 'data');
const metadataFile = join(dataDir, 'metadata/data.mdb');
const env = { SVC_FSYNC: 'never', SVC_WORKERS: '', SVC_PROCESSES: '1', SVC_DISK_RESERVE: '0' };

async function served<T>(directory: string, use: (client: LoadClient) => Promise<T>): Promise<T> {
  const server = await startServer({ dataDir: directory, env });
  const client = loadClient(server.url, server.credentials.root);
  try {
    return await use(client);
  } finally {
    client.close();
    await server.stop();
  }
}

beforeAll(async () => {
  await served(sound, async (client) => {
    await client.expect({ method: 'PUT', path: '/bucket' });
    await client.expect({ method: 'PUT', path: pathOf('bucket', 'key'), body: Buffer.from('content') });
  });
});
beforeEach(() => {
  rmSync(dataDir, { recursive: true, force: true });
  cpSync(sound, dataDir, { recursive: true });
});
afterAll(() => rmSync(own, { recursive: true, force: true }));

const nameOf = (key: Uint8Array): string => {
  const { table, row } = showKey(key);
  return `${table} ${row}`;
};

/** The names of all rows of the file, and of those that are damaged. */
function rowsOf(path: string): { readonly rows: string[]; readonly damaged: string[] } {
  const descriptor = openSync(path, 'r');
  const rows: string[] = [];
  const faults: PageFault[] = [];
  for (const step of checkPages(descriptor, (key) => rows.push(nameOf(key)))) faults.push(...step.faults);
  closeSync(descriptor);
  return { rows, damaged: faults.map(({ key, detail }) => (key === undefined ? detail : nameOf(key))) };
}

/** Flips a bit in the last byte of the value of each row of these names. */
function flipRows(...names: readonly string[]): void {
  const bytes = readFileSync(metadataFile);
  const found: Uint8Array[] = [];
  const descriptor = openSync(metadataFile, 'r');
  const visit = (key: Uint8Array, value: Uint8Array): void => {
    if (names.includes(nameOf(key))) found.push(Buffer.concat([key, value]));
  };
  for (const _ of checkPages(descriptor, visit));
  closeSync(descriptor);
  expect(found).toHaveLength(names.length);
  for (const entry of found)
    for (let at = bytes.indexOf(entry); at >= 0; at = bytes.indexOf(entry, at + 1)) {
      const last = at + entry.length - 1;
      bytes[last] = (bytes[last] as number) ^ 2;
    }
  writeFileSync(metadataFile, bytes);
}

const fsck = (...flags: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [cli, 'fsck', '--data-dir', dataDir, ...flags],
    { encoding: 'utf8', env: { ...process.env, ...env } },
  );
  return { status, text: stdout + stderr };
};

/** @returns why the start was refused; undefined where it served the object */
const start = (): Promise<string | undefined> =>
  served(dataDir, async (client) => {
    const { status, text } = await client.send({ path: pathOf('bucket', 'key') });
    expect([status, text]).toEqual([200, 'content']);
  }).then(
    () => undefined,
    (error: Error) => error.message,
  );

test.each(['tasks installation/', 'tasks copy-of-installation/'])(
  'a start with a flipped bit in the row %s serves, and writes it again from its copy; fsck names it before',
  async (row) => {
    flipRows(row);
    const found = fsck('--deep');
    expect([found.status, found.text]).toEqual([1, expect.stringContaining(row.replace('tasks ', 'row='))]);
    expect(found.text).not.toContain('    at ');
    expect(await start()).toBeUndefined();
    expect(rowsOf(metadataFile).damaged).toEqual([]);
    expect(fsck('--deep')).toEqual({ status: 0, text: expect.stringContaining('all is well') });
  },
);

test('a start with flipped bits in the row of the installation and in its copy names the way out, which works', async () => {
  flipRows('tasks installation/', 'tasks copy-of-installation/');
  const refusal = await start();
  expect(refusal).toContain('ended with 2');
  expect(refusal).toContain('`sluice fsck --rebuild` writes them again');
  expect(refusal).not.toContain('    at ');
  const found = fsck();
  expect([found.status, found.text]).toEqual([1, expect.stringContaining('docs/recovery.md')]);
  expect(found.text).not.toContain('    at ');
  expect(fsck('--rebuild')).toEqual({ status: 0, text: expect.stringContaining('0 left') });
  expect(await start()).toBeUndefined();
  expect(fsck('--deep').text).toContain('all is well');
});

test.each([
  // Neighbours of the rows that a start reads, in the order of the file.
  ['buckets_by_owner root-account/bucket', 'served'],
  ['cluster_state \\x80default', 'served'],
  ['objects ', 'served'],
  ['catalog ', 'refused'],
  ['catalog tasks', 'refused'],
])(
  'with a flipped bit in the row %s the start is %s, and it and fsck name docs/recovery.md in one line',
  async (name, expected) => {
    const row = rowsOf(metadataFile).rows.find((each) => each.startsWith(name)) ?? name;
    flipRows(row);
    const checked = fsck();
    expect([1, 2]).toContain(checked.status);
    expect(checked.text).toContain('docs/recovery.md');
    expect(checked.text).not.toMatch(/\n {4}at /);
    const refusal = await served(dataDir, async () => undefined).catch((error: Error) => error.message);
    if (expected === 'served') return expect(refusal).toBeUndefined();
    expect(refusal).toContain('docs/recovery.md');
    expect(refusal).not.toMatch(/\n {4}at /);
  },
);

test.each([
  ['', undefined],
  [' and a later start that has named page 0 as damaged', '0 - - - - -\n'],
])('a start after a kill before the first commit%s serves', async (_, list) => {
  rmSync(dataDir, { recursive: true, force: true });
  const environment = join(import.meta.dirname, '../../src/backends/metadata/embedded/environment.ts');
  const directory = join(dataDir, 'metadata');
  const script = `
    import { openEnvironment } from ${JSON.stringify(environment)};
    // A start looks rows up before it commits any.
    openEnvironment(${JSON.stringify(directory)}, true).find(Buffer.from('absent'));
    process.kill(process.pid, 'SIGKILL');`;
  const killed = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect([killed.signal, killed.stderr]).toEqual(['SIGKILL', '']);
  expect(rowsOf(metadataFile).rows).toEqual([]);
  expect(readdirSync(directory).some((name) => name.startsWith('reading-'))).toBe(true);
  if (list !== undefined) writeFileSync(join(directory, 'damaged-pages'), list);
  await served(dataDir, async (client) => {
    await client.expect({ method: 'PUT', path: '/bucket' });
    await client.expect({ method: 'PUT', path: pathOf('bucket', 'key'), body: Buffer.from('content') });
  });
  expect(await start()).toBeUndefined();
  expect(fsck()).toEqual({ status: 0, text: expect.stringContaining('all is well') });
});
