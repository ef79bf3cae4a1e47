/** The health of storage: probes of both stores, the texts of warnings, and the changes of the last day. */
import { describeError } from '../../base/text/describe-error.ts';
import type { Context } from '../../context.ts';
import {
  assertLeads,
  beginTerm,
  findTask,
  firstThatFit,
  putTask,
  stateBytesMax,
  type TaskKind,
  type Term,
} from '../../metadata/background/tasks.ts';
import type { DiskState } from '../../ports/chunk-store.ts';
import type { MetadataHealth } from '../../ports/metadata-store.ts';
import {
  type ClusterHealth,
  type ClusterView,
  type PoolHealth,
  unreachable,
} from '../../ports/object-bytes.ts';
import { readStates } from '../clusters/cluster-states.ts';
import { chooseCluster, readConstraints } from '../clusters/placement.ts';
import { describeLeftOut } from '../clusters/readiness.ts';
import { readLongPauses } from '../common/workers.ts';
import { knownDamaged, savedScrub } from '../scrub/saved-scrub.ts';

type Backends = Pick<Context['config'], 'SVC_META_BACKEND' | 'SVC_DATA_BACKEND' | 'SVC_STORAGE_CLASSES'>;

export interface MetadataReport extends MetadataHealth {
  readonly backend: string;
}

export interface DataReport {
  readonly backend: string;
  readonly clusters: readonly { readonly cluster: string; readonly status: string }[];
  readonly pools: readonly (PoolHealth & { readonly cluster: string })[];
  readonly warnings: readonly string[];
}

interface StorageHealth {
  readonly ok: boolean;
  readonly warnings: readonly string[];
  /** The backends with a warning, and `workers` where one is paused, comma-separated; '' when there are none. */
  readonly source: string;
}

/** Never rejects: an engine that cannot be reached becomes a warning in the report. */
export async function probeMetadata({
  metadata,
  diskSpace,
  config,
}: Pick<Context, 'metadata' | 'diskSpace'> & { readonly config: Backends }): Promise<MetadataReport> {
  const backend = config.SVC_META_BACKEND;
  try {
    const { nodes, ...health } = await metadata.health();
    const freeBytes = freeBytesOf(diskSpace?.states() ?? [], 'metadata');
    const ofDisk = freeBytes === undefined ? {} : { freeBytes };
    return { backend, ...health, nodes: nodes.map((node) => ({ ...ofDisk, ...node })) };
  } catch (cause) {
    return { backend, nodes: [], warnings: [`${backend} cannot be asked: ${describeError(cause)}`] };
  }
}

export async function probeData({
  bytes,
  metadata,
  diskSpace,
  config,
}: Pick<Context, 'bytes' | 'metadata' | 'diskSpace'> & { readonly config: Backends }): Promise<DataReport> {
  const [clusters, others] = await Promise.all([
    bytes.health(),
    clusterAndScrubWarnings({ metadata, bytes, config }),
  ]);
  const { pools, warnings, ...report } = dataReport(config.SVC_DATA_BACKEND, clusters);
  // Once: without a reserve each call asks the file system of every disk, and blocks the event loop meanwhile.
  const disks = diskSpace?.states() ?? [];
  return {
    ...report,
    pools: pools.map((pool) => {
      const bytesFree = freeBytesOf(disks, `data:${pool.cluster}`);
      return bytesFree === undefined ? pool : { bytesFree, ...pool };
    }),
    warnings: [...warnings, ...others],
  };
}

/** Of the disk under a store of this machine; undefined where the store is elsewhere, or its disk cannot be measured. */
function freeBytesOf(disks: readonly DiskState[], component: string): number | undefined {
  const state = disks.find((each) => each.component === component);
  return state?.sizeBytes === undefined ? undefined : state.freeBytes;
}

/** Metadata that cannot be reached is reported elsewhere. */
async function clusterAndScrubWarnings(
  ctx: Pick<Context, 'metadata' | 'bytes'> & { readonly config: Backends },
): Promise<readonly string[]> {
  const [run, states] = await Promise.all([
    savedScrub(ctx).catch(() => undefined),
    readStates(ctx).catch(() => undefined),
  ]);
  const damaged = run === undefined ? 0 : knownDamaged(run.state);
  return [
    ...(states === undefined ? [] : stateWarnings(ctx, states.view)),
    ...warnIf(
      damaged > 0,
      `the scrub found ${damaged} versions or parts with damaged or missing chunks: see GET /admin/v1/scrub`,
    ),
  ];
}

/** What the states of the clusters and the settings refuse to clients, while every cluster may be well. */
function stateWarnings({ config }: { readonly config: Backends }, view: ClusterView): readonly string[] {
  const ofNew = readConstraints({ config }, { bucket: {}, storageClass: 'STANDARD' });
  return [
    ...view.damaged.map(
      (id) => `the row of cluster ${id} is damaged, so it takes no writes: undrain or drain it`,
    ),
    ...warnIf(view.leftOut.length > 0, `${describeLeftOut(config, view)}: list it again`),
    ...warnIf(
      chooseCluster(view, ofNew, '') === undefined,
      'no cluster takes new objects: undrain one, or give one a weight above 0',
    ),
  ];
}

const warnIf = (isSo: boolean, warning: string): readonly string[] => (isSo ? [warning] : []);

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

const problemsMax = 5;

/** `HEALTH_WARN: <summary>; <summary>`, with the first `problemsMax` problems in alphabetical order. */
export function statusText({ status, problems }: Pick<ClusterHealth, 'status' | 'problems'>): string {
  if (isOk(status) || problems.length === 0) return status;
  return `${status}: ${problems.toSorted().slice(0, problemsMax).join('; ')}`;
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

// The health of storage over the last day: an entry for each change of the state or of the set of warnings. One row holds them, so it is
// kept over restarts, and is written only when something has changed.

interface HealthChange {
  /** Store time (ms). */
  readonly at: number;
  readonly ok: boolean;
  readonly source: string;
  readonly warnings: readonly string[];
  /** Warnings beyond those that an entry keeps. */
  readonly more?: number;
}

interface HealthHistory {
  /** The oldest first. The first one may be older than a day: it was in force when the day began. */
  readonly changes: readonly HealthChange[];
  /** Older changes of the day were left out, because there were too many. */
  readonly isCut?: true;
}

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'config'>;

/** A history that cannot be read begins again with the present state. */
const histories: TaskKind<HealthHistory> = { kind: 'health-history', restarts: [''] };

export const historyMs = 24 * 3_600_000;
/** An entry for each ten minutes; a state that changes more often loses its oldest changes. */
const changesMax = 144;
const warningsMax = 5;
const warningMax = 200;

export const beginHistory = ({ metadata }: Pick<Ctx, 'metadata'>, generation: number): Promise<Term> =>
  beginTerm(metadata, histories, generation);

/** Warnings differ where their words do: a count that moves is no change. */
const healthSignature = ({
  ok,
  source,
  warnings,
}: Pick<StorageHealth, 'ok' | 'source' | 'warnings'>): string =>
  JSON.stringify([
    ok,
    source,
    [...new Set(warnings.map((text) => text.replace(/\d+(?:\.\d+)?/g, '#')))].sort(),
  ]);

/**
 * Probes storage, and adds an entry where its health has changed.
 * @returns whether it has changed
 * @throws LeaseLost when a later leader has begun
 */
export async function recordHealth(ctx: Ctx, term: Term): Promise<boolean> {
  const health = await probeStorage(ctx);
  const found = await findTask(ctx.metadata, histories, '');
  const changes = found?.state.changes ?? [];
  const last = changes.at(-1);
  const now = describe(health, await ctx.metadata.now());
  if (
    last !== undefined &&
    healthSignature(last) === healthSignature(now) &&
    (last.more ?? 0) === (now.more ?? 0)
  )
    return false;
  const state = prune({ ...found?.state, changes: [...changes, now] }, now.at);
  const expect = found?.revision ?? 'absent';
  const outcome = await putTask(ctx.metadata, histories, { name: '', state, expect, term });
  if (!outcome.applied) await assertLeads(ctx.metadata, histories, term);
  return true;
}

function describe({ ok, source, warnings }: StorageHealth, at: number): HealthChange {
  const more = warnings.length - warningsMax;
  const retained = warnings.slice(0, warningsMax).map((text) => text.slice(0, warningMax));
  return { at, ok, source, warnings: retained, ...(more > 0 ? { more } : {}) };
}

/** Without what ended before the day, and bounded. */
function prune({ changes, isCut }: HealthHistory, now: number): HealthHistory {
  const begin = now - historyMs;
  const first = Math.max(
    0,
    changes.findLastIndex(({ at }) => at <= begin),
  );
  const ofDay = changes.slice(first);
  // The latest ones, as many as the row takes: long warnings leave room for fewer changes.
  const retained = firstThatFit(ofDay.slice(-changesMax).reverse(), stateBytesMax).toReversed();
  const wasCut = isCut === true && first === 0;
  return { changes: retained, ...(wasCut || retained.length < ofDay.length ? { isCut: true } : {}) };
}

/** The changes of the last day; undefined before the first probe. */
export async function readHealthHistory({
  metadata,
}: Pick<Ctx, 'metadata'>): Promise<(HealthHistory & { readonly now: number }) | undefined> {
  const now = await metadata.now();
  const found = await findTask(metadata, histories, '');
  return found === undefined ? undefined : { ...prune(found.state, now), now };
}
