/**
 * `node bench/lifecycle-load.ts`: the throughput of clients while the lifecycle worker expires objects at its default rate, beside the throughput
 * without. One server with `embedded` and `file`; clients PUT and GET 4 KiB objects of another bucket. The load generator shares the
 * machine.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer } from '../test/support/server.ts';

const { values } = parseArgs({
  options: {
    objects: { type: 'string', default: '150000' },
    seconds: { type: 'string', default: '15' },
    clients: { type: 'string', default: '16' },
  },
});
const body = Buffer.alloc(4096, 7);
const dataDir = await mkdtemp(join(tmpdir(), 'sluice-lifecycle-'));
const server = await startServer({
  dataDir,
  env: { SVC_LIFECYCLE_DAY: '1s', SVC_LIFECYCLE_INTERVAL: '1s', SVC_LOG_LEVEL: 'ERROR' },
});
const client = loadClient(server.url, server.credentials.root);

async function inTurns(work: (worker: number) => Promise<boolean>): Promise<void> {
  await Promise.all(
    Array.from({ length: Number(values.clients) }, async (_, worker) => {
      while (await work(worker));
    }),
  );
}

/** Requests per second. */
async function measure(): Promise<number> {
  let requests = 0;
  const until = performance.now() + Number(values.seconds) * 1000;
  await inTurns(async (worker) => {
    const path = pathOf('load', `${worker}-${requests % 100}`);
    await client.expect({ method: 'PUT', path, body });
    await client.expect({ path });
    requests += 2;
    return performance.now() < until;
  });
  return requests / Number(values.seconds);
}

async function progress(): Promise<{ readonly expired?: number; readonly state: string }> {
  return JSON.parse((await client.expect({ path: '/admin/v1/buckets/due/lifecycle' })).text);
}

try {
  for (const bucket of ['due', 'load']) await client.expect({ method: 'PUT', path: pathOf(bucket) });
  let next = 0;
  await inTurns(async () => {
    const n = next++;
    if (n < Number(values.objects))
      await client.expect({ method: 'PUT', path: pathOf('due', `${n}`), body: '' });
    return n < Number(values.objects);
  });
  await measure();
  const without = await measure();
  const rule =
    '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule>';
  const configuration = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
  await client.expect({ method: 'PUT', path: pathOf('due'), query: { lifecycle: '' }, body: configuration });
  while ((await progress()).state === 'indexing' || (await progress()).expired === undefined)
    await new Promise((resolve) => setTimeout(resolve, 200));
  const before = (await progress()).expired ?? 0;
  const during = await measure();
  const expired = ((await progress()).expired ?? 0) - before;
  const again = (during / without).toFixed(2);
  console.log(
    `${without.toFixed(0)} requests/s without, ${during.toFixed(0)} while ${(expired / Number(values.seconds)).toFixed(0)} objects a second expire: ratio ${again}`,
  );
} finally {
  client.close();
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}
