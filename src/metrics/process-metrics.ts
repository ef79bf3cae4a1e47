/** Metrics of the process and its runtime, by the names that dashboards for Node.js expect. Of a node with several processes: their sum, unless a row says otherwise. */
import type { MetricRows } from './metric-row.ts';

export const processes = {
  process_cpu_user_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time of the gateway outside of the kernel.',
    act: 'As `process_cpu_seconds_total`.',
  },
  process_cpu_system_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time that the kernel spent for the gateway.',
    act: 'More than half of `process_cpu_seconds_total`: many small reads, writes or connections.',
  },
  process_cpu_seconds_total: {
    kind: 'counter',
    labels: [],
    doc: 'CPU time of the gateway.',
    act: 'Its rate near the number of processes: add processes or nodes.',
  },
  process_start_time_seconds: {
    kind: 'gauge',
    labels: [],
    doc: 'When the process started, as Unix time; of several, the first.',
    act: 'Changes without a deployment: the process was restarted, and the log of the former one says why.',
    across: 'min',
  },
  process_resident_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Resident memory, with the pages of mapped files.',
    act: 'Compare `svc_memory_bytes{kind="anonymous"}`, which mapped files do not raise.',
  },
  process_virtual_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Virtual memory, on Linux.',
    act: 'Large by design, because lmdb maps its whole file.',
  },
  process_heap_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Data segment of the process, on Linux.',
    act: 'As `process_resident_memory_bytes`.',
  },
  process_open_fds: {
    kind: 'gauge',
    labels: [],
    doc: 'Open files and sockets, on Linux.',
    act: 'Near `process_max_fds`: raise the limit of open files, or find the client that keeps connections.',
  },
  process_max_fds: {
    kind: 'gauge',
    labels: [],
    doc: 'The limit of open files and sockets, on Linux.',
    act: 'Raise it with `LimitNOFILE` or `ulimit -n`.',
  },
  nodejs_active_resources: {
    kind: 'gauge',
    labels: ['type'],
    doc: 'Resources that keep the event loop alive, by type, such as `TCPSocketWrap` and `Timeout`.',
    act: 'A type that grows without its load leaks: report it with the support bundle.',
  },
  nodejs_heap_size_total_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Size of the heap of JavaScript.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_heap_size_used_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'What of it is used.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_external_memory_bytes: {
    kind: 'gauge',
    labels: [],
    doc: 'Buffers outside of the heap.',
    act: 'As `svc_memory_bytes`.',
  },
  nodejs_heap_space_size_total_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'Size of a space of the heap.',
    act: 'For the analysis of a growing heap only.',
  },
  nodejs_heap_space_size_used_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'What of it is used.',
    act: '`old` grows for hours: a leak, report it with the support bundle.',
  },
  nodejs_heap_space_size_available_bytes: {
    kind: 'gauge',
    labels: ['space'],
    doc: 'What of it is free.',
    act: 'For the analysis of a growing heap only.',
  },
  nodejs_version_info: {
    kind: 'gauge',
    labels: ['version', 'major', 'minor', 'patch'],
    doc: 'Always 1; the labels are the version of Node.js, or the one that the runtime emulates.',
    act: 'As `svc_build_info`.',
    across: 'first',
  },
  nodejs_gc_duration_seconds: {
    kind: 'histogram',
    labels: ['kind'],
    doc: 'Garbage collections by kind: `major`, `minor`, `incremental` or `weakcb`.',
    act: '`major` ones beyond 0.1 s: the heap is near its limit, see `svc_memory_bytes`.',
    buckets: [0.001, 0.01, 0.1, 1, 2, 5],
  },
} as const satisfies MetricRows;
