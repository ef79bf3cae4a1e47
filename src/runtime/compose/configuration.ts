/** Everything that is configured, files included, so that one round shows every fault. */
import { access, constants, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { dataBackends } from '../../config/data.ts';
import { type HsmKeys, keyProviders } from '../../config/keys.ts';
import type { ListenAddress } from '../../config/network.ts';
import { type Found, readConfig } from '../../config/read-config.ts';
import type { Config, Environment, SettingName } from '../../config.ts';
import type { Credential } from '../../ports/credentials.ts';
import { readCredentialsFile } from '../root-credentials.ts';
import { lookAtMasterKeyFile, makePrivateDirectory, noSecretFile, readHsmKeysFile } from '../secret-file.ts';
import { lookForPackages } from './needed-packages.ts';
import { lookAtUpstreamFiles } from './upstream-files.ts';

export interface Configuration {
  readonly config: Config;
  /** The configured credentials; empty when a root key is to be created. */
  readonly credentials: readonly Credential[];
}

interface LoadedConfiguration {
  /** Present when there is no fault. */
  readonly configuration?: Configuration;
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
  readonly found: readonly Found[];
}

interface LoadOptions {
  readonly env: Environment;
  readonly flags: Environment;
  /** Makes the data directory, as a start needs it. */
  readonly prepares: boolean;
}

/** Reads settings and the files they name. */
export async function loadConfiguration({ env, flags, prepares }: LoadOptions): Promise<LoadedConfiguration> {
  const reading = readConfig(env, flags);
  const settingText = (name: SettingName): string | undefined =>
    reading.found.find((found) => found.name === name)?.text;
  const credentialsPath = settingText('SVC_CREDENTIALS_FILE');
  const hsmPath = settingText('SVC_HSM_KEYS_FILE');
  const [file, masterKeys, hsmKeys, upstreams, missing, ...fileFaults] = await Promise.all([
    credentialsPath === undefined ? noSecretFile : readCredentialsFile(credentialsPath),
    lookAtMasterKeyFile(settingText('SVC_MASTER_KEY_FILE'), settingText('SVC_DATA_DIR')),
    hsmPath === undefined ? noSecretFile : readHsmKeysFile(hsmPath),
    reading.config === undefined ? noSecretFile : lookAtUpstreamFiles(reading.config),
    reading.config === undefined ? [] : lookForPackages(reading.config),
    unreadable('SVC_TLS_CERT_FILE', settingText('SVC_TLS_CERT_FILE')),
    unreadable('SVC_TLS_KEY_FILE', settingText('SVC_TLS_KEY_FILE')),
    ...Object.values(keyProviders).flatMap(({ files = [] }) =>
      files.map((name) => unreadable(name, settingText(name))),
    ),
    prepares ? unwritable('SVC_DATA_DIR', settingText('SVC_DATA_DIR')) : [],
  ]);
  const secrets = [file, masterKeys, hsmKeys, upstreams];
  const faults = [
    ...reading.faults,
    ...secrets.flatMap((each) => each.faults),
    ...missing,
    ...fileFaults.flat(),
  ];
  const warnings = [...reading.warnings, ...secrets.flatMap((each) => each.warnings)];
  const { config, found } = reading;
  if (config === undefined || faults.length > 0) return { faults, warnings, found };
  const credentials = config.SVC_CREDENTIALS ?? file.value ?? [];
  warnings.push(...warningsOfKeys(hsmKeys.value, { config, credentials }));
  warnings.push(...warningsOfTargets({ config, credentials }));
  warnings.push(...warningsOfProxies(config));
  return { configuration: { config, credentials }, faults, warnings, found };
}

/** A warning where several accounts exist and a key names none: such a key encrypts for no account. */
function warningsOfKeys(
  file: HsmKeys | undefined,
  { config, credentials }: Configuration,
): readonly string[] {
  if (file === undefined || new Set(credentials.map(({ owner }) => owner)).size < 2) return [];
  const { keys, accounts, aliases } = file;
  const input = config.SVC_KMS_DEFAULT_KEY_ID;
  const ofAll = input === undefined ? undefined : (aliases.get(input) ?? input);
  const bare = [...keys.keys()].filter((id) => !accounts.has(id) && id !== ofAll);
  if (bare.length === 0) return [];
  const firstKeys = bare.slice(0, 5).join(', ');
  return [
    `SVC_HSM_KEYS_FILE: ${bare.length} of the keys name no accounts (${firstKeys}${bare.length > 5 ? ', …' : ''}). There are several accounts, so these keys decrypt but encrypt for none of them; write {"key": "<base64>", "accounts": ["<account>"]}`,
  ];
}

/** Where several accounts exist, a target that names none serves no account. */
function warningsOfTargets({ config, credentials }: Configuration): readonly string[] {
  if (new Set(credentials.map(({ owner }) => owner)).size < 2) return [];
  const bare = config.SVC_NOTIFY_TARGETS.filter(({ accounts }) => accounts === undefined);
  if (bare.length === 0) return [];
  const first = bare.slice(0, 5).map(({ id }) => id);
  return [
    `SVC_NOTIFY_TARGETS: ${bare.length} of the targets name no accounts (${first.join(', ')}${bare.length > 5 ? ', …' : ''}). There are several accounts, so these targets take events of none of them; write "accounts": ["<account>"], or ["*"] for every account`,
  ];
}

/** The first and the last address of IPv4, and of IPv6. */
const ends = [
  ['0.0.0.0', '255.255.255.255'],
  ['::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
] as const;

/** Every client is a trusted proxy where a range holds every address. */
const warningsOfProxies = ({ SVC_TRUSTED_PROXIES: proxies }: Config): readonly string[] =>
  proxies
    .filter((range) => ends.some(([first, last]) => range.contains(first) && range.contains(last)))
    .map(
      ({ text }) =>
        `SVC_TRUSTED_PROXIES: ${text} holds every address, so a client may choose the address that policies, limits and logs have of it, and claim TLS; name the addresses of the proxies alone`,
    );

const describeError = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

async function unreadable(name: string, path: string | undefined): Promise<readonly string[]> {
  if (path === undefined) return [];
  return access(path, constants.R_OK).then(
    () => [],
    (error: unknown) => [`${name}=${path} cannot be read: ${describeError(error)}`],
  );
}

export async function unwritable(name: string, path: string | undefined): Promise<readonly string[]> {
  if (path === undefined) return [];
  try {
    await makePrivateDirectory(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    return [];
  } catch (error) {
    const code = describeError(error);
    const why = code === 'EEXIST' ? 'it is a file' : code;
    return [
      `${name}=${path} cannot be used as a directory: ${why}. Name one that this process may write to, or a new one`,
    ];
  }
}

// The endpoint that is printed: what a client on this machine can paste.

export function formatEndpoint({ host, port }: ListenAddress, secure: boolean): string {
  const scheme = secure ? 'https' : 'http';
  if (host === '0.0.0.0' || host === '::')
    return `${scheme}://${host === '::' ? '[::1]' : '127.0.0.1'}:${port}`;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

// Finds chunks of clusters that the settings leave out: reads of their objects fail, which looks like data loss.

type ClusterConfig = Pick<Config, 'SVC_DATA_DIR' | 'SVC_DATA_BACKEND' | 'SVC_POOL_CLUSTERS'>;

/** A warning for each cluster directory that holds anything and is not used. */
export async function leftOutClusters(config: ClusterConfig): Promise<readonly string[]> {
  const { SVC_DATA_DIR, SVC_DATA_BACKEND, SVC_POOL_CLUSTERS: clusters } = config;
  if (SVC_DATA_DIR === undefined || !dataBackends[SVC_DATA_BACKEND].isOnDisks) return [];
  const chunks = resolve(SVC_DATA_DIR, 'chunks');
  const used = new Set(clusters.map(({ id, dir }) => resolve(dir ?? join(chunks, id))));
  const setting = `SVC_POOL_CLUSTERS=${clusters.map(({ id }) => id).join(',')}`;
  const warnings: string[] = [];
  for (const entry of await listEntries(chunks)) {
    const path = join(chunks, entry.name);
    if (used.has(path) || !entry.isDirectory() || !(await holdsChunks(path))) continue;
    const elsewhere = clusters.find(({ id }) => id === entry.name)?.dir;
    warnings.push(
      elsewhere === undefined
        ? `${setting} leaves out cluster "${entry.name}", whose chunks lie in ${path}`
        : `${setting} keeps cluster "${entry.name}" in ${resolve(elsewhere)}, but chunks of it lie in ${path}`,
    );
  }
  return warnings;
}

/** A cluster that cannot be inspected does not prevent the start: this only warns. */
const listEntries = (path: string) => readdir(path, { withFileTypes: true }).catch(() => []);

/** Chunks are in directories; a store also has its identity and its reserve beside them. */
async function holdsChunks(path: string): Promise<boolean> {
  for (const entry of await listEntries(path))
    if (entry.isDirectory() && (await holdsFile(join(path, entry.name)))) return true;
  return false;
}

/** A store creates its directories at the start, and files with the first chunk. */
async function holdsFile(path: string): Promise<boolean> {
  for (const entry of await listEntries(path)) {
    if (!entry.isDirectory() || (await holdsFile(join(path, entry.name)))) return true;
  }
  return false;
}
