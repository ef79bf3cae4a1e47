/**
 * `node bench/replication.ts`: what the replicator sends between two gateways of one process each on this machine
 * (`embedded`, `file`, flushed writes), beside what the second gateway takes from clients: small objects as PUTs, large
 * ones as a copy by a client that reads from the first and writes to the second. `--profile <directory>` writes a CPU
 * profile of the sender there.
 */
import { rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { inParallel } from '../src/base/concurrency.ts';
import { elements, type LoadClient, loadClient, pathOf } from '../test/support/load-client.ts';
import { replicateTo, replicatingSettings, startSite } from '../test/support/replicating-servers.ts';
import { startServer, testCredentials } from '../test/support/server.ts';

const { values } = parseArgs({
  options: {
    small: { type: 'string', default: '8000' },
    large: { type: 'string', default: '12' },
    clients: { type: 'string', default: '32' },
    profile: { type: 'string' },
  },
});
const clients = Number(values.clients);
const largeBytes = 64 * 1024 * 1024;
const goals = { small: 0.7, large: 0.8 } as const;

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now();
  await work();
  return (performance.now() - from) / 1000;
};

async function putAll(
  client: LoadClient,
  bucket: string,
  { count, body }: { readonly count: number; readonly body: Buffer },
) {
  const numbers = Array.from({ length: count }, (_, n) => n);
  await inParallel(clients, numbers, (n) =>
    client.expect({ method: 'PUT', path: pathOf(bucket, `${n}`), body }),
  );
}

/** Versions that the replicator has sent, by its metric: to count the queue would take a share of the sender's core. */
async function sentVersions(client: LoadClient): Promise<number> {
  const { text } = await client.expect({ path: '/metrics' });
  return Number(/^svc_replication_versions_total\{.*\} (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** How long the replicator takes for objects that wait when it starts. */
async function replicate(
  count: number,
  body: Buffer,
): Promise<{ readonly sent: number; readonly direct: number }> {
  const idle = { SVC_PROCESSES: '1', SVC_WORKERS: 'gc' };
  const near = await startSite({ env: idle });
  const far = await startSite({ env: idle });
  await replicateTo(near.client, far.server);
  await far.client.expect({ method: 'PUT', path: pathOf('direct') });
  await putAll(near.client, 'bucket', { count, body });
  const direct = await timed(() =>
    body.length < largeBytes
      ? putAll(far.client, 'direct', { count, body })
      : inParallel(
          4,
          Array.from({ length: count }, (_, n) => n),
          async (n) => {
            const read = await near.client.expect({ path: pathOf('bucket', `${n}`) });
            await far.client.expect({ method: 'PUT', path: pathOf('direct', `${n}`), body: read.body });
          },
        ),
  );
  near.client.close();
  await near.server.kill9();
  const again = await startServer({
    env: { ...replicatingSettings, SVC_PROCESSES: '1', SVC_WORKERS: 'replicator' },
    ...(values.profile === undefined
      ? {}
      : { runtime: [process.execPath, '--cpu-prof', `--cpu-prof-dir=${values.profile}`] }),
    dataDir: near.server.dataDir,
  });
  const client = loadClient(again.url, testCredentials.root);
  const hasFirst = async (): Promise<boolean> =>
    elements((await far.client.expect({ path: pathOf('bucket'), query: { 'max-keys': '1' } })).text, 'Key')
      .length > 0;
  while (!(await hasFirst())) await new Promise((resolve) => setTimeout(resolve, 5));
  const sent = await timed(async () => {
    while ((await sentVersions(client)) < count) await new Promise((resolve) => setTimeout(resolve, 200));
  });
  client.close();
  far.client.close();
  await again.stop();
  await far.server.stop();
  await rm(again.dataDir, { recursive: true, force: true });
  return { sent, direct };
}

for (const [name, count, bytes] of [
  ['small', Number(values.small), 1024],
  ['large', Number(values.large), largeBytes],
] as const) {
  if (count === 0) continue;
  const { sent, direct } = await replicate(count, Buffer.alloc(bytes, 7));
  const [ours, theirs] = [count / sent, count / direct];
  const ratio = (ours / theirs).toFixed(2);
  console.log(
    `${name}: ${ours.toFixed(1)} objects/s replicated, ${theirs.toFixed(1)} directly: ratio ${ratio} (goal ${goals[name]})`,
  );
}
