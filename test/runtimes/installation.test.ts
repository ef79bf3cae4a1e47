/** Metadata, chunks and master key that do not belong together are refused at the start, never taken for a new installation. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { findInstallation } from '../../src/metadata/installation.ts';
import { tasks } from '../../src/metadata/records/tasks.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';

let directory: string;
const key = pathOf('bucket', 'key');
const metadata = () => join(directory, 'metadata');
const chunks = () => join(directory, 'chunks/default');
const masterKey = () => join(directory, 'master.key');
const env = { SVC_FSYNC: 'never', SVC_WORKERS: '' };

beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'sluice-installation-')), 'data');
});
afterEach(() => rm(join(directory, '..'), { recursive: true, force: true }));

async function served<T>(
  use: (client: ReturnType<typeof loadClient>, server: TestServer) => Promise<T>,
  args: string[] = [],
) {
  const server = await startServer({ dataDir: directory, env, args });
  const client = loadClient(server.url, server.credentials.root);
  try {
    return await use(client, server);
  } finally {
    client.close();
    await server.stop();
  }
}

const store = (): Promise<void> =>
  served(async (client) => {
    await client.expect({ method: 'PUT', path: '/bucket' });
    const headers = { 'x-amz-server-side-encryption': 'AES256' };
    await client.expect({ method: 'PUT', path: key, body: Buffer.from('content'), headers });
  });

const expectContent = (): Promise<void> =>
  served(async (client) => expect((await client.expect({ path: key })).text).toBe('content'));

/** The reason in the command's output. */
const refused = (): Promise<string> =>
  served(async () => 'it served').catch((error: Error) => {
    expect(error.message).toContain('ended with 2');
    return error.message;
  });

test('metadata that is missing beside chunks is refused; --init begins a new installation', async () => {
  await store();
  await rename(metadata(), `${metadata()}.lost`);
  expect(await refused()).toMatch(
    /names no installation, and the chunks in .* belong to installation [0-9a-f]{32}/,
  );
  await rm(metadata(), { recursive: true });
  await rename(`${metadata()}.lost`, metadata());
  await expectContent();
  await rm(metadata(), { recursive: true });
  await rm(join(chunks(), 'installation.json'));
  expect(await refused()).toContain('the metadata is empty, and there are chunks in');
  await served(async (client) => expect((await client.send({ path: key })).status).toBe(404), ['--init']);
  await served(async (client) => void (await client.expect({ method: 'PUT', path: '/bucket' })));
});

test('chunks that are missing, or of another installation, are refused', async () => {
  await store();
  await rename(chunks(), `${chunks()}.lost`);
  expect(await refused()).toContain(`the chunks of cluster default are not in ${chunks()}`);
  expect(existsSync(chunks())).toBe(false);
  await rename(`${chunks()}.lost`, chunks());
  const mark = join(chunks(), 'installation.json');
  const kept = await readFile(mark, 'utf8');
  await writeFile(mark, JSON.stringify({ id: 'f'.repeat(32), format: 1 }));
  expect(await refused()).toContain(
    `belong to installation ${'f'.repeat(32)}, and the metadata to installation`,
  );
  await writeFile(mark, kept);
  await expectContent();
});

test('a master key that is missing is not made anew, and another one is refused', async () => {
  await store();
  const kept = await readFile(masterKey(), 'utf8');
  await rm(masterKey());
  expect(await refused()).toContain('is missing, and there is data that was sealed under it');
  expect(existsSync(masterKey())).toBe(false);
  // A full disk or a crash may leave the file empty; a new key would open nothing that is stored.
  await writeFile(masterKey(), '', { mode: 0o600 });
  expect(await refused()).toContain('has no key; restore the file from its backup');
  expect(await readFile(masterKey(), 'utf8')).toBe('');
  await writeFile(masterKey(), `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
  expect(await refused()).toMatch(/is not the key of installation [0-9a-f]{32}/);
  // The file has the new key first, which is the current one, and the former key as a further line.
  await writeFile(masterKey(), `${Buffer.alloc(32, 7).toString('base64')}\n${kept}`);
  await expectContent();
  await writeFile(masterKey(), `${Buffer.alloc(32, 7).toString('base64')}\n`);
  expect(await refused()).toMatch(/lacks a former key of installation [0-9a-f]{32}: [0-9a-f]{16}, under/);
});

test('a directory of an earlier version gets an identity at its first start', async () => {
  await store();
  await rm(join(chunks(), 'installation.json'));
  const rows = embeddedStore({
    directory: metadata(),
    clock: systemClock,
    random: systemRandom(),
    durable: false,
  });
  const found = await findInstallation(rows);
  expect(found).toBeDefined();
  if (found === undefined) return;
  for (const kind of ['installation', 'copy-of-installation']) {
    const at = { table: tasks, in: { kind } };
    const row = await rows.get(at, { name: '' });
    if (row === undefined) throw new Error(`${kind} is not stored`);
    await rows.commit(at, [{ remove: { name: '' }, expect: row.revision }]);
  }
  await rows.close();
  await expectContent();
  expect(existsSync(join(chunks(), 'installation.json'))).toBe(true);
});

test('where the directory is moved away under a running node, no process that is started again makes a new one', async () => {
  const server = await startServer({ dataDir: directory, env: { ...env, SVC_PROCESSES: '2' } });
  const client = loadClient(server.url, server.credentials.root);
  const pids = () =>
    [...server.log().matchAll(/"message":"serving".*"pid":(\d+)/g)].map(([, pid]) => Number(pid));
  try {
    await client.expect({ method: 'PUT', path: '/bucket' });
    await expect.poll(() => pids().length, { timeout: 60_000 }).toBe(2);
    await rename(directory, `${directory}.moved`);
    process.kill(pids()[0] as number, 'SIGKILL');
    await expect.poll(() => server.log(), { timeout: 60_000 }).toContain('is gone while installation');
    for (let n = 0; n < 20; n += 1) {
      const head = loadClient(server.url, server.credentials.root, 1);
      expect((await head.send({ method: 'HEAD', path: '/bucket' })).status).toBe(200);
      head.close();
    }
    expect(existsSync(directory)).toBe(false);
    await rename(`${directory}.moved`, directory);
    await expect.poll(() => pids().length, { timeout: 60_000 }).toBe(3);
  } finally {
    client.close();
    await server.stop();
  }
});
