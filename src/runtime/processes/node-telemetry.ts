/** Telemetry of a Node process: logs as JSON lines on standard error, metrics of the process and its node. */
import cluster from 'node:cluster';
import { readFile } from 'node:fs/promises';
import { describeServerOfUrl } from '../../base/text/server-address.ts';
import { resolveUpstreams } from '../../config/upstreams.ts';
import type { Config } from '../../config.ts';
import { systemClock } from '../../ports/clock.ts';
import { systemRandom } from '../../ports/random.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import type { Tracer } from '../../ports/trace.ts';
import { createLog, foldRepeats } from '../../telemetry/log.ts';
import { createMetricRegistry, type MetricRegistry } from '../../telemetry/metric-registry.ts';
import { awsApi, OtlpExporter, readOtlpHeaders, type Systems } from '../../telemetry/otlp.ts';
import { createTracer } from '../../telemetry/tracer.ts';
import { packageVersion } from '../cli/version.ts';
import { processName } from './node-diagnostics.ts';
import { logToStandardError } from './node-log-level.ts';
import { gatherFromPeers } from './node-metrics.ts';
import { measureProcess } from './process-metrics.ts';

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

const metadataSystems: Readonly<Record<string, string>> = {
  embedded: 'lmdb',
  'wide-column': 'cassandra',
  'ordered-kv': 'tikv',
};
const dataSystems: Readonly<Record<string, string>> = { 'cluster-pool': 'ceph', 'upstream-store': awsApi };
const keySystems: Readonly<Record<string, string>> = { transit: 'vault', 'cloud-kms': awsApi };

export function describeSystems(config: Config): Systems {
  const { SVC_META_BACKEND: metadata, SVC_DATA_BACKEND: data, SVC_KEY_PROVIDER: keys = 'none' } = config;
  const { SVC_TRANSIT_ADDR, SVC_KMS_ENDPOINT } = config;
  const provider = keys === 'transit' ? SVC_TRANSIT_ADDR : keys === 'cloud-kms' ? SVC_KMS_ENDPOINT : '';
  const upstreams = data === 'upstream-store' ? resolveUpstreams(config) : [];
  const endpoints = new Map(upstreams.map(({ upstream: { id, endpoint } }) => [id, endpoint]));
  return {
    metadata: {
      'db.system.name': metadataSystems[metadata] ?? metadata,
      ...(metadata === 'wide-column' ? { 'db.namespace': config.SVC_WIDECOL_KEYSPACE } : {}),
    },
    data: (cluster) => ({
      name: dataSystems[data] ?? data,
      server: describeServerOfUrl(endpoints.get(cluster) ?? ''),
    }),
    keys: { name: keySystems[keys] ?? keys, server: describeServerOfUrl(provider ?? '') },
  };
}

/** As the specification of OTLP has it: a base address gets the path of the signal. */
function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  return url.href;
}
