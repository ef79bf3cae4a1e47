/** The health of storage: the reports of both probes, and the texts of warnings. Pure, except the probes. */
import type { Context } from '../../context.ts';
import type { MetadataHealth } from '../../ports/metadata-store.ts';
import { type ClusterHealth, type PoolHealth, unreachable } from '../../ports/object-bytes.ts';
import { readLongPauses } from '../common/workers.ts';
import { knownDamaged, savedScrub } from '../scrub/saved-scrub.ts';

type Backends = Pick<Context['config'], 'SVC_META_BACKEND' | 'SVC_DATA_BACKEND'>;

export interface MetadataReport extends MetadataHealth {
  readonly backend: string;
}

export interface DataReport {
  readonly backend: string;
  readonly clusters: readonly { readonly cluster: string; readonly status: string }[];
  readonly pools: readonly (PoolHealth & { readonly cluster: string })[];
  readonly warnings: readonly string[];
}

export interface StorageHealth {
  readonly ok: boolean;
  readonly warnings: readonly string[];
  /** The backends with a warning, and `workers` where one is paused, comma-separated; '' when there are none. */
  readonly source: string;
}

/** Never rejects: an engine that cannot be reached becomes a warning in the report. */
export async function probeMetadata({
  metadata,
  config,
}: Pick<Context, 'metadata'> & { readonly config: Backends }): Promise<MetadataReport> {
  const backend = config.SVC_META_BACKEND;
  try {
    return { backend, ...(await metadata.health()) };
  } catch (cause) {
    return { backend, nodes: [], warnings: [`${backend} cannot be asked: ${describeError(cause)}`] };
  }
}

export async function probeData({
  bytes,
  metadata,
  config,
}: Pick<Context, 'bytes' | 'metadata'> & { readonly config: Backends }): Promise<DataReport> {
  const [clusters, damaged] = await Promise.all([bytes.health(), damageWarnings({ metadata })]);
  const report = dataReport(config.SVC_DATA_BACKEND, clusters);
  return { ...report, warnings: [...report.warnings, ...damaged] };
}

/** Metadata that cannot be reached is reported elsewhere. */
async function damageWarnings(ctx: Pick<Context, 'metadata'>): Promise<readonly string[]> {
  const run = await savedScrub(ctx).catch(() => undefined);
  const damaged = run === undefined ? 0 : knownDamaged(run.state);
  return damaged === 0
    ? []
    : [
        `the scrub found ${damaged} versions or parts with damaged or missing chunks: see GET /admin/v1/scrub`,
      ];
}

const describeError = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

export function dataReport(backend: string, clusters: readonly ClusterHealth[]): DataReport {
  return {
    backend,
    clusters: clusters.map(({ cluster, ...status }) => ({ cluster, status: statusText(status) })),
    pools: clusters.flatMap(({ cluster, pools }) => pools.map((pool) => ({ cluster, ...pool }))),
    // At the end, because the specification says how each text begins.
    warnings: clusters.flatMap((each) =>
      clusterWarnings(each).map((warning) => `${warning} (cluster ${each.cluster})`),
    ),
  };
}

const isOk = (status: string): boolean => status === 'ok' || status === 'HEALTH_OK';

const complaintsMax = 5;

/** `HEALTH_WARN: <summary>; <summary>`, with the first `complaintsMax` complaints in alphabetical order. */
export function statusText({ status, complaints }: Pick<ClusterHealth, 'status' | 'complaints'>): string {
  if (isOk(status) || complaints.length === 0) return status;
  return `${status}: ${complaints.toSorted().slice(0, complaintsMax).join('; ')}`;
}

const clusterWarnings = (each: ClusterHealth): readonly string[] => [
  ...(isOk(each.status) ? [] : [statusText(each)]),
  ...poolWarnings(each),
];

/** For a cluster that cannot be reached the status says enough. */
function poolWarnings({ status, pools }: ClusterHealth): readonly string[] {
  if (status === unreachable) return [];
  const warnings = pools.flatMap(({ pool, state, error = 'unknown' }) =>
    state === 'error' ? [`pool stats failed for ${pool}: ${error}`] : [],
  );
  // Report a pool once, even if several of its namespaces have chunks.
  return [...new Set(warnings)];
}

/** Workers that have been paused for long: what they would delete, move and check stays. */
export const pauseWarnings = (ctx: Pick<Context, 'metadata'>): Promise<readonly string[]> =>
  // Metadata that cannot be reached is reported elsewhere.
  readLongPauses(ctx).catch(() => []);

/** Asks every engine now. */
export async function probeStorage(
  ctx: Pick<Context, 'metadata' | 'bytes'> & { readonly config: Backends },
): Promise<StorageHealth> {
  const [metadata, data, pauses] = await Promise.all([
    probeMetadata(ctx),
    probeData(ctx),
    pauseWarnings(ctx),
  ]);
  return storageHealth(metadata, data, pauses);
}

/** Whether storage is healthy: no warnings, and every node and pool is up. @param pauses the warnings of paused workers */
export function storageHealth(
  metadata: MetadataReport,
  data: DataReport,
  pauses: readonly string[] = [],
): StorageHealth {
  const nodes = metadata.nodes.filter(({ state }) => state !== 'UP');
  const ofMetadata = [...metadata.warnings, ...nodes.map(({ name, state }) => `node ${name} is ${state}`)];
  const sources = [
    ...(ofMetadata.length > 0 ? [metadata.backend] : []),
    ...(data.warnings.length > 0 ? [data.backend] : []),
    ...(pauses.length > 0 ? ['workers'] : []),
  ];
  const warnings = [...ofMetadata, ...data.warnings, ...pauses];
  return { ok: warnings.length === 0, warnings, source: [...new Set(sources)].join(',') };
}
