/** `SVC_WORKERS`: which background workers this process runs. */
import { fault, type Read, type Setting, value } from '../setting.ts';

/** The workers that this build contains. */
export const workerNames = [
  'gc',
  'bucket-stats',
  'force-empty',
  'fsck',
  'lifecycle',
  'queue-retention',
  'rebalance',
  'reshard',
  'rewrap',
  'scrub',
  'access-log',
  'audit-retention',
  'health-history',
  'inventory',
  'notify',
  'quota-reconcile',
  'replicator',
  'usage-rollup',
] as const;
export type WorkerName = (typeof workerNames)[number];

/** The sweeper runs in every gateway, whatever `SVC_WORKERS` says. */
export const sweeperName = 'sweep';

/** The workers that operators see, pause, resume and run. */
export const controlledWorkers = [...workerNames, sweeperName] as const;
export type ControlledWorker = (typeof controlledWorkers)[number];

const accepted: readonly string[] = [...workerNames, 'all', 'gateway'];

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

// `SVC_PROCESSES`: a number, or one per core.

const processesMax = 256;

export const processes = (fallback: string, doc: string): Setting<number | 'auto'> => ({
  kind: 'whole number or `auto`',
  doc,
  fallback,
  range: `[1, ${processesMax}]`,
  outside: 'refused',
  read: (given) => {
    if (given === 'auto') return value('auto' as const);
    if (!/^\d{1,6}$/.test(given)) return fault('is not a whole number or auto');
    const count = Number(given);
    return count >= 1 && count <= processesMax ? value(count) : fault(`is outside [1, ${processesMax}]`);
  },
});
