/** A node with `SVC_PROCESSES=auto`: a small load is served by its first process, and its death costs no more than its own connections. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, globalAgent, type IncomingMessage, request } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { isAlive, listServing } from '../support/node-processes.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { sender } from './client.ts';

const env = { SVC_PROCESSES: 'auto', SVC_FSYNC: 'never', SVC_WORKERS: '' };
const patience = { timeout: 180_000 };

const countSockets = (pid: number): number =>
  readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;

/** @returns the status, or the error */
const ask = (server: Pick<TestServer, 'url'>, agent: Agent): Promise<number | string> =>
  new Promise((resolve) => {
    const asked = request(`${server.url}/healthz`, { agent }, (reply) => {
      reply.resume();
      reply.once('end', () => resolve(reply.statusCode ?? 0));
    });
    asked.once('error', (error) => resolve(error.message));
    asked.end();
  });

/** Asks over a connection each. @returns the outcomes so far */
const askAnew = (server: TestServer, times: number): (number | string)[] => {
  const outcomes: (number | string)[] = [];
  for (let n = 0; n < times; n += 1)
    void ask(server, new Agent({ keepAlive: false })).then((outcome) => outcomes.push(outcome));
  return outcomes;
};

/** As on a machine of which one processor is idle, because it waits for a disk, which that of a test need not do. */
const idleProcessor = `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const read = fs.readFileSync;
  const stat = () => 'cpu  0 0 0 0 ' + Math.round(performance.now() / 10) + ' 0 0 0 0 0\\n';
  fs.readFileSync = (path, ...rest) => (path === '/proc/stat' ? stat() : read(path, ...rest));
  syncBuiltinESMExports();`)}`;

/** The primary logs each load that a process reports. */
const loadLog = `data:text/javascript,${encodeURIComponent(`
  import cluster from 'node:cluster';
  cluster.on('message', (_, { type }) => type === 'sluice:load' && console.error('a load was reported'));`)}`;

const count = 16;
const cores = availableParallelism();

describe.skipIf(process.platform !== 'linux' || cores < 2)('with one process for each core', () => {
  test('16 connections are all of one process; after its death the others answer all of them', async () => {
    const server = await startServer({ env });
    const agent = new Agent({ keepAlive: true, maxSockets: count });
    const askAll = () => Promise.all(Array.from({ length: count }, () => ask(server, agent)));
    try {
      await expect.poll(() => listServing(server).length, patience).toBe(cores);
      const pids = listServing(server);
      const before = pids.map(countSockets);
      expect(await askAll()).toEqual(Array(count).fill(200));
      const more = pids.map((pid, index) => countSockets(pid) - (before[index] as number));
      expect(more.toSorted((a, b) => a - b)).toEqual([...Array(cores - 1).fill(0), count]);
      // It serves them again and again over the same connections.
      for (let round = 0; round < 5; round += 1) expect(await askAll()).toEqual(Array(count).fill(200));
      const first = pids[more.indexOf(count)] as number;
      process.kill(first, 'SIGKILL');
      await expect.poll(() => isAlive(first), patience).toBe(false);
      // The client drops the connections of the dead process.
      await askAll();
      expect(await askAll()).toEqual(Array(count).fill(200));
      await expect.poll(() => listServing(server).length, patience).toBe(cores);
    } finally {
      agent.destroy();
      await server.stop();
    }
  });

  test.each([
    ['auto', true],
    ['2', false],
  ])('with SVC_PROCESSES=%s the processes report their loads: %s', async (processes, isReported) => {
    const options = `--import ${loadLog}`;
    const server = await startServer({
      env: { ...env, SVC_PROCESSES: processes, NODE_OPTIONS: options },
    });
    const closed = once(server.process, 'close');
    const isLogged = () => server.log().includes('a load was reported');
    try {
      const agent = new Agent({ keepAlive: false });
      // Reports are 250 ms apart.
      for (const until = Date.now() + 1_500; Date.now() < until; ) expect(await ask(server, agent)).toBe(200);
      if (isReported) await expect.poll(isLogged, patience).toBe(true);
    } finally {
      await server.stop();
    }
    await closed;
    expect(isLogged()).toBe(isReported);
  });

  test('the first process dies with a connection that another one had its turn for: both get connections afterwards', async () => {
    const server = await startServer({ env });
    const agent = new Agent({ keepAlive: false });
    try {
      await expect.poll(() => listServing(server).length, patience).toBe(cores);
      const pids = listServing(server);
      const before = pids.map(countSockets);
      const keeping = new Agent({ keepAlive: true });
      await ask(server, keeping);
      const first = pids.find((pid, index) => countSockets(pid) > (before[index] as number)) as number;
      keeping.destroy();
      // It gets a connection for each turn, and acknowledges none.
      process.kill(first, 'SIGSTOP');
      const lost = Array.from({ length: 2 * cores }, () => ask(server, agent));
      await new Promise((resolve) => setTimeout(resolve, 500));
      process.kill(first, 'SIGKILL');
      const outcomes = await Promise.all(lost);
      const resets = ['read ECONNRESET', 'socket hang up'];
      expect(outcomes.filter((outcome) => outcome !== 200 && !resets.includes(String(outcome)))).toEqual([]);
      expect(outcomes.filter((outcome) => outcome === 200).length).toBeGreaterThanOrEqual(cores);
      for (let n = 0; n < 2 * cores; n += 1) expect(await ask(server, agent)).toBe(200);
      await expect.poll(() => pids.filter(isAlive), patience).toHaveLength(cores - 1);
    } finally {
      agent.destroy();
      await server.stop();
    }
  });

  test('a load that is too much for the first process reaches the others, and no request of it fails', async () => {
    const server = await startServer({ env: { ...env, NODE_OPTIONS: `--import ${idleProcessor}` } });
    try {
      expect(await underSpreadLoad(server)).toEqual([200]);
    } finally {
      await server.stop();
    }
  });

  test('while connections are spread, a process that hangs keeps one new connection at most', async () => {
    const server = await startServer({ env: { ...env, NODE_OPTIONS: `--import ${idleProcessor}` } });
    const keeping = new Agent({ keepAlive: true });
    let hanging: number | undefined;
    try {
      const statuses = await underSpreadLoad(server, async (countConnections) => {
        // With an odd number of connections one process has fewer, so a turn of the other would be its own.
        expect(await ask(server, keeping)).toBe(200);
        // Whose turn is next is not known: after an answer it is that of the other one.
        for (let round = 0; round < 2; round += 1) {
          await sleep(500);
          const [fewest] = countConnections().toSorted((a, b) => a.connections - b.connections);
          hanging = (fewest as { pid: number }).pid;
          process.kill(hanging, 'SIGSTOP');
          const outcomes = askAnew(server, 8);
          await expect.poll(() => outcomes.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(7);
          process.kill(hanging, 'SIGCONT');
          await expect.poll(() => outcomes, patience).toEqual(Array(8).fill(200));
          expect(await ask(server, new Agent())).toBe(200);
        }
      });
      expect(statuses).toEqual([200]);
    } finally {
      if (hanging !== undefined) process.kill(hanging, 'SIGCONT');
      keeping.destroy();
      await server.stop();
    }
  });

  test('a first process that is stopped alone finishes its requests, and the others get the new connections', async () => {
    const server = await startServer({ env });
    const { root } = server.credentials;
    const send = sender({ url: server.url, ...root, connectsAnew: true });
    const { host } = new URL(server.url);
    try {
      await expect.poll(() => listServing(server).length, patience).toBe(cores);
      const pids = listServing(server);
      const before = pids.map(countSockets);
      expect((await send('PUT', '/bucket')).status).toBe(200);
      expect((await send('PUT', '/bucket/large', { body: Buffer.alloc(32 << 20) })).status).toBe(200);
      const signed = signer({ ...root, host }).request({ method: 'GET', path: '/bucket/large', query: [] });
      const asked = request(`${server.url}/bucket/large`, { headers: signed.headers.flat() });
      const [reply] = (await once(asked.end(), 'response')) as [IncomingMessage];
      const first = pids.find((pid, index) => countSockets(pid) > (before[index] as number)) as number;
      process.kill(first, 'SIGTERM');
      await expect.poll(() => server.log(), patience).toContain('"stopping"');
      const outcomes = askAnew(server, 8);
      await expect.poll(() => outcomes, { timeout: 60_000 }).toEqual(Array(8).fill(200));
      expect(isAlive(first)).toBe(true);
      let bytes = 0;
      for await (const chunk of reply) bytes += (chunk as Buffer).length;
      expect(bytes).toBe(32 << 20);
      await expect.poll(() => isAlive(first), patience).toBe(false);
      await expect.poll(() => listServing(server).length, patience).toBe(cores);
    } finally {
      await server.stop();
    }
  });
});

test('a process reports the end of its last connection, also when it has long had no request', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-spread-'));
  const source = join(import.meta.dirname, '../../src');
  const script = join(directory, 'node.mjs');
  writeFileSync(
    script,
    `import cluster from 'node:cluster';
    import { configWith } from '${source}/config/read-config.ts';
    import { serve } from '${source}/runtime/node/node-server.ts';
    import { joinSpread } from '${source}/runtime/processes/connection-spread.ts';
    if (cluster.isPrimary) cluster.fork().on('message', (message) => console.log(JSON.stringify(message)));
    else {
      const spread = joinSpread('auto');
      const gateway = spread.watch({ handle: async () => ({ status: 200, headers: [], body: 'ok' }) });
      const config = configWith({ SVC_LISTEN: '127.0.0.1:0' });
      const serving = await serve({ gateway, config, onDisconnect: spread.disconnected });
      spread.follow(serving);
      process.send({ url: serving.url });
    }`,
  );
  const primary = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const messages: { url?: string; connections?: number }[] = [];
  createInterface({ input: primary.stdout }).on('line', (line) => messages.push(JSON.parse(line)));
  try {
    await expect.poll(() => messages.length, patience).toBe(1);
    const agent = new Agent({ keepAlive: true });
    const server = { url: messages[0]?.url ?? '' };
    expect(await Promise.all([ask(server, agent), ask(server, agent)])).toEqual([200, 200]);
    // Until it has not reported for a second.
    for (let reports = 0; reports < messages.length; await sleep(1_000)) reports = messages.length;
    expect(messages.at(-1)).toMatchObject({ type: 'sluice:load', connections: 2 });
    agent.destroy();
    await expect.poll(() => messages.at(-1)?.connections, patience).toBe(0);
  } finally {
    primary.kill();
    rmSync(directory, { recursive: true });
  }
});

type CountConnections = () => readonly { readonly pid: number; readonly connections: number }[];

/**
 * Lists a bucket over 16 connections until every process has some of them, and `use` has ended.
 * @returns the different statuses of all replies
 */
async function underSpreadLoad(
  server: TestServer,
  use: (countConnections: CountConnections) => Promise<void> = async () => {},
): Promise<readonly number[]> {
  const send = sender({ url: server.url, ...server.credentials.root });
  // So that only a connection that the server has ended is followed by a new one.
  globalAgent.maxSockets = count;
  let isOver = false;
  const statuses = new Set<number>();
  await expect.poll(() => listServing(server).length, patience).toBe(cores);
  expect((await send('PUT', '/bucket')).status).toBe(200);
  for (let n = 0; n < 200; n += 1) await send('PUT', `/bucket/${n}`, { body: 'x' });
  const pids = listServing(server);
  const before = pids.map(countSockets);
  const clients = Array.from({ length: count }, async () => {
    while (!isOver) statuses.add((await send('GET', '/bucket?list-type=2')).status);
  });
  const countConnections: CountConnections = () =>
    pids.map((pid, index) => ({ pid, connections: countSockets(pid) - (before[index] as number) }));
  const idle = () => countConnections().filter(({ connections }) => connections < 1).length;
  try {
    await expect.poll(idle, { timeout: 60_000 }).toBe(0);
    await use(countConnections);
  } finally {
    isOver = true;
  }
  await Promise.all(clients);
  return [...statuses];
}
