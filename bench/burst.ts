/**
 * `node bench/burst.ts [seconds]`: the memory of one server process during a burst of large bodies (16 clients of 1
 * MiB, then 4 of 64 MiB, that write and read), and each ten seconds after it. Linux only.
 */
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { caseOf } from './lib/cases.ts';
import { Load } from './lib/load.ts';
import { openBucket } from './lib/measure.ts';
import { targets } from './lib/targets.ts';

const [seconds = 8] = process.argv.slice(2).map(Number);
const mib = 2 ** 20;
const afterSeconds = 60;
const stepSeconds = 10;

/** MiB by kind: all that is resident, and the part that is no mapped file. */
function residentMiB(pid: number): { readonly all: number; readonly anonymous: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return { all: field('VmRSS'), anonymous: field('RssAnon') };
}

const target = targets['sluice-fsync'];
if (target === undefined) throw new Error('no target');
const running = await target.start({ directory: process.env['TMPDIR'] ?? tmpdir(), processes: '1' });
const server = { ...running, name: 'sluice' };
const load = new Load(4, { sleeps: true });
const peak = { all: 0, anonymous: 0 };
const look = (): void => {
  const now = residentMiB(server.pid);
  peak.all = Math.max(peak.all, now.all);
  peak.anonymous = Math.max(peak.anonymous, now.anonymous);
};
const report = (what: string, { all, anonymous }: typeof peak): void => {
  process.stdout.write(
    `${what.padEnd(32)} ${all.toFixed(0).padStart(5)} MiB resident, ${anonymous.toFixed(0)} anonymous\n`,
  );
};
const timer = setInterval(look, 50);
try {
  report('before', residentMiB(server.pid));
  for (const [size, clients] of [
    [mib, 16],
    [64 * mib, 4],
  ] as const)
    for (const operation of ['put-trailer', 'get'] as const) {
      const each = caseOf(operation, size);
      await openBucket(server, each);
      if (operation === 'get')
        await load.run({ ...server, ...each, operation: 'put', clients, seconds: 60, turns: each.keys });
      await load.run({ ...server, ...each, clients, seconds });
      report(`${operation}, ${size / mib} MiB, ${clients} clients: peak`, peak);
      peak.all = 0;
      peak.anonymous = 0;
    }
  for (let after = 0; after <= afterSeconds; after += stepSeconds) {
    report(`${after} s after the burst`, residentMiB(server.pid));
    await sleep(stepSeconds * 1000);
  }
} finally {
  clearInterval(timer);
  load.close();
  await server.stop();
}
