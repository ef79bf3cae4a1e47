/**
 * `node bench/notify-writers.ts`: PUTs of 4 KiB beside a notify worker whose only target is dead (it accepts
 * connections and never answers), and beside no such worker, in turns. Both gateways queue an event with each PUT.
 * Prints the 99th percentile of both, and the growth of the memory of the first.
 */

import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer } from '../test/support/server.ts';
import { cpuSeconds } from './lib/process-cost.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '5' },
    clients: { type: 'string', default: '8' },
  },
});
const body = Buffer.alloc(4096, 7);
const sockets = new Set<Socket>();
const dead = createServer((socket) => {
  sockets.add(socket);
  socket.on('error', () => {});
});
await new Promise<void>((resolve) => dead.listen(0, '127.0.0.1', resolve));
const { port } = dead.address() as AddressInfo;
const target = { id: 'dead', accounts: ['*'], type: 'webhook', url: `http://127.0.0.1:${port}/` };
const rule =
  '<QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:123456789012:dead</Queue></QueueConfiguration>';

async function open(workers: string) {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-notify-'));
  const server = await startServer({
    dataDir,
    env: {
      SVC_LOG_LEVEL: 'ERROR',
      SVC_FSYNC: 'never',
      SVC_WORKERS: workers,
      SVC_NOTIFY_TARGETS: JSON.stringify([target]),
      SVC_EGRESS_ALLOW: '127.0.0.0/8',
    },
  });
  const client = loadClient(server.url, server.credentials.root);
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  await client.expect({
    method: 'PUT',
    path: pathOf('bucket'),
    query: { notification: '' },
    body: `<NotificationConfiguration>${rule}</NotificationConfiguration>`,
  });
  let keys = 0;
  const latencies: number[] = [];
  return {
    latencies,
    keys: () => keys,
    pid: server.process.pid ?? 0,
    async load(): Promise<void> {
      const until = performance.now() + Number(values.seconds) * 1000;
      await Promise.all(
        Array.from({ length: Number(values.clients) }, async () => {
          while (performance.now() < until) {
            const from = performance.now();
            await client.expect({ method: 'PUT', path: pathOf('bucket', `${keys++}`), body });
            latencies.push(performance.now() - from);
          }
        }),
      );
    },
    async close(): Promise<void> {
      client.close();
      await server.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

const anonymousMiB = (pid: number): number =>
  Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

const at = (share: number, numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * share)] ?? 0;

const beside = await open('gc,queue-retention,notify');
const alone = await open('gc,queue-retention');
for (const each of [beside, alone]) {
  await each.load();
  each.latencies.length = 0;
}
const anonymous = (): readonly number[] => [beside.pid, alone.pid].map(anonymousMiB);
const before = anonymous();
const cpuBefore = [beside, alone].map(({ pid }) => cpuSeconds(pid));
for (let round = 0; round < Number(values.rounds); round += 1)
  for (const each of round % 2 === 0 ? [beside, alone] : [alone, beside]) await each.load();
const [ours, theirs] = [at(0.99, beside.latencies), at(0.99, alone.latencies)];
const cpu = [beside, alone].map(
  ({ pid, latencies }, n) => ((cpuSeconds(pid) - (cpuBefore[n] ?? 0)) * 1e6) / latencies.length,
);
const grown = anonymous().map((mebibytes, n) => (mebibytes - (before[n] ?? 0)).toFixed(0));
console.log(
  `p99 ${ours.toFixed(2)} ms beside the dead target, ${theirs.toFixed(2)} ms without the worker: ratio ${(ours / theirs).toFixed(3)} (goal 1.01); ` +
    `p50 ${at(0.5, beside.latencies).toFixed(2)} and ${at(0.5, alone.latencies).toFixed(2)} ms; ` +
    `${beside.latencies.length} and ${alone.latencies.length} PUTs; CPU ${cpu.map((micros) => micros.toFixed(0)).join(' and ')} µs; anonymous memory grew by ${grown[0]} and ${grown[1]} MiB; ${beside.keys()} and ${alone.keys()} events are queued`,
);
await beside.close();
await alone.close();
for (const socket of sockets) socket.destroy();
dead.close();
