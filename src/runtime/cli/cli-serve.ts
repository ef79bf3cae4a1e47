/** `sluice serve`: from a configuration to a process that serves, or to a primary of several. */
import cluster from 'node:cluster';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../../config.ts';
import type { Credential } from '../../ports/credentials.ts';
import { systemRandom } from '../../ports/random.ts';
import { createLog } from '../../telemetry/log.ts';
import { type Configuration, formatEndpoint, leftOutClusters } from '../compose/configuration.ts';
import { assertStillThere } from '../expected-installation.ts';
import { openSpread } from '../processes/connection-spread.ts';
import { mappedFile } from '../processes/memory-faults.ts';
import { followLogLevel, openLogLevel } from '../processes/node-log-level.ts';
import {
  endWithPrimary,
  processCount,
  reportReady,
  reportRefused,
  superviseProcesses,
} from '../processes/node-processes.ts';
import type { serveInProcess } from '../processes/serving-process.ts';
import {
  mintRootCredential,
  rootCredentialFile,
  storedRootCredential,
  takeUnshown,
} from '../root-credentials.ts';
import { StartRefusal } from '../start-refusal.ts';
import { packageVersion } from './version.ts';

/** Resolves with the exit code when the gateway has stopped. */
export async function serveUntilStopped(
  configuration: Configuration,
  { warnings: configured, isInit }: { readonly warnings: readonly string[]; readonly isInit: boolean },
): Promise<number> {
  const { config } = configuration;
  outliveLogReader();
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
    spread: openSpread(config.SVC_PROCESSES, processes),
    onReady: announce,
    onRefused: (why) => process.stderr.write(`sluice: ${why}\n`),
  });
}

/**
 * Loses the lines that cannot be written, because the reader of a pipe has ended or the disk of a file is full. Without these listeners
 * the first such line would end the process and its requests. Node tries each later line again.
 */
function outliveLogReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** Loaded late, because the primary of several processes never serves: it starts them sooner, and takes less memory. */
const serveHere: typeof serveInProcess = async (...args) =>
  (await import('../processes/serving-process.ts')).serveInProcess(...args);

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
    rows.push(['docs', findDocs()]);
  }
  const lines = rows.map(([name, text]) => `  ${name.padEnd(10)}  ${text}`);
  return [`sluice ${version}`, ...lines, ''].join('\n');
}

/** Makes a profile of the AWS CLI, which then needs neither keys nor an address. */
const configureLine = (url: string, { accessKey, secretKey }: Credential): string =>
  [`aws_access_key_id ${accessKey}`, `aws_secret_access_key ${secretKey}`, `endpoint_url ${url}`]
    .map((setting) => `aws configure --profile sluice set ${setting}`)
    .join(' && ');

/** Beside `src` and `dist`, in the repository and in the package; modules of a bundle are one level higher. */
function findDocs(): string {
  const folders = ['../../../docs/', '../../docs/'].map((up) => fileURLToPath(new URL(up, import.meta.url)));
  return folders.find((folder) => existsSync(folder)) ?? '';
}

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
