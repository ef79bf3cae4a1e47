/** A bucket on a real ring gets more shards under load, while a node dies, and while the process that moves its rows dies. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ring } from '../support/engines/cassandra.ts';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { misanswered, noting, type Refusal } from '../support/refusals.ts';
import type { RequestSpec } from '../support/sign.ts';
import { createBuckets, load, type Models, newModels, newTally, type Tally, verify } from './kill-load.ts';
import { untilRowsMove } from './moving-rows.ts';
import type { SharedStore } from './shared-store.ts';
import { StandingKeys } from './standing-keys.ts';

const bucket = 'versioned';
const standing = 120;
/** The time limit after a fault: leases expire, nodes return. */
const doneMs = 180_000;
const startMs = 240_000;

interface World {
  readonly ring: Ring;
  readonly store: SharedStore;
  readonly client: LoadClient;
  readonly models: Models;
  readonly keys: StandingKeys;
  readonly seed: number;
}

export interface Told {
  readonly faults: readonly string[];
  /** The counts of the clients' requests. */
  readonly tallies: readonly Tally[];
  readonly looks: number;
}

export async function reshardFaults({
  ring,
  store,
  seed,
}: {
  readonly ring: Ring;
  readonly store: SharedStore;
  readonly seed: number;
}): Promise<Told> {
  const env = { SVC_GC_GRACE: '0s', SVC_INTENT_TTL: '5s', SVC_LOG_LEVEL: 'WARN' };
  const front = await store.gateway({ ...env, SVC_WORKERS: 'gc' }, startMs);
  const refusals: Refusal[] = [];
  const inner = loadClient(front.url, front.credentials.root);
  const client = noting(() => inner, refusals);
  const models = newModels();
  const keys = new StandingKeys(client);
  const world: World = { ring, store, client, models, keys, seed };
  const tallies: Tally[] = [];
  const faults: string[] = [];
  try {
    await createBuckets(client);
    await keys.fill(standing, models);
    for (const hurt of [killNode, killWorker]) {
      const tally = newTally();
      tallies.push(tally);
      faults.push(...(await doubled(world, { env, tally, hurt })).map((fault) => `${hurt.name}: ${fault}`));
      if (faults.length > 0) break;
    }
    faults.push(...misanswered(refusals));
    if (faults.length > 0) faults.push(front.log().slice(-4000));
  } finally {
    client.close();
    await front.stop();
  }
  return { faults, tallies, looks: keys.looks };
}

type Hurt = (world: World, worker: Worker) => Promise<void>;
/** The process that moves rows. */
interface Worker {
  kill(): Promise<void>;
  replace(): Promise<void>;
}

async function killNode({ ring, seed }: World): Promise<void> {
  const node = ring.nodes[seed % ring.nodes.length] as Ring['nodes'][number];
  await node.kill9();
  await sleep(3000);
  await node.restart();
}

async function killWorker(_: World, worker: Worker): Promise<void> {
  await worker.kill();
  await worker.replace();
}

/** Doubles the shards under load, with a fault in the middle. */
async function doubled(
  world: World,
  {
    env,
    tally,
    hurt,
  }: { readonly env: Readonly<Record<string, string>>; readonly tally: Tally; readonly hurt: Hurt },
): Promise<readonly string[]> {
  const { client, models, keys, seed, store } = world;
  const start = () => store.gateway({ ...env, SVC_WORKERS: 'reshard' }, startMs);
  let server = await start();
  const worker: Worker = {
    kill: () => server.kill9(),
    async replace() {
      server = await start();
    },
  };
  const stop = new AbortController();
  const running = [load(client, models, { seed, tally, signal: stop.signal }), keys.watch(stop.signal)];
  try {
    const resharding = reshard(world, () => hurt(world, worker)).finally(() => stop.abort());
    await Promise.all([resharding, ...running.map((each) => each.finally(() => stop.abort()))]);
    const verified = await verify(client, models);
    const wrong = [...(await resharding), ...keys.faults, ...verified];
    return wrong.length === 0 ? [] : [...wrong, server.log().slice(-4000)];
  } finally {
    stop.abort();
    await server.kill9();
  }
}

interface Shown {
  readonly state: string;
  readonly shards: number;
  readonly to: number;
}

/** Doubles the shards, and injects the fault when the first rows have moved. */
async function reshard(world: World, hurt: () => Promise<void>): Promise<readonly string[]> {
  const { client, store } = world;
  const { shards } = await readProgress(client);
  await ask(client, 2 * shards);
  await untilRowsMove(store, { bucket, forMs: doneMs });
  const before = await readProgress(client);
  await hurt();
  const faults = before.state === 'running' ? [] : ['it was over before anything happened'];
  for (const until = performance.now() + doneMs; ; await sleep(200)) {
    const now = await readProgress(client);
    if (now.state === 'done') return now.shards === 2 * shards ? faults : [...faults, JSON.stringify(now)];
    if (performance.now() > until) return [...faults, `it does not end: ${JSON.stringify(now)}`];
  }
}

const path = `/admin/v1/buckets/${bucket}/reshard`;
const ask = (client: LoadClient, shards: number): Promise<Shown> =>
  patiently(client, { method: 'POST', path, body: JSON.stringify({ shards }) });
const readProgress = (client: LoadClient): Promise<Shown> => patiently(client, { path });

/** Repeated until a node answers: nodes may be down. */
async function patiently(client: LoadClient, spec: RequestSpec): Promise<Shown> {
  for (const until = performance.now() + doneMs; ; await sleep(200)) {
    const { status, text } = await client.send(spec);
    if (status < 300) return JSON.parse(text) as Shown;
    if (status < 500 || performance.now() > until)
      throw new Error(`the reshard is told as ${status} ${text}`);
  }
}
