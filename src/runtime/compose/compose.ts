/**
 * Makes ports from settings: the only place that knows which backend a setting's value names. Backends are loaded when the settings name
 * them, so that a runtime without a disk never loads lmdb.
 */
import { activeMs, openCredentials } from '../../auth/session/credentials.ts';
import type { DiskSpaces } from '../../backends/disk-space.ts';
import { masterSealer, nameKey } from '../../backends/keys/sealing.ts';
import { lateWrites } from '../../backends/metadata/late-writes.ts';
import { openSinks } from '../../backends/sinks/open-sinks.ts';
import { Caches } from '../../base/bounded-cache.ts';
import { SharedMemory } from '../../base/shared-budget.ts';
import { dataBackends } from '../../config/data.ts';
import { metadataBackends } from '../../config/metadata.ts';
import { mayReach } from '../../config/network.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { openClusterStates } from '../../domain/clusters/cluster-states.ts';
import { TrafficCounter } from '../../domain/usage/traffic-counter.ts';
import { flushRefusals } from '../../gateway/recording.ts';
import type { InstallationMode } from '../../metadata/installation.ts';
import { shareChanges } from '../../metadata/shared-changes.ts';
import type { DiskState } from '../../ports/chunk-store.ts';
import { type Clock, systemClock } from '../../ports/clock.ts';
import type { ConsoleAssets } from '../../ports/console-assets.ts';
import type { Credential } from '../../ports/credentials.ts';
import { type Cipher, cipherKeyBytes, type Hasher, type Sealer } from '../../ports/cryptography.ts';
import type { Diagnostics } from '../../ports/diagnostics.ts';
import { type MetadataStore, StoreUnavailable } from '../../ports/metadata-store.ts';
import type { PeerRequests } from '../../ports/peer-requests.ts';
import { type Random, systemRandom } from '../../ports/random.ts';
import { noSiblings, type Siblings } from '../../ports/siblings.ts';
import { type LogLevelControl, silentTelemetry, type Telemetry } from '../../ports/telemetry.ts';
import type { Tracer } from '../../ports/trace.ts';
import { measureClusters, timedBytes, timedMetadata } from '../../telemetry/timed-backends.ts';
import { NodeQuestions } from '../../workers/node-questions.ts';
import { consoleFiles } from '../console-files.ts';
import { openBytes, type Parts } from './compose-bytes.ts';
import { openKeys } from './open-keys.ts';
import { openMetadata } from './open-metadata.ts';

export interface ComposeOptions {
  readonly credentials: readonly Credential[];
  readonly telemetry?: Telemetry;
  /** The native one when absent; runtimes without node:crypto or native modules give the portable one. */
  readonly hasher?: Hasher;
  readonly cipher?: Cipher;
  readonly clock?: Clock;
  readonly random?: Random;
  /** What to do where metadata, chunks and master key belong to different installations. Default `start`: refuse. */
  readonly installation?: InstallationMode;
  /** The other processes of this node; none when absent. */
  readonly siblings?: Siblings;
  readonly tracer?: Tracer | undefined;
  readonly diagnostics?: Diagnostics | undefined;
  readonly logLevel?: LogLevelControl;
  /** Default: the files of this package. */
  readonly consoleAssets?: ConsoleAssets;
  /** The version of this build, for operators. */
  readonly version?: string;
}

export interface Composed {
  readonly context: Context;
  /** The id of the installation; absent where metadata lasts as long as the process. */
  readonly installation: string | undefined;
  /** Closes the stores; call it once nothing uses the context any more. */
  close(): Promise<void>;
}

/** Without a file the key lives as long as the process, as does everything that it seals. */
async function openSealer(
  { config, random }: Parts,
  crypto: { readonly hasher: Hasher; readonly cipher: Cipher },
  mayMake: () => Promise<boolean>,
): Promise<{ readonly sealer: Sealer; readonly keyNames: readonly string[] }> {
  const path = config.SVC_MASTER_KEY_FILE;
  if (path === undefined)
    return {
      sealer: masterSealer({ keys: [random.bytes(cipherKeyBytes)], ...crypto, random }),
      keyNames: [],
    };
  const { storedMasterKeys } = await import('../secret-file.ts');
  const keys = await storedMasterKeys({ path, dataDir: config.SVC_DATA_DIR, random, mayMake });
  const keyNames = keys.map((key) => nameKey({ ...crypto, random }, key).name);
  return { sealer: masterSealer({ keys, ...crypto, random }), keyNames };
}

/** Opened with its first request: most gateways have no peer, and the HTTP client is a sixth of the modules of a start. */
function openPeers({
  config,
  ...ports
}: Pick<Parts, 'config' | 'clock'> & { readonly hasher: Hasher }): PeerRequests {
  let opened: Promise<PeerRequests> | undefined;
  const open = async (): Promise<PeerRequests> => {
    const { peerRequests } = await import('../../backends/peer-requests.ts');
    const allowed = (address: string): boolean => mayReach(address, config.SVC_EGRESS_ALLOW);
    return peerRequests({ ...ports, mayReach: allowed, timeoutMs: config.SVC_REPLICATION_TIMEOUT });
  };
  const peers = (): Promise<PeerRequests> => {
    opened ??= open();
    return opened;
  };
  return {
    ask: async (...request) => (await peers()).ask(...request),
    send: async (...request) => (await peers()).send(...request),
    close: async () => (await opened)?.close(),
  };
}

/** Backends of one machine are read each time: that costs microseconds, and every change takes effect immediately. */
const cacheTimes = ({ SVC_META_BACKEND, SVC_CONFIG_CACHE_TTL }: Config) =>
  metadataBackends[SVC_META_BACKEND].scope === 'network'
    ? { cacheTtlMs: SVC_CONFIG_CACHE_TTL, activeMs: 0 }
    : { cacheTtlMs: 0 };

/** What the processes of a node cache of the metadata, and for how long. */
const cachedChanges = (config: Config): Omit<Parameters<typeof shareChanges>[1], 'siblings'> =>
  metadataBackends[config.SVC_META_BACKEND].scope === 'network'
    ? { cacheTtlMs: config.SVC_CONFIG_CACHE_TTL, topics: ['bucket', 'account'] }
    : { cacheTtlMs: activeMs, topics: ['account'] };

/** Loaded only where a backend keeps files: other runtimes have no disk. */
async function openDisks({
  config,
  clock,
  telemetry,
}: Pick<Parts, 'config' | 'clock' | 'telemetry'>): Promise<DiskSpaces | undefined> {
  const keepsFiles =
    metadataBackends[config.SVC_META_BACKEND].needsDataDir || dataBackends[config.SVC_DATA_BACKEND].isOnDisks;
  if (!keepsFiles) return undefined;
  const { DiskSpaces } = await import('../../backends/disk-space.ts');
  const disks = new DiskSpaces({ reserveBytes: config.SVC_DISK_RESERVE, clock });
  telemetry.onRead(() => {
    for (const state of disks.states()) showDisk(telemetry, state);
  });
  return disks;
}

function showDisk(telemetry: Telemetry, { component, freeBytes, sizeBytes, warning }: DiskState): void {
  telemetry.set('svc_disk_size_bytes', { component }, sizeBytes);
  // A disk that cannot be measured, because its directory is gone, is not full.
  telemetry.set('svc_disk_free_bytes', { component }, sizeBytes === undefined ? undefined : freeBytes);
  telemetry.set('svc_disk_refuses_writes', { component }, warning === undefined ? 0 : 1);
}

function showBodyMemory(
  telemetry: Telemetry,
  { usedBytes, limitBytes }: Pick<SharedMemory, 'usedBytes' | 'limitBytes'>,
): void {
  telemetry.set('svc_body_memory_bytes', { kind: 'used' }, usedBytes);
  telemetry.set('svc_body_memory_bytes', { kind: 'limit' }, limitBytes);
}

interface Around {
  readonly hasher: Hasher;
  readonly cipher: Cipher;
  readonly mode: InstallationMode;
}

/** What must belong to the metadata: the master key and the chunks. Nothing is created before all of it was compared. */
async function openAround(metadata: MetadataStore, parts: Parts, { hasher, cipher, mode }: Around) {
  const { config, random } = parts;
  if (config.SVC_META_BACKEND === 'memory') {
    const { sealer } = await openSealer(parts, { hasher, cipher }, async () => true);
    return { sealer, installation: undefined, stored: await openBytes(parts, hasher) };
  }
  // Opening an upstream or a pool makes nothing there; directories are compared before they are opened.
  const early = dataBackends[config.SVC_DATA_BACKEND].marksItself
    ? await openBytes(parts, hasher)
    : undefined;
  try {
    const { checkInstallation, isNew } = await import('../installation.ts');
    const asked = { config, random, mode, stored: early };
    const opened = await openSealer(parts, { hasher, cipher }, () => isNew(metadata, asked));
    const check = { ...asked, keys: opened.keyNames };
    const { id: installation, away } = await checkInstallation(metadata, check).catch((cause: unknown) => {
      if (!(cause instanceof StoreUnavailable)) throw cause;
      parts.telemetry.log('WARN', 'the installation cannot be compared: metadata does not answer yet', {
        cause,
      });
      return { id: undefined, away: [] };
    });
    const stored = early ?? (await openBytes(parts, hasher));
    if (away.length === 0 || mode === 'inspect' || mode === 'adopt')
      return { sealer: opened.sealer, installation, stored };
    const { compareLater } = await import('../installation.ts');
    const compare = async (): Promise<readonly string[]> => (await checkInstallation(metadata, check)).away;
    const stop = compareLater({ ...parts, away, compare });
    const close = async (): Promise<void> => {
      await stop();
      await stored.close();
    };
    return { sealer: opened.sealer, installation, stored: { ...stored, close } };
  } catch (error) {
    await early?.close();
    throw error;
  }
}

/** Closes what is open where a further one cannot be opened. */
async function openStores(parts: Parts, around: Around & Pick<ComposeOptions, 'credentials'>) {
  const opened: ({ close?(): unknown } | undefined)[] = [parts.disks];
  try {
    const keys = await openKeys(parts, around);
    opened.push(keys);
    const metadata = await openMetadata(parts);
    opened.push(metadata);
    return { keys, metadata, ...(await openAround(metadata, parts, around)) };
  } catch (error) {
    await Promise.all(opened.map((each) => each?.close?.()));
    throw error;
  }
}

const operatorPorts = ({
  tracer,
  logLevel,
  diagnostics,
  version,
  consoleAssets = consoleFiles(),
}: ComposeOptions): Pick<Context, 'tracer' | 'logLevel' | 'diagnostics' | 'version' | 'consoleAssets'> => ({
  consoleAssets,
  ...(diagnostics === undefined ? {} : { diagnostics }),
  ...(version === undefined ? {} : { version }),
  ...(tracer === undefined ? {} : { tracer }),
  ...(logLevel === undefined ? {} : { logLevel }),
});

/** On distant metadata there may be other nodes. */
const openNodes = (ctx: ConstructorParameters<typeof NodeQuestions>[0]): Pick<Context, 'otherNodes'> =>
  ctx.metadata.isDistant ? { otherNodes: new NodeQuestions(ctx) } : {};

/** Writes what only this process has. */
async function writeWaiting(context: Context): Promise<void> {
  await context.caches.of(TrafficCounter).close(context);
  flushRefusals(context);
  await context.lateWrites.flush();
}

export async function compose(config: Config, options: ComposeOptions): Promise<Composed> {
  const { installation: mode } = options;
  if (config.SVC_META_BACKEND === 'embedded' && mode !== undefined) {
    // Loaded only for embedded metadata: other runtimes have no disk.
    const { assertStored } = await import('../installation.ts');
    await assertStored(config, mode);
  }
  return composePorts(config, options);
}

async function composePorts(config: Config, options: ComposeOptions): Promise<Composed> {
  const {
    clock = systemClock,
    random = systemRandom(),
    telemetry = silentTelemetry,
    siblings = noSiblings,
  } = options;
  const disks = await openDisks({ config, clock, telemetry });
  const parts: Parts = { config, clock, random, telemetry, ...(disks === undefined ? {} : { disks }) };
  const hasher = options.hasher ?? (await import('../../backends/crypto/node.ts')).nodeHasher();
  const cipher = options.cipher ?? (await import('../../backends/crypto/node.ts')).nodeCipher();
  const around = { hasher, cipher, mode: options.installation ?? 'start', credentials: options.credentials };
  const { keys, metadata, sealer, installation, stored } = await openStores(parts, around);
  const timed = timedMetadata(metadata, parts);
  shareChanges(timed, { siblings, ...cachedChanges(config) });
  const late = lateWrites({ metadata: timed, clock, telemetry });
  const credentials = openCredentials(
    { metadata: timed, sealer, clock, lateWrites: late, ...cacheTimes(config) },
    options.credentials,
  );
  const bytes = timedBytes(stored, parts);
  const sinks = openSinks(config.SVC_NOTIFY_TARGETS, {
    mayReach: (address) => mayReach(address, config.SVC_EGRESS_ALLOW),
    hasher,
    clock,
    timeoutMs: config.SVC_NOTIFY_TIMEOUT,
  });
  const peers = openPeers({ config, hasher, clock });
  const bodyMemory = new SharedMemory(config.SVC_MEMORY_MAX / 8);
  telemetry.onRead(() => showBodyMemory(telemetry, bodyMemory));
  telemetry.onRead(measureClusters({ bytes, clock, telemetry }));
  const context: Context = {
    caches: new Caches(),
    config,
    metadata: timed,
    lateWrites: late,
    bytes,
    clusterStates: openClusterStates({ metadata: timed, bytes, clock, telemetry, siblings }),
    bodyMemory,
    siblings,
    ...openNodes({ metadata: timed, clock, random, telemetry }),
    peers,
    clock,
    random,
    hasher,
    cipher,
    credentials,
    sealer,
    sinks,
    ...(keys === undefined ? {} : { keys }),
    ...(disks === undefined ? {} : { diskSpace: disks }),
    ...operatorPorts(options),
    telemetry,
  };
  const close = async (): Promise<void> => {
    await writeWaiting(context);
    await Promise.all([sinks, peers, keys, metadata, stored, disks].map((each) => each?.close?.()));
  };
  return { context, installation, close };
}
