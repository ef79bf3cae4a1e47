/**
 * A PD with a TiKV-protocol store, started for the tests of one file, or the one that `SVC_KV_PD_ENDPOINTS` names.
 * If neither is possible, the suites are skipped with the reason; on CI they must run.
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
/** The time limit of one question to PD, which may accept a connection before it answers. */
const askMs = 5_000;

const absent = (binary: string): string | undefined =>
  missingEngine(existsSync(join(directory, binary)) || hasGo, 'needs Go, or SVC_KV_PD_ENDPOINTS');

/** The reason why TiKV cannot run here; undefined if it can. */
export const noTikv: string | undefined = given === undefined ? absent('unipd') : undefined;
/** The same for an engine that a test may kill, which the test must start itself. */
export const noOwnTikv: string | undefined = absent('unipd');
export const noDouble: string | undefined = absent('tikv-double');

/** Builds the engine if needed, and returns the path of the program. */
export async function built(kind: 'uni' | 'double'): Promise<string> {
  await promisify(execFile)(join(root, 'engines/tikv/install.sh'), [directory, kind]);
  return join(directory, kind === 'uni' ? 'unipd' : 'tikv-double');
}

export interface Engine extends AsyncDisposable {
  readonly endpoints: readonly string[];
}

/** An engine into which a test may inject faults. */
export interface OwnEngine extends Engine {
  signal(name: NodeJS.Signals): void;
  /** `kill -9` between two transactions (see engines/tikv/uni: it keeps locks in memory). Resolves when the process has ended. */
  kill9(): Promise<void>;
  /** Starts the engine again on its data, and waits until it serves. */
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

/** Waits until the store is registered at PD and leads its regions. */
export async function whenReady(
  pd: string,
  ended: Promise<void>,
  get: (url: string) => Promise<string> = async (url) =>
    (await fetch(`http://${url}`, { signal: AbortSignal.timeout(askMs) })).text(),
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
