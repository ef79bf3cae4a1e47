/** `SVC_WORKERS`: which background workers this process runs (spec item 11). */
import { fault, type Read, type Setting, value } from './setting.ts';

/** The workers that this build contains; a name that is not built yet is unknown (design §7.25). */
export const workerNames = ['gc', 'bucket-stats', 'force-empty', 'fsck', 'rebalance', 'reshard'] as const;
export type WorkerName = (typeof workerNames)[number];

const accepted = [...workerNames, 'all', 'gateway'];

function readWorkers(given: string): Read<readonly WorkerName[]> {
  const named = given
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const unknown = named.filter((name) => !accepted.includes(name));
  if (unknown.length > 0) {
    return fault(...unknown.map((name) => `: unknown worker "${name}", known are ${accepted.join(', ')}`));
  }
  return value(workerNames.filter((name) => named.includes('all') || named.includes(name)));
}

export const workers = (fallback: string, doc: string): Setting<readonly WorkerName[]> => ({
  kind: `comma list of ${accepted.map((name) => `\`${name}\``).join(', ')}`,
  doc,
  fallback,
  emptyIsValue: true,
  read: readWorkers,
});
