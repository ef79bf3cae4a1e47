/**
 * What an idle node costs, with every worker, on the embedded backends, beside an idle versitygw in the same time: the
 * CPU of all processes, the wake-ups of each process (voluntary context switches of all its threads), and the bytes
 * that they write. Linux only.
 * `node bench/idle.ts [seconds] [processes]`
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startServer } from '../test/support/server.ts';
import { bytesWrittenOf, cpuSeconds, processTree, wakeUpsOf } from './lib/process-cost.ts';
import { targets } from './lib/targets.ts';

const [seconds = 60, processes = 2] = process.argv.slice(2).map(Number);
/**
 * The workers' first passes are over by then, their outcome is stored, and V8 has collected once what the start left,
 * two to three minutes after it.
 */
const settleMs = 240_000;

interface Sample {
  readonly cpu: number;
  readonly wakeUps: readonly number[];
  readonly written: number;
}

function watch(name: string, pid: number) {
  const pids = processTree(pid);
  const sample = (): Sample => ({
    cpu: cpuSeconds(pid),
    wakeUps: pids.map(wakeUpsOf),
    written: pids.map(bytesWrittenOf).reduce((sum, each) => sum + each, 0),
  });
  const before = sample();
  return (): string => {
    const after = sample();
    const wakeUps = after.wakeUps.map((each, n) => ((each - (before.wakeUps[n] ?? 0)) / seconds).toFixed(1));
    return [
      `${name}, idle for ${seconds} s:`,
      `  CPU        ${((100 * (after.cpu - before.cpu)) / seconds).toFixed(2)} % of a core`,
      `  wake-ups   ${wakeUps.join(' + ')} a second`,
      `  written    ${((after.written - before.written) / 1024 / seconds).toFixed(2)} KiB/s`,
      '',
    ].join('\n');
  };
}

const directory = mkdtempSync(join(tmpdir(), 'sluice-idle-'));
const peer = await targets['versitygw']?.start({ directory, processes: '1' });
const server = await startServer({ env: { SVC_PROCESSES: String(processes) } });
try {
  await sleep(settleMs);
  const watched = [
    watch(
      `${processes} processes and their primary, all workers, embedded and file`,
      server.process.pid ?? 0,
    ),
    ...(peer === undefined ? [] : [watch('versitygw', peer.pid)]),
  ];
  await sleep(seconds * 1000);
  for (const report of watched) process.stdout.write(report());
} finally {
  await server.stop();
  await peer?.stop();
  rmSync(directory, { recursive: true, force: true });
}
