/** The settings of workers: which of them this process runs, and those of usage and lifecycle. */
import { bytes, duration, integer, text } from './kinds.ts';
import { fault, type Read, type Setting, value } from './setting.ts';

// The settings of the usage workers.

export const usageSettings = {
  SVC_USAGE_ROLLUP_AT: text({
    kind: 'time of day',
    fallback: '00:00',
    pattern: /^(?:[01]\d|2[0-3]):[0-5]\d$/,
    otherwise: 'is not a UTC time of day such as 00:00 or 23:59',
    doc: 'The UTC time of day at which the usage of ended days is written.',
  }),
  SVC_USAGE_ROLLUP_INTERVAL: duration({
    fallback: '24h',
    range: ['1m', '24h'],
    doc: 'The time between two ticks of the usage-rollup worker, counted from SVC_USAGE_ROLLUP_AT.',
  }),
  SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: integer({
    fallback: '24',
    range: ['1', '1440'],
    outside: 'clamped',
    doc: 'How many samples of the counters of each bucket are taken in an interval.',
  }),
  SVC_USAGE_TRAFFIC_INTERVAL: duration({
    fallback: '10s',
    range: ['0', '1h'],
    doc: 'How often a process writes the requests and bytes that it counted by bucket and account; a killed one loses those since. 0: none are counted.',
  }),
  SVC_QUOTA_RECONCILE_INTERVAL: duration({
    fallback: '6h',
    range: ['1m', '30d'],
    doc: 'How often the counters of all buckets are compared with their rows.',
  }),
  SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES: bytes({
    fallback: '1MiB',
    range: ['0', '1TiB'],
    doc: 'A drift of a counter up to this many bytes is not corrected, unless its number of objects is wrong too.',
  }),
  SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: text({
    kind: 'percentage',
    fallback: '0.5%',
    pattern: /^(?:\d{1,2}(?:\.\d{1,4})?|100)%$/,
    otherwise: 'is not a percentage such as 0.5%',
    doc: 'A drift up to this part of the counter is not corrected, unless its number of objects is wrong too.',
  }),
} as const;

const unlimited = '0 is unlimited.';
const bytesLimit = (doc: string) =>
  bytes({ fallback: '0', range: ['0', '8PiB'], doc: `${doc} ${unlimited}` });
const countLimit = (max: string, doc: string) =>
  integer({ fallback: '0', range: ['0', max], doc: `${doc} ${unlimited}` });
const buckets = String(2 ** 31 - 1);

/** Quotas that new buckets, accounts and IAM users begin with. Operators set others at run time. */
export const quotaSettings = {
  SVC_DEFAULT_BUCKET_MAX_BYTES: bytesLimit('The maxBytes of new buckets.'),
  SVC_DEFAULT_BUCKET_MAX_OBJECTS: countLimit('1000000000000', 'The maxObjects of new buckets.'),
  SVC_DEFAULT_BUCKET_MAX_OBJECT_BYTES: bytesLimit('The maxBytesPerObject of new buckets.'),
  SVC_DEFAULT_ACCOUNT_MAX_BUCKETS: countLimit(buckets, 'The maxBuckets of new accounts.'),
  SVC_DEFAULT_ACCOUNT_MAX_BYTES: bytesLimit('The totalMaxBytes of new accounts.'),
  SVC_DEFAULT_USER_MAX_BUCKETS: countLimit(buckets, 'The maxBuckets of new IAM users.'),
  SVC_DEFAULT_USER_MAX_BYTES: bytesLimit('The totalMaxBytes of new IAM users.'),
} as const;

// The settings of the lifecycle worker.

export const lifecycleSettings = {
  SVC_LIFECYCLE_INTERVAL: duration({
    fallback: '1m',
    range: ['10ms', '24h'],
    doc: 'How often the lifecycle worker looks for buckets with something due: once a day, as rules count whole days, or when the configuration changes.',
  }),
  SVC_LIFECYCLE_DAY: duration({
    fallback: '24h',
    range: ['1s', '24h'],
    doc: 'The length of a day of lifecycle rules, for tests; a shorter day deletes objects early, and is logged as a WARN.',
  }),
  SVC_LIFECYCLE_RATE: integer({
    fallback: '20000',
    range: ['1', '1000000'],
    doc: 'The most lifecycle actions (deletions, transitions, aborts) a second; fewer while clients are active, which keep about 83 % of their throughput.',
  }),
  SVC_LIFECYCLE_BYTES_RATE: bytes({
    fallback: '64MiB',
    range: ['64KiB', '1TiB'],
    doc: 'How many bytes a second the transitions of lifecycle rules copy.',
  }),
} as const;

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

function readWorkers(input: string): Read<readonly WorkerName[]> {
  const named = input
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
  read: (input) => {
    if (input === 'auto') return value('auto' as const);
    if (!/^\d{1,6}$/.test(input)) return fault('is not a whole number or auto');
    const count = Number(input);
    return count >= 1 && count <= processesMax ? value(count) : fault(`is outside [1, ${processesMax}]`);
  },
});
