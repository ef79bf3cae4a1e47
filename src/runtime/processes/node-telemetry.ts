/** Telemetry of a Node process: logs as JSON lines on standard error, metrics of the process and its node. */
import cluster from 'node:cluster';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import { describeServerOfUrl } from '../../base/text/server-address.ts';
import { dataBackends } from '../../config/data.ts';
import { keyProviders } from '../../config/keys.ts';
import { metadataBackends } from '../../config/metadata.ts';
import { resolveUpstreams } from '../../config/upstreams.ts';
import type { Config } from '../../config.ts';
import { systemClock } from '../../ports/clock.ts';
import { systemRandom } from '../../ports/random.ts';
import { type Metrics, noLabels, type Telemetry } from '../../ports/telemetry.ts';
import type { Tracer } from '../../ports/trace.ts';
import { createLog, foldRepeats } from '../../telemetry/log.ts';
import { createMetricRegistry, type MetricRegistry } from '../../telemetry/metric-registry.ts';
import { OtlpExporter, readOtlpHeaders, type Systems } from '../../telemetry/otlp.ts';
import { createTracer } from '../../telemetry/tracer.ts';
import { packageVersion } from '../cli/version.ts';
import { processMemory } from './memory-faults.ts';
import { certificateExpiries, measureEventLoopLag, processName } from './node-diagnostics.ts';
import { logToStandardError } from './node-log-level.ts';
import { gatherFromPeers } from './node-metrics.ts';

/** Such as `node 24.1.0`. */
export const runtimeName = (): string => {
  const { bun, deno, node } = process.versions;
  return bun !== undefined ? `bun ${bun}` : deno !== undefined ? `deno ${deno}` : `node ${node}`;
};

export function nodeTelemetry(config: Config): Telemetry {
  logToStandardError(config.SVC_LOG_LEVEL);
  const metrics: MetricRegistry = createMetricRegistry({
    version: packageVersion(),
    runtime: runtimeName(),
    rankedMax: config.SVC_BUCKETSTATS_TOPN,
    ...(cluster.isWorker ? { gather: gatherFromPeers(() => metrics.own()) } : {}),
  });
  measureProcess(metrics, config);
  for (const { id } of config.SVC_NOTIFY_TARGETS ?? []) metrics.know('target', id);
  const later = (ms: number, act: () => void): void => void setTimeout(act, ms).unref();
  return { ...metrics, log: foldRepeats(createLog(), later) };
}

// What metrics show of the process: its CPU, memory, files, garbage collections, and the expiry of its certificates.

/** Reads the process whenever metrics are read. */
function measureProcess(metrics: Metrics, config: Config): void {
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
  let last = { user: 0, system: 0 };
  return () => {
    const now = process.cpuUsage();
    const user = (now.user - last.user) / 1e6;
    const system = (now.system - last.system) / 1e6;
    metrics.count('process_cpu_user_seconds_total', noLabels, user);
    metrics.count('process_cpu_system_seconds_total', noLabels, system);
    metrics.count('process_cpu_seconds_total', noLabels, user + system);
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
  metrics.set('process_virtual_memory_bytes', noLabels, parseProcBytes(/^VmSize:\s+(\d+) kB$/m, status));
  metrics.set('process_heap_bytes', noLabels, parseProcBytes(/^VmData:\s+(\d+) kB$/m, status));
}

/** In bytes; undefined where the line is missing. */
function parseProcBytes(line: RegExp, status: string): number | undefined {
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

// Traces of a Node process: which are kept, and where they are sent.

interface NodeTracing {
  readonly tracer: Tracer | undefined;
  /** Sends what is queued, within the time-out of the collector. */
  close(): Promise<void>;
}

export async function nodeTracing(config: Config, telemetry: Telemetry): Promise<NodeTracing> {
  const name = processName();
  const exporter = await openExporter(config, telemetry, name);
  const tracer = createTracer({
    clock: systemClock,
    random: systemRandom(),
    process: name,
    sample: config.SVC_TRACE_SAMPLE,
    browser: config.SVC_TRACE_BROWSER,
    ...(exporter === undefined ? {} : { export: (document) => exporter.add(document) }),
  });
  return { tracer, close: async () => exporter?.close() };
}

async function openExporter(
  config: Config,
  telemetry: Telemetry,
  instance: string,
): Promise<OtlpExporter | undefined> {
  const { SVC_OTLP_ENDPOINT: endpoint, SVC_OTLP_HEADERS, SVC_OTLP_HEADERS_FILE, SVC_OTLP_CA_FILE } = config;
  if (endpoint === undefined) return undefined;
  const fromFile = SVC_OTLP_HEADERS_FILE && (await readFile(SVC_OTLP_HEADERS_FILE, 'utf8'));
  const { openPoster } = await import('../../backends/egress.ts');
  const poster = openPoster({
    url: tracesUrl(endpoint),
    headers: readOtlpHeaders(SVC_OTLP_HEADERS ?? fromFile ?? ''),
    ca: SVC_OTLP_CA_FILE && (await readFile(SVC_OTLP_CA_FILE, 'utf8')),
    timeoutMs: config.SVC_OTLP_TIMEOUT,
  });
  const resource = {
    'service.name': 'sluice',
    'service.version': packageVersion(),
    'service.instance.id': instance,
  };
  const source = { resource, systems: describeSystems(config) };
  return new OtlpExporter({ poster, source, telemetry, clock: systemClock });
}

export function describeSystems(config: Config): Systems {
  const { SVC_META_BACKEND: metadata, SVC_DATA_BACKEND: data, SVC_KEY_PROVIDER: keys } = config;
  const { system = keys ?? 'none', address } = keys === undefined ? {} : keyProviders[keys];
  const upstreams = dataBackends[data].list === 'SVC_UPSTREAMS' ? resolveUpstreams(config) : [];
  const endpoints = new Map(upstreams.map(({ upstream: { id, endpoint } }) => [id, endpoint]));
  return {
    metadata: {
      'db.system.name': metadataBackends[metadata].system ?? metadata,
      ...(metadata === 'wide-column' ? { 'db.namespace': config.SVC_WIDECOL_KEYSPACE } : {}),
    },
    data: (cluster) => ({
      name: dataBackends[data].system ?? data,
      server: describeServerOfUrl(endpoints.get(cluster) ?? ''),
    }),
    keys: {
      name: system,
      server: describeServerOfUrl((address && config[address]) ?? ''),
    },
  };
}

/** As the specification of OTLP has it: a base address gets the path of the signal. */
function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  return url.href;
}
