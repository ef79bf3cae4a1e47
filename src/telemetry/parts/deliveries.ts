/** Queues, and what workers deliver from them, in metrics. */
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Metrics } from '../metrics.ts';

type Told =
  | 'queueBacklogs'
  | 'eventBacklogs'
  | 'queueDropped'
  | 'accessLogDelivered'
  | 'accessLogKept'
  | 'eventsDelivered'
  | 'eventFailed'
  | 'deliveriesRefused'
  | 'eventGivenUp'
  | 'replicated'
  | 'replicationFailed'
  | 'replicationGivenUp'
  | 'peersKnown'
  | 'replicationWaits'
  | 'inventoryEnded'
  | 'lifecycleActions'
  | 'lifecyclePasses';

export const deliveryTelemetry = (metrics: Metrics): Pick<Telemetry, Told> => ({
  queueBacklogs: (backlogs) => {
    const of = (value: 'rows' | 'oldestSeconds') =>
      backlogs.map((each) => [[each.queue], each[value]] as const);
    metrics.replace('svc_queue_rows', of('rows'));
    metrics.replace('svc_queue_oldest_seconds', of('oldestSeconds'));
  },
  eventBacklogs: (backlogs) => {
    const of = (value: 'rows' | 'oldestSeconds') =>
      backlogs.map((each) => [[each.target], each[value]] as const);
    metrics.replace('svc_notify_queued', of('rows'));
    metrics.replace('svc_notify_oldest_seconds', of('oldestSeconds'));
  },
  queueDropped: (queue, why, rows) => metrics.add('svc_queue_dropped_total', [queue, why], rows),
  accessLogDelivered: (lines) => {
    metrics.add('svc_access_log_objects_total', []);
    metrics.add('svc_access_log_lines_total', [], lines);
  },
  accessLogKept: (why) => metrics.add('svc_access_log_kept_total', [why]),
  eventsDelivered: (target, events) => metrics.add('svc_notify_delivered_total', [target], events),
  eventFailed: (target, why) => metrics.add('svc_notify_failures_total', [target, why]),
  deliveriesRefused: (queue, refused) =>
    metrics.replace(
      queue === 'notify' ? 'svc_notify_refused_objects' : 'svc_replication_refused_objects',
      refused.map(({ target, objects }) => [[target], objects] as const),
    ),
  eventGivenUp: (target) => metrics.add('svc_notify_dead_letters_total', [target]),
  replicated: (peer, { bytes, lagSeconds }) => {
    metrics.add('svc_replication_versions_total', [peer]);
    metrics.add('svc_replication_bytes_total', [peer], bytes);
    metrics.observe('svc_replication_lag_seconds', [peer], lagSeconds);
  },
  replicationFailed: (peer, why) => metrics.add('svc_replication_failures_total', [peer, why]),
  replicationGivenUp: (peer, why) => metrics.add('svc_replication_given_up_total', [peer, why]),
  peersKnown: (peers) => {
    for (const peer of peers) metrics.know('peer', peer);
  },
  replicationWaits: (waits) => {
    const of = (value: 'waiting' | 'bytes' | 'oldestSeconds') =>
      waits.map((each) => [[each.destination], each[value]] as const);
    metrics.replace('svc_replication_pending_versions', of('waiting'));
    metrics.replace('svc_replication_pending_bytes', of('bytes'));
    metrics.replace('svc_replication_oldest_pending_seconds', of('oldestSeconds'));
  },
  inventoryEnded: (outcome, rows) => {
    metrics.add('svc_inventory_runs_total', [outcome]);
    metrics.add('svc_inventory_rows_total', [], rows);
  },
  lifecycleActions: (action, count) => metrics.add('svc_lifecycle_actions_total', [action], count),
  lifecyclePasses: (passes) => {
    const one = (value: number | undefined) => (value === undefined ? [] : [[[], value] as const]);
    metrics.replace('svc_lifecycle_passes', one(passes?.count));
    metrics.replace('svc_lifecycle_oldest_pass_seconds', one(passes?.oldestSeconds));
  },
});
