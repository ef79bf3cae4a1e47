/**
 * What an idle node costs, with every worker, on the embedded backends: the CPU of all its processes, the wake-ups of each process (voluntary
 * context switches of all its threads), and the bytes that they write. Linux only. `node bench/idle.ts [seconds] [processes]`
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { startServer } from '../test/support/server.ts';
import { bytesWrittenOf, cpuSeconds, processTree, wakeUpsOf } from './lib/process-cost.ts';

const [seconds = 60, processes = 2] = process.argv.slice(2).map(Number);
/** The workers' first passes are over by then. */
const settleMs = 40_000;

const server = await startServer({ env: { SVC_PROCESSES: String(processes) } });
try {
  await sleep(settleMs);
  const main = server.process.pid ?? 0;
  const pids = processTree(main);
  const sample = () => ({
    cpu: cpuSeconds(main),
    wakeUps: pids.map(wakeUpsOf),
    written: pids.map(bytesWrittenOf).reduce((sum, each) => sum + each, 0),
  });
  const before = sample();
  await sleep(seconds * 1000);
  const after = sample();
  const wakeUps = after.wakeUps.map((each, index) =>
    ((each - (before.wakeUps[index] ?? 0)) / seconds).toFixed(1),
  );
  process.stdout.write(
    [
      `${processes} processes and their primary, all workers, embedded and file, idle for ${seconds} s:`,
      `  CPU        ${((100 * (after.cpu - before.cpu)) / seconds).toFixed(2)} % of a core`,
      `  wake-ups   ${wakeUps.join(' + ')} a second`,
      `  written    ${((after.written - before.written) / 1024 / seconds).toFixed(2)} KiB/s`,
      '',
    ].join('\n'),
  );
} finally {
  await server.stop();
}
