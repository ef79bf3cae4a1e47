/** What is stored, in metrics. */
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Metrics } from '../metrics.ts';

type Told =
  | 'clusters'
  | 'gcBacklog'
  | 'scrubbed'
  | 'scrubState'
  | 'bucketClasses'
  | 'quotaUse'
  | 'usageDrifts'
  | 'diskRoom';

export const storageTelemetry = (metrics: Metrics): Pick<Telemetry, Told> => ({
  clusters: (clusters) => {
    metrics.replace(
      'svc_cluster_up',
      clusters.map(({ cluster, isUp }) => [[cluster], isUp ? 1 : 0] as const),
    );
    metrics.replace(
      'svc_cluster_used_bytes',
      clusters.flatMap(({ cluster, pools }) =>
        pools.map(({ pool, usedBytes }) => [[cluster, pool], usedBytes] as const),
      ),
    );
    metrics.replace(
      'svc_cluster_free_bytes',
      clusters.flatMap(({ cluster, pools }) =>
        pools.flatMap(({ pool, freeBytes }) =>
          freeBytes === undefined ? [] : [[[cluster, pool], freeBytes] as const],
        ),
      ),
    );
  },
  gcBacklog: (extents) =>
    metrics.replace(
      'svc_gc_backlog',
      [...extents].map(([cluster, count]) => [[cluster], count] as const),
    ),
  scrubbed: ({ chunks, bytes }) => {
    metrics.add('svc_scrub_chunks_total', [], chunks);
    metrics.add('svc_scrub_bytes_total', [], bytes);
  },
  scrubState: (state) => {
    const one = (value: number | undefined) => (value === undefined ? [] : [[[], value] as const]);
    metrics.replace('svc_scrub_oldest_unchecked_seconds', one(state?.oldestUncheckedSeconds));
    metrics.replace('svc_scrub_damaged', one(state?.damaged));
  },
  bucketClasses: (classes) => {
    const of = (value: 'bytes' | 'objects') =>
      classes.map((each) => [[each.bucket, each.storageClass], each[value]] as const);
    metrics.replace('svc_storage_class_bytes', of('bytes'));
    metrics.replace('svc_storage_class_objects', of('objects'));
  },
  quotaUse: (fullest) =>
    metrics.replace(
      'svc_quota_used_ratio',
      fullest.map(({ of, name, limit, ratio }) => [[of, name, limit], ratio] as const),
    ),
  usageDrifts: (drifts) =>
    metrics.replace(
      'svc_quota_reconcile_drift_bytes',
      [...drifts].map(([bucket, bytes]) => [[bucket], bytes] as const),
    ),
  diskRoom: ({ component, freeBytes, sizeBytes, complaint }) => {
    if (sizeBytes !== undefined) metrics.set('svc_disk_size_bytes', [component], sizeBytes);
    metrics.set('svc_disk_free_bytes', [component], freeBytes);
    metrics.set('svc_disk_refuses_writes', [component], complaint === undefined ? 0 : 1);
  },
});
