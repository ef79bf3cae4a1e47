/** Setup shared by the suites of all clients: a server, a fresh home directory, files to upload, and a way to run programs. */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer, type TestCredential, type TestServer } from '../support/server.ts';
import { type Client, installed } from './installed.ts';

export const mib = 1024 * 1024;
export const largeBytes = 100 * mib;
export const region = 'us-east-1';
/** The parent domain of the buckets' website hosts. */
export const websiteDomain = 'site.test';
/** More than two pages of 1,000. */
export const keyCount = 2_500;
/** The time limit of a program, in milliseconds; its test fails when it takes longer. */
const runMs = 120_000;
/** The name of a key in the wide listing; the space and the letters beyond ASCII must survive every encoding. */
export const wideKey = (index: number): string => `wide/k ${String(index).padStart(4, '0')} é+&.txt`;

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A gateway that clients reach: a server of Node, or a Worker. */
type Served = Pick<TestServer, 'url' | 'credentials' | 'log'> & { stop(): Promise<unknown> };

export interface World {
  readonly server: Served;
  readonly url: string;
  readonly host: string;
  readonly user: TestCredential;
  /** The client's HOME and the folder of its files; empty at the start. */
  readonly home: string;
  /** Runs a program to its end and returns its exit status and output. */
  attempt(program: string, ...args: string[]): Promise<Ran>;
  /** Runs a program that must succeed, and returns what it printed. */
  run(program: string, ...args: string[]): Promise<string>;
  /** Creates a file of random bytes. */
  file(name: string, size: number): SampleFile;
  path(name: string): string;
  stop(): Promise<void>;
}

export interface SampleFile {
  readonly path: string;
  readonly size: number;
  readonly sha: string;
  readonly bytes: Buffer;
}

/** The values from which a program's environment is built. */
export type Place = Pick<World, 'url' | 'host' | 'user' | 'home'>;

/** The environment variables of the AWS clients, without the endpoint, whose variable has another name in each client. */
export const awsKeys = ({ user }: Place): Record<string, string> => ({
  AWS_ACCESS_KEY_ID: user.accessKey,
  AWS_SECRET_ACCESS_KEY: user.secretKey,
  AWS_REGION: region,
  AWS_DEFAULT_REGION: region,
});

/** `SVC_*` settings of the server. */
export type Settings = Readonly<Record<string, string>>;

/** @param env environment variables of the programs, in addition to PATH, HOME and the locale */
export async function startWorld(
  env: (place: Place) => Record<string, string>,
  settings: Settings = {},
): Promise<World> {
  const server = await startServer({
    env: { SVC_PROCESSES: '2', SVC_WEBSITE_DOMAIN: websiteDomain, ...settings },
  });
  return openWorld(server, env);
}

/** A world over a gateway that runs already; `stop` ends the gateway too. */
export function openWorld(server: Served, env: (place: Place) => Record<string, string>): World {
  const home = mkdtempSync(join(tmpdir(), 'sluice-client-'));
  const { url } = server;
  const base = { url, host: new URL(url).host, user: server.credentials.alice, home };
  const environment = { PATH: process.env['PATH'] ?? '', HOME: home, LC_ALL: 'C.UTF-8', ...env(base) };
  const path = (name: string): string => join(home, name);
  const attempt = (program: string, ...args: string[]): Promise<Ran> =>
    runProgram(program, args, { env: environment, cwd: home });
  return {
    ...base,
    server,
    path,
    attempt,
    run: async (program, ...args) => {
      const { code, stdout, stderr } = await attempt(program, ...args);
      if (code === 0) return stdout;
      throw new Error(
        `${[program, ...args].join(' ')} ended with ${code}\n${stdout}\n${stderr}\n${server.log().slice(-4_000)}`,
      );
    },
    file: (name, size) => {
      const bytes = randomBytes(size);
      mkdirSync(join(path(name), '..'), { recursive: true });
      writeFileSync(path(name), bytes);
      return { path: path(name), size, sha: sha(bytes), bytes };
    },
    stop: async () => {
      await server.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** A world for one program, and the two files that it uploads first. */
export interface ProgramWorld extends World {
  readonly program: string;
  readonly small: SampleFile;
  readonly large: SampleFile;
  /** Runs the program, which must succeed, and returns what it printed. */
  tool(...args: string[]): Promise<string>;
}

export async function startProgram(
  client: Client,
  env: (place: Place) => Record<string, string> = () => ({}),
): Promise<ProgramWorld> {
  const program = installed(client);
  const world = await startWorld(env);
  return {
    ...world,
    program,
    small: world.file('small é+.bin', 4_096),
    large: world.file('large.bin', largeBytes),
    tool: (...args) => world.run(program, ...args),
  };
}

function runProgram(
  program: string,
  args: readonly string[],
  options: { env: Record<string, string>; cwd: string },
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], timeout: runMs });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({ code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }),
    );
  });
}

export const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export async function shaOfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/**
 * Creates a directory of 2,500 small files, named like the keys of the wide listing. They are a minute old: listings have
 * whole seconds, as the public service's, so a program that compares times sees a file that was uploaded in the second in
 * which it was written as newer than its object.
 */
export function wideDirectory(world: Pick<World, 'path'>): string {
  const root = world.path('tree');
  mkdirSync(join(root, 'wide'), { recursive: true });
  const minuteAgo = Date.now() / 1000 - 60;
  for (let index = 0; index < keyCount; index++) {
    const path = join(root, wideKey(index));
    writeFileSync(path, `body ${index}\n`);
    utimesSync(path, minuteAgo, minuteAgo);
  }
  return root;
}

export const wideKeys = (): string[] => Array.from({ length: keyCount }, (_, index) => wideKey(index));

/** Writes the settings of s3cmd into the home of the world. Without `%(bucket)s` in the host it uses path-style addressing. */
export function configureS3cmd({ host, user, path }: Pick<World, 'host' | 'user' | 'path'>): void {
  const lines = [
    '[default]',
    `access_key = ${user.accessKey}`,
    `secret_key = ${user.secretKey}`,
    `bucket_location = ${region}`,
    `host_base = ${host}`,
    `host_bucket = ${host}`,
    'use_https = False',
  ];
  writeFileSync(path('.s3cfg'), lines.join('\n'));
}
