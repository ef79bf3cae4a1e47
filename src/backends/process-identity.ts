/**
 * Names of processes, by which another process of the machine sees whether one has ended, and what it has used. Linux only; elsewhere a
 * process has no name.
 */
import { readFileSync, readlinkSync } from 'node:fs';

/** What `/proc/<pid>/stat` tells of a process (proc(5)). */
interface ProcessStat {
  readonly pid: string;
  /** `Z` and `X` run no more. */
  readonly state: string;
  /** The time of processors that it has used itself, in clock ticks. */
  readonly usedTicks: number;
  /** In clock ticks since the boot. */
  readonly startedAt: string;
}

/** Undefined where there is no such process. @throws where that cannot be read */
export function readStat(pid: number | 'self'): ProcessStat | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw cause;
  }
  // The name of the program is in parentheses, and may contain spaces. The state behind it is field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const field = (number: number): string => fields[number - 3] as string;
  return {
    pid: stat.slice(0, stat.indexOf(' ')),
    state: field(3),
    usedTicks: Number(field(14)) + Number(field(15)),
    startedAt: field(22),
  };
}

/** Undefined where no such process runs. @throws where that cannot be read */
function findRunning(pid: number | 'self'): ProcessStat | undefined {
  const stat = readStat(pid);
  return stat?.state === 'Z' || stat?.state === 'X' ? undefined : stat;
}

/** `<boot>/<namespace of process ids>/<pid>/<start time>`: two processes never have the same. */
export function processIdentity(pid: number | 'self' = 'self'): string | undefined {
  try {
    const running = findRunning(pid);
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return running && [boot, readlinkSync('/proc/self/ns/pid'), running.pid, running.startedAt].join('/');
  } catch {
    return undefined;
  }
}

/** A process keeps its own, so a check of another one is a single read. */
let own: readonly string[] | undefined;

/** Whether it is certain that the process has ended. Of another namespace or an earlier boot this one knows nothing. */
export function hasEnded(identity: string): boolean {
  own ??= processIdentity()?.split('/');
  const [boot, namespace, pid, startedAt] = identity.split('/');
  if (own === undefined || own[0] !== boot || own[1] !== namespace) return false;
  try {
    return findRunning(Number(pid))?.startedAt !== startedAt;
  } catch {
    return false;
  }
}
