/** Telemetry of a Node process: logs as JSON lines on standard error, metrics through prom-client. */
import cluster from 'node:cluster';
import type { Config } from '../../config.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { foldRepeats } from '../../telemetry/fold-repeats.ts';
import { configureLog, createLog } from '../../telemetry/log.ts';
import { type PromMetrics, promMetrics } from '../../telemetry/prom-metrics.ts';
import { createTelemetry } from '../../telemetry/telemetry.ts';
import { packageVersion } from '../cli/version.ts';
import { certificateExpiries } from './diagnostics/certificate-expiries.ts';
import { measureEventLoopLag } from './diagnostics/event-loop-lag.ts';
import { recentLines } from './diagnostics/node-diagnostics.ts';

import { gatherFromPeers } from './metrics/node-metrics.ts';
import { processMemory } from './process-memory.ts';

/** Standard output is for the operator at the terminal, standard error for log collectors. */
export function logToStandardError(level: Config['SVC_LOG_LEVEL']): void {
  configureLog({
    level,
    write: (line) => {
      recentLines.add(line, Date.now());
      process.stderr.write(`${line}\n`);
    },
  });
}

/** Such as `node 24.1.0`. */
export const runtimeName = (): string => {
  const { bun, deno, node } = process.versions;
  return bun !== undefined ? `bun ${bun}` : deno !== undefined ? `deno ${deno}` : `node ${node}`;
};

export function nodeTelemetry(config: Config): Telemetry {
  logToStandardError(config.SVC_LOG_LEVEL);
  const metrics: PromMetrics = promMetrics({
    version: packageVersion(),
    runtime: runtimeName(),
    ...(cluster.isWorker ? { gather: gatherFromPeers(() => metrics.own()) } : {}),
  });
  sampleProcess(metrics, config);
  for (const { id } of config.SVC_NOTIFY_TARGETS ?? []) metrics.know('target', id);
  const later = (ms: number, act: () => void): void => void setTimeout(act, ms).unref();
  return createTelemetry({
    log: foldRepeats(createLog(), later),
    metrics,
    busiestMax: config.SVC_BUCKETSTATS_TOPN,
  });
}

/** What is read from the process whenever metrics are read. */
function sampleProcess(metrics: PromMetrics, config: Config): void {
  metrics.set('svc_memory_limit_bytes', [], config.SVC_MEMORY_MAX);
  const lag = measureEventLoopLag();
  const expiries = certificateExpiries(config);
  metrics.onRead(() => {
    for (const [kind, bytes] of processMemory()) metrics.set('svc_memory_bytes', [kind], bytes);
    metrics.replace(
      'svc_certificate_not_after_timestamp_seconds',
      expiries().map(({ setting, notAfter }) => [[setting], notAfter / 1000] as const),
    );
    metrics.set('svc_event_loop_lag_seconds', [], lag.read());
  });
}
