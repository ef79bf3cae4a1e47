/**
 * From settings to ports: the one place that knows which backend a setting's value names. Backends are loaded
 * when they are asked for, so that a runtime without a disk never sees lmdb.
 */
import { openCredentials } from '../auth/credentials.ts';
import { bodyBudget } from '../backends/data/body-budget.ts';
import { chunked } from '../backends/data/chunked.ts';
import { WriteBudget } from '../backends/data/write-budget.ts';
import { masterSealer } from '../backends/keys/master-sealer.ts';
import { lateWrites } from '../backends/metadata/late-writes.ts';
import type { ClusterSetting } from '../config/clusters.ts';
import { pathIn } from '../config/network.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import type { ChunkStore } from '../ports/chunk-store.ts';
import { type Cipher, cipherKeyBytes } from '../ports/cipher.ts';
import { type Clock, systemClock } from '../ports/clock.ts';
import type { Credential } from '../ports/credentials.ts';
import type { Hasher } from '../ports/hasher.ts';
import type { KeyProvider } from '../ports/key-provider.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';
import { type Random, systemRandom } from '../ports/random.ts';
import type { Sealer } from '../ports/sealer.ts';
import { silentTelemetry, type Telemetry } from '../ports/telemetry.ts';
import { timedBytes, timedMetadata } from '../telemetry/timed-backends.ts';

export interface ComposeOptions {
  readonly credentials: readonly Credential[];
  readonly telemetry?: Telemetry;
  /** The native one when absent; runtimes without node:crypto or native modules give the portable one. */
  readonly hasher?: Hasher;
  readonly cipher?: Cipher;
  readonly clock?: Clock;
  readonly random?: Random;
}

export interface Composed {
  readonly context: Context;
  /** Closes the stores; call it once nothing uses the context any more. */
  close(): Promise<void>;
}

interface Parts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
}

const metadataMakers: Readonly<Record<Config['SVC_META_BACKEND'], (parts: Parts) => Promise<MetadataStore>>> =
  {
    memory: async ({ clock, random }) => {
      const { memoryStore } = await import('../backends/metadata/memory/store.ts');
      // Without SVC_INTENT_TTL: this process alone can hold an intent, and when it dies the store is gone too.
      return memoryStore({ clock, random });
    },
    embedded: async ({ config, clock, random }) => {
      const { embeddedStore } = await import('../backends/metadata/embedded/store.ts');
      return embeddedStore({
        directory: inDataDir(config, 'metadata'),
        clock,
        random,
        durable: config.SVC_FSYNC === 'always',
        intentTtlMs: config.SVC_INTENT_TTL,
      });
    },
    'wide-column': async ({ config, clock, random, telemetry }) => {
      const { wideColumnStore } = await import('../backends/metadata/wide-column/store.ts');
      return wideColumnStore({
        hosts: config.SVC_WIDECOL_HOSTS ?? [],
        localDc: config.SVC_WIDECOL_LOCAL_DC,
        keyspace: config.SVC_WIDECOL_KEYSPACE,
        replication: config.SVC_WIDECOL_REPLICATION,
        username: config.SVC_WIDECOL_USERNAME,
        password: config.SVC_WIDECOL_PASSWORD,
        slowMs: config.SVC_WIDECOL_SLOW_MS,
        onSlow: (query, ms) => telemetry.log('WARN', 'a statement was slow', { query, ms: Math.round(ms) }),
        intentTtlMs: config.SVC_INTENT_TTL,
        clock,
        random,
      });
    },
    'ordered-kv': async ({ config, clock, random }) => {
      const { orderedKvStore } = await import('../backends/metadata/ordered-kv/store.ts');
      const {
        SVC_KV_PD_ENDPOINTS: endpoints = [],
        SVC_KV_PREFIX: prefix,
        SVC_INTENT_TTL: intentTtlMs,
      } = config;
      return orderedKvStore({ endpoints, prefix, clock, random, intentTtlMs });
    },
  };

type ChunkMaker = (cluster: ClusterSetting, parts: Parts) => Promise<ChunkStore>;
const chunkMakers: Readonly<Record<Config['SVC_DATA_BACKEND'], ChunkMaker>> = {
  memory: async () => (await import('../backends/data/memory.ts')).memoryChunks(),
  noop: async () => (await import('../backends/data/noop.ts')).noopChunks(),
  file: async ({ id, dir }, { config, clock, random }) => {
    const { fileChunks } = await import('../backends/data/file/file-chunks.ts');
    const directory = dir ?? inDataDir(config, 'chunks', id);
    return fileChunks({ directory, clock, random, durable: config.SVC_FSYNC === 'always' });
  },
};

/** Without a file the key lasts as long as the process, like everything that it seals. */
async function sealerOf(
  { config, random }: Parts,
  crypto: { readonly hasher: Hasher; readonly cipher: Cipher },
): Promise<Sealer> {
  const path = config.SVC_MASTER_KEY_FILE;
  if (path === undefined) return masterSealer({ keys: [random.bytes(cipherKeyBytes)], ...crypto, random });
  const { keptMasterKeys } = await import('./master-key-file.ts');
  const keys = await keptMasterKeys({ path, dataDir: config.SVC_DATA_DIR, random });
  return masterSealer({ keys, ...crypto, random });
}

/** The settings' cross checks see to it that a provider has what it needs. */
async function keysOf(
  { config, random }: Parts,
  crypto: { readonly hasher: Hasher; readonly cipher: Cipher },
): Promise<KeyProvider | undefined> {
  if (config.SVC_KEY_PROVIDER === undefined || config.SVC_HSM_KEYS_FILE === undefined) return undefined;
  const { localHsm } = await import('../backends/keys/local-hsm.ts');
  const { hsmKeysOf } = await import('./hsm-keys-file.ts');
  return localHsm({ ...(await hsmKeysOf(config.SVC_HSM_KEYS_FILE)), ...crypto, random });
}

/** The settings' cross checks see to it that a backend which needs the directory has one. */
function inDataDir({ SVC_DATA_DIR }: Config, ...names: readonly string[]): string {
  if (SVC_DATA_DIR === undefined) throw new Error('SVC_DATA_DIR is not set');
  return pathIn(SVC_DATA_DIR, ...names);
}

/** One machine's backends are read each time: that costs microseconds, and every change holds at once. */
const believedMs = ({ SVC_META_BACKEND, SVC_CONFIG_CACHE_TTL }: Config): number =>
  SVC_META_BACKEND === 'memory' || SVC_META_BACKEND === 'embedded' ? 0 : SVC_CONFIG_CACHE_TTL;

export async function compose(config: Config, options: ComposeOptions): Promise<Composed> {
  const { clock = systemClock, random = systemRandom(), telemetry = silentTelemetry } = options;
  const parts: Parts = { config, clock, random, telemetry };
  const hasher = options.hasher ?? (await import('../backends/hashing/node.ts')).nodeHasher();
  const cipher = options.cipher ?? (await import('../backends/ciphering/node.ts')).nodeCipher();
  const sealer = await sealerOf(parts, { hasher, cipher });
  const keys = await keysOf(parts, { hasher, cipher });
  const metadata = await metadataMakers[config.SVC_META_BACKEND](parts);
  const stores: Record<string, ChunkStore> = {};
  const closeStores = async (): Promise<void> => {
    await Promise.all([metadata.close(), ...Object.values(stores).map((store) => store.close())]);
  };
  try {
    for (const cluster of config.SVC_POOL_CLUSTERS) {
      stores[cluster.id] = await chunkMakers[config.SVC_DATA_BACKEND](cluster, parts);
    }
  } catch (error) {
    await closeStores();
    throw error;
  }
  const measure = { telemetry, clock };
  const timed = timedMetadata(metadata, measure);
  const late = lateWrites({ metadata: timed, clock, telemetry });
  const credentials = openCredentials(
    { metadata: timed, sealer, clock, lateWrites: late, believedMs: believedMs(config) },
    options.credentials,
  );
  const context: Context = {
    config,
    metadata: timed,
    lateWrites: late,
    // What is left is what the process needs for itself and for readers.
    bytes: timedBytes(chunked(stores, new WriteBudget(config.SVC_MEMORY_MAX / 2, clock)), measure),
    bodyMemory: bodyBudget(config.SVC_MEMORY_MAX / 8),
    clock,
    random,
    hasher,
    cipher,
    credentials,
    sealer,
    ...(keys === undefined ? {} : { keys }),
    telemetry,
  };
  const close = async (): Promise<void> => {
    await late.flush();
    await closeStores();
  };
  return { context, close };
}
