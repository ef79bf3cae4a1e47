/** Measurements of the process and of the engines behind it. */
import type { Measurements } from './measurement.ts';

const seconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];

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
} as const satisfies Measurements;
