/**
 * What a start costs: wall time and CPU of `sluice serve` until it says that it serves, with the default backends, and the memory of each
 * process then and after some seconds without requests. `node bench/start.ts [starts] [--processes=1,2]
 * [--rest=SECONDS] [CHECKOUT ...]`: checkouts take turns, this one first. Linux only.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { cpuSeconds, processTree } from './lib/process-cost.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { processes: { type: 'string', default: '1,2' }, rest: { type: 'string', default: '0' } },
});
const starts = Number(positionals[0] ?? 5);
const checkouts = [join(import.meta.dirname, '..'), ...positionals.slice(1).map((path) => resolve(path))];

interface Memory {
  readonly resident: number;
  readonly anonymous: number;
}

interface Start {
  readonly wallMs: number;
  readonly cpuMs: number;
  /** MiB of each process: the primary first, where there is one. */
  readonly ready: readonly Memory[];
  readonly rested: readonly Memory[];
}

function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return { resident: field('VmRSS'), anonymous: field('RssAnon') };
}

async function start(checkout: string, processes: string, restMs = 0): Promise<Start> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-start-'));
  const begun = performance.now();
  const child = spawn('npm', ['start', '--silent', '--prefix', checkout], {
    cwd: checkout,
    detached: true,
    env: {
      ...process.env,
      SVC_DATA_DIR: directory,
      SVC_LISTEN: '127.0.0.1:0',
      SVC_PROCESSES: processes,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = child.pid ?? 0;
  const exited = new Promise((done) => child.once('exit', done));
  try {
    await new Promise<void>((done, refuse) => {
      child.once('exit', (code) => refuse(new Error(`the server ended with ${code}`)));
      child.stdout.on('data', (text: Buffer) => {
        if (text.includes('http://')) done();
      });
    });
    const wallMs = performance.now() - begun;
    // npm and its shell are no part of the server.
    const server = serverIn(pid);
    const cpuMs = cpuSeconds(server) * 1000;
    const pids = processTree(server);
    const ready = pids.map(memoryOf);
    await sleep(restMs);
    return { wallMs, cpuMs, ready, rested: pids.map(memoryOf) };
  } finally {
    process.kill(-pid, 'SIGTERM');
    await exited;
    rmSync(directory, { recursive: true, force: true });
  }
}

/** npm starts the server through a shell, which executes it. */
function serverIn(pid: number): number {
  const tree = processTree(pid);
  const found = tree.find((each) => readFileSync(`/proc/${each}/cmdline`, 'utf8').includes('\0serve\0'));
  return found ?? tree.at(-1) ?? pid;
}

const median = (values: readonly number[]): string =>
  (values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN).toFixed(0);
const memory = (of: readonly (readonly Memory[])[]): string =>
  (of[0] ?? [])
    .map((_, n) => {
      const each = of.flatMap((start) => start[n] ?? []);
      return `${median(each.map((m) => m.resident))}/${median(each.map((m) => m.anonymous))}`;
    })
    .join(' ');

for (const processes of values.processes.split(',')) {
  const all = new Map<string, Start[]>(checkouts.map((checkout) => [checkout, []]));
  for (const checkout of checkouts) await start(checkout, processes); // Fills the compile cache.
  for (let n = 0; n < starts; n += 1)
    for (const checkout of checkouts)
      all.get(checkout)?.push(await start(checkout, processes, Number(values.rest) * 1000));
  for (const [checkout, measured] of all)
    process.stdout.write(
      `${checkout}, SVC_PROCESSES=${processes}, ${starts} starts, load ${loadavg()[0]?.toFixed(0)}\n` +
        `  ready     ${median(measured.map((each) => each.wallMs))} ms, least ${Math.min(...measured.map((each) => each.wallMs)).toFixed(0)}\n` +
        `  CPU       ${median(measured.map((each) => each.cpuMs))} ms, least ${Math.min(...measured.map((each) => each.cpuMs)).toFixed(0)}\n` +
        `  MiB of each process, resident/anonymous: ${memory(measured.map((each) => each.ready))}; ${values.rest} s later ${memory(measured.map((each) => each.rested))}\n`,
    );
}
