/** Telemetry of a Node process: logs as JSON lines on standard error, metrics through prom-client. */
import cluster from 'node:cluster';
import type { Config } from '../../config.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { foldRepeats } from '../../telemetry/fold-repeats.ts';
import { configureLog, createLog } from '../../telemetry/log.ts';
import { type PromMetrics, promMetrics } from '../../telemetry/prom-metrics.ts';
import { createTelemetry } from '../../telemetry/telemetry.ts';
import { packageVersion } from '../cli/version.ts';
import { gatherFromPeers } from './node-metrics.ts';
import { processMemory } from './process-memory.ts';

/** Standard output is for the operator at the terminal, standard error for log collectors. */
export function logToStandardError(level: Config['SVC_LOG_LEVEL']): void {
  configureLog({ level, write: (line) => process.stderr.write(`${line}\n`) });
}

const runtime = (): string => {
  const { bun, deno, node } = process.versions;
  return bun !== undefined ? `bun ${bun}` : deno !== undefined ? `deno ${deno}` : `node ${node}`;
};

export function nodeTelemetry(config: Pick<Config, 'SVC_LOG_LEVEL'>): Telemetry {
  logToStandardError(config.SVC_LOG_LEVEL);
  const metrics: PromMetrics = promMetrics({
    version: packageVersion(),
    runtime: runtime(),
    memory: processMemory,
    ...(cluster.isWorker ? { gather: gatherFromPeers(() => metrics.own()) } : {}),
  });
  const later = (ms: number, act: () => void): void => void setTimeout(act, ms).unref();
  return createTelemetry({ log: foldRepeats(createLog(), later), metrics });
}
