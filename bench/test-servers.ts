/**
 * `node bench/test-servers.ts [rounds]`: how long the S3 servers that tests use take from the start of their process to their first answer, the CPU
 * that this takes, and their resident memory then, in turns; beside them `startTestServer()` in a process that has loaded it. Run `npm run
 * build` first: this gateway is measured as it is published. Linux only.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSeconds, processTree } from './lib/process-cost.ts';

const rounds = Number(process.argv[2] ?? 7);
const root = join(import.meta.dirname, '..');
const built = join(root, 'dist/testing/test-server.js');
const cache = join(root, '.cache/test-servers');
const folder = mkdtempSync(join(tmpdir(), 'sluice-test-servers-'));
const startMsMax = 60_000;

interface Target {
  readonly name: string;
  /** The reason why it cannot run here. */
  readonly missing?: string | undefined;
  readonly command: (port: number) => readonly [string, ...string[]];
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

const ownStart = `
  const { startTestServer } = await import(${JSON.stringify(built)});
  await startTestServer({ port: Number(process.argv[1]) });`;
const s3rver = installed('s3rver', '3.7.1', 's3rver');
const moto = join(
  process.env['ENGINES_HOME'] ?? join(homedir(), '.cache/sluice-engines'),
  'py/bin/moto_server',
);

const targets: readonly Target[] = [
  {
    name: 'sluice',
    missing: existsSync(built) ? undefined : 'run npm run build',
    command: (port) => [process.execPath, '--input-type=module', '--eval', ownStart, String(port)],
  },
  {
    name: 's3rver 3.7.1',
    command: (port) => [process.execPath, s3rver, '--directory', folder, '--port', String(port), '--silent'],
  },
  {
    name: 'moto 5.2.5',
    missing: existsSync(moto) ? undefined : 'run engines/keys/moto/install.sh',
    command: (port) => [moto, '-H', '127.0.0.1', '-p', String(port)],
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

async function measure({ name, command }: Target): Promise<Start> {
  const port = await freePort();
  const [program, ...args] = command(port);
  const begun = performance.now();
  const child = spawn(program, args, {
    stdio: 'ignore',
    env: { PATH: process.env['PATH'] ?? '', HOME: homedir() },
  });
  const ended = once(child, 'exit');
  try {
    while ((await ask(port)) === undefined) {
      if (child.exitCode !== null || performance.now() - begun > startMsMax)
        throw new Error(`${name} does not start`);
      await sleep(2);
    }
    const readyMs = performance.now() - begun;
    const pid = child.pid ?? 0;
    return { readyMs, cpuMs: cpuSeconds(pid) * 1000, rssMB: residentMB(pid) };
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** `startTestServer()` in a process that has loaded it, in ms. */
function measureCall(): number {
  const program = `
    const { startTestServer } = await import(${JSON.stringify(built)});
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

const found = targets.filter(({ missing }) => missing === undefined);
for (const { name, missing } of targets)
  if (missing !== undefined) console.log(`${name} is missing: ${missing}`);
const starts = new Map<string, Start[]>(found.map(({ name }) => [name, []]));
const calls: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  for (const target of found) starts.get(target.name)?.push(await measure(target));
  if (existsSync(built)) calls.push(measureCall());
}
rmSync(folder, { recursive: true, force: true });

const own = middle(starts.get('sluice') ?? []);
const cell = (value: number, unit: string, base: number): string =>
  `${value.toFixed(0)} ${unit} (${(value / base).toFixed(2)} ×)`;
console.log('| server | process to first answer | CPU for it | resident memory then |\n|---|---|---|---|');
for (const { name } of found) {
  const { readyMs, cpuMs, rssMB } = middle(starts.get(name) ?? []);
  console.log(
    `| ${name} | ${cell(readyMs, 'ms', own.readyMs)} | ${cell(cpuMs, 'ms', own.cpuMs)} | ${cell(rssMB, 'MB', own.rssMB)} |`,
  );
}
console.log(`startTestServer() in a process that has loaded it: ${median(calls).toFixed(0)} ms`);
