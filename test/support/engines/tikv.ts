/**
 * A PD with a TiKV-protocol store, started for the tests of one file, or the one that `SVC_KV_PD_ENDPOINTS` names.
 * Where it can be neither, the suites say why they are skipped; on CI they must run.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from './ports.ts';
import { startProcess } from './process.ts';
import { missingEngine } from './wanted.ts';

const root = join(import.meta.dirname, '../../..');
const directory = join(root, '.cache/engines');
const given = process.env['SVC_KV_PD_ENDPOINTS'];
const hasGo = spawnSync('go', ['version']).status === 0;
const readyMs = 60_000;

const absent = (binary: string): string | undefined =>
  missingEngine(existsSync(join(directory, binary)) || hasGo, 'needs Go, or SVC_KV_PD_ENDPOINTS');

/** Why there is no engine here; undefined where there is one, or could be. */
export const noTikv: string | undefined = given === undefined ? absent('unipd') : undefined;
/** The same of an engine that may be killed: one of our own, whatever is given. */
export const noOwnTikv: string | undefined = absent('unipd');
export const noDouble: string | undefined = absent('tikv-double');

/** Builds an engine where that was not done yet, and gives the program. */
export async function built(kind: 'uni' | 'double'): Promise<string> {
  await promisify(execFile)(join(root, 'engines/tikv/install.sh'), [directory, kind]);
  return join(directory, kind === 'uni' ? 'unipd' : 'tikv-double');
}

export interface Engine extends AsyncDisposable {
  readonly endpoints: readonly string[];
}

/** One that a test may hurt. */
export interface OwnEngine extends Engine {
  signal(name: NodeJS.Signals): void;
  /** `kill -9` between two transactions (see engines/tikv/uni: it keeps locks in memory), resolved when it is gone. */
  kill9(): Promise<void>;
  /** Starts it again on what it kept, and waits until it serves. */
  restart(): Promise<void>;
}

export async function startTikv(): Promise<Engine> {
  if (given !== undefined) return { endpoints: given.split(','), async [Symbol.asyncDispose]() {} };
  return startOwnTikv();
}

export async function startOwnTikv(): Promise<OwnEngine> {
  const binary = await built('uni');
  const data = await mkdtemp(join(tmpdir(), 'sluice-tikv-'));
  const [pd, peer, store] = (await freePorts(3)).map((port) => `127.0.0.1:${port}`) as [
    string,
    string,
    string,
  ];
  const args = ['-pd', pd, '-peer', peer, '-store', store, '-data', data];
  let running = startProcess(binary, args);
  const stop = async (): Promise<void> => {
    await running.kill9();
    await rm(data, { recursive: true, force: true });
  };
  try {
    await whenReady(pd, running.ended);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    endpoints: [pd],
    signal: (name) => running.signal(name),
    async kill9() {
      running.signal('SIGUSR2');
      await running.ended;
    },
    async restart() {
      await running.kill9();
      running = startProcess(binary, args);
      await whenReady(pd, running.ended);
    },
    [Symbol.asyncDispose]: stop,
  };
}

/** Ready is when the store has told PD of itself and leads its regions. */
export async function whenReady(
  pd: string,
  ended: Promise<void>,
  get: (url: string) => Promise<string> = async (url) => (await fetch(`http://${url}`)).text(),
): Promise<void> {
  let over = false;
  void ended.then(() => {
    over = true;
  });
  for (const until = performance.now() + readyMs; performance.now() < until && !over; await sleep(100)) {
    const answer = await get(`${pd}/pd/api/v1/stores`).catch(() => '');
    if (/"leader_count": ?[1-9]/.test(answer)) return;
  }
  throw new Error('PD and its store did not get ready');
}
