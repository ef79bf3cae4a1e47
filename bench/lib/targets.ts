/** The measured servers: this gateway in its variants, bare node:http, and peers; each started on its own directory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startRadosgwTarget, useCeph } from './ceph-targets.ts';
import { Connection } from './connection.ts';
import { bench, benchCredential } from './sign.ts';
import { installVersitygw } from './versitygw.ts';

export interface Running {
  readonly pid: number;
  readonly host: string;
  readonly port: number;
  stop(): Promise<void>;
}

export interface Target {
  /** When a write is acknowledged; the same on both sides of a comparison. */
  readonly durability: 'nothing kept' | 'page cache' | 'flushed';
  readonly doc: string;
  /** The target runs only when it is named. */
  readonly onlyNamed?: true;
  start(options: StartOptions): Promise<Running>;
}

export interface StartOptions {
  /** The folder of the data directories. */
  readonly directory: string;
  readonly processes: string;
  /** Another checkout of this project. */
  readonly checkout?: string | undefined;
  /** Data of an earlier start, which are removed in the end. Default: none. */
  readonly data?: string | undefined;
}

const host = '127.0.0.1';
const cli = fileURLToPath(new URL('../../src/runtime/cli.ts', import.meta.url));
const credentials = JSON.stringify([benchCredential]);

const cliIn = (checkout: string | undefined): string => {
  if (checkout === undefined) throw new Error('--checkout=PATH says where the other checkout is');
  return join(checkout, 'src/runtime/cli.ts');
};

/** The same settings in another checkout, to compare two commits in one run. */
const other = (env: Readonly<Record<string, string>>) => (options: StartOptions) =>
  start(cliIn(options.checkout), env, options);

export const sluice = (env: Readonly<Record<string, string>>) => (options: StartOptions) =>
  start(cli, env, options);

async function start(
  program: string,
  env: Readonly<Record<string, string>>,
  options: StartOptions,
): Promise<Running> {
  const directory = options.data ?? mkdtempSync(join(options.directory, 'sluice-'));
  const port = await freePort();
  const data = env['SVC_META_BACKEND'] === 'memory' ? [] : ['--data-dir', directory];
  const args = [program, 'serve', '--listen', `${host}:${port}`, ...data];
  return launch(process.execPath, args, {
    port,
    directory,
    env: {
      SVC_PROCESSES: env['SVC_META_BACKEND'] === 'memory' ? '1' : options.processes,
      SVC_CREDENTIALS: credentials,
      SVC_LOG_LEVEL: 'WARN',
      ...env,
    },
  });
}

const noop = { SVC_META_BACKEND: 'memory', SVC_DATA_BACKEND: 'noop' };

export const targets: Readonly<Record<string, Target>> = {
  bare: {
    durability: 'nothing kept',
    doc: 'bare node:http that answers and absorbs the same bytes',
    start: () => startBare(),
  },
  'bare-file': {
    durability: 'nothing kept',
    doc: 'the same, large bodies from a file by createReadStream',
    start: ({ directory: parent }) => startBare(mkdtempSync(join(parent, 'bare-'))),
  },
  floor: {
    durability: 'flushed',
    doc: 'bare node:http that receives, hashes, writes and flushes large bodies, and sends them verified',
    onlyNamed: true,
    start: ({ directory: parent }) => startBare(mkdtempSync(join(parent, 'floor-')), 'floor-server'),
  },
  'floor-small': {
    durability: 'flushed',
    doc: 'bare node:net that verifies signatures, hashes, writes and flushes small objects, and sends them verified',
    onlyNamed: true,
    start: ({ directory: parent }) => startBare(mkdtempSync(join(parent, 'floor-')), 'floor-small-server'),
  },
  noop: {
    durability: 'nothing kept',
    doc: 'sluice, metadata in memory, bytes dropped: the cost of the handlers',
    start: sluice(noop),
  },
  'noop-untraced': {
    durability: 'nothing kept',
    doc: 'the same without traces',
    onlyNamed: true,
    start: sluice({ ...noop, SVC_TRACE_BROWSER: 'off' }),
  },
  sluice: {
    durability: 'page cache',
    doc: 'sluice, embedded + file, SVC_FSYNC=never',
    start: sluice({ SVC_FSYNC: 'never' }),
  },
  'sluice-untraced': {
    durability: 'page cache',
    doc: 'the same without traces',
    onlyNamed: true,
    start: sluice({ SVC_FSYNC: 'never', SVC_TRACE_BROWSER: 'off' }),
  },
  'sluice-fsync': {
    durability: 'flushed',
    doc: 'sluice, embedded + file, SVC_FSYNC=always (the default)',
    start: sluice({ SVC_FSYNC: 'always' }),
  },
  'sluice-default': {
    durability: 'flushed',
    doc: 'sluice as it starts by itself: the same, SVC_PROCESSES=auto',
    onlyNamed: true,
    start: sluice({ SVC_PROCESSES: 'auto' }),
  },
  'other-fsync': {
    durability: 'flushed',
    doc: 'sluice of another checkout, as the target sluice-fsync',
    onlyNamed: true,
    start: other({ SVC_FSYNC: 'always' }),
  },
  other: {
    durability: 'page cache',
    doc: 'sluice of another checkout, as the target sluice',
    onlyNamed: true,
    start: other({ SVC_FSYNC: 'never' }),
  },
  'other-noop': {
    durability: 'nothing kept',
    doc: 'sluice of another checkout, as the target noop',
    onlyNamed: true,
    start: other(noop),
  },
  'sluice-ceph': {
    durability: 'flushed',
    doc: 'sluice, embedded + cluster-pool on a Ceph cluster of one OSD',
    onlyNamed: true,
    start: async (options) => {
      const { cluster, leave } = await useCeph();
      const clusters = [{ id: 'a', conf: cluster.conf, pool: 'chunks' }];
      const settings = { SVC_DATA_BACKEND: 'cluster-pool', SVC_POOL_CLUSTERS: JSON.stringify(clusters) };
      const running = await sluice(settings)(options);
      return { ...running, stop: () => running.stop().then(leave) };
    },
  },
  radosgw: {
    durability: 'flushed',
    doc: 'radosgw over the same cluster',
    onlyNamed: true,
    start: startRadosgwTarget,
  },
  versitygw: {
    durability: 'page cache',
    doc: 'versitygw posix --keep-alive, which does not flush',
    start: async ({ directory: parent }) => {
      const binary = await installVersitygw();
      const directory = mkdtempSync(join(parent, 'versitygw-'));
      const port = await freePort();
      const access = ['--access', bench.accessKey, '--secret', bench.secretKey, '--region', bench.region];
      const args = ['--port', `${host}:${port}`, ...access, '--keep-alive', '--quiet', 'posix', directory];
      return launch(binary, args, { port, directory, env: {} });
    },
  },
};

async function startBare(directory?: string, program = 'bare-server'): Promise<Running> {
  const script = fileURLToPath(new URL(`./${program}.ts`, import.meta.url));
  const child = spawn(process.execPath, directory === undefined ? [script] : [script, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the bare server ended')));
    child.stdout.once('data', (line: Buffer) => resolve(Number(line.toString().trim())));
  });
  return {
    pid: child.pid as number,
    host,
    port,
    stop: () => stop(child, directory),
  };
}

interface Launch {
  readonly port: number;
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
}

async function launch(
  command: string,
  args: readonly string[],
  { port, directory, env }: Launch,
): Promise<Running> {
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  let ended = false;
  child.once('exit', () => {
    ended = true;
  });
  const deadline = Date.now() + startMs;
  for (;;) {
    try {
      (await Connection.open({ host, port })).close();
      break;
    } catch (cause) {
      if (ended || Date.now() > deadline) {
        await stop(child, directory);
        throw new Error(`${command} did not start`, { cause });
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return { pid: child.pid as number, host, port, stop: () => stop(child, directory) };
}

const startMs = 60_000;
const stopMs = 10_000;

async function stop(child: ChildProcess, directory?: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), stopMs);
    await exited;
    clearTimeout(timer);
  }
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
}

/** A free port. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject);
    server.listen(0, host, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
