/** The settings of replication to peers. */
import { duration, toggle } from './read/kinds.ts';

export const replicationSettings = {
  SVC_REPLICATION_TIMEOUT: duration({
    fallback: '10s',
    range: ['100ms', '5m'],
    doc: 'How long a replication peer may be silent, before the request counts as failed.',
  }),
  SVC_REPLICATION_INTERVAL: duration({
    fallback: '1s',
    range: ['10ms', '1h'],
    doc: 'How often the replicator looks for versions that are due.',
  }),
  SVC_REPLICATION_RETRY_MAX: duration({
    fallback: '3d',
    range: ['1s', '365d'],
    doc: 'How long the replication of a version is retried; then its status is FAILED. Should be shorter than SVC_QUEUE_RETENTION.',
  }),
  SVC_REPLICATION_LIFECYCLE: toggle(
    'off',
    'Delete markers that lifecycle rules create are replicated as those of clients are, and so are permanent deletions by lifecycle rules. Off, as in the public service: each site has rules of its own.',
  ),
  SVC_REPLICATION_TOMBSTONES: duration({
    fallback: '90d',
    range: ['1d', '3650d'],
    doc: 'How long a site remembers that a replicated version was removed permanently, so that no other site brings it back. Should be longer than any site is cut off.',
  }),
} as const;
