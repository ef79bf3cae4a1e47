/**
 * By hand: `npx node test/simulation/openings-long.ts [minutes] [seed]` opens the directory of a gateway of two processes under
 * load, from other processes and from whole second gateways, and prints each transaction that lmdb refuses or fails.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadClient } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { createBuckets, load, newModels, newTally, verify } from './kill-load.ts';
import type { Told } from './openings-opener.ts';

const minutes = Number(process.argv[2] ?? 30);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);
const random = seeded(seed);
const dataDir = mkdtempSync(join(tmpdir(), 'sluice-openings-'));
const until = Date.now() + minutes * 60_000;
/** The output of lmdb, or the log line of the gateway, when a transaction fails. */
const suspicious = /MDB_|lmdb|do_write|txn_|freelist|free-?space|not found error|internal error|page_alloc/i;
const openerCount = 2;
const openingsMax = 40;

const count = { openings: 0, kills: 0, servers: 0, serverKills: 0, refused: 0, failed: 0, printed: 0 };
const say = (line: string): void => console.log(`${new Date().toISOString()} ${line}`);
const report = (): void =>
  say(JSON.stringify({ ...count, writes: tally.acknowledged, doubtful: tally.doubtful }));

/** Prints the output of a process about lmdb. */
function watch(name: string, stream: NodeJS.ReadableStream | null | undefined): void {
  let rest = '';
  stream?.on('data', (some) => {
    const lines = (rest + String(some)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter((each) => suspicious.test(each))) {
      count.printed += 1;
      say(`${name}: ${line.slice(0, 2000)}`);
    }
  });
}

const watchServer = (name: string, { process: child }: TestServer): void => {
  watch(name, child.stdout);
  watch(name, child.stderr);
};

/** Processes that open the file many times each; some are killed at any moment. */
async function openFromProcesses(): Promise<void> {
  while (Date.now() < until) {
    const arguments_ = [
      join(dataDir, 'metadata'),
      Math.floor(random() * 2 ** 31),
      1 + Math.floor(random() * openingsMax),
    ];
    const child = fork(new URL('./openings-opener.ts', import.meta.url), arguments_.map(String), {
      silent: true,
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    watch(`opener ${child.pid}`, child.stdout);
    watch(`opener ${child.pid}`, child.stderr);
    child.on('message', (told: Told) => {
      if (told.kind === 'opened') count.openings += 1;
      else {
        count[told.kind] += 1;
        say(`opener ${child.pid} ${told.kind}: ${told.error}`);
      }
    });
    if (random() < 0.3) {
      await Promise.race([ended, sleep(300 + random() * 1500)]);
      if (child.exitCode === null && child.kill('SIGKILL')) count.kills += 1;
    }
    await ended;
  }
}

/** Whole second gateways on the directory, which serve a few requests and are stopped or killed. */
async function openFromServers(): Promise<void> {
  while (Date.now() < until) {
    const server = await startServer({ dataDir, env: { SVC_LOG_LEVEL: 'WARN' } });
    watchServer(`second server ${server.process.pid}`, server);
    count.servers += 1;
    const client = loadClient(server.url, server.credentials.root);
    const bucket = `second-${count.servers}`;
    await client.send({ method: 'PUT', path: `/${bucket}` }).catch(() => undefined);
    await client.send({ method: 'GET', path: '/' }).catch(() => undefined);
    await client.send({ method: 'DELETE', path: `/${bucket}` }).catch(() => undefined);
    client.close();
    if (random() < 0.5) await server.stop();
    else {
      count.serverKills += 1;
      await server.kill9();
    }
    await sleep(random() * 1000);
  }
}

const tally = newTally();
say(`seed ${seed}, ${minutes} minutes, data in ${dataDir}`);
const server = await startServer({ dataDir, env: { SVC_PROCESSES: '2', SVC_LOG_LEVEL: 'WARN' } });
watchServer('server', server);
const client = loadClient(server.url, server.credentials.root);
await createBuckets(client);
const models = newModels();
const stop = new AbortController();
const wrong: string[] = [];
const loading = load(client, models, { seed, tally, signal: stop.signal }).catch((cause: unknown) => {
  wrong.push(String(cause));
});
const reporting = setInterval(report, 60_000);
await Promise.race([
  Promise.all([...Array.from({ length: openerCount }, openFromProcesses), openFromServers()]),
  loading,
]);
clearInterval(reporting);
stop.abort();
await loading;
const faults = [...wrong, ...(await verify(client, models))];
for (const fault of faults) say(`WRONG ${fault}`);
client.close();
await server.stop();
report();
if (faults.length === 0) rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
process.exit(faults.length > 0 || count.refused + count.failed + count.printed > 0 ? 1 : 0);
