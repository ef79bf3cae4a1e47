/** `sluice serve`: from a configuration to a process that serves, or to a primary of several. */
import cluster from 'node:cluster';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasEnded, processIdentity } from '../../backends/process-identity.ts';
import { lastMinute, RequestHistory } from '../../base/recent-entries.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { createGateway } from '../../gateway.ts';
import type { Credential } from '../../ports/credentials.ts';
import { systemRandom } from '../../ports/random.ts';
import { noSiblings } from '../../ports/siblings.ts';
import { createLog } from '../../telemetry/log.ts';
import { ClientLoad } from '../../workers/client-load.ts';
import type { DescribeGateway } from '../../workers/heartbeats.ts';
import { startWorkers, type WorkerHost } from '../../workers/registry.ts';
import { compose, leftOutClusters } from '../compose/compose.ts';
import { type Configuration, formatEndpoint } from '../compose/configuration.ts';
import { assertExpected, assertStillThere } from '../expected-installation.ts';
import { serve } from '../node.ts';
import { mappedFile } from '../processes/memory-faults.ts';
import { nodeDiagnostics, processName } from '../processes/node-diagnostics.ts';
import { joinSiblings } from '../processes/node-siblings.ts';
import {
  followLogLevel,
  nodeTelemetry,
  nodeTracing,
  openLogLevel,
  runtimeName,
} from '../processes/node-telemetry.ts';
import {
  endWithPrimary,
  onStopSignals,
  processCount,
  processPlace,
  reportReady,
  reportRefused,
  superviseProcesses,
} from '../processes/node-workers.ts';
import { endAtOnce } from '../processes/process-exit.ts';
import {
  mintRootCredential,
  rootCredentialFile,
  storedRootCredential,
  takeUnshown,
} from '../root-credentials.ts';
import { asRefusal, StartRefusal } from '../start-refusal.ts';
import { packageVersion } from './version.ts';

/** Resolves with the exit code when the gateway has stopped. */
export async function serveUntilStopped(
  configuration: Configuration,
  { warnings: configured, isInit }: { readonly warnings: readonly string[]; readonly isInit: boolean },
): Promise<number> {
  const { config } = configuration;
  assertStillThere(config);
  // The primary prints what concerns the whole node, so that it is printed once.
  const warnings = cluster.isWorker ? [] : [...configured, ...(await leftOutClusters(config))];
  const root = await findRoot(configuration);
  const credentials = root === undefined ? configuration.credentials : [root.credential];
  const processes = processCount(config);
  const announce = (url: string): void => {
    // Only now, when it serves, because a failed start has not printed the key that it created.
    const shows = root !== undefined && (root.file === undefined || takeUnshown(root.file));
    const visible: Banner = {
      version: packageVersion(),
      url,
      config,
      processes,
      ...(root === undefined ? {} : { root: { ...root, shows } }),
    };
    process.stdout.write(banner(visible));
  };
  if (processes === 1)
    return serveHere({ ...configuration, credentials }, { warnings, isInit, onReady: announce });
  if (cluster.isWorker) {
    endWithPrimary();
    const here = { warnings, isInit, onReady: reportReady };
    return tellingPrimary(serveHere({ ...configuration, credentials }, here));
  }
  const logLevel = openLogLevel(config.SVC_LOG_LEVEL);
  const log = createLog();
  for (const warning of warnings) log('WARN', warning);
  return superviseProcesses({
    count: processes,
    log,
    hear: followLogLevel(logLevel),
    shutdownTimeoutMs: config.SVC_SHUTDOWN_TIMEOUT,
    mappedFile: mappedFile(config),
    onReady: announce,
    onRefused: (why) => process.stderr.write(`sluice: ${why}\n`),
  });
}

/** The primary prints a failure of the start, once for all processes. */
async function tellingPrimary(serving: Promise<number>): Promise<number> {
  try {
    return await serving;
  } catch (error) {
    if (!(error instanceof StartRefusal)) throw error;
    await reportRefused(error.message);
    return error.exitCode;
  }
}

/** The root key, where nothing else is configured; the primary mints it before it forks. */
async function findRoot({
  config,
  credentials,
}: Configuration): Promise<Omit<NonNullable<Banner['root']>, 'shows'> | undefined> {
  if (credentials.length > 0) return undefined;
  const random = systemRandom();
  if (config.SVC_DATA_DIR === undefined) return { credential: mintRootCredential(random) };
  const credential = await storedRootCredential(config.SVC_DATA_DIR, random);
  return { credential, file: rootCredentialFile(config.SVC_DATA_DIR) };
}

interface HereOptions {
  readonly warnings: readonly string[];
  readonly isInit: boolean;
  readonly onReady: (url: string, installation: string | undefined) => void;
}

/** Serves in this process until a signal stops it. */
async function serveHere(
  { config, credentials }: Configuration,
  { warnings, isInit, onReady }: HereOptions,
): Promise<number> {
  const logLevel = openLogLevel(config.SVC_LOG_LEVEL);
  const telemetry = nodeTelemetry({ ...config, SVC_LOG_LEVEL: logLevel.get() });
  for (const warning of warnings) telemetry.log('WARN', warning);
  // A stray rejection belongs to one request; an uncaught exception may have left anything half done.
  process.on('unhandledRejection', (cause) =>
    telemetry.log('ERROR', 'a promise was rejected without a handler', { cause }),
  );
  process.on('uncaughtException', (cause) => {
    telemetry.log('ERROR', 'an exception was not caught; the process ends', { cause });
    endAtOnce();
  });
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
  const request: typeof telemetry.request = (observed) => {
    clientLoad.answered();
    telemetry.request(observed);
  };
  const gateway = createGateway({ ...context, telemetry: { ...telemetry, request } });
  const serving = await serve({ gateway, config, telemetry }).catch(async (error: unknown) => {
    await close();
    throw asRefusal(error, config);
  });
  const stopping = new AbortController();
  const host = hostOf(context, config, { address: serving.url, clientLoad });
  const workers = startWorkers(context, config.SVC_WORKERS, stopping.signal, host);
  // The process may be stopped as soon as it has printed that it serves.
  const stopped = untilStopSignal();
  onReady(serving.url, installation);
  telemetry.log('INFO', 'serving', { url: serving.url, pid: process.pid });
  await stopped;
  telemetry.log('INFO', 'stopping', { pid: process.pid });
  stopping.abort();
  await Promise.all([serving.close(), workers.stop()]);
  await close();
  await tracing.close();
  if (context.keys?.isStuck?.() === true) {
    telemetry.log('WARN', 'a call of the key provider never returned, so this process kills itself');
    endAtOnce();
  }
  return 0;
}

/** What the workers know of this process. */
function hostOf(
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

// The text for the operator once the gateway serves: its address, the key, and a command to paste.

interface Banner {
  readonly version: string;
  readonly url: string;
  readonly config: Pick<
    Config,
    'SVC_DATA_DIR' | 'SVC_META_BACKEND' | 'SVC_DATA_BACKEND' | 'SVC_ADMIN_LISTEN'
  >;
  readonly processes: number;
  /** Set where no credentials are configured. */
  readonly root?: {
    readonly credential: Credential;
    /** Whether the secret is printed: once, by the first start that serves. */
    readonly shows: boolean;
    /** The file of the key; absent when it is in memory only. */
    readonly file?: string;
  };
}

function banner({ version, url, config, processes, root }: Banner): string {
  const keys = root?.shows === true ? root.credential : undefined;
  const rows: (readonly [string, string])[] = [
    ['endpoint', url],
    [
      'console',
      `${config.SVC_ADMIN_LISTEN === undefined ? url : adminEndpoint(config.SVC_ADMIN_LISTEN, url)}/console/`,
    ],
    ...formatOperatorLines(config, url),
    ['data', describeData(config)],
    ['processes', String(processes)],
  ];
  if (keys !== undefined) {
    rows.push(['access key', keys.accessKey], ['secret key', keys.secretKey]);
    const retained =
      root?.file === undefined ? 'in memory only, gone at exit' : `kept in ${resolve(root.file)}`;
    rows.push(['', `(created at this start and shown only once; ${retained})`]);
  } else if (root?.file !== undefined) {
    rows.push(['access key', root.credential.accessKey], ['secret key', `in ${resolve(root.file)}`]);
  }
  rows.push(['try', `${formatEnvironment(root)}aws --endpoint-url ${url} s3 ls`]);
  if (keys !== undefined) {
    rows.push(['configure', configureLine(url, keys)], ['then', 'aws --profile sluice s3 mb s3://photos']);
    rows.push(['or', `mc alias set sluice ${url} ${keys.accessKey} ${keys.secretKey}`]);
    rows.push(['docs', docsDirectory]);
  }
  const lines = rows.map(([name, text]) => `  ${name.padEnd(10)}  ${text}`);
  return [`sluice ${version}`, ...lines, ''].join('\n');
}

/** Makes a profile of the AWS CLI, which then needs neither keys nor an address. */
const configureLine = (url: string, { accessKey, secretKey }: Credential): string =>
  [`aws_access_key_id ${accessKey}`, `aws_secret_access_key ${secretKey}`, `endpoint_url ${url}`]
    .map((setting) => `aws configure --profile sluice set ${setting}`)
    .join(' && ');

/** Beside `src` and `dist`, in the repository and in the package. */
const docsDirectory = fileURLToPath(new URL('../../../docs/', import.meta.url));

/** Quoted where it is to be filled in: a shell would take `<` for a redirection. */
function formatEnvironment(root: Banner['root']): string {
  if (root === undefined) return '';
  const secret = root.shows ? root.credential.secretKey : "'<secret key>'";
  return `AWS_ACCESS_KEY_ID=${root.credential.accessKey} AWS_SECRET_ACCESS_KEY=${secret} `;
}

/** The address of `/admin`, `/metrics` and the probes, when they have a listener of their own. */
function formatOperatorLines(
  { SVC_ADMIN_LISTEN }: Banner['config'],
  url: string,
): (readonly [string, string])[] {
  if (SVC_ADMIN_LISTEN === undefined) return [];
  return [['operators', adminEndpoint(SVC_ADMIN_LISTEN, url)]];
}

const adminEndpoint = (address: Parameters<typeof formatEndpoint>[0], url: string): string =>
  formatEndpoint(address, url.startsWith('https:'));

function describeData(config: Banner['config']): string {
  const backends = `metadata ${config.SVC_META_BACKEND}, data ${config.SVC_DATA_BACKEND}`;
  return config.SVC_DATA_DIR === undefined
    ? `not kept (${backends})`
    : `${resolve(config.SVC_DATA_DIR)} (${backends})`;
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
