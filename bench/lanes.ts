/**
 * `node bench/lanes.ts`: the latency and throughput of a bucket beside another one that has a backlog, or whose events or versions the
 * target refuses. Both buckets deliver to the same target, by gateways with default settings (`embedded`, `file`, flushed writes). For each
 * case: how long after its PUT an object of the healthy bucket arrives, and how many arrive in a second of a burst; and
 * both beside the same without the neighbour, in the same run.
 */
import { rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { inParallel } from '../src/base/concurrency.ts';
import { elements, type LoadClient, loadClient, pathOf } from '../test/support/load-client.ts';
import { makeRootRole, servingRoot } from '../test/support/replicating-servers.ts';
import { roleArnOf } from '../test/support/replication-role.ts';
import { startServer, testCredentials } from '../test/support/server.ts';
import { percentile } from './lib/percentile.ts';

const { values } = parseArgs({
  options: {
    queues: { type: 'string', default: 'notify,replication' },
    backlog: { type: 'string', default: '20000' },
    poison: { type: 'string', default: '40' },
    probes: { type: 'string', default: '40' },
    burst: { type: 'string', default: '500' },
    clients: { type: 'string', default: '8' },
  },
});
const [backlog, poison, probes, burst, clients] = (
  ['backlog', 'poison', 'probes', 'burst', 'clients'] as const
).map((name) => Number(values[name])) as [number, number, number, number, number];

const healthy = 'healthy';
const noisy = 'noisy';
/** The receiver refuses what has this prefix. */
const refused = 'poison-';
const egress = { SVC_EGRESS_ALLOW: '127.0.0.1', SVC_LOG_LEVEL: 'ERROR' };

const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, n) => n);
const put = (client: LoadClient, bucket: string, key: string) =>
  client.expect({ method: 'PUT', path: pathOf(bucket, key), body: 'x' });
const putMany = (client: LoadClient, bucket: string, keys: readonly string[]) =>
  inParallel(clients, keys, (key) => put(client, bucket, key));

/** Where both buckets deliver to. */
interface Receiver {
  readonly env: Readonly<Record<string, string>>;
  /** Makes the buckets of the sender deliver to it. */
  connect(client: LoadClient): Promise<void>;
  hasArrived(key: string): Promise<boolean>;
  /** How many of the healthy bucket have arrived whose keys begin so. */
  arrived(prefix: string): Promise<number>;
  /** How many of the noisy bucket have arrived. */
  arrivedNoisy(): Promise<number>;
  close(): Promise<void>;
}

async function openWebhook(): Promise<Receiver> {
  const keys = new Set<string>();
  const server = createServer((request, reply) => {
    let body = '';
    request.on('data', (piece: Buffer) => (body += piece.toString()));
    request.on('end', () => {
      const { Records: records = [] } = JSON.parse(body) as {
        readonly Records?: readonly { readonly s3: { readonly object: { readonly key: string } } }[];
      };
      const sent = records.map(({ s3 }) => s3.object.key);
      const isRefused = sent.some((key) => key.startsWith(refused));
      if (!isRefused) for (const key of sent) keys.add(key);
      reply.writeHead(isRefused ? 500 : 204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const target = { id: 'hook', type: 'webhook', accounts: ['*'], url: `http://127.0.0.1:${port}/` };
  const body = `<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event><Queue>arn:aws:sqs:default:root-account:hook</Queue>
    </QueueConfiguration></NotificationConfiguration>`;
  return {
    env: { SVC_NOTIFY_TARGETS: JSON.stringify([target]) },
    async connect(client) {
      for (const bucket of [healthy, noisy])
        await client.expect({ method: 'PUT', path: pathOf(bucket), query: { notification: '' }, body });
    },
    hasArrived: async (key) => keys.has(key),
    arrived: async (prefix) => [...keys].filter((key) => key.startsWith(prefix)).length,
    arrivedNoisy: async () => [...keys].filter((key) => key.startsWith(noisy)).length,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const version = (client: LoadClient, bucket: string) =>
  client.expect({ method: 'PUT', path: pathOf(bucket), query: { versioning: '' }, body: versioned });

async function openPeer(): Promise<Receiver> {
  const server = await startServer({ env: { ...egress, SVC_PROCESSES: '1', SVC_WORKERS: 'gc' } });
  const far = loadClient(server.url, testCredentials.root);
  for (const bucket of [healthy, noisy]) {
    await far.expect({ method: 'PUT', path: pathOf(bucket) });
    await version(far, bucket);
  }
  const denial = {
    Effect: 'Deny',
    Principal: '*',
    Action: 's3:*',
    Resource: `arn:aws:s3:::${noisy}/${refused}*`,
  };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement: [denial] });
  await far.expect({ method: 'PUT', path: pathOf(noisy), query: { policy: '' }, body: policy }, [200, 204]);
  const { accessKey, secretKey, owner } = testCredentials.root;
  const rule = (bucket: string): string =>
    `<ReplicationConfiguration><Role>${roleArnOf(owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/><Status>Enabled</Status>
    <Destination><Bucket>arn:sluice:replication::far:${bucket}</Bucket></Destination>
    <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;
  return {
    env: {},
    async connect(client) {
      const peer = { accessKey, secretKey, ...servingRoot, endpoint: new URL(server.url).origin };
      await makeRootRole(client);
      await client.expect({
        method: 'PUT',
        path: '/admin/v1/replication/peers/far',
        body: JSON.stringify(peer),
      });
      for (const bucket of [healthy, noisy]) {
        await version(client, bucket);
        const query = { replication: '' };
        await client.expect({ method: 'PUT', path: pathOf(bucket), query, body: rule(bucket) });
      }
    },
    hasArrived: async (key) =>
      (await far.expect({ method: 'HEAD', path: pathOf(healthy, key) }, [200, 404])).status === 200,
    async arrived(prefix) {
      const { text } = await far.expect({ path: pathOf(healthy), query: { 'list-type': '2', prefix } });
      return elements(text, 'Key').length;
    },
    async arrivedNoisy() {
      const { text } = await far.expect({ path: `/admin/v1/buckets/${noisy}` });
      return (JSON.parse(text) as { readonly objects: number }).objects;
    },
    async close() {
      far.close();
      await server.stop();
    },
  };
}

interface Measured {
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}

/** @param name unique in the run */
async function measure(client: LoadClient, receiver: Receiver, name: string): Promise<Measured> {
  const latencies: number[] = [];
  for (const n of upTo(probes)) {
    const key = `${name}-probe-${n}`;
    await put(client, healthy, key);
    const from = performance.now();
    while (!(await receiver.hasArrived(key))) await sleep(5);
    latencies.push(performance.now() - from);
    // Not in step with the interval of the worker.
    await sleep(1_000 * Math.random());
  }
  const prefix = `${name}-burst-`;
  const from = performance.now();
  await putMany(
    client,
    healthy,
    upTo(burst).map((n) => `${prefix}${n}`),
  );
  while ((await receiver.arrived(prefix)) < burst) await sleep(50);
  const perSecond = (burst * 1000) / (performance.now() - from);
  const sorted = latencies.toSorted((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), perSecond };
}

const openers: Readonly<Record<string, () => Promise<Receiver>>> = {
  notify: openWebhook,
  replication: openPeer,
};

async function compare(queue: string): Promise<void> {
  const receiver = await (openers[queue] as () => Promise<Receiver>)();
  const env = { ...egress, ...receiver.env, SVC_PROCESSES: 'auto' };
  const filling = await startServer({ env: { ...env, SVC_WORKERS: 'gc', SVC_FSYNC: 'never' } });
  const { dataDir } = filling;
  const first = loadClient(filling.url, testCredentials.root);
  for (const bucket of [healthy, noisy]) await first.expect({ method: 'PUT', path: pathOf(bucket) });
  await receiver.connect(first);
  await putMany(
    first,
    noisy,
    upTo(backlog).map((n) => `${noisy}-${n}`),
  );
  first.close();
  await filling.kill9();

  const sender = await startServer({ env, dataDir });
  const client = loadClient(sender.url, testCredentials.root);
  const left = async (): Promise<number> => backlog - (await receiver.arrivedNoisy());
  // The workers lead once the first one has arrived.
  await put(client, healthy, 'first');
  while (!(await receiver.hasArrived('first'))) await sleep(5);
  const before = await left();
  const piledUp = await measure(client, receiver, 'piled-up');
  const after = await left();
  while ((await left()) > 0) await sleep(500);
  const alone = await measure(client, receiver, 'alone');
  const keys = upTo(poison).map((n) => `${refused}${n}`);
  // Several rows of each object.
  for (const _ of upTo(5)) await putMany(client, noisy, keys);
  const besidePoison = await measure(client, receiver, 'refused');
  print(queue, 'alone', alone);
  print(queue, `beside a backlog of ${before}, of which ${after} are left at the end`, piledUp, alone);
  print(queue, `beside ${poison} objects that are refused`, besidePoison, alone);
  client.close();
  await sender.stop();
  await receiver.close();
  await rm(dataDir, { recursive: true, force: true });
}

function print(queue: string, name: string, measured: Measured, alone?: Measured): void {
  const { p50, p99, perSecond } = measured;
  const ratios =
    alone === undefined
      ? ''
      : `: latency ${(p50 / alone.p50).toFixed(2)} (p50) and ${(p99 / alone.p99).toFixed(2)} (p99), throughput ${(perSecond / alone.perSecond).toFixed(2)} of that alone`;
  console.log(
    `${queue}, ${name}: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, burst ${perSecond.toFixed(0)}/s${ratios}`,
  );
}

for (const queue of values.queues.split(',')) await compare(queue);
