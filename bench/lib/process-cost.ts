/** The cost of a server, read from /proc: CPU time and memory of a process and all its descendants (Linux). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Clock ticks a second: 100 on all usual Linux systems. */
const ticksPerSecond = 100;

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // The process ended in between.
  }
};

function listThreads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // The process has ended.
  }
}

/** The process and its present descendants. */
export function processTree(pid: number): number[] {
  const children: number[] = [];
  const tasks = listThreads(pid);
  if (tasks.length === 0) return [];
  for (const task of tasks) {
    for (const child of (read(`/proc/${pid}/task/${task}/children`) ?? '').split(' ')) {
      if (child.trim() !== '') children.push(Number(child));
    }
  }
  return [pid, ...children.flatMap(processTree)];
}

/** User and system seconds of all threads, ended children included. */
function cpuOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return 0;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // utime, stime, cutime, cstime
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond;
}

export const cpuSeconds = (pid: number): number =>
  processTree(pid).reduce((sum, each) => sum + cpuOf(each), 0);

/** The time on processors (µs) of all present threads of the tree; finer than the ticks of `cpuSeconds`. */
export function cpuMicros(pid: number): number {
  let sum = 0;
  for (const each of processTree(pid))
    for (const thread of listThreads(each)) {
      const [nanoseconds] = (read(`/proc/${each}/task/${thread}/schedstat`) ?? '0').split(' ', 1);
      sum += Number(nanoseconds) / 1000;
    }
  return sum;
}

/** The only process that this one has started and that still runs. */
export function findChild(): number {
  const children = processTree(process.pid).slice(1);
  if (children.length !== 1) throw new Error(`there are ${children.length} processes, not one`);
  return children[0] as number;
}

/** The peak of the largest process of the tree in MiB, since `resetPeak`. */
export const peakMiB = (pid: number): number => Math.max(...processTree(pid).map((each) => peakOf(each)), 0);

function peakOf(pid: number): number {
  const line = /^VmHWM:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`) ?? '');
  return Number(line?.[1] ?? 0) / 1024;
}

export function resetPeak(pid: number): void {
  for (const each of processTree(pid)) {
    try {
      writeFileSync(`/proc/${each}/clear_refs`, '5');
    } catch {
      // Not permitted here, so the peak is that of the whole run.
    }
  }
}

/** How often the threads of a process waited for something, and how many bytes it wrote to disks, since its start. */
export function wakeUpsOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const switches = threads.map((id) =>
    numberIn(read(`/proc/${pid}/task/${id}/status`), 'voluntary_ctxt_switches'),
  );
  return switches.reduce((sum, each) => sum + each, 0);
}

export const bytesWrittenOf = (pid: number): number => numberIn(read(`/proc/${pid}/io`), 'write_bytes');

const numberIn = (text: string | undefined, name: string): number =>
  Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text ?? '')?.[1] ?? 0);
