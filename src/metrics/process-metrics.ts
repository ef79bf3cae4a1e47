/**
 * Metrics of the process and its runtime, by the names that dashboards for Node.js expect. Of a node with several
 * processes: their sum, unless a row says otherwise.
 */
import type { MetricRows } from './metric-row.ts';

export const processes = {
  process_cpu_user_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time of the gateway in user mode, in seconds.',
    act: 'As `process_cpu_seconds_total`.',
  },
  process_cpu_system_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time of the gateway in the kernel, in seconds.',
    act: 'More than half of `process_cpu_seconds_total`: many small reads, writes or connections.',
  },
  process_cpu_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time of the gateway in user mode and in the kernel, in seconds.',
    act: 'Its rate near the number of processes: add processes or nodes.',
  },
  process_start_time_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'Unix time at which the process started; of several processes, the earliest.',
    act: 'Changes without a deployment: the process was restarted, and the log of the former one says why.',
    across: 'min',
  },
  process_resident_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Resident memory of the process, pages of mapped files included.',
    act: 'Compare `svc_memory_bytes{kind="anonymous"}`, which mapped files do not raise.',
  },
  process_virtual_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Virtual memory of the process. On Linux only.',
    act: 'Large by design, because lmdb maps its whole file.',
  },
  process_heap_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Size of the data segment of the process. On Linux only.',
    act: 'As `process_resident_memory_bytes`.',
  },
  process_open_fds: {
    kind: 'gauge',
    labels: [],
    doc: 'Number of open files and sockets. On Linux only.',
    act: 'Near `process_max_fds`: raise the limit of open files, or find the client that keeps connections.',
  },
  process_max_fds: {
    kind: 'gauge',
    labels: [],
    doc: 'Limit of the number of open files and sockets. On Linux only.',
    act: 'Raise it with `LimitNOFILE` or `ulimit -n`.',
  },
  nodejs_active_resources: {
    kind: 'gauge',
    labels: ['type'],
    doc: 'Number of resources that keep the event loop alive, by type, such as `TCPSocketWrap` and `Timeout`.',
    act: 'A type that grows without its load leaks: report it with the support bundle.',
  },
  nodejs_heap_size_total_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Size of the JavaScript heap.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_heap_size_used_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Used bytes of the JavaScript heap.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_external_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Memory of objects outside of the JavaScript heap, such as buffers.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_heap_space_size_total_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'Size of a space of the JavaScript heap.',
    act: 'For the analysis of a growing heap only.',
  },
  nodejs_heap_space_size_used_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'Used bytes of a space of the JavaScript heap.',
    act: '`old` grows for hours: a leak, report it with the support bundle.',
  },
  nodejs_heap_space_size_available_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'Free bytes of a space of the JavaScript heap.',
    act: 'For the analysis of a growing heap only.',
  },
  nodejs_version_info: {
    kind: 'gauge',
    labels: ['version', 'major', 'minor', 'patch'],
    doc: 'Always 1. The labels are the version of Node.js; on another runtime, the version that it emulates.',
    act: 'As `svc_build_info`.',
    across: 'first',
  },
  nodejs_gc_duration_seconds: {
    kind: 'histogram',
    labels: ['kind'],
    doc: 'Duration of garbage collections, by kind: `major`, `minor`, `incremental` or `weakcb`.',
    act: '`major` ones beyond 0.1 s: the heap is near its limit, see `svc_memory_bytes`.',
    buckets: [0.001, 0.01, 0.1, 1, 2, 5],
  },
} as const satisfies MetricRows;
