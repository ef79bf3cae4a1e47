/** The states of clusters: the view that a process caches, their transitions, and what brings them in line with the settings. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type ClusterPut,
  everyCluster,
  findCluster,
  putClusters,
  replaceCluster,
} from '../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../metadata/records/clusters.ts';
import { commitLimits, MetadataDamaged, type SideChange, type Stored } from '../../ports/metadata-store.ts';
import type { ClusterState, ClusterStates, ClusterView } from '../../ports/object-bytes.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { defaultPolicy, isOpen } from './placement.ts';

// The snapshot of the clusters' states that a process places its writes by.

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'clock' | 'telemetry' | 'siblings'>;

/** How long a process places writes by a cached view. */
const ttlMs = 30_000;
const topic = 'clusters';

/** The first view of a process reconciles the rows of clusters, and retries until the metadata store answers. */
export function openClusterStates(ctx: Ctx): ClusterStates {
  let cached: { readonly view: Promise<ClusterView>; readonly readAt: number } | undefined;
  let reading: Promise<ClusterView> | undefined;
  let isReconciled = false;

  async function read(): Promise<ClusterView> {
    if (isReconciled) return (await readStates(ctx)).view;
    const view = await reconcileClusters(ctx);
    // A listed cluster without a row cannot be told from one with a damaged row, as long as there is one.
    isReconciled = view.damaged.length === 0;
    return view;
  }

  function readAnew(): Promise<ClusterView> {
    const readAt = ctx.clock.elapsed();
    const mine: Promise<ClusterView> = read().then((view) => {
      // If the view was invalidated during the read, waiting callers still get it, and later callers read again.
      if (reading === mine) cached = { view: mine, readAt };
      return view;
    });
    const over = (): void => {
      if (reading === mine) reading = undefined;
    };
    mine.then(over, over);
    reading = mine;
    return mine;
  }

  const forget = (): void => {
    cached = undefined;
    reading = undefined;
  };
  ctx.siblings.subscribe(topic, forget);
  return {
    view() {
      if (cached !== undefined && ctx.clock.elapsed() - cached.readAt < ttlMs) return cached.view;
      return reading ?? readAnew();
    },
    async changed() {
      forget();
      if (await ctx.siblings.announce({ topic, about: '' }, ttlMs)) return;
      ctx.telemetry.log('WARN', 'a process of this node did not acknowledge a change of a cluster', {
        waitedMs: ttlMs,
      });
    },
  };
}

interface StoredStates {
  /** The rows that can be read. */
  readonly found: readonly Stored<ClusterRow>[];
  readonly view: ClusterView;
}

/** The states of the clusters as they are stored. */
export async function readStates(ctx: Pick<Context, 'metadata' | 'bytes'>): Promise<StoredStates> {
  const found = await everyCluster(ctx.metadata);
  const known = new Set(found.map(({ row }) => row.id));
  const damaged: string[] = [];
  // A damaged row does not say reliably whose it is.
  for (const id of ctx.bytes.clusters)
    if (!known.has(id) && (await isDamagedCluster(ctx, id))) damaged.push(id);
  const rows = found.map(({ row }) => row);
  return { found, view: buildView(ctx.bytes.clusters, rows, damaged) };
}

const isDamagedCluster = async ({ metadata }: Pick<Context, 'metadata'>, id: string): Promise<boolean> =>
  (await unlessDamaged(() => findCluster(metadata, id))) instanceof MetadataDamaged;

/** The state of a cluster whose row is damaged: it may have been draining, so it takes no writes. */
const damagedState = 'draining_readonly';

/** A cluster without a row counts as live. @param damaged clusters whose rows are damaged */
export function buildView(
  listed: readonly string[],
  rows: readonly Pick<ClusterRow, 'id' | 'state' | 'weight'>[],
  damaged: readonly string[] = [],
): ClusterView {
  const known = new Map<string, Pick<ClusterRow, 'state' | 'weight'>>(rows.map((row) => [row.id, row]));
  for (const id of damaged) known.set(id, { state: damagedState, weight: 0 });
  const clusters = listed.map(
    (id) => [id, known.get(id) ?? { state: 'live' as const, weight: defaultWeight }] as const,
  );
  const weights = defaultPolicy(clusters);
  const [only, second] = weights.keys();
  return {
    states: new Map(clusters.map(([id, { state }]) => [id, state])),
    weights,
    closed: new Set(clusters.filter(([, { state }]) => !isOpen(state)).map(([id]) => id)),
    only: second === undefined ? only : undefined,
    damaged,
    leftOut: rows.filter(({ id, state }) => state !== 'removed' && !listed.includes(id)).map(({ id }) => id),
  };
}

// Updates the rows of clusters from the list in the settings, at the start of a process.

type ReconcileCtx = Pick<Context, 'metadata' | 'bytes' | 'telemetry'>;

/** Attempts against other processes that start and reconcile concurrently. */
const attemptsMax = 32;

/** @returns the view of the rows in their new states. A damaged row stays: an operator says the state of its cluster again. */
async function reconcileClusters(ctx: ReconcileCtx): Promise<ClusterView> {
  let isFirstBoot: boolean | undefined;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const { found, view } = await readStates(ctx);
    isFirstBoot ??= found.length === 0 && view.damaged.length === 0;
    const missed = await missing(ctx, { found, damaged: view.damaged }, isFirstBoot);
    const puts = [...missed, ...(await leaving(ctx, found))];
    if (puts.length === 0) return view;
    const outcome = await putClusters(ctx.metadata, puts.slice(0, commitLimits.changes));
    // At the very first boot all clusters start live, which is not worth an event.
    if (!outcome.applied || isFirstBoot) continue;
    for (const { row } of puts.slice(0, commitLimits.changes))
      ctx.telemetry.log('INFO', 'the settings moved a cluster', { cluster: row.id, state: row.state });
  }
  throw new Error('the states of the clusters never stood still');
}

/** Rows for listed clusters that have no row, or only a tombstone. */
async function missing(
  ctx: ReconcileCtx,
  { found, damaged }: Pick<StoredStates, 'found'> & Pick<ClusterView, 'damaged'>,
  isFirstBoot: boolean,
): Promise<readonly ClusterPut[]> {
  const rows = new Map(found.map((stored) => [stored.row.id, stored]));
  const puts: ClusterPut[] = [];
  for (const id of ctx.bytes.clusters) {
    if (damaged.includes(id)) continue;
    const known = rows.get(id);
    const isLive = known === undefined && (isFirstBoot || (await mayHoldChunks(ctx, id)));
    const state = known === undefined ? (isLive ? 'live' : 'pending') : moved(known.row.state, 'relist');
    if (state === undefined) continue;
    const since = await ctx.metadata.now();
    puts.push({ row: { id, state, weight: defaultWeight, since }, found: known });
  }
  return puts;
}

/** False for a cluster that cannot be reached: it is then pending until an operator activates it. */
const mayHoldChunks = ({ bytes, telemetry }: ReconcileCtx, id: string): Promise<boolean> =>
  bytes.holdsAnything(id).catch((cause: unknown) => {
    telemetry.log('WARN', 'a new cluster is unavailable; its state is pending', {
      cluster: id,
      cause,
    });
    return false;
  });

/** A cluster that was evacuated and is no longer listed leaves a tombstone. */
async function leaving(
  ctx: ReconcileCtx,
  found: readonly Stored<ClusterRow>[],
): Promise<readonly ClusterPut[]> {
  const puts: ClusterPut[] = [];
  for (const stored of found) {
    const { slot: _, emptiedAt, ...row } = stored.row;
    if (emptiedAt === undefined || ctx.bytes.clusters.includes(row.id)) continue;
    const state = moved(row.state, 'deregister');
    if (state !== undefined)
      puts.push({ row: { ...row, state, since: await ctx.metadata.now() }, found: stored });
  }
  return puts;
}

// The state machine of a cluster, as a table of triggers.

type Moves = { readonly [From in ClusterState]?: ClusterState };

/** A trigger applies only in the states that it lists. Draining a cluster that drains already is not an error. */
export const transitions = {
  activate: { pending: 'live' },
  weight: { live: 'live' },
  'drain readonly': { live: 'draining_readonly', draining_readonly: 'draining_readonly' },
  'drain evacuate': { live: 'evacuating', draining_readonly: 'evacuating', evacuating: 'evacuating' },
  undrain: { draining_readonly: 'live', evacuating: 'live' },
  /** The settings no longer list the cluster, and it is empty. */
  deregister: { pending: 'removed', evacuating: 'removed' },
  /** The settings list it again. */
  relist: { removed: 'pending' },
} as const satisfies Readonly<Record<string, Moves>>;

export type Trigger = keyof typeof transitions;

/** The new state; undefined when the trigger does not apply in this state. */
export function moved(from: ClusterState, trigger: Trigger): ClusterState | undefined {
  const moves: Moves = transitions[trigger];
  return moves[from];
}

/** The states in which a trigger applies. */
const statesFor = (trigger: Trigger): readonly string[] => Object.keys(transitions[trigger]);

/** The default weight of a cluster. */
export const defaultWeight = 100;

// An operator's change of a cluster.

type ChangeClusterCtx = Pick<Context, 'metadata' | 'bytes' | 'clusterStates'>;

const changesMax = 8;

interface ClusterChange {
  readonly trigger: Trigger;
  readonly weight?: number;
  readonly record?: Recorder | undefined;
  /** Refuses the change by the present row. */
  readonly check?: ((present: ClusterRow) => void) | undefined;
}

export async function openCluster(ctx: Pick<ChangeClusterCtx, 'metadata'>, id: string): Promise<ClusterRow> {
  const found = await findCluster(ctx.metadata, id);
  if (found === undefined) throw noSuchCluster(id);
  return found.row;
}

const noSuchCluster = (id: string) =>
  fail('NoSuchCluster', { message: `There is no cluster ${id}.`, elements: { Cluster: id } });

/**
 * After it returns, every process of this node places writes by the new state; other gateways follow within 30 s, the lifetime of
 * their cached view. This also holds where the outcome of the commit is unknown, because the change may have applied.
 */
export async function changeCluster(
  ctx: ChangeClusterCtx,
  id: string,
  change: ClusterChange,
): Promise<ClusterRow> {
  const { trigger, weight, record } = change;
  for (let attempt = 0; attempt < changesMax; attempt += 1) {
    const found = await findOrReplace(ctx, id);
    if (found === undefined) throw noSuchCluster(id);
    change.check?.(found.row);
    const { emptiedAt, ...former } = found.row;
    const state = moved(former.state, trigger);
    if (state === undefined)
      throw fail(
        'InvalidClusterState',
        `Cluster ${id} is ${former.state}; ${trigger} applies to: ${statesFor(trigger).join(', ')}.`,
      );
    const stays = state === former.state;
    const row: ClusterRow = {
      ...former,
      state,
      ...(weight === undefined ? {} : { weight }),
      ...(stays ? {} : { since: await ctx.metadata.now() }),
      ...(stays && emptiedAt !== undefined ? { emptiedAt } : {}),
    };
    record?.change?.(clusterState(found.row), clusterState(row));
    const isApplied = await committed(ctx, { row, found }, await recorded(record));
    if (!isApplied) continue;
    record?.applied();
    return row;
  }
  throw fail('OperationAborted');
}

/** A damaged row is written again with the state that it counts as, so that the operator's change begins there. */
async function findOrReplace(
  { metadata, bytes, clusterStates }: ChangeClusterCtx,
  id: string,
): Promise<Stored<ClusterRow> | undefined> {
  const found = await unlessDamaged(() => findCluster(metadata, id));
  if (!(found instanceof MetadataDamaged)) return found;
  // Beside a damaged row no other can be proven absent: an id that no cluster has must not get a row.
  if (!bytes.clusters.includes(id)) return undefined;
  await replaceCluster(metadata, {
    id,
    state: damagedState,
    weight: defaultWeight,
    since: await metadata.now(),
  });
  await clusterStates.changed();
  return findCluster(metadata, id);
}

const clusterState = ({ state, weight }: ClusterRow) => ({ state, weight });

async function committed(
  ctx: ChangeClusterCtx,
  put: ClusterPut,
  then: readonly SideChange[],
): Promise<boolean> {
  try {
    return (await putClusters(ctx.metadata, [put], then)).applied;
  } finally {
    await ctx.clusterStates.changed();
  }
}

// Keeps a slow write from committing to a cluster that an operator may remove.

/**
 * Call it between storing the bytes and the commit that owns them. The end of a drain first marks the cluster as empty and then
 * counts its chunks again: either the count finds these bytes, or this call finds the mark. The row is read only when the cached
 * view excludes the cluster, because no cluster is marked before every view excludes it.
 * @throws ServiceUnavailable when the cluster of the bytes was found empty after it was chosen, or its row is damaged
 */
export async function assertNotEmptied(
  ctx: Pick<Context, 'metadata' | 'clusterStates'>,
  cluster: string,
): Promise<void> {
  if (await mayBeEmptied(ctx, cluster))
    throw fail(
      'ServiceUnavailable',
      'The cluster of this write took no more writes when the content had arrived. Please retry.',
    );
}

/** Whether the cluster was found empty at the end of a drain, or its row is damaged and may say so. */
export async function mayBeEmptied(
  ctx: Pick<Context, 'metadata' | 'clusterStates'>,
  cluster: string,
): Promise<boolean> {
  const { closed, states } = await ctx.clusterStates.view();
  if (states.has(cluster) && !closed.has(cluster)) return false;
  const found = await unlessDamaged(() => findCluster(ctx.metadata, cluster));
  if (found instanceof MetadataDamaged) return true;
  return found !== undefined && (found.row.state === 'removed' || found.row.emptiedAt !== undefined);
}
