/** Metrics of what is stored (disks, clusters, garbage, damage, buckets), and of the engines that store it. */
import type { MetricRows } from './metric-row.ts';

export const storage = {
  svc_disk_free_bytes: {
    kind: 'gauge',
    labels: ['component'],
    doc: 'Free bytes of the disk under `metadata` (embedded) and `data:<cluster>` (file), measured every two seconds.',
    act: 'Falls: delete objects, set lifecycle rules, or grow the disk before SVC_DISK_RESERVE is reached.',
    across: 'min',
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
    act: '1: clients get 507. Free space as docs/operations/nodes.md says under "When a disk fills up".',
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
  svc_cluster_free_bytes: {
    kind: 'gauge',
    labels: ['cluster', 'pool'],
    doc: 'How many more bytes of content fit into a pool of Ceph, its replication counted (`max_avail` of `ceph df`), at most a minute old. Namespaces of a pool share it. Other backends have none: `svc_disk_free_bytes` is for `file`, and an upstream does not report it.',
    act: 'Falls: add OSDs, drain the cluster, or lower its weight (docs/clusters.md) before Ceph refuses writes.',
    across: 'min',
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
  svc_quota_used_ratio: {
    kind: 'gauge',
    labels: ['of', 'name', 'limit'],
    doc: 'What is used of one of the SVC_BUCKETSTATS_TOPN fullest limits of quotas, where bucket-stats leads: 1 is full. `of` is bucket, account or user; `name` the bucket, the account, or account/user.',
    act: 'Near 1 its writes are refused soon: raise the quota, or tell the tenant.',
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
} as const satisfies MetricRows;

const seconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];

/** Metrics of calls to the backends, of caches, memory and certificates, and of the build. */
export const engines = {
  svc_backend_duration_seconds: {
    kind: 'histogram',
    labels: ['call'],
    doc: 'Calls to the metadata and data backends.',
    act: 'A call that became slow names the engine: look at its disks and its own metrics.',
    buckets: seconds,
  },
  svc_backend_errors_total: {
    kind: 'counter',
    labels: ['call', 'why'],
    doc: 'Calls that failed: `timeout`, `unavailable`, `refused`, `full`, `read-only`, `damaged`, `missing` or `other`. Faults of clients are not counted.',
    act: '`timeout` and `unavailable`: the engine or the network. `damaged` and `missing`: start a scrub. `other`: the log has the cause.',
    from0: {
      call: ['data.read', 'data.write', 'metadata.apply', 'metadata.commit', 'metadata.get', 'metadata.scan'],
      why: ['timeout', 'unavailable', 'damaged', 'missing'],
    },
  },
  svc_cache_entries: {
    kind: 'gauge',
    labels: ['cache'],
    doc: 'Entries in a cache of this node.',
    act: 'At its limit with a low hit rate: the working set is larger than the cache.',
  },
  svc_cache_bytes: {
    kind: 'gauge',
    labels: ['cache'],
    doc: 'Estimated bytes that a cache holds; 0 where the number of its entries alone bounds it.',
    act: 'Part of `svc_memory_bytes{kind="heap"}`.',
  },
  svc_cache_hits_total: {
    kind: 'counter',
    labels: ['cache'],
    doc: 'Lookups that found an entry; an entry that is found may still be too old to be used.',
    act: 'With the misses, the hit rate of the cache.',
  },
  svc_cache_misses_total: {
    kind: 'counter',
    labels: ['cache'],
    doc: 'Lookups that found no entry.',
    act: 'Rises with steady traffic: entries are evicted, see `svc_cache_entries`; or many different keys and buckets are used.',
  },
  svc_event_loop_lag_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'Longest delay of the event loop since metrics were last read, of the worst process.',
    act: 'Beyond 0.1: the process has too much to compute. Add processes or nodes; the profile of the process names the function.',
    across: 'max',
  },
  svc_memory_bytes: {
    kind: 'gauge',
    labels: ['kind'],
    doc: 'Memory by kind: `heap` of JavaScript, `external` buffers, and on Linux resident `anonymous` memory, `mapped_files` and `shared` memory.',
    act: 'Compare `anonymous` with `svc_memory_limit_bytes`.',
  },
  svc_memory_limit_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'SVC_MEMORY_MAX of all processes together.',
    act: 'Raise SVC_MEMORY_MAX where the machine has more, or lower SVC_PROCESSES.',
  },
  svc_body_memory_bytes: {
    kind: 'gauge',
    labels: ['kind'],
    doc: 'Memory for bodies that are read whole: `used`, and its `limit`, a part of SVC_MEMORY_MAX.',
    act: '`used` near `limit`: requests are refused with 503 SlowDown. Raise SVC_MEMORY_MAX.',
  },
  svc_certificate_not_after_timestamp_seconds: {
    kind: 'gauge',
    labels: ['setting'],
    doc: 'When the certificate in the file of a setting expires, as Unix time; the file is read again every minute. Of several certificates in a file, the first to expire.',
    act: 'Renew the certificate; the listener takes a changed file within five seconds without a restart.',
    across: 'min',
  },
  svc_build_info: {
    kind: 'gauge',
    labels: ['version', 'runtime'],
    doc: 'Always 1; the labels say what runs.',
    act: 'Two versions for longer than an upgrade takes: a node was forgotten.',
    across: 'first',
  },
} as const satisfies MetricRows;
