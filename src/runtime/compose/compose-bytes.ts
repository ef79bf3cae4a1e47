/** Makes the store of object bytes from settings. Backends are loaded when the settings name them. */

import { chunked } from '../../backends/data/chunked/chunked.ts';
import { ReadBudget } from '../../backends/data/cluster-pool/read-budget.ts';
import { WriteBudget } from '../../backends/data/write-budget.ts';
import type { DiskSpaces } from '../../backends/disk-space.ts';
import { sharedBudget } from '../../base/shared-budget.ts';
import type { ClusterSetting } from '../../config/clusters.ts';
import { dataBackends } from '../../config/data.ts';
import { pathIn } from '../../config/network.ts';
import { resolveUpstreams } from '../../config/upstreams.ts';
import type { Config } from '../../config.ts';
import type { ChunkStore } from '../../ports/chunk-store.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Hasher } from '../../ports/cryptography.ts';
import type { ObjectBytes } from '../../ports/object-bytes.ts';
import type { Random } from '../../ports/random.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

export interface Parts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  /** Absent where no backend keeps files. */
  readonly disks?: DiskSpaces;
}

type ChunkBackend = Exclude<Config['SVC_DATA_BACKEND'], 'upstream-store'>;
/** Shared by the stores of all clusters. */
interface ChunkParts extends Parts {
  readonly readBudget: ReadBudget;
}
type ChunkMaker = (cluster: ClusterSetting, parts: ChunkParts) => Promise<ChunkStore>;
const chunkMakers: Readonly<Record<ChunkBackend, ChunkMaker>> = {
  memory: async () => (await import('../../backends/data/memory.ts')).memoryChunks(),
  noop: async () => (await import('../../backends/data/memory.ts')).noopChunks(),
  file: async ({ id, dir }, { config, clock, random, disks }) => {
    const { fileChunks } = await import('../../backends/data/file/file-chunks.ts');
    const directory = dir ?? inDataDir(config, 'chunks', id);
    const chunks = fileChunks({ directory, clock, random, durable: config.SVC_FSYNC === 'always' });
    const space = disks?.open(`data:${id}`, directory);
    if (space === undefined) return chunks;
    const { chunksWithReserve } = await import('../../backends/disk-space.ts');
    return chunksWithReserve(chunks, space);
  },
  'cluster-pool': async (cluster, parts) => {
    const { openClusterPool } = await import('./open-cluster-pool.ts');
    return openClusterPool(cluster, parts);
  },
};

export async function openBytes(parts: Parts, hasher: Hasher): Promise<ObjectBytes> {
  const { config, clock } = parts;
  const { SVC_DATA_BACKEND: backend } = config;
  // The rest of the memory is for the process itself and for readers.
  const budget = new WriteBudget(config.SVC_MEMORY_MAX / dataBackends[backend].writeDivisor, clock);
  return backend === 'upstream-store'
    ? openUpstreams(parts, { hasher, budget })
    : chunked(await openChunks(backend, parts), budget);
}

async function openChunks(backend: ChunkBackend, parts: Parts): Promise<Record<string, ChunkStore>> {
  const stores: Record<string, ChunkStore> = {};
  const {
    SVC_POOL_CLUSTERS: clusters,
    SVC_MEMORY_MAX: memory,
    SVC_POOL_READ_AHEAD: aheadBytes,
  } = parts.config;
  const readBudget = new ReadBudget({ bytesMax: memory / 8, aheadBytes });
  try {
    for (const cluster of clusters)
      stores[cluster.id] = await chunkMakers[backend](cluster, { ...parts, readBudget });
  } catch (error) {
    await Promise.all(Object.values(stores).map((store) => store.close()));
    throw error;
  }
  return stores;
}

async function openUpstreams(
  { config, clock, random }: Parts,
  { hasher, budget }: { readonly hasher: Hasher; readonly budget: WriteBudget },
): Promise<ObjectBytes> {
  const { upstreamStore } = await import('../../backends/data/upstream-store/store.ts');
  const { readUpstreamFiles } = await import('./upstream-files.ts');
  const timeoutMs = config.SVC_UPSTREAM_TIMEOUT;
  const upstreams = await Promise.all(
    resolveUpstreams(config).map(async ({ upstream }) => ({
      ...upstream,
      ...(await readUpstreamFiles(upstream)),
      timeoutMs,
    })),
  );
  const partMemory = sharedBudget(config.SVC_MEMORY_MAX / 8);
  return upstreamStore(upstreams, { clock, random, hasher, budget, partMemory });
}

/** The settings' cross checks see to it that a backend which needs the directory has one. */
export function inDataDir({ SVC_DATA_DIR }: Config, ...names: readonly string[]): string {
  if (SVC_DATA_DIR === undefined) throw new Error('SVC_DATA_DIR is not set');
  return pathIn(SVC_DATA_DIR, ...names);
}
