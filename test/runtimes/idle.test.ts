/** An idle node with two processes: what it costs, and how the workers are spread over its processes. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { bytesWrittenOf, processTree, wakeUpsOf } from '../../bench/lib/process-cost.ts';
import { listServing, logLines } from '../support/node-processes.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { sender } from './client.ts';

let server: TestServer;
beforeAll(async () => {
  // A young generation as large as Node chooses on a large machine: with that of a gateway, small requests would grow a process too little.
  server = await startServer({ env: { SVC_PROCESSES: '2', NODE_OPTIONS: '--max-semi-space-size=64' } });
});
afterAll(() => server?.stop(), 120_000);

const expectOk = ({ status }: { readonly status: number }): void => expect(status).toBe(200);
const patience = { timeout: 180_000, interval: 500 };

/** The leased workers by the process that leads them. */
async function leaders(): Promise<ReadonlyMap<string, readonly string[]>> {
  const send = sender({ url: server.url, ...server.credentials.root });
  const { workers } = JSON.parse((await send('GET', '/admin/v1/workers')).text) as {
    workers: readonly { worker: string; state: string; process?: string; generation?: number }[];
  };
  const led = workers.filter(({ state, generation }) => state !== 'stopped' && (generation ?? 0) > 0);
  const byProcess = Map.groupBy(led, ({ process }) => process?.split(':').at(-1) ?? '');
  return new Map([...byProcess].map(([process, rows]) => [process, rows.map(({ worker }) => worker)]));
}
const leased = 16;

test('the leases of the workers are spread over the processes of the node', async () => {
  await vi.waitFor(async () => {
    const led = [...(await leaders()).values()].map((names) => names.length);
    expect(led.reduce((sum, each) => sum + each, 0)).toBe(leased);
    expect(led.length).toBe(2);
    expect(Math.min(...led)).toBeGreaterThanOrEqual(Math.floor(leased / 2));
  }, patience);
});

test('an idle process wakes up at most 10 times a second, and the node writes at most 4 KiB/s', async () => {
  const pids = processTree(server.process.pid ?? 0);
  expect(pids).toHaveLength(3);
  // The start writes the reserve of the disks (SVC_DISK_RESERVE).
  await sleep(15_000);
  const seconds = 30;
  const measure = async () => {
    const before = pids.map((pid) => [wakeUpsOf(pid), bytesWrittenOf(pid)] as const);
    await sleep(seconds * 1000);
    let written = 0;
    const wakeUps = pids.map((pid, index) => {
      const [woken = 0, bytes = 0] = before[index] ?? [];
      written += bytesWrittenOf(pid) - bytes;
      return (wakeUpsOf(pid) - woken) / seconds;
    });
    return { wakeUps: Math.max(...wakeUps), written: written / 1024 / seconds };
  };
  // On a busy machine the start takes longer.
  let measured = await measure();
  for (let attempt = 1; attempt < 4 && (measured.wakeUps >= 10 || measured.written >= 4); attempt += 1)
    measured = await measure();
  expect(measured.wakeUps).toBeLessThan(10);
  expect(measured.written).toBeLessThan(4);
});

test('an idle worker begins what a request to any process of the node asks for', async () => {
  const send = sender({ url: server.url, ...server.credentials.root });
  // Each request has a connection of its own, so both processes get some.
  for (const bucket of ['one', 'two', 'three', 'four']) {
    await send('PUT', `/${bucket}`);
    await send('PUT', `/${bucket}/key`);
    expect((await send('POST', `/admin/v1/buckets/${bucket}/force-empty`)).status).toBe(202);
    await vi.waitFor(async () => {
      expect((await send('GET', `/${bucket}`)).text).not.toContain('<Key>');
    }, patience);
  }
});

test('the workers of a process that was killed are led by another one, long before their leases expire', async () => {
  const [[pid = '', names = []] = []] = [...(await leaders())];
  process.kill(Number(pid), 'SIGKILL');
  await vi.waitFor(async () => {
    const led = [...(await leaders())].filter(([process]) => process !== pid).flatMap(([, all]) => all);
    expect(names.filter((name) => !led.includes(name))).toEqual([]);
  }, patience);
});

test('a process that was busy gives memory back to the system when it is idle', async () => {
  const send = sender({ url: server.url, ...server.credentials.root });
  await send('PUT', '/memory');
  const residentMiB = (pid: number): number => {
    const line = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(line?.[1]) / 1024;
  };
  // A process that was killed before has a successor.
  await vi.waitFor(() => expect(listServing(server)).toHaveLength(2), patience);
  const pids = listServing(server);
  const linesBefore = logLines(server, 'has given memory back').length;
  const before = pids.map(residentMiB);
  const grown = () => pids.map((pid, index) => residentMiB(pid) - (before[index] ?? 0));
  const body = Buffer.alloc(4096, 'x');
  for (let round = 0; round < 200 && Math.min(...grown()) < 80; round += 1)
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => send('PUT', `/memory/${round}-${i}`, { body }).then(expectOk)),
    );
  const peaks = grown();
  expect(Math.min(...peaks)).toBeGreaterThan(70);
  await vi.waitFor(
    () => {
      const done = new Set(
        logLines(server, 'has given memory back')
          .slice(linesBefore)
          .map(({ pid }) => pid),
      );
      expect(pids.filter((pid) => !done.has(pid))).toEqual([]);
    },
    { timeout: 120_000, interval: 1000 },
  );
  const after = grown();
  for (const [index, peak] of peaks.entries()) expect(after[index]).toBeLessThan(peak - 40);
  expectOk(await send('GET', '/memory/0-0'));
});
