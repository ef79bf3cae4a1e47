/**
 * `node bench/test-servers.ts [rounds] [server]`: how long the S3 servers that tests use take from the start of their
 * process to their first answer, the CPU that this takes, their resident memory then, in turns, and which behaviours of
 * the public API they have; beside them `startTestServer()` in a process that has loaded it. Run `npm run build` first:
 * this gateway is measured as it is published. Linux only.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ListBucketsCommand, S3Client } from '@aws-sdk/client-s3';
import { cpuSeconds, processTree } from './lib/process-cost.ts';
import { behaviours, has } from './lib/s3-behaviours.ts';

const rounds = Number(process.argv[2] ?? 7);
const root = join(import.meta.dirname, '..');
const bundle = join(root, 'dist/testing/test-server.js');
const cache = join(root, '.cache/test-servers');
const folder = mkdtempSync(join(tmpdir(), 'sluice-test-servers-'));
const startMsMax = 240_000;

interface Target {
  readonly name: string;
  /** The reason why it cannot run here. */
  readonly missing?: string | undefined;
  readonly command: (port: number) => readonly [string, ...string[]];
  /** A key that may do everything. */
  readonly key: readonly [id: string, secret: string];
}

/** A package of npm, installed once beside the other caches. */
function installed(name: string, version: string, bin: string): string {
  const at = join(cache, name.replace('/', '-'));
  const path = join(at, 'node_modules/.bin', bin);
  if (existsSync(path)) return path;
  mkdirSync(at, { recursive: true });
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', at, `${name}@${version}`], {
    stdio: 'inherit',
  });
  return path;
}

/**
 * A package of Maven with all that it needs, as a class path. It names slf4j itself, because of several versions Maven
 * takes the oldest.
 */
function classPath(group: string, name: string, version: string): string | undefined {
  const at = join(cache, `${name}-${version}`);
  const jars = join(at, 'jars');
  if (!existsSync(jars)) {
    mkdirSync(at, { recursive: true });
    writeFileSync(
      join(at, 'pom.xml'),
      `<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version><dependencies>
      <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>2.0.18</version></dependency>
      <dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency></dependencies></project>`,
    );
    const args = [
      '-q',
      'dependency:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${jars}`,
    ];
    if (spawnSync('mvn', args, { cwd: at, stdio: 'inherit' }).status !== 0) return undefined;
  }
  return join(jars, '*');
}

const ownKey = ['sluice', 'sluice-secret'] as const;
const anyKey = ['TESTKEY', 'test-secret-key'] as const;
const ownStart = `
  const { startTestServer } = await import(${JSON.stringify(bundle)});
  await startTestServer({ port: Number(process.argv[1]) });`;
const notBuilt = existsSync(bundle) ? undefined : 'run npm run build';
const s3rver = installed('s3rver', '3.7.1', 's3rver');
const s3mock = classPath('com.adobe.testing', 's3mock', '5.2.0');
const minio = process.env['MINIO'];
const moto = join(
  process.env['ENGINES_HOME'] ?? join(homedir(), '.cache/sluice-engines'),
  'py/bin/moto_server',
);

const targets: readonly Target[] = [
  {
    name: 'sluice/testing',
    missing: notBuilt,
    key: ownKey,
    command: (port) => [process.execPath, '--input-type=module', '--eval', ownStart, String(port)],
  },
  {
    name: 'sluice dev',
    missing: notBuilt,
    key: ownKey,
    command: (port) => [process.execPath, join(root, 'dist/runtime/cli.js'), 'dev', '--port', String(port)],
  },
  {
    name: 's3rver 3.7.1',
    key: ['S3RVER', 'S3RVER'],
    command: (port) => [process.execPath, s3rver, '--directory', folder, '--port', String(port), '--silent'],
  },
  {
    name: 'moto 5.2.5',
    missing: existsSync(moto) ? undefined : 'run engines/keys/moto/install.sh',
    key: anyKey,
    command: (port) => [moto, '-H', '127.0.0.1', '-p', String(port)],
  },
  {
    name: 'Adobe S3Mock 5.2.0',
    missing: s3mock === undefined ? 'Maven did not bring it' : undefined,
    key: anyKey,
    command: (port) => [
      'java',
      '-cp',
      s3mock ?? '',
      'com.adobe.testing.s3mock.S3MockApplication',
      '--server.port=0',
      `--http.port=${port}`,
    ],
  },
  {
    name: 'MinIO',
    missing: minio === undefined ? 'set MINIO to its program' : undefined,
    key: ['minioadmin', 'minioadmin'],
    command: (port) => [minio ?? '', 'server', join(folder, 'minio'), '--address', `127.0.0.1:${port}`],
  },
];

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** One request on a connection of its own; undefined while nothing listens. */
const ask = (port: number): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'),
    );
    socket.once('data', (data) => {
      socket.destroy();
      resolve(String(data));
    });
    socket.once('error', () => resolve(undefined));
    socket.once('close', () => resolve(undefined));
  });

const residentMB = (pid: number): number =>
  processTree(pid).reduce((sum, each) => {
    const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'));
    return sum + (Number(line?.[1] ?? 0) * 1024) / 1e6;
  }, 0);

interface Start {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly rssMB: number;
}

interface Running {
  readonly start: Start;
  readonly endpoint: string;
  hasEnded(): boolean;
  stop(): Promise<void>;
}

async function run({ name, command }: Target): Promise<Running> {
  const port = await freePort();
  const [program, ...args] = command(port);
  const begun = performance.now();
  const child = spawn(program, args, {
    stdio: 'ignore',
    env: { PATH: process.env['PATH'] ?? '', HOME: homedir() },
  });
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
  };
  const hasEnded = (): boolean => child.exitCode !== null;
  while ((await ask(port)) === undefined) {
    if (child.exitCode !== null || performance.now() - begun > startMsMax) {
      await stop();
      throw new Error(`${name} does not start`);
    }
    await sleep(2);
  }
  const readyMs = performance.now() - begun;
  const pid = child.pid ?? 0;
  const start = { readyMs, cpuMs: cpuSeconds(pid) * 1000, rssMB: residentMB(pid) };
  return { start, endpoint: `http://127.0.0.1:${port}`, hasEnded, stop };
}

async function measure(target: Target): Promise<Start> {
  const { start, stop } = await run(target);
  await stop();
  return start;
}

/** The names of the behaviours that it does not have. A server that a check has ended starts again for the next one. */
async function findMissing(target: Target): Promise<readonly string[]> {
  const [accessKeyId, secretAccessKey] = target.key;
  const credentials = { accessKeyId, secretAccessKey };
  const missing: string[] = [];
  let running = await run(target);
  for (const name of Object.keys(behaviours)) {
    if (running.hasEnded()) running = await run(target);
    const { endpoint } = running;
    const client = new S3Client({
      endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials,
      maxAttempts: 1,
    });
    // Some answer before they serve.
    for (let tries = 0; tries < 100 && !(await isReady(client)); tries += 1) await sleep(100);
    if (!(await has(name, client, endpoint))) missing.push(name);
    client.destroy();
  }
  await running.stop();
  return missing;
}

const isReady = (client: S3Client): Promise<boolean> =>
  client.send(new ListBucketsCommand({})).then(
    () => true,
    () => false,
  );

/** `startTestServer()` in a process that has loaded it, in ms. */
function measureCall(): number {
  const program = `
    const { startTestServer } = await import(${JSON.stringify(bundle)});
    const begun = performance.now();
    const server = await startTestServer();
    console.log(performance.now() - begun);
    await server.close();`;
  return Number(
    execFileSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' }),
  );
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const middle = (starts: readonly Start[]): Start => ({
  readyMs: median(starts.map(({ readyMs }) => readyMs)),
  cpuMs: median(starts.map(({ cpuMs }) => cpuMs)),
  rssMB: median(starts.map(({ rssMB }) => rssMB)),
});

const only = process.argv[3];
const found = targets.filter(({ name, missing }) => missing === undefined && name.startsWith(only ?? ''));
for (const { name, missing } of targets)
  if (missing !== undefined) console.log(`${name} is missing: ${missing}`);
const starts = new Map<string, Start[]>(found.map(({ name }) => [name, []]));
const calls: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  for (const target of found) starts.get(target.name)?.push(await measure(target));
  if (existsSync(bundle)) calls.push(measureCall());
}
const missing = new Map<string, readonly string[]>();
for (const target of found) missing.set(target.name, await findMissing(target));
rmSync(folder, { recursive: true, force: true });

const own = middle(starts.get('sluice/testing') ?? []);
const cell = (value: number, unit: string, base: number): string =>
  `${value.toFixed(0)} ${unit} (${(value / base).toFixed(2)} ×)`;
const all = Object.keys(behaviours).length;
console.log(
  `| server | process to first answer | CPU for it | resident memory then | behaviours of ${all} |\n|---|---|---|---|---|`,
);
for (const { name } of found) {
  const { readyMs, cpuMs, rssMB } = middle(starts.get(name) ?? []);
  console.log(
    `| ${name} | ${cell(readyMs, 'ms', own.readyMs)} | ${cell(cpuMs, 'ms', own.cpuMs)} | ${cell(rssMB, 'MB', own.rssMB)} | ${all - (missing.get(name)?.length ?? all)} |`,
  );
}
console.log(`startTestServer() in a process that has loaded it: ${median(calls).toFixed(0)} ms`);
for (const [name, failed] of missing)
  if (failed.length > 0) console.log(`${name} lacks: ${failed.join('; ')}`);
