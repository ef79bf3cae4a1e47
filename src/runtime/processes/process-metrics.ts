/** What metrics show of the process: its CPU, memory, files, garbage collections, and the expiry of its certificates. */
import { readdirSync, readFileSync } from 'node:fs';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { Config } from '../../config.ts';
import { type Metrics, noLabels } from '../../ports/telemetry.ts';
import { processMemory } from './memory-faults.ts';
import { certificateExpiries, measureEventLoopLag } from './node-diagnostics.ts';

/** Reads the process whenever metrics are read. */
export function measureProcess(metrics: Metrics, config: Config): void {
  metrics.set('svc_memory_limit_bytes', noLabels, config.SVC_MEMORY_MAX);
  const lag = measureEventLoopLag();
  const expiries = certificateExpiries(config);
  metrics.onRead(() => {
    for (const [kind, bytes] of processMemory()) metrics.set('svc_memory_bytes', { kind }, bytes);
    metrics.replace(
      'svc_certificate_not_after_timestamp_seconds',
      expiries().map(({ setting, notAfter }) => [{ setting }, notAfter / 1000]),
    );
    metrics.set('svc_event_loop_lag_seconds', noLabels, lag.read());
  });
  measureRuntime(metrics);
}

/** The `process_*` and `nodejs_*` metrics. */
export function measureRuntime(metrics: Metrics): void {
  const [major = '', minor = '', patch = ''] = process.versions.node.split('.');
  metrics.set('nodejs_version_info', { version: process.version, major, minor, patch }, 1);
  metrics.set('process_start_time_seconds', noLabels, Math.round(Date.now() / 1000 - process.uptime()));
  metrics.set('process_max_fds', noLabels, maxFiles());
  measureCollections(metrics);
  const cpu = cpuCounter(metrics);
  // Each of these is missing on some runtime or system, and the others are shown.
  for (const sample of [cpu, showMemory, showFiles, showResources, showSpaces])
    metrics.onRead(() => sample(metrics));
}

function cpuCounter(metrics: Metrics): () => void {
  let last = process.cpuUsage({ user: 0, system: 0 });
  const count = (user: number, system: number): void => {
    metrics.count('process_cpu_user_seconds_total', noLabels, user / 1e6);
    metrics.count('process_cpu_system_seconds_total', noLabels, system / 1e6);
    metrics.count('process_cpu_seconds_total', noLabels, (user + system) / 1e6);
  };
  count(last.user, last.system);
  return () => {
    const now = process.cpuUsage();
    count(now.user - last.user, now.system - last.system);
    last = now;
  };
}

function showMemory(metrics: Metrics): void {
  const { heapTotal, heapUsed, external, rss } = process.memoryUsage();
  metrics.set('nodejs_heap_size_total_bytes', noLabels, heapTotal);
  metrics.set('nodejs_heap_size_used_bytes', noLabels, heapUsed);
  metrics.set('nodejs_external_memory_bytes', noLabels, external);
  metrics.set('process_resident_memory_bytes', noLabels, rss);
  const status = readProc('/proc/self/status');
  metrics.set('process_virtual_memory_bytes', noLabels, kilobytes(/^VmSize:\s+(\d+) kB$/m, status));
  metrics.set('process_heap_bytes', noLabels, kilobytes(/^VmData:\s+(\d+) kB$/m, status));
}

/** In bytes; undefined where the line is missing. */
function kilobytes(line: RegExp, status: string): number | undefined {
  const [, number] = line.exec(status) ?? [];
  return number === undefined ? undefined : Number(number) * 1024;
}

/** Empty on systems other than Linux. */
function readProc(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function maxFiles(): number | undefined {
  const [, limit] = /^Max open files +(\d+)/m.exec(readProc('/proc/self/limits')) ?? [];
  return limit === undefined ? undefined : Number(limit);
}

function showFiles(metrics: Metrics): void {
  let files: number | undefined;
  try {
    // One of them is that of the directory.
    files = readdirSync('/proc/self/fd').length - 1;
  } catch {
    files = undefined;
  }
  metrics.set('process_open_fds', noLabels, files);
}

function showResources(metrics: Metrics): void {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) counts.set(type, (counts.get(type) ?? 0) + 1);
  metrics.replace(
    'nodejs_active_resources',
    [...counts].map(([type, count]) => [{ type }, count]),
  );
}

/** Bun has no spaces. */
function showSpaces(metrics: Metrics): void {
  for (const { space_name, space_size, space_used_size, space_available_size } of getHeapSpaceStatistics()) {
    const labels = { space: space_name.replace(/_space$/, '') };
    metrics.set('nodejs_heap_space_size_total_bytes', labels, space_size);
    metrics.set('nodejs_heap_space_size_used_bytes', labels, space_used_size);
    metrics.set('nodejs_heap_space_size_available_bytes', labels, space_available_size);
  }
}

const collections: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
]);

/** The types of Node leave out the detail. */
type CollectionEntry = PerformanceEntry & { readonly detail?: { readonly kind?: unknown } };

/** Runtimes without these entries observe none. */
function measureCollections(metrics: Metrics): void {
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { duration, detail } = entry as CollectionEntry;
      const kind = collections.get(detail?.kind);
      if (kind !== undefined) metrics.observe('nodejs_gc_duration_seconds', { kind }, duration / 1000);
    }
  });
  observer.observe({ entryTypes: ['gc'] });
}
