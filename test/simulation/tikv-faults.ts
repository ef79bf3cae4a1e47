/**
 * A gateway on TiKV under a load of every kind of write, while faults are injected into its engine. After each fault nothing
 * acknowledged is lost, listings agree, and the gateway has recovered without a restart.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OwnEngine } from '../support/engines/tikv.ts';
import type { Double } from '../support/engines/tikv-double.ts';
import { type LoadClient, loadClient } from '../support/load-client.ts';
import { misanswered, noting, type Refusal } from '../support/refusals.ts';
import { startServer, type TestServer, testCredentials } from '../support/server.ts';
import { createBuckets, load, newModels, newTally, verify } from './kill-load.ts';

/** A fault of the engine; when `inflict` returns, the engine works again. */
export interface Hurt<Engine> {
  readonly name: string;
  inflict(engine: Engine, gateways: Gateways): Promise<void>;
  /** True if the fault must affect requests, so that some are answered with 503. */
  readonly isOutage?: boolean;
}

export interface Gateways {
  /** Kills the gateway (`kill -9`) and starts another over the same data. */
  replace(): Promise<void>;
}

/** Shorter than the pauses below. */
const timeoutMs = 1_500;
const pauseMs = 3 * timeoutMs;
/** The time limit for the gateway to serve after the engine works again; locks of dead clients expire meanwhile. */
const recoveryMs = 60_000;

export const ownFaults: readonly Hurt<OwnEngine>[] = [
  {
    name: 'PD and its store are killed and started again',
    isOutage: true,
    async inflict(engine) {
      await engine.kill9();
      await sleep(pauseMs);
      await engine.restart();
    },
  },
  {
    name: 'PD and its store pause for longer than any time-out',
    isOutage: true,
    async inflict(engine) {
      engine.signal('SIGSTOP');
      await sleep(pauseMs);
      engine.signal('SIGCONT');
    },
  },
  { name: 'the gateway is killed', inflict: (_, gateways) => gateways.replace() },
];

const stores = [1, 2, 3];

export const doubleFaults: readonly Hurt<Double>[] = [
  {
    name: 'regions split and merge and their leaders move',
    async inflict(double) {
      await double.chaos(3);
      await sleep(pauseMs);
      await double.chaos(0);
    },
  },
  {
    name: 'one store after the other goes down, and others lead',
    async inflict(double) {
      for (const id of stores) {
        await double.stopStore(id, { handOver: true });
        await sleep(400);
        await double.startStore(id);
      }
    },
  },
  {
    name: 'all stores are down',
    isOutage: true,
    async inflict(double) {
      for (const id of stores) await double.stopStore(id);
      await sleep(pauseMs);
      for (const id of stores) await double.startStore(id);
    },
  },
  {
    name: 'answers to commits are lost',
    isOutage: true,
    async inflict(double) {
      for (const command of ['Prewrite', 'Commit']) await double.fault({ command, kind: 'lose' });
      await sleep(pauseMs);
      await double.heal();
    },
  },
  {
    name: 'streams break before and behind every tenth command',
    async inflict(double) {
      for (let i = 0; i < 20; i += 1) {
        await double.fault({ kind: i % 2 === 0 ? 'cut' : 'cut-before', skip: 10, count: 1 });
        await sleep(100);
      }
      await double.heal();
    },
  },
  {
    name: 'the leader of PD changes, and the former one goes down',
    async inflict(double) {
      const [first = '', second = ''] = double.endpoints;
      await double.driver(second, { lead: 1 });
      await double.driver(first, { up: 0, via: second });
      await sleep(1_000);
      await double.driver(first, { up: 1, lead: 1, via: second });
    },
  },
  {
    name: 'the gateway is killed while regions move',
    async inflict(double, gateways) {
      await double.chaos(3);
      await gateways.replace();
      await double.chaos(0);
    },
  },
];

export interface Rounds<Engine> {
  readonly engine: Engine;
  readonly faults: readonly Hurt<Engine>[];
  /** The number of locks, if the engine reports it. */
  readonly locks?: () => Promise<number>;
  readonly seed: number;
  readonly say?: (line: string) => void;
}

/** Runs the faults one after the other and returns every contradiction; a correct gateway gives none. */
export async function faultRounds<Engine extends { readonly endpoints: readonly string[] }>(
  rounds: Rounds<Engine>,
): Promise<string[]> {
  const own = mkdtempSync(join(tmpdir(), `sluice-hurt-${randomBytes(4).toString('hex')}-`));
  const world = new World(rounds.engine.endpoints, join(own, 'data'));
  try {
    await world.start();
    await createBuckets(world.client);
    for (const [i, fault] of rounds.faults.entries()) {
      const found = await world.round(fault, rounds.engine, rounds.seed + i);
      rounds.say?.(`${fault.name}: ${world.told()} ${found.length === 0 ? 'ok' : 'WRONG'}`);
      if (found.length > 0) return found.map((each) => `${fault.name}: ${each}`);
    }
    return rounds.locks === undefined ? [] : await unsettled(rounds.locks);
  } finally {
    await world.stop();
    rmSync(own, { recursive: true, force: true });
  }
}

/** Waits until no lock is left: those of dead clients expire, those of living ones are released soon. */
async function unsettled(locks: () => Promise<number>): Promise<string[]> {
  for (const until = performance.now() + recoveryMs; ; await sleep(50)) {
    const count = await locks();
    if (count === 0) return [];
    if (performance.now() > until) return [`${count} locks stay`];
  }
}

class World {
  readonly #models = newModels();
  readonly #tally = newTally();
  readonly #env: Readonly<Record<string, string>>;
  readonly #dataDir: string;
  #server: TestServer | undefined;
  #inner: LoadClient | undefined;
  /** Answers of 500 and above since the round began. */
  readonly #refusals: Refusal[] = [];

  constructor(endpoints: readonly string[], dataDir: string) {
    mkdirSync(dataDir, { recursive: true });
    this.#dataDir = dataDir;
    this.#env = {
      SVC_META_BACKEND: 'ordered-kv',
      SVC_KV_PD_ENDPOINTS: endpoints.join(','),
      SVC_KV_TIMEOUT: `${timeoutMs}ms`,
      SVC_KV_GC_AGE: '5s',
      SVC_MASTER_KEY_FILE: join(dataDir, 'master.key'),
      SVC_INTENT_TTL: '2s',
      SVC_GC_GRACE: '0s',
      SVC_GC_INTERVAL: '200ms',
      SVC_LOG_LEVEL: 'WARN',
    };
  }

  /** The client of the load for the present gateway. */
  readonly client = noting(() => this.#inner as LoadClient, this.#refusals);

  async start(): Promise<void> {
    this.#server = await startServer({ dataDir: this.#dataDir, env: this.#env });
    this.#inner = loadClient(this.#server.url, testCredentials.root);
  }

  async stop(): Promise<void> {
    this.#inner?.close();
    await this.#server?.kill9();
  }

  told(): string {
    const statuses = Object.entries(Object.groupBy(this.#refusals, ({ status }) => status));
    const refused = statuses.map(([status, all = []]) => `${all.length} × ${status}`).join(', ');
    return `${this.#tally.acknowledged} acknowledged, ${this.#tally.doubtful} in doubt, ${refused || 'none refused'}`;
  }

  async round<Engine>(fault: Hurt<Engine>, engine: Engine, seed: number): Promise<string[]> {
    Object.assign(this.#tally, { acknowledged: 0, doubtful: 0 });
    this.#refusals.length = 0;
    const stop = new AbortController();
    const loading = load(this.client, this.#models, { seed, tally: this.#tally, signal: stop.signal });
    // A load that gets a wrong answer ends the round immediately.
    const failed = loading.then(() => new Promise<never>(() => {}));
    const replace = async (): Promise<void> => {
      await this.stop();
      await this.start();
    };
    await Promise.race([sleep(700), failed]);
    await Promise.race([fault.inflict(engine, { replace }), failed]);
    await Promise.race([this.#recovered(), failed]);
    await Promise.race([sleep(700), failed]);
    stop.abort();
    await loading;
    return [...this.#misanswered(fault), ...(await verify(this.client, this.#models))];
  }

  /** Waits until the same gateway answers reads, writes and listings again without a restart. */
  async #recovered(): Promise<void> {
    for (const until = performance.now() + recoveryMs; ; await sleep(100)) {
      const specs = [
        { method: 'PUT', path: '/plain/sign-of-life', body: Buffer.from('x') },
        { path: '/plain/sign-of-life' },
        { path: '/plain', query: { 'list-type': '2' } },
        { method: 'DELETE', path: '/plain/sign-of-life' },
      ];
      const statuses: number[] = [];
      for (const spec of specs)
        statuses.push((await (this.#inner as LoadClient).send(spec).catch(() => ({ status: 599 }))).status);
      if (statuses.every((status) => status < 300)) return;
      if (performance.now() > until)
        throw new Error(`the gateway does not recover: ${statuses} ${this.#server?.log().slice(-2000)}`);
    }
  }

  #misanswered({ isOutage = false }: Hurt<never>): string[] {
    const wrong = misanswered(this.#refusals);
    if (wrong.length > 0) return [...wrong, `${this.#server?.log().slice(-2000)}`];
    return isOutage && this.#refusals.length === 0 ? ['an outage refused nothing'] : [];
  }
}
