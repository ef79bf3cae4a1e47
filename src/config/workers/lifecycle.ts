/** The settings of the lifecycle worker. */
import { bytes, duration, integer } from '../read/kinds.ts';

export const lifecycleSettings = {
  SVC_LIFECYCLE_INTERVAL: duration({
    fallback: '1m',
    range: ['10ms', '24h'],
    doc: 'How often the lifecycle worker looks for buckets with something due. Rules count whole days, so a bucket is due once a day, or when its configuration changes.',
  }),
  SVC_LIFECYCLE_DAY: duration({
    fallback: '24h',
    range: ['1s', '24h'],
    doc: 'The length of a day of lifecycle rules, for tests of a configuration; a shorter day deletes objects early, and is logged as a WARN.',
  }),
  SVC_LIFECYCLE_RATE: integer({
    fallback: '20000',
    range: ['1', '1000000'],
    doc: 'How many lifecycle actions (deletions, transitions, aborts) a second the worker carries out at most. It carries out fewer while clients are active: they keep about 83 % of their throughput.',
  }),
  SVC_LIFECYCLE_BYTES_RATE: bytes({
    fallback: '64MiB',
    range: ['64KiB', '1TiB'],
    doc: 'How many bytes a second the transitions of lifecycle rules copy.',
  }),
} as const;
