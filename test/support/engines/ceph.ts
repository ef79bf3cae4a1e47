/**
 * Ceph clusters, of one OSD each unless a test asks for more, started for the tests of one file. If they cannot run, the suites are
 * skipped with the reason; on CI they must run.
 */
import { execFile, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { areFree, freePorts } from './ports.ts';
import { missingEngine } from './wanted.ts';

const scripts = join(import.meta.dirname, '../../../engines/ceph');
const isInstalled = ['ceph-mon', 'ceph-mgr', 'ceph-osd'].every(
  (name) => spawnSync(name, ['--version']).status === 0,
);
const run = promisify(execFile);

/** The reason why Ceph cannot run here; undefined if it can. */
export const noCeph: string | undefined = missingEngine(
  isInstalled,
  'needs engines/ceph/install.sh to have run',
);

/** The daemons of a cluster, named like their process id files. */
export type Daemon = 'mon.a' | 'mgr.x' | 'osd.0';
export const daemons: readonly Daemon[] = ['mon.a', 'mgr.x', 'osd.0'];

export interface CephCluster extends AsyncDisposable {
  readonly conf: string;
  /** The Ceph user of the gateways. */
  readonly user: string;
  readonly monHosts: string;
  readonly keyring: string;
  /** Runs `ceph …` as the administrator. @returns its output */
  ceph(...args: readonly string[]): Promise<string>;
  /** Runs `rados …` as the administrator. @returns its output */
  rados(...args: readonly string[]): Promise<string>;
  signal(daemon: Daemon, signal: NodeJS.Signals): void;
  /** Stops a daemon cleanly and waits for its end. */
  stop(daemon: Daemon): Promise<void>;
  /** Starts the daemons that do not run, and waits until the cluster is healthy. */
  start(): Promise<void>;
}

/** Settings of a gateway that keeps its chunks in a pool, or a namespace in it, of one cluster, called `a`. */
export const settingsOf = ({ conf }: Pick<CephCluster, 'conf'>, pool = 'chunks', namespace?: string) => ({
  SVC_DATA_BACKEND: 'cluster-pool',
  SVC_POOL_CLUSTERS: JSON.stringify([{ id: 'a', conf, pool, namespace }]),
});

export interface Radosgw {
  readonly endpoint: string;
  readonly accessKey: string;
  readonly secretKey: string;
}

/** Starts a cluster. Its manager reports the use of pools every few seconds, so tests of use wait for that long. */
export async function startCeph(pools: readonly string[] = ['chunks'], osds = 1): Promise<CephCluster> {
  await run(join(scripts, 'install.sh'));
  const directory = await mkdtemp(join(tmpdir(), 'sluice-ceph-'));
  const port = await freeRange();
  const conf = join(directory, 'ceph.conf');
  const start = async (): Promise<void> => {
    await run(join(scripts, 'start.sh'), [directory, `${port}`, pools.join(' '), `${osds}`]);
  };
  const pidOf = (daemon: string): number =>
    Number(readFileSync(join(directory, 'run', `${daemon}.pid`), 'utf8'));
  const asAdmin =
    (program: string) =>
    async (...args: readonly string[]): Promise<string> =>
      (await run(program, ['-c', conf, '-n', 'client.admin', ...args], { maxBuffer: 1 << 26 })).stdout;
  const dispose = async (): Promise<void> => {
    const others = Array.from({ length: osds - 1 }, (_, i) => `osd.${i + 1}`);
    for (const daemon of [...daemons, ...others]) kill(() => pidOf(daemon));
    await run(join(scripts, 'stop.sh'), [directory, 'wipe']);
  };
  try {
    await start();
  } catch (error) {
    await dispose();
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
  return {
    conf,
    user: 'client.sluice',
    monHosts: `[v2:127.0.0.1:${port},v1:127.0.0.1:${port + 1}]`,
    keyring: join(directory, 'keyring'),
    ceph: asAdmin('ceph'),
    rados: asAdmin('rados'),
    signal: (daemon, signal) => {
      process.kill(pidOf(daemon), signal);
    },
    async stop(daemon) {
      const pid = pidOf(daemon);
      process.kill(pid, 'SIGTERM');
      while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 50));
    },
    start,
    [Symbol.asyncDispose]: dispose,
  };
}

const radosgwKeys = { accessKey: 'RADOSGWACCESSKEY', secretKey: 'radosgw-secret-key-0123456789' };

/** A radosgw over a cluster, which is stopped with it. */
export async function startRadosgw(
  { conf }: CephCluster,
  { accessKey, secretKey }: Pick<Radosgw, 'accessKey' | 'secretKey'> = radosgwKeys,
): Promise<Radosgw> {
  const [port] = (await freePorts(1)) as [number];
  await run(join(scripts, 'radosgw.sh'), [join(conf, '..'), String(port), accessKey, secretKey]);
  return { endpoint: `http://127.0.0.1:${port}`, accessKey, secretKey };
}

/** A cluster uses ports near the given one, below those that the kernel assigns. */
async function freeRange(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt += 1) {
    const port = 18_000 + 64 * randomInt(200);
    if (await areFree([port, port + 1, port + 10, port + 11, port + 12, port + 13, port + 14])) return port;
  }
  throw new Error('found no free ports for a Ceph cluster');
}

/** Kills the daemons, because their data is deleted anyway. */
function kill(pid: () => number): void {
  try {
    process.kill(pid(), 'SIGKILL');
  } catch {
    // The process has ended or was never started.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
