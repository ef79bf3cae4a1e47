/** The settings of the notify worker and its targets. */
import { duration } from './read/kinds.ts';
import { secret } from './read/setting.ts';
import { cidrs } from './values/network.ts';
import { notifyTargets } from './values/notify-targets.ts';

export const notifySettings = {
  SVC_NOTIFY_TARGETS: secret(
    notifyTargets(
      'The targets of bucket notifications; the last field of an ARN is the id of a target. `accounts` lists the accounts whose buckets may name it, `"*"` means every account; a target without `accounts` serves only where all credentials belong to one account.',
    ),
  ),
  SVC_NOTIFY_INTERVAL: duration({
    fallback: '1s',
    range: ['10ms', '1h'],
    doc: 'How often the notify worker looks for events that are due.',
  }),
  SVC_NOTIFY_TIMEOUT: duration({
    fallback: '10s',
    range: ['100ms', '5m'],
    doc: 'How long the target of an event may take to answer, before the delivery counts as failed.',
  }),
  SVC_NOTIFY_RETRY_MAX: duration({
    fallback: '24h',
    range: ['1s', '365d'],
    doc: 'How long the delivery of an event is retried; then it becomes a dead letter. Should be shorter than SVC_QUEUE_RETENTION.',
  }),
  SVC_NOTIFY_DLQ_RETENTION: duration({
    fallback: '30d',
    range: ['1h', '3650d'],
    doc: 'How long events that could not be delivered are kept as dead letters.',
  }),
  SVC_EGRESS_ALLOW: cidrs(
    'Addresses that event targets, replication peers and key providers may have although they are of this machine, its link or a private network, for example 10.0.0.0/8. The address is checked after each DNS answer.',
  ),
};
