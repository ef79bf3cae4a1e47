/** One process that serves: from a configuration to a gateway with its listener and workers, until a signal stops it. */
import cluster from 'node:cluster';
import { hostname } from 'node:os';
import { createGateway } from '../../admin-gateway.ts';
import { hasEnded, processIdentity } from '../../backends/process-identity.ts';
import { lastMinute, RequestHistory } from '../../base/recent-entries.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { noSiblings } from '../../ports/siblings.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { ClientLoad } from '../../workers/client-load.ts';
import type { DescribeGateway } from '../../workers/heartbeats.ts';
import { startWorkers, type WorkerHost } from '../../workers/registry.ts';
import { packageVersion } from '../cli/version.ts';
import { compose } from '../compose/compose.ts';
import type { Configuration } from '../compose/configuration.ts';
import { assertExpected } from '../expected-installation.ts';
import { serve } from '../node/node-server.ts';
import { asRefusal } from '../start-refusal.ts';
import { joinSpread } from './connection-spread.ts';
import { boundHeapGrowth, openIdleMemory } from './idle-memory.ts';
import { nodeDiagnostics, processName } from './node-diagnostics.ts';
import { openLogLevel } from './node-log-level.ts';
import { onStopSignals, processCount, processPlace } from './node-processes.ts';
import { joinSiblings } from './node-siblings.ts';
import { nodeTelemetry, nodeTracing, runtimeName } from './node-telemetry.ts';
import { endAtOnce, endWhenLate } from './process-exit.ts';

interface ServingOptions {
  readonly warnings: readonly string[];
  readonly isInit: boolean;
  readonly onReady: (url: string, installation: string | undefined) => void;
}

/** Resolves with the exit code after a signal has stopped the process. */
export async function serveInProcess(
  { config, credentials }: Configuration,
  { warnings, isInit, onReady }: ServingOptions,
): Promise<number> {
  boundHeapGrowth();
  const logLevel = openLogLevel(config.SVC_LOG_LEVEL);
  const telemetry = nodeTelemetry({ ...config, SVC_LOG_LEVEL: logLevel.get() });
  for (const warning of warnings) telemetry.log('WARN', warning);
  logStrayErrors(telemetry);
  const siblings = cluster.isWorker
    ? await joinSiblings((cause) =>
        telemetry.log('ERROR', 'an announcement of another process was not processed', { cause }),
      )
    : noSiblings;
  logLevel.share(siblings);
  const tracing = await nodeTracing(config, telemetry);
  const installationMode = isInit ? 'init' : 'start';
  const { context, installation, close } = await compose(config, {
    credentials,
    telemetry,
    siblings,
    logLevel,
    tracer: tracing.tracer,
    diagnostics: nodeDiagnostics(),
    installation: installationMode,
    version: packageVersion(),
  }).catch((error: unknown) => {
    throw asRefusal(error, config);
  });
  assertExpected(installation);
  // The boot step of the clusters; a store that does not answer yet gets it with the first write.
  await context.clusterStates
    .view()
    .catch((cause: unknown) =>
      telemetry.log('WARN', 'the states of the clusters cannot be read yet', { cause }),
    );
  const clientLoad = new ClientLoad(context.clock);
  const spread = joinSpread(config.SVC_PROCESSES);
  const idleMemory = openIdleMemory(telemetry);
  const onAnswer = (): void => {
    clientLoad.answered();
    idleMemory.answered();
  };
  const gateway = spread.watch(createGateway(context, { onAnswer }));
  const { disconnected: onDisconnect } = spread;
  const serving = await serve({ gateway, config, telemetry, onDisconnect }).catch(async (error: unknown) => {
    await close();
    throw asRefusal(error, config);
  });
  spread.follow(serving);
  const stopping = new AbortController();
  const host = openHost(context, config, { address: serving.url, clientLoad });
  const workers = startWorkers(context, config.SVC_WORKERS, stopping.signal, host);
  // The process may be stopped as soon as it has printed that it serves.
  const stopped = untilStopSignal();
  onReady(serving.url, installation);
  telemetry.log('INFO', 'serving', { url: serving.url, pid: process.pid });
  await stopped;
  telemetry.log('INFO', 'stopping', { pid: process.pid });
  const stopWatching = cluster.isWorker ? undefined : endWhenLate(config.SVC_SHUTDOWN_TIMEOUT, telemetry);
  try {
    stopping.abort();
    await Promise.all([serving.close(), workers.stop()]);
    await close();
    await tracing.close();
  } finally {
    stopWatching?.();
  }
  if (context.keys?.isStuck?.() === true) endBesideStuckCall(telemetry);
  return 0;
}

function endBesideStuckCall({ log }: Pick<Telemetry, 'log'>): never {
  log('WARN', 'a call of the key provider never returned, so this process kills itself');
  return endAtOnce();
}

/** A stray rejection belongs to one request; an uncaught exception may have left anything half done. */
function logStrayErrors(telemetry: Pick<Telemetry, 'log'>): void {
  process.on('unhandledRejection', (cause) =>
    telemetry.log('ERROR', 'a promise was rejected without a handler', { cause }),
  );
  process.on('uncaughtException', (cause) => {
    telemetry.log('ERROR', 'an exception was not caught; the process ends', { cause });
    endAtOnce();
  });
}

/** What the workers know of this process. */
function openHost(
  context: Context,
  config: Config,
  { address, clientLoad }: { readonly address: string; readonly clientLoad: ClientLoad },
): WorkerHost {
  const gateway = describeGateway(context, { address, processes: processCount(config) });
  return { process: processName(), gateway, clientLoad, ...localProcess(context, config) };
}

/** Where the metadata are on this machine, processes see which others have ended. */
function localProcess({ metadata }: Pick<Context, 'metadata'>, config: Config): Pick<WorkerHost, 'local'> {
  const identity = metadata.isDistant ? undefined : processIdentity();
  if (identity === undefined) return {};
  return { local: { identity, hasEnded, place: processPlace(), places: processCount(config) } };
}

/** Resolves on a signal to stop. The primary forwards it, because only a terminal signals every process. */
function untilStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    onStopSignals(resolve, () => {
      if (!cluster.isWorker) endAtOnce();
    });
  });
}

/** What a process that serves writes of itself, for `sluice admin status`. */
function describeGateway(
  { caches, clock }: Pick<Context, 'caches' | 'clock'>,
  { address, processes }: { readonly address: string; readonly processes: number },
): DescribeGateway {
  const startedAt = clock.now();
  const begun = clock.elapsed();
  const about = {
    node: `${hostname()} ${address}`,
    place: processPlace(),
    process: processName(),
    address,
    version: packageVersion(),
    runtime: runtimeName(),
    processes,
    startedAt,
  };
  return () => ({
    ...about,
    uptimeMs: Math.round(clock.elapsed() - begun),
    requests: lastMinute(caches.of(RequestHistory), clock.now()),
  });
}
