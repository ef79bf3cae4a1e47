/**
 * The real command in a child process, on a free port, over a temporary data directory: for suites that treat the gateway as a black box,
 * kill it, or run it on another runtime.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Defects } from './defects.ts';

const root = join(import.meta.dirname, '../..');
const defaultStartMs = 120_000;
const stopMs = 60_000;
/** The end of the log is kept, to show beside a failure. */
const logCharsMax = 256 * 1024;

export interface TestCredential {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly owner: string;
  readonly displayName: string;
  readonly root?: boolean;
  readonly operator?: boolean;
}

/** The operator, a user of another account, and the root of an account with a twelve-digit id, which SDKs require. */
export const testCredentials = {
  root: {
    accessKey: 'SLUICETESTROOT000001',
    secretKey: 'root-secret-key-of-the-test-suite-000001',
    owner: 'root-account',
    displayName: 'root',
    root: true,
    operator: true,
  },
  alice: {
    accessKey: 'SLUICETESTALICE00001',
    secretKey: 'alice-secret-key-of-the-test-suite-00001',
    owner: 'alice-account',
    displayName: 'alice',
  },
  numbered: {
    accessKey: 'SLUICETESTNUMBER0001',
    secretKey: 'numbered-secret-key-of-the-test-suite-01',
    owner: '123456789012',
    displayName: 'numbered',
    root: true,
  },
} satisfies Record<string, TestCredential>;

export interface StartOptions {
  /** `SVC_*` settings, which override those that this file sets. */
  readonly env?: Readonly<Record<string, string>>;
  /** Further arguments of `sluice serve`. */
  readonly args?: readonly string[];
  /** The program that runs the command. Default: the Node of the test. */
  readonly runtime?: readonly string[];
  /** The directory in which the command runs. Default: the project. */
  readonly cwd?: string;
  /** What the runtime runs. Default: the command's file in this project. */
  readonly command?: string;
  /** A directory of an earlier server, which is then not removed; `'memory'` keeps nothing. */
  readonly dataDir?: string | 'memory';
  /** The time limit of a start; longer for one that creates a schema. */
  readonly startMs?: number;
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly credentials: typeof testCredentials;
  /** '' when everything is in memory. */
  readonly dataDir: string;
  readonly process: ChildProcess;
  /** The end of the log. */
  log(): string;
  /** Stops the server like an operator: resolves with its exit code and removes a data directory that was created here. */
  stop(): Promise<number | null>;
  /** Kills every process of the server. Unlike a power cut, this keeps unflushed writes. The data directory stays. */
  kill9(): Promise<void>;
}

export async function startServer(options: StartOptions = {}): Promise<TestServer> {
  const own = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  const dataDir = options.dataDir === 'memory' ? '' : (options.dataDir ?? join(own, 'data'));
  const child = spawnServer(options, { own, dataDir });
  const defects = new Defects();
  const log = logOf(child, defects);
  const exit = new Promise<number | null>((resolve) => child.on('exit', (code) => resolve(code)));
  const kill = (signal: NodeJS.Signals): void => killGroup(child, signal);
  const onExit = (): void => kill('SIGKILL');
  process.on('exit', onExit);
  void exit.then(() => process.off('exit', onExit));
  const url = await endpointOf(child, { log, startMs: options.startMs ?? defaultStartMs }).catch(
    async (error: unknown) => {
      kill('SIGKILL');
      rmSync(own, { recursive: true, force: true });
      throw error;
    },
  );
  return {
    url,
    port: Number(new URL(url).port),
    credentials: testCredentials,
    dataDir,
    process: child,
    log,
    stop: async () => {
      child.kill('SIGTERM');
      const late = setTimeout(() => kill('SIGKILL'), stopMs);
      const code = await exit;
      clearTimeout(late);
      rmSync(own, { recursive: true, force: true });
      defects.assertNone();
      return code;
    },
    kill9: async () => {
      kill('SIGKILL');
      await exit;
      defects.assertNone();
    },
  };
}

function spawnServer(
  options: StartOptions,
  { own, dataDir }: { own: string; dataDir: string },
): ChildProcess {
  const credentialsFile = join(own, 'credentials.json');
  writeFileSync(credentialsFile, JSON.stringify(Object.values(testCredentials)), { mode: 0o600 });
  const [command = process.execPath, ...before] = options.runtime ?? [];
  const { PATH = '', HOME = own } = process.env;
  const sluice = options.command ?? join(root, 'src/runtime/cli.ts');
  return spawn(command, [...before, sluice, 'serve', ...(options.args ?? [])], {
    cwd: options.cwd ?? root,
    // A separate process group, so that `kill9` reaches exactly the processes of the server.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME,
      SVC_LISTEN: '127.0.0.1:0',
      SVC_CREDENTIALS_FILE: credentialsFile,
      SVC_PROCESSES: '1',
      ...(dataDir === '' ? {} : { SVC_DATA_DIR: dataDir }),
      ...options.env,
    },
  });
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function logOf(child: ChildProcess, defects: Defects): () => string {
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      log = (log + text).slice(-logCharsMax);
    });
    createInterface(stream).on('line', (line) => defects.seeLine(line));
  }
  return () => log;
}

/** Waits for the banner, which comes when the server accepts requests. */
function endpointOf(
  child: ChildProcess,
  { log, startMs }: { readonly log: () => string; readonly startMs: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the server did not start: ${log()}`)), startMs);
    const look = (): void => {
      const url = /^\s*endpoint\s+(https?:\/\/\S+)\s/m.exec(log())?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      child.stdout?.off('data', look);
      resolve(url);
    };
    child.stdout?.on('data', look);
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      clearTimeout(timer);
      reject(new Error(`the server ended with ${code ?? signal} before it served: ${log()}`));
    });
  });
}
