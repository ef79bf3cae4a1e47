/** The ways in which a gateway is stopped while a client uploads: the upload ends well, and the next gateway leads its workers at once. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testCredentials } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { sender } from './client.ts';
import { cliPath } from './command.ts';
import { install, runtimes } from './installed.ts';

install();

const root = join(import.meta.dirname, '../..');
let directory = '';
let child: ChildProcess | undefined;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-signals-'));
  writeFileSync(join(directory, 'credentials.json'), JSON.stringify([testCredentials.root]));
});
afterEach(() => {
  if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null)
    process.kill(-child.pid, 'SIGKILL');
  rmSync(directory, { recursive: true, force: true });
});

async function start(
  command: readonly string[],
  processes: string,
  env: Readonly<Record<string, string>> = {},
  log: 'ignore' | 'pipe' | number = 'ignore',
): Promise<string> {
  const [program = '', ...args] = command;
  const started = spawn(program, args, {
    cwd: root,
    detached: true,
    env: {
      PATH: process.env['PATH'],
      HOME: directory,
      SVC_PROCESSES: processes,
      SVC_LISTEN: '127.0.0.1:0',
      SVC_DATA_DIR: join(directory, 'data'),
      SVC_CREDENTIALS_FILE: join(directory, 'credentials.json'),
      ...env,
    },
    stdio: ['ignore', 'pipe', log],
  });
  child = started;
  let output = '';
  for await (const piece of started.stdout as Readable) {
    output += String(piece);
    const url = /endpoint +(\S+)\s/.exec(output)?.[1];
    if (url === undefined) continue;
    return url;
  }
  throw new Error(`the gateway did not start: ${output}`);
}

/** A PUT whose body ends only when `end` is called; resolves once the gateway has asked for it. */
async function beginPut(
  url: string,
  path = '/signals/key',
  size = 1024,
): Promise<{ end(): Promise<number> }> {
  const { hostname, port, host } = new URL(url);
  const body = Buffer.alloc(size, 'x');
  const signed = signer({ ...testCredentials.root, host }).request({
    method: 'PUT',
    path,
    body,
  });
  const sent = request({
    hostname,
    port,
    method: 'PUT',
    path: signed.target,
    headers: [...signed.headers.flat(), 'expect', '100-continue'],
  });
  const answered = once(sent, 'response').then(([response]) => {
    response.resume();
    return response.statusCode as number;
  });
  answered.catch(() => undefined);
  const asked = once(sent, 'continue');
  sent.flushHeaders();
  await asked;
  sent.write(body.subarray(0, size / 2));
  return {
    end: () => {
      sent.end(body.subarray(size / 2));
      return answered;
    },
  };
}

type Signals = (group: number, pid: number) => Promise<void> | void;
const direct = [process.execPath, cliPath, 'serve'];
const ways: readonly (readonly [string, readonly string[], string, Signals])[] = [
  ['npm start and Ctrl-C', ['npm', 'start'], '2', (group) => void process.kill(group, 'SIGINT')],
  [
    'npm start with one process and Ctrl-C',
    ['npm', 'start'],
    '1',
    (group) => void process.kill(group, 'SIGINT'),
  ],
  ['npm start and SIGTERM to npm', ['npm', 'start'], '2', (_, pid) => void process.kill(pid, 'SIGTERM')],
  [
    'systemd, which signals every process of the service',
    direct,
    '2',
    (group) => void process.kill(group, 'SIGTERM'),
  ],
  ['Docker, which signals the first process', direct, '2', (_, pid) => void process.kill(pid, 'SIGTERM')],
  [
    'pm2, which sends SIGINT to the process that it started',
    direct,
    '2',
    (_, pid) => void process.kill(pid, 'SIGINT'),
  ],
  ...(['Bun', 'Deno'] as const).map(
    (name) =>
      [
        `Docker with ${name}`,
        [...runtimes[name], cliPath, 'serve'],
        '2',
        (_: number, pid: number) => void process.kill(pid, 'SIGTERM'),
      ] as const,
  ),
  [
    'the same signal twice within a second',
    direct,
    '1',
    async (_, pid) => {
      process.kill(pid, 'SIGINT');
      await sleep(100);
      process.kill(pid, 'SIGINT');
    },
  ],
];

test.each(ways)(
  '%s: an upload in flight succeeds and the next gateway leads its workers at once',
  async (_, command, processes, signal) => {
    const url = await start(command, processes);
    const send = sender({ url, ...testCredentials.root });
    expect((await send('PUT', '/signals')).status).toBe(200);
    const put = await beginPut(url);
    const pid = child?.pid ?? 0;
    await signal(-pid, pid);
    await sleep(1_500);
    // A container, a service or a terminal ends with its first process.
    expect([child?.exitCode, child?.signalCode]).toEqual([null, null]);
    expect(await put.end()).toBe(200);
    await expect.poll(() => isRunning(-pid), { timeout: 60_000 }).toBe(false);
    const again = await start(direct, '1');
    const root = sender({ url: again, ...testCredentials.root });
    const leaders = async () => {
      const { rows } = JSON.parse((await root('GET', '/admin/v1/leases')).text) as {
        rows: readonly { name: string; isHeld: boolean }[];
      };
      return rows.filter(({ name, isHeld }) => name.endsWith('-leader') && isHeld).length;
    };
    await expect.poll(leaders, { timeout: 60_000 }).toBeGreaterThanOrEqual(15);
    const { status } = await root('GET', '/signals/key');
    expect(status).toBe(200);
  },
);

const isRunning = (group: number): boolean => {
  try {
    return process.kill(group, 0);
  } catch {
    return false;
  }
};

test('a second signal after a second ends the gateway without waiting for requests', async () => {
  const url = await start(direct, '2');
  expect((await sender({ url, ...testCredentials.root })('PUT', '/signals')).status).toBe(200);
  const put = await beginPut(url);
  const pid = child?.pid ?? 0;
  process.kill(pid, 'SIGINT');
  await sleep(3_000);
  expect(isRunning(-pid)).toBe(true);
  process.kill(pid, 'SIGINT');
  await expect.poll(() => isRunning(-pid), { timeout: 60_000 }).toBe(false);
  await expect(put.end()).rejects.toThrow();
});

test.each(['1', '2'])(
  'a gateway of SVC_PROCESSES=%s that does not stop is killed 5 s after SVC_SHUTDOWN_TIMEOUT',
  async (processes) => {
    // A listener that never closes stands for whatever keeps a process from its end.
    const preload = join(directory, 'never-closes.mjs');
    writeFileSync(
      preload,
      `import net from 'node:net'; net.Server.prototype.close = function () { return this; };`,
    );
    const env = { SVC_SHUTDOWN_TIMEOUT: '1s', NODE_OPTIONS: `--import=${preload}` };
    await start(direct, processes, env);
    const pid = child?.pid ?? 0;
    const stoppedAt = performance.now();
    process.kill(pid, 'SIGTERM');
    await sleep(3_000);
    expect(isRunning(-pid)).toBe(true);
    await expect.poll(() => isRunning(-pid), { timeout: 60_000 }).toBe(false);
    expect(performance.now() - stoppedAt).toBeGreaterThan(5_500);
  },
);

test('uploads that the shutdown cuts free what they have stored, and are audited, before the stores are closed', async () => {
  const url = await start(direct, '1', { SVC_SHUTDOWN_TIMEOUT: '1s' }, 'pipe');
  const log = text(child?.stderr as Readable);
  expect((await sender({ url, ...testCredentials.root })('PUT', '/signals')).status).toBe(200);
  const puts = await Promise.all(
    Array.from({ length: 30 }, (_, number) => beginPut(url, `/signals/${number}`, 1024 * 1024)),
  );
  const ended = once(child as ChildProcess, 'exit');
  process.kill(child?.pid ?? 0, 'SIGTERM');
  expect(await ended).toEqual([0, null]);
  for (const put of puts) await expect(put.end()).rejects.toThrow();
  expect(await log).not.toMatch(/left to the sweep|was not written|not ended/);
});

test.each(['1', '2'])(
  'a stop of SVC_PROCESSES=%s loses no count of refusals that have no audit row of their own',
  async (processes) => {
    const url = await start(direct, processes, { SVC_AUDIT_UNKNOWN_CALLERS: '0' });
    const send = sender({ url, ...testCredentials.root });
    expect((await send('PUT', '/signals')).status).toBe(200);
    const refusals = 5;
    for (let n = 0; n < refusals; n += 1)
      expect((await fetch(`${url}/signals/key`, { method: 'PUT', body: 'x' })).status).toBe(403);
    const ended = once(child as ChildProcess, 'exit');
    process.kill(child?.pid ?? 0, 'SIGTERM');
    expect(await ended).toEqual([0, null]);
    const root = sender({ url: await start(direct, '1'), ...testCredentials.root });
    const counts = [...(await root('GET', '/?audit')).text.matchAll(/<Count>(\d+)<\/Count>/g)];
    expect(counts.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(refusals);
  },
);

test.each([
  ['whose reader has ended', 'pipe', '1'],
  ['whose reader has ended', 'pipe', '2'],
  ['on a full disk', '/dev/full', '1'],
])(
  'a gateway with a log %s (%s, SVC_PROCESSES=%s) answers and stops as before',
  async (_, log, processes) => {
    const descriptor = log === 'pipe' ? undefined : openSync(log, 'w');
    // Each request writes a line.
    const url = await start(direct, processes, { SVC_LOG_LEVEL: 'DEBUG' }, descriptor ?? 'pipe');
    if (descriptor !== undefined) closeSync(descriptor);
    child?.stderr?.destroy();
    child?.stdout?.destroy();
    const send = sender({ url, ...testCredentials.root });
    expect((await send('PUT', '/signals')).status).toBe(200);
    for (let n = 0; n < 20; n += 1) expect((await send('GET', '/signals/absent')).status).toBe(404);
    const ended = once(child as ChildProcess, 'exit');
    process.kill(child?.pid ?? 0, 'SIGTERM');
    expect(await ended).toEqual([0, null]);
  },
);
