/** Rounds of load and kill -9 over one data directory, for `kill.test.ts` and `kill-long.ts`. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadClient } from '../support/load-client.ts';
import { seeded } from '../support/load-model.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { abortUploads, createBuckets, load, newModels, newTally, type Tally, verify } from './kill-load.ts';

const root = join(import.meta.dirname, '../..');
/** The time limit for the sweep and gc. */
const collectedMs = 180_000;
/** The time limit for each other step, so that a step that hangs is named, with the log of its gateway. */
const stepMs = 150_000;
/** The smallest number of writes in a round; fewer would show little. */
const writesPerRound = 50;

const common = {
  SVC_GC_GRACE: '0s',
  SVC_GC_INTERVAL: '50ms',
  SVC_BUCKET_SHARDS: '4',
  SVC_LOG_LEVEL: 'WARN',
};

export interface Rounds {
  readonly rounds: number;
  readonly seed: number;
  /** An empty directory, or a path that does not exist yet. */
  readonly dataDir: string;
  /** Settings of every gateway, such as a metadata backend outside of the directory. */
  readonly env?: Readonly<Record<string, string>>;
  /** How long intents stay valid without a renewal. Default 1 s. */
  readonly intentTtlMs?: number;
  readonly say?: (line: string) => void;
}

/** The settings with which the servers of all rounds are started. */
interface World {
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly intentTtlMs: number;
}

/** Runs the rounds and returns every contradiction; a correct gateway gives none. */
export async function killRounds({ rounds, seed, say = () => {}, ...rest }: Rounds): Promise<string[]> {
  const { dataDir, intentTtlMs = 1000 } = rest;
  const env = { ...common, SVC_INTENT_TTL: `${intentTtlMs}ms`, ...rest.env };
  const world: World = { dataDir, env, intentTtlMs };
  const random = seeded(seed);
  const models = newModels();
  const tally = newTally();
  for (let round = 0; round < rounds; round += 1) {
    // The rounds alternate: a single process is killed, one of two processes, then all of them.
    const processes = round % 2 === 0 ? 2 : 1;
    const server = await startServer({ dataDir, env: { ...env, SVC_PROCESSES: String(processes) } });
    const client = loadClient(server.url, server.credentials.root);
    if (round === 0) await within('the creation of buckets', server, createBuckets(client));
    const stop = new AbortController();
    const loading = load(client, models, { seed: seed + round, tally, signal: stop.signal });
    // A load that gets a wrong answer ends the round immediately.
    const failed = loading.then(() => new Promise<never>(() => {}));
    await Promise.race([
      inFull(tally, (round + 1) * writesPerRound).then(() => sleep(300 + random() * 900)),
      failed,
    ]);
    if (processes > 1) {
      killOneWorker(server, random);
      await Promise.race([sleep(300 + random() * 900), failed]);
    }
    await server.kill9();
    stop.abort();
    await within('the end of the load', server, loading);
    client.close();
    const faults = await verified(world, models);
    say(`round ${round}: ${JSON.stringify(tally)} ${faults.length === 0 ? 'ok' : 'WRONG'}`);
    if (faults.length > 0) return [...faults, server.log().slice(-2000)];
    tally.doubtful = 0;
  }
  const faults = await collected(world);
  if (faults.length > 0) return faults;
  return tally.acknowledged < rounds * writesPerRound
    ? [`only ${tally.acknowledged} writes were acknowledged`, ...tally.refusals]
    : [];
}

/** The result of a step, or an error with the log where it takes too long. */
async function within<T>(step: string, server: TestServer, work: Promise<T>): Promise<T> {
  const timer = new AbortController();
  const late = sleep(stepMs, undefined, { signal: timer.signal }).then(
    () => {
      throw new Error(`${step} did not end in ${stepMs / 1000} s: ${server.log().slice(-4000)}`);
    },
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    timer.abort();
  }
}

/** Waits until so many writes were acknowledged, or until a time limit. */
export async function inFull(tally: Tally, writes: number): Promise<void> {
  for (let waits = 0; waits < 2400 && tally.acknowledged < writes; waits += 1) await sleep(50);
}

/** Kills one of the serving processes; the primary starts another. */
function killOneWorker({ process: primary }: TestServer, random: () => number): void {
  const pids = childrenOf(primary.pid ?? 0);
  const pid = pids[Math.floor(random() * pids.length)];
  if (pid === undefined) throw new Error('the server has no processes of its own');
  process.kill(pid, 'SIGKILL');
}

export const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);

/** Starts a server on the data of the dead one, compares, and kills it too, because a kill may also interrupt recovery. */
async function verified({ dataDir, env }: World, models: ReturnType<typeof newModels>): Promise<string[]> {
  const server = await startServer({ dataDir, env });
  const client = loadClient(server.url, server.credentials.root);
  try {
    return await within('the comparison', server, verify(client, models));
  } finally {
    client.close();
    await server.kill9();
  }
}

/** Lets the sweep and gc finish, and runs fsck, which must find neither unowned nor missing bytes. */
async function collected({ dataDir, env, intentTtlMs }: World): Promise<string[]> {
  const server = await startServer({ dataDir, env });
  const client = loadClient(server.url, server.credentials.root);
  try {
    await within('the abort of uploads', server, abortUploads(client));
    await sleep(2 * intentTtlMs);
    const deadline = Date.now() + collectedMs;
    while (true) {
      // The sweep can reopen an upload whose completion was interrupted, at any time.
      await within('the abort of uploads', server, abortUploads(client));
      const last = await within('fsck', server, fsck(dataDir, env));
      const { leaving, stored, named } = last.summary;
      if (last.code === 0 && leaving === 0 && stored === named) break;
      if (Date.now() > deadline) return [`fsck: ${last.text}`, server.log().slice(-2000)];
      await sleep(500);
    }
  } finally {
    client.close();
    await server.stop();
  }
  const last = await fsck(dataDir, env);
  return last.code === 0 ? [] : [`fsck after the end: ${last.text}`];
}

interface Fsck {
  readonly code: number;
  readonly text: string;
  readonly summary: Readonly<Record<'leaving' | 'underway' | 'stored' | 'named', number>>;
}

/** @param settings such as a metadata backend outside of the directory */
export function fsck(dataDir: string, settings: Readonly<Record<string, string>> = {}): Promise<Fsck> {
  const args = [join(root, 'src/runtime/cli.ts'), 'fsck', '--data-dir', dataDir, '--json'];
  return new Promise((resolve) => {
    const env = { ...process.env, ...settings };
    execFile(
      process.execPath,
      args,
      { cwd: root, env, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        const lines = stdout.trim().split('\n');
        const { summary } = JSON.parse(lines.at(-1) || '{}') as { summary: Fsck['summary'] };
        const nothing = { leaving: -1, underway: -1, stored: -1, named: -2 };
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
        resolve({ code, text: `${stdout.slice(-4000)}${stderr.slice(-2000)}`, summary: summary ?? nothing });
      },
    );
  });
}
