/**
 * The resident memory of this process by kind. RSS alone misleads: it includes pages of lmdb's map, which the kernel reclaims whenever it
 * needs memory.
 */
import fs from 'node:fs';

/** Lines of `/proc/self/status`, in KiB. */
const kinds = [
  ['anonymous', 'RssAnon'],
  ['mapped_files', 'RssFile'],
  ['shared', 'RssShmem'],
] as const;

/** The last three kinds exist on Linux only. They add up to the resident memory. */
export function processMemory(): readonly (readonly [kind: string, bytes: number])[] {
  const { heapTotal, external } = process.memoryUsage();
  return [['heap', heapTotal], ['external', external], ...residentMemory()];
}

function residentMemory(): [string, number][] {
  let status: string;
  try {
    status = fs.readFileSync('/proc/self/status', 'latin1');
  } catch {
    // Not Linux, or no permission (Deno).
    return [];
  }
  const found: [string, number][] = [];
  for (const line of status.split('\n')) {
    const kind = kinds.find(([, name]) => line.startsWith(`${name}:`))?.[0];
    if (kind !== undefined) found.push([kind, Number.parseInt(line.slice(line.indexOf(':') + 1), 10) * 1024]);
  }
  return found;
}
