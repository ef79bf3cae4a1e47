/** Measurements of what is stored: disks, clusters, garbage, damage, buckets. */
import type { Measurements } from './measurement.ts';

export const storage = {
  svc_disk_free_bytes: {
    kind: 'gauge',
    labels: ['component'],
    doc: 'Free bytes of the disk under `metadata` (embedded) and `data:<cluster>` (file), measured every two seconds.',
    act: 'Falls: delete objects, set lifecycle rules, or grow the disk before SVC_DISK_RESERVE is reached.',
    across: 'max',
  },
  svc_disk_size_bytes: {
    kind: 'gauge',
    labels: ['component'],
    doc: 'Size of that disk.',
    act: 'Shows whether a disk was grown or replaced.',
    across: 'max',
  },
  svc_disk_refuses_writes: {
    kind: 'gauge',
    labels: ['component'],
    doc: '1 while that disk is below SVC_DISK_RESERVE or full, and data is refused with 507; else 0.',
    act: '1: clients get 507. Free space as docs/operations.md says under "When a disk fills up".',
    across: 'max',
  },
  svc_cluster_up: {
    kind: 'gauge',
    labels: ['cluster'],
    doc: '1 while a data cluster answers and reports itself healthy, else 0; at most a minute old.',
    act: '0: `GET /admin/v1/storage/data` has the reason.',
    across: 'min',
  },
  svc_cluster_used_bytes: {
    kind: 'gauge',
    labels: ['cluster', 'pool'],
    doc: 'Stored bytes of a pool of a data cluster, at most a minute old; 0 where the backend does not report them.',
    act: 'Compare with the capacity of the cluster; drain it or change weights (docs/clusters.md).',
    across: 'max',
  },
  svc_gc_backlog: {
    kind: 'gauge',
    labels: ['cluster'],
    doc: 'Extents that wait to be deleted, counted in the first 10,000 rows of the queue.',
    act: 'Grows for longer than SVC_GC_GRACE: the worker `gc` does not run, or the cluster refuses deletions (`GET /admin/v1/workers`).',
    across: 'max',
  },
  svc_scrub_bytes_total: {
    kind: 'counter',
    labels: [],
    doc: 'Stored bytes that the scrub read and compared with their checksums.',
    act: 'Stands still: `GET /admin/v1/scrub` shows the state of the pass.',
  },
  svc_scrub_chunks_total: {
    kind: 'counter',
    labels: [],
    doc: 'Chunks that the scrub read to their end and found whole.',
    act: 'As `svc_scrub_bytes_total`.',
  },
  svc_scrub_oldest_unchecked_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'Upper bound of the age of the oldest unchecked chunk, where scrub leads, else 0: seconds since the last pass began that read everything; before there is one, since the first pass began.',
    act: 'Beyond the interval that you want: raise SVC_SCRUB_RATE, or give the node more idle time.',
    across: 'max',
  },
  svc_scrub_damaged: {
    kind: 'gauge',
    labels: [],
    doc: 'Versions and parts of open uploads with a damaged or missing chunk, by the last pass of the scrub, where it leads, else 0.',
    act: 'Above 0: `GET /admin/v1/scrub` names them; restore them from a replica or backup and check the disk.',
    across: 'max',
  },
  svc_quota_reconcile_drift_bytes: {
    kind: 'gauge',
    labels: ['bucket'],
    doc: 'The last observed drift of the byte counter of a bucket, where quota-reconcile leads: positive when the counter is too low, negative when it is too high.',
    act: 'The worker quota-reconcile corrects it. A drift that comes back is a defect: report it with the support bundle.',
    across: 'max',
  },
  svc_storage_class_bytes: {
    kind: 'gauge',
    labels: ['bucket', 'class'],
    doc: 'Bytes of a storage class in one of the SVC_BUCKETSTATS_TOPN largest buckets, where bucket-stats leads.',
    act: 'Names what fills the disks. Set lifecycle rules or a quota for that bucket.',
    across: 'max',
  },
  svc_storage_class_objects: {
    kind: 'gauge',
    labels: ['bucket', 'class'],
    doc: 'Objects and versions of a storage class in one of those buckets.',
    act: 'Grows while the bytes do not: many versions or small objects; a lifecycle rule for noncurrent versions removes them.',
    across: 'max',
  },
} as const satisfies Measurements;
