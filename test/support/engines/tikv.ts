/**
 * A PD with a TiKV-protocol store, started for the tests of one file, or the one that `SVC_KV_PD_ENDPOINTS` names.
 * Where it can be neither, the suites say why they are skipped; on CI they must run.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from './ports.ts';

const root = join(import.meta.dirname, '../../..');
const binary = join(root, '.cache/engines/unipd');
const given = process.env['SVC_KV_PD_ENDPOINTS'];
const hasGo = spawnSync('go', ['version']).status === 0;
const readyMs = 60_000;

/** Why there is no engine here; undefined where there is one, or could be. */
export const noTikv: string | undefined =
  given !== undefined || existsSync(binary) || hasGo || process.env['CI'] !== undefined
    ? undefined
    : 'needs Go, or SVC_KV_PD_ENDPOINTS';

export interface Engine extends AsyncDisposable {
  readonly endpoints: readonly string[];
}

export async function startTikv(): Promise<Engine> {
  if (given !== undefined) return { endpoints: given.split(','), async [Symbol.asyncDispose]() {} };
  await promisify(execFile)(join(root, 'engines/tikv/install.sh'), [binary]);
  const data = await mkdtemp(join(tmpdir(), 'sluice-tikv-'));
  const [pd, peer, store] = (await freePorts(3)).map((port) => `127.0.0.1:${port}`) as [
    string,
    string,
    string,
  ];
  const args = ['-pd', pd, '-peer', peer, '-store', store, '-data', data];
  const engine = spawn(binary, args, { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => engine.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    engine.kill('SIGKILL');
    await ended;
    await rm(data, { recursive: true, force: true });
  };
  try {
    await whenReady(pd, ended);
  } catch (error) {
    await stop();
    throw error;
  }
  return { endpoints: [pd], [Symbol.asyncDispose]: stop };
}

/** Ready is when the store has told PD of itself and leads its regions. */
async function whenReady(pd: string, ended: Promise<void>): Promise<void> {
  let over = false;
  void ended.then(() => {
    over = true;
  });
  for (const until = performance.now() + readyMs; performance.now() < until && !over; await sleep(100)) {
    const answer = await fetch(`http://${pd}/pd/api/v1/stores`).catch(() => undefined);
    const { stores = [] } = ((await answer?.json().catch(() => ({}))) ?? {}) as {
      stores?: { status?: { leader_count?: number } }[];
    };
    if (stores.some(({ status }) => (status?.leader_count ?? 0) > 0)) return;
  }
  throw new Error('PD and its store did not get ready');
}
