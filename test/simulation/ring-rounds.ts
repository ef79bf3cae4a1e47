/** Faults on a real ring of Cassandra under a load at the front door, and the check that nothing was lost. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cassandra from 'cassandra-driver';
import { type Ring, replicatedOver } from '../support/engines/cassandra.ts';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import { misanswered, noting, type Refusal } from '../support/refusals.ts';
import { startServer } from '../support/server.ts';
import {
  abortUploads,
  createBuckets,
  load,
  type Models,
  newModels,
  newTally,
  type Tally,
  verify,
} from './kill-load.ts';

const keyspace = 'ring';
const intentTtlMs = 5000;
/** Longer than every time limit of the gateway. */
const pauseMs = 15_000;
const recoveredMs = 180_000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface World {
  readonly ring: Ring;
  readonly random: () => number;
  readonly client: LoadClient;
}

/** The faults of the ring while clients work. */
const faults: Readonly<Record<string, (world: World) => Promise<void>>> = {
  async 'a node is killed and comes back'({ ring, random }) {
    const node = nodeOf(ring, random);
    await node.kill9();
    await sleep(4000);
    await node.restart();
  },
  async 'a node stands still for longer than any time-out'({ ring, random }) {
    const node = nodeOf(ring, random);
    node.pause();
    await sleep(pauseMs);
    node.resume();
  },
  async 'all nodes are killed and come back'({ ring, client }) {
    await Promise.all(ring.nodes.map((node) => node.kill9()));
    await sleep(1000);
    const { status, headers } = await client.send({
      method: 'PUT',
      path: pathOf('plain', 'away'),
      body: Buffer.from('x'),
    });
    if (status !== 503 || headers['retry-after'] === undefined)
      throw new Error(`without any node a PUT is answered ${status}, retry-after ${headers['retry-after']}`);
    await Promise.all(ring.nodes.map((node) => node.restart()));
  },
};

const nodeOf = ({ nodes }: Ring, random: () => number) =>
  nodes[Math.floor(random() * nodes.length)] as Ring['nodes'][number];

export interface RingRounds {
  readonly ring: Ring;
  readonly rounds: number;
  readonly seed: number;
  readonly say?: (line: string) => void;
}

/** Injects every fault in each round; returns every contradiction; a correct gateway gives none. */
export async function ringRounds({ ring, rounds, seed, say = () => {} }: RingRounds): Promise<string[]> {
  const random = seeded(seed);
  const directory = mkdtempSync(join(tmpdir(), 'sluice-ring-'));
  const masterKey = join(directory, 'master.key');
  const dataDir = join(directory, 'data');
  mkdirSync(dataDir);
  writeFileSync(masterKey, randomBytes(32).toString('base64'), { mode: 0o600 });
  const env = {
    SVC_META_BACKEND: 'wide-column',
    SVC_DATA_BACKEND: 'file',
    SVC_WIDECOL_HOSTS: ring.hosts.join(','),
    SVC_WIDECOL_KEYSPACE: keyspace,
    SVC_WIDECOL_REPLICATION: replicatedOver(ring.hosts),
    SVC_MASTER_KEY_FILE: masterKey,
    SVC_BUCKET_SHARDS: '4',
    SVC_INTENT_TTL: `${intentTtlMs}ms`,
    SVC_GC_GRACE: '0s',
    SVC_LOG_LEVEL: 'WARN',
  };
  const server = await startServer({ dataDir, env, startMs: 240_000 });
  const refusals: Refusal[] = [];
  const inner = loadClient(server.url, server.credentials.root);
  const client = noting(() => inner, refusals);
  const world = { ring, random, client };
  const models = newModels();
  const wrong: string[] = [];
  try {
    await createBuckets(client);
    for (let round = 0; round < rounds && wrong.length === 0; round += 1)
      for (const name of Object.keys(faults)) {
        const tally = newTally();
        await hurtUnderLoad(world, { name, models, tally, seed: seed + round });
        wrong.push(...(await verify(client, models)).map((fault) => `${name}: ${fault}`));
        say(`${name}: ${JSON.stringify(tally)} ${wrong.length === 0 ? 'ok' : 'WRONG'}`);
        if (tally.acknowledged === 0) wrong.push(`${name}: no write was acknowledged`);
      }
    wrong.push(...misanswered(refusals));
    if (wrong.length === 0) wrong.push(...(await leftOpen(world)));
    if (wrong.length > 0) wrong.push(server.log().slice(-4000));
  } finally {
    client.close();
    await server.stop();
  }
  rmSync(directory, { recursive: true, force: true });
  return wrong;
}

/** Runs a load before, during and after the fault. When it returns, the gateway serves and the load has ended. */
async function hurtUnderLoad(
  world: World,
  {
    name,
    models,
    tally,
    seed,
  }: { readonly name: string; readonly models: Models; readonly tally: Tally; readonly seed: number },
): Promise<void> {
  const { client } = world;
  const stop = new AbortController();
  const loading = load(client, models, { seed, tally, signal: stop.signal });
  const hurting = (async () => {
    await sleep(2000);
    await faults[name]?.(world);
    await recovered(client);
    await sleep(3000);
  })().finally(() => stop.abort());
  await Promise.all([hurting, loading]);
  await recovered(client);
}

/** Waits until the same process serves reads and writes again. */
async function recovered(client: LoadClient): Promise<void> {
  const spec = { method: 'PUT', path: pathOf('plain', 'away'), body: Buffer.from('back') };
  for (const until = performance.now() + recoveredMs; ; await sleep(500)) {
    const { status } = await client.send(spec);
    if (status === 200) break;
    if (performance.now() > until) throw new Error(`the gateway does not recover: ${status}`);
  }
  await client.expect({ method: 'DELETE', path: pathOf('plain', 'away') });
}

/** No intent of a failed write stays open: a serving process has only its present epoch and its neighbours. */
async function leftOpen({ client, ring }: World): Promise<string[]> {
  await abortUploads(client);
  const cql = new cassandra.Client({ contactPoints: [...ring.hosts], localDataCenter: 'dc1' });
  try {
    for (const until = performance.now() + recoveredMs; ; await sleep(1000)) {
      const { rows } = await cql.execute(`SELECT id, state FROM ${keyspace}.epochs WHERE slot = 0`);
      const open = rows.filter((row) => row['state'] === 0 || row['state'] === 1);
      if (open.length <= 2) return [];
      if (performance.now() > until) return [`epochs are left open: ${JSON.stringify(open)}`];
    }
  } finally {
    await cql.shutdown();
  }
}
