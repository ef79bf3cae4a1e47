/** A page of the metadata file that a disk has zeroed costs its own rows: the other ones are served, and fsck continues after it. */
import { spawnSync } from 'node:child_process';
import { closeSync, cpSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { processTree } from '../../bench/lib/process-cost.ts';
import { checkPages } from '../../src/backends/metadata/embedded/check-pages.ts';
import { showKey } from '../../src/backends/metadata/embedded/damage.ts';
import { zeroPage } from '../support/damage-metadata.ts';
import { freePorts } from '../support/engines/ports.ts';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { cli, patience } from './recovery-site.ts';

const own = mkdtempSync(join(tmpdir(), 'sluice-damaged-page-'));
const sound = join(own, 'sound');
const dataDir = join(own, 'data');
const metadataFile = join(dataDir, 'metadata/data.mdb');
const env = { SVC_FSYNC: 'never', SVC_PROCESSES: '2', SVC_WORKERS: '', SVC_DISK_RESERVE: '0' };
const keysOf = (bucket: string): string[] =>
  Array.from({ length: 120 }, (_, index) => `${bucket}-${index + 100}`);
const keys = keysOf('damaged');
const headers = { 'x-amz-meta-filler': 'x'.repeat(400) };

beforeAll(async () => {
  await serving(sound, async ({ client }) => {
    for (const bucket of ['damaged', 'sound']) {
      await client.expect({ method: 'PUT', path: pathOf(bucket) });
      for (const key of keysOf(bucket))
        await client.expect({ method: 'PUT', path: pathOf(bucket, key), body: Buffer.from('x'), headers });
    }
  });
});
afterAll(() => rmSync(own, { recursive: true, force: true }));

interface Served {
  readonly server: TestServer;
  readonly client: LoadClient;
}

async function serving(
  directory: string,
  use: (served: Served) => Promise<void>,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  const server = await startServer({ dataDir: directory, env: { ...env, ...more } });
  const client = loadClient(server.url, server.credentials.root);
  try {
    await use({ server, client });
  } finally {
    client.close();
    await server.stop();
  }
}

/** Calls `visit` with the key of each row of `objects` that can be read. */
function readRows(visit: (row: string, key: Uint8Array) => void): void {
  const descriptor = openSync(metadataFile, 'r');
  for (const _ of checkPages(descriptor, (key) => {
    const { table, row } = showKey(key);
    if (table === 'objects') visit(row, new Uint8Array(key));
  }));
  closeSync(descriptor);
}

let lost: readonly string[] = [];
/** More rows behind the first one than a scan reads between two notes of its place. */
const inside = 'damaged-190';
/** Zeroes the page of its row. */
beforeEach(async () => {
  rmSync(dataDir, { recursive: true, force: true });
  cpSync(sound, dataDir, { recursive: true });
  let rowKey = Buffer.alloc(0);
  readRows((row, key) => {
    if (row.includes(inside)) rowKey = Buffer.from(key);
  });
  await zeroPage(metadataFile, rowKey, 'leaf');
  const left: string[] = [];
  readRows((row) => left.push(row));
  lost = keys.filter((key) => !left.some((row) => row.includes(key)));
  expect(lost.length).toBeGreaterThan(1);
  expect(lost).toContain(inside);
});

const fsck = (...flags: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [cli, 'fsck', '--data-dir', dataDir, ...flags],
    { encoding: 'utf8', env: { ...process.env, ...env } },
  );
  return { status, text: stdout + stderr };
};

interface Listed {
  readonly status: number;
  readonly text: string;
  readonly keys: number;
}

const list = async (
  client: LoadClient,
  bucket: string,
  query: Record<string, string> = {},
): Promise<Listed> => {
  const answer = await client
    .send({ path: pathOf(bucket), query: { 'list-type': '2', ...query } })
    .catch(() => ({ status: 0, text: 'the connection broke' }));
  return { status: answer.status, text: answer.text, keys: answer.text.match(/<Key>/g)?.length ?? 0 };
};
const deathsIn = (server: TestServer): number => server.log().split('a process died').length - 1;

async function assertServed({ client, server }: Served): Promise<void> {
  const before = deathsIn(server);
  for (let round = 0; round < 10; round += 1) {
    expect(await list(client, 'damaged')).toMatchObject({
      status: 500,
      text: expect.stringContaining('MetadataDamaged'),
    });
    expect(await list(client, 'sound')).toMatchObject({ status: 200, keys: keys.length });
  }
  // A listing reads one row more than it shows.
  const first = keys.indexOf(lost[0] as string);
  const ahead = { 'max-keys': String(first - 1) };
  expect(await list(client, 'damaged', ahead)).toMatchObject({ status: 200, keys: first - 1 });
  const behind = keys.slice(keys.indexOf(lost.at(-1) as string) + 1);
  expect(await list(client, 'damaged', { 'start-after': behind[0] as string })).toMatchObject({
    status: 200,
    keys: behind.length - 1,
  });
  for (const key of keys) {
    const { status } = await client.send({ path: pathOf('damaged', key) });
    expect([key, status]).toEqual([key, lost.includes(key) ? 500 : 200]);
  }
  expect(deathsIn(server)).toBe(before);
}

test('after one listing of a zeroed page no process ends there: other rows are listed, read, written and deleted', async () => {
  await serving(dataDir, async (served) => {
    const { client, server } = served;
    // The first listing may end a process, whose primary finds the page.
    await list(client, 'damaged');
    await expect.poll(() => server.log(), patience).toContain('pages of the metadata file are damaged');
    expect(await list(client, 'damaged')).toMatchObject({ status: 500 });
    await assertServed(served);
    expect(deathsIn(server)).toBeLessThan(2);
    // lmdb would merge the pages beside the damaged one with it.
    const statuses = new Map<string, number>();
    for (const key of keys) {
      const put = await client.send({ method: 'PUT', path: pathOf('damaged', key), body: Buffer.from('y') });
      const removed = await client.send({ method: 'DELETE', path: pathOf('damaged', key) });
      expect([key, put.status]).toEqual([key, lost.includes(key) ? 500 : 200]);
      statuses.set(key, removed.status);
    }
    expect(new Set(statuses.values())).toEqual(new Set([204, 500]));
    const refused = keys.filter((key) => statuses.get(key) === 500);
    expect(
      refused.slice(refused.indexOf(lost[0] as string), refused.indexOf(lost.at(-1) as string) + 1),
    ).toEqual(lost);
    for (const key of refused.filter((each) => !lost.includes(each)))
      expect((await client.send({ path: pathOf('damaged', key) })).text).toBe('y');
    for (const key of keysOf('sound')) await client.expect({ method: 'DELETE', path: pathOf('sound', key) });
    expect(await list(client, 'sound')).toMatchObject({ status: 200, keys: 0 });
    expect(deathsIn(server)).toBeLessThan(2);
  });
  expect(fsck('--deep').text).toContain('its rows cannot be read');
});

test('fsck --deep continues after a zeroed page, and a gateway that starts afterwards does not end there', async () => {
  const found = fsck('--deep');
  expect(found.text).toContain('its rows cannot be read');
  expect(found.text).not.toContain('Assertion');
  expect(found.text).toContain(`${2 * keys.length - lost.length} versions`);
  expect(found.status).toBe(1);
  await serving(dataDir, async (served) => {
    await assertServed(served);
    expect(deathsIn(served.server)).toBe(0);
  });
});

test('two processes that meet a zeroed page at one moment are started again, and neither ends there once more', async () => {
  // While no process is left, the node closes its port: it must be the same one afterwards.
  const [port = 0] = await freePorts(1);
  const use = async (served: Served): Promise<void> => {
    const { client, server } = served;
    const workers = processTree(server.process.pid ?? 0).filter((pid) => pid !== server.process.pid);
    expect(workers).toHaveLength(2);
    // Both have a listing before either of them continues.
    for (const pid of workers) process.kill(pid, 'SIGSTOP');
    const others = Array.from({ length: 8 }, () => loadClient(server.url, server.credentials.root));
    for (const each of others) void list(each, 'damaged');
    await sleep(500);
    for (const pid of workers) process.kill(pid, 'SIGCONT');
    await expect.poll(() => server.log(), patience).toContain('pages of the metadata file are damaged');
    await expect
      .poll(() => list(client, 'sound'), patience)
      .toMatchObject({ status: 200, keys: keys.length });
    await expect.poll(() => processTree(server.process.pid ?? 0), patience).toHaveLength(3);
    await assertServed(served);
    expect(deathsIn(server)).toBeGreaterThan(0);
    expect(deathsIn(server)).toBeLessThan(3);
    for (const each of others) each.close();
  };
  await serving(dataDir, use, { SVC_LISTEN: `127.0.0.1:${port}` });
});

test('a node of one process that ended at a zeroed page names it at its next start, and does not end there again', async () => {
  const alone = { SVC_PROCESSES: '1' };
  const ended = new Promise<unknown>((resolve, reject) => {
    void serving(
      dataDir,
      async ({ client, server }) => {
        const exit = new Promise((ending) => server.process.on('exit', (_, signal) => ending(signal)));
        expect(await list(client, 'damaged')).toMatchObject({ status: 0 });
        resolve(await exit);
      },
      alone,
    ).catch(reject);
  });
  expect(['SIGABRT', 'SIGSEGV', 'SIGBUS']).toContain(await ended);
  await serving(dataDir, assertServed, alone);
  expect(fsck('--deep').text).toContain('its rows cannot be read');
});
