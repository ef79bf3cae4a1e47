/** One binary of the gateway, as `deploy/binary/build.ts` builds it: nothing beside it, durable, in several processes. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServer, testCredentials } from '../support/server.ts';
import { sender } from './client.ts';
import { install, runtimes } from './installed.ts';
import { smoke } from './smoke.ts';

install();

const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'sluice-binary-'));
const binary = join(folder, 'sluice');

beforeAll(() => {
  const [bun] = runtimes.Bun;
  execFileSync(bun, [join(root, 'deploy/binary/build.ts'), binary], { cwd: folder, stdio: 'inherit' });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The binary runs itself, so there is no runtime before it. */
const start = (options: Parameters<typeof startServer>[0] = {}) =>
  startServer({ ...options, runtime: ['env'], command: binary, cwd: folder });

smoke({
  name: 'one binary',
  start: async () => {
    const server = await start();
    return { ...server.credentials.root, url: server.url, stop: server.stop };
  },
});

test('keeps objects over a restart, in two processes, and has the console and its version', async () => {
  expect(readdirSync(folder)).toEqual(['sluice']);
  const dataDir = join(folder, 'data');
  const options = { dataDir, env: { SVC_PROCESSES: '2' } };
  const first = await start(options);
  const put = sender({ url: first.url, ...testCredentials.root });
  expect((await put('PUT', '/photos')).status).toBe(200);
  expect((await put('PUT', '/photos/cat', { body: 'meow' })).status).toBe(200);
  expect(await first.stop()).toBe(0);
  const second = await start(options);
  try {
    const get = sender({ url: second.url, ...testCredentials.root });
    expect((await get('GET', '/photos/cat')).text).toBe('meow');
    const page = await fetch(`${second.url}/console/`);
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<script')]);
  } finally {
    expect(await second.stop()).toBe(0);
  }
  expect(execFileSync(binary, ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+\n$/);
});
