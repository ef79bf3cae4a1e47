/** `sluice admin status`, `requests`, `logs` and `audit` against a node of two real processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { type Send, sender } from './client.ts';
import { cliPath } from './command.ts';

const patience = { timeout: 180_000, interval: 100 };
const root = testCredentials.root;

let server: TestServer;
let send: Send;
const following: ChildProcess[] = [];

beforeAll(async () => {
  server = await startServer({ env: { SVC_PROCESSES: '2', SVC_LOG_LEVEL: 'INFO' } });
  send = sender({ url: server.url, ...root });
  await send('PUT', '/books');
});

afterAll(async () => {
  for (const child of following) child.kill('SIGKILL');
  await server?.stop();
});

interface Entry {
  readonly process: string;
  readonly status: number;
  readonly key: string;
  readonly [field: string]: unknown;
}

function follow(args: string) {
  const child = spawn(process.execPath, [cliPath, 'admin', ...args.split(' ')], {
    env: {
      PATH: process.env['PATH'],
      HOME: '/nonexistent',
      SLUICE_ENDPOINT: server.url,
      SLUICE_ACCESS_KEY: root.accessKey,
      SLUICE_SECRET_KEY: root.secretKey,
    },
  });
  following.push(child);
  let text = '';
  child.stdout.on('data', (piece) => {
    text += String(piece);
  });
  child.stderr.on('data', (piece) => {
    text += String(piece);
  });
  return { child, text: () => text, lines: () => text.split('\n').filter((line) => line !== '') };
}

const late = (ms: number) =>
  new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms).unref();
  });

/** Over new connections until both processes have refused one. @returns how many were refused */
async function refuseInBoth(name: string): Promise<number> {
  const processes = new Set<string>();
  let sent = 0;
  await vi.waitFor(async () => {
    // A connection that the primary has handed to a dying process is never answered.
    const answer = send('GET', `/books/${name}-${sent + 1}`, { headers: { connection: 'close' } });
    await Promise.race([answer, late(20_000)]);
    sent += 1;
    const { text } = await Promise.race([
      send('GET', '/admin/v1/requests?limit=1000&status=404'),
      late(20_000),
    ]);
    for (const { process, key } of JSON.parse(text).requests as Entry[])
      if (key.startsWith(`${name}-`)) processes.add(process);
    expect(processes.size).toBe(2);
  }, patience);
  return sent;
}

test('requests --follow prints what every process of the node refuses, once each, and nothing that the filter leaves out', async () => {
  const json = follow('requests --follow --json --status 4xx --bucket books');
  const plain = follow('requests --follow --status 404');
  const sent = await refuseInBoth('first');
  await send('PUT', '/books/there', { body: 'x' });
  await vi.waitFor(() => {
    expect(json.lines()).toHaveLength(sent);
    expect(plain.lines()).toHaveLength(sent);
  }, patience);
  const entries = json.lines().map((line) => JSON.parse(line) as Entry);
  expect(new Set(entries.map(({ process }) => process)).size).toBe(2);
  expect(entries.map(({ key }) => key).sort()).toEqual(
    Array.from({ length: sent }, (_, n) => `first-${n + 1}`).sort(),
  );
  expect(plain.lines()[0]).toMatch(
    / 404 .* GetObject +root-account {2}127\.0\.0\.1 {2}books\/first-1 {2}NoSuchKey /,
  );
});

test('logs --follow prints the lines of every process, and requests alone the last ones', async () => {
  const logs = follow('logs --follow --bucket films');
  const refused = async (n: number) =>
    send('GET', `/films/${n}`, { headers: { connection: 'close', 'x-amz-date': 'wrong' } });
  let n = 0;
  await vi.waitFor(async () => {
    n += 1;
    await refused(n);
    expect(logs.text()).toContain('request refused');
    expect(logs.text()).toContain('code=');
  }, patience);
  const once = follow('requests --bucket films --limit 1');
  await vi.waitFor(() => expect(once.child.exitCode).toBe(0), patience);
  expect(once.lines()).toHaveLength(1);
  const wrong = follow('buckets --follow');
  await vi.waitFor(() => expect(wrong.child.exitCode).toBe(2), patience);
});

test('status is a page with both processes, what they lead, capacity, and the requests of both', async () => {
  await refuseInBoth('counted');
  const readPage = async (args = '') => {
    const page = follow(`status${args}`);
    await vi.waitFor(() => expect(page.child.exitCode).not.toBeNull(), patience);
    return page;
  };
  await vi.waitFor(async () => {
    const page = await readPage();
    expect([page.child.exitCode, page.text()]).toEqual([0, expect.stringContaining('healthy, 1 gateway')]);
    expect(page.text()).toMatch(/http:\/\/127\.0\.0\.1:\d+ .* 2\/2 /);
    expect(page.text().replace(/\s+/g, ' ')).toMatch(/ leads access-log .*usage-rollup/);
    expect(page.text()).toMatch(/data +file +default +ok +[\d.]+ \w+ +[\d.]+ GiB/);
    expect(page.text()).toMatch(/metadata +embedded +embedded +UP +[\d.]+ \w+ +[\d.]+ GiB/);
    expect(page.text()).toMatch(/requests? \(.*\) to 2 processes: [1-9]\d* refused, 0 failed, p50 /);
    expect(Math.max(...page.lines().map(({ length }) => length))).toBeLessThanOrEqual(100);
  }, patience);
  const json = JSON.parse((await readPage(' --json')).text());
  expect(json).toMatchObject({ ok: true, missing: [], gateways: [{ processes: 2, processesUp: 2 }] });
  const watched = follow('status --watch');
  await vi.waitFor(() => expect(watched.text().match(/^GATEWAYS$/gm)?.length).toBeGreaterThan(1), patience);
  expect(watched.text()).not.toContain('\u001b');
});

test('audit --follow prints rows of every process once each, with what they changed', async () => {
  const json = follow('audit --follow --json --bucket books --key followed');
  const plain = follow('audit --follow --kind settings --bucket books');
  await vi.waitFor(() => expect(plain.text()).toContain('CreateBucket'), patience);
  const ids = new Set<string>();
  for (let turn = 0; turn < 5; turn += 1) {
    const reply = await fetch(`${server.url}/books/followed`, { method: 'DELETE' });
    ids.add(reply.headers.get('x-amz-request-id') ?? '');
  }
  const rows = () => json.lines().map((line) => JSON.parse(line) as { readonly requestId: string });
  await vi.waitFor(() => expect(new Set(rows().map(({ requestId }) => requestId))).toEqual(ids), patience);
  expect(rows()).toHaveLength(ids.size);
  const wrong = follow('audit --follow --start 2026-01-01T00:00:00Z');
  await vi.waitFor(() => expect(wrong.text()).toContain('it takes no --start'), patience);
});

test('a follower goes on when a process of the node dies and is replaced', async () => {
  const json = follow('requests --follow --json --status 404 --limit 1');
  await vi.waitFor(() => expect(json.lines().length).toBeGreaterThan(0), patience);
  const [{ process: name }] = json.lines().map((line) => JSON.parse(line) as Entry) as [Entry];
  process.kill(Number(name.split(':').at(-1)), 'SIGKILL');
  const sent = await refuseInBoth('second');
  await vi.waitFor(() => {
    const keys = new Set([...json.text().matchAll(/"key":"(second-\d+)"/g)].map(([, key]) => key));
    expect(keys.size).toBe(sent);
  }, patience);
});
