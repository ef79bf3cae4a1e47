/**
 * `node bench/quotas.ts`: the server's CPU for a PUT of 4 KiB while its bucket and its account have quotas, beside the same without, in
 * turns. One server with `embedded` and `file`; each key is new.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer } from '../test/support/server.ts';
import { median } from './lib/percentile.ts';
import { cpuSeconds } from './lib/process-cost.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '8' },
    clients: { type: 'string', default: '16' },
  },
});
const body = Buffer.alloc(4096, 7);
const dataDir = await mkdtemp(join(tmpdir(), 'sluice-quotas-'));
const server = await startServer({ dataDir, env: { SVC_LOG_LEVEL: 'ERROR', SVC_FSYNC: 'never' } });
const client = loadClient(server.url, server.credentials.root);
let keys = 0;

/** Microseconds of CPU for a PUT, and PUTs in a second. */
async function measure(): Promise<{ readonly micros: number; readonly rate: number }> {
  const before = cpuSeconds(server.process.pid ?? 0);
  const from = keys;
  const until = performance.now() + Number(values.seconds) * 1000;
  await Promise.all(
    Array.from({ length: Number(values.clients) }, async () => {
      while (performance.now() < until)
        await client.expect({ method: 'PUT', path: pathOf('bucket', `${keys++}`), body });
    }),
  );
  const puts = keys - from;
  return {
    micros: ((cpuSeconds(server.process.pid ?? 0) - before) * 1e6) / puts,
    rate: puts / Number(values.seconds),
  };
}

async function limit(isLimited: boolean): Promise<void> {
  const owner = server.credentials.root.owner;
  for (const [path, quota] of [
    [
      '/admin/v1/buckets/bucket/quota',
      { maxBytes: 2 ** 50, maxObjects: 2 ** 40, maxBytesPerObject: 2 ** 30 },
    ],
    [`/admin/v1/iam/users/${owner}/quota`, { maxBuckets: 1_000, totalMaxBytes: 2 ** 50 }],
  ] as const)
    await client.expect(
      isLimited ? { method: 'PUT', path, body: JSON.stringify(quota) } : { method: 'DELETE', path },
    );
}

try {
  await client.expect({ method: 'PUT', path: pathOf('bucket') });
  await measure();
  const [without, limited]: { micros: number; rate: number }[][] = [[], []];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    await limit(false);
    without?.push(await measure());
    await limit(true);
    limited?.push(await measure());
  }
  const of = (runs: readonly { micros: number; rate: number }[] = []) => ({
    micros: median(runs.map(({ micros }) => micros)),
    rate: median(runs.map(({ rate }) => rate)),
  });
  const [a, b] = [of(without), of(limited)];
  console.log(
    `without: ${a.micros.toFixed(0)} µs of CPU, ${a.rate.toFixed(0)}/s; with quotas of bucket and account: ${b.micros.toFixed(0)} µs, ${b.rate.toFixed(0)}/s; ratio of CPU ${(b.micros / a.micros).toFixed(3)}`,
  );
} finally {
  client.close();
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}
