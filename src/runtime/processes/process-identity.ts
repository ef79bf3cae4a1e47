/** Names of processes, by which another process of the machine sees whether one has ended. Linux only; elsewhere a process has no name. */
import { readFileSync, readlinkSync } from 'node:fs';

/** `<boot>/<namespace of process ids>/<pid>/<start time>`: two processes never have the same. */
export function processIdentity(pid: number | 'self' = 'self'): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program is in parentheses, and may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startedAt] = [fields[0], fields[19]];
    // A zombie runs no more.
    if (startedAt === undefined || state === 'Z' || state === 'X') return undefined;
    return [boot, readlinkSync('/proc/self/ns/pid'), stat.slice(0, stat.indexOf(' ')), startedAt].join('/');
  } catch {
    return undefined;
  }
}

/** Whether it is certain that the process has ended. Of another namespace or an earlier boot this one knows nothing. */
export function hasEnded(identity: string): boolean {
  const own = processIdentity()?.split('/');
  const [boot, namespace, pid] = identity.split('/');
  if (own === undefined || own[0] !== boot || own[1] !== namespace) return false;
  return processIdentity(Number(pid)) !== identity;
}
