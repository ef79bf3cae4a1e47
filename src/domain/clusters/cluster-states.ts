/** The states of clusters: the view that a process caches, their transitions, and what brings them in line with the settings. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type ClusterPut,
  everyCluster,
  findCluster,
  putClusters,
} from '../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../metadata/records/clusters.ts';
import { commitLimits, type SideChange, type Stored } from '../../ports/metadata-store.ts';
import type { ClusterState, ClusterStates, ClusterView } from '../../ports/object-bytes.ts';
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
    if (isReconciled) {
      const found = await everyCluster(ctx.metadata);
      return buildView(
        ctx.bytes.clusters,
        found.map(({ row }) => row),
      );
    }
    const rows = await reconcileClusters(ctx);
    isReconciled = true;
    return buildView(ctx.bytes.clusters, rows);
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

/** A cluster without a row counts as live. */
export function buildView(
  listed: readonly string[],
  rows: readonly Pick<ClusterRow, 'id' | 'state' | 'weight'>[],
): ClusterView {
  const known = new Map(rows.map((row) => [row.id, row]));
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
    leftOut: rows.filter(({ id, state }) => state !== 'removed' && !listed.includes(id)).map(({ id }) => id),
  };
}

// Updates the rows of clusters from the list in the settings, at the start of a process.

type ReconcileCtx = Pick<Context, 'metadata' | 'bytes' | 'telemetry'>;

/** Attempts against other processes that start and reconcile concurrently. */
const attemptsMax = 32;

/** @returns every row in its new state, listed or not */
async function reconcileClusters(ctx: ReconcileCtx): Promise<readonly ClusterRow[]> {
  let isFirstBoot: boolean | undefined;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await everyCluster(ctx.metadata);
    isFirstBoot ??= found.length === 0;
    const puts = [...(await missing(ctx, found, isFirstBoot)), ...(await leaving(ctx, found))];
    if (puts.length === 0) return found.map(({ row }) => row);
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
  found: readonly Stored<ClusterRow>[],
  isFirstBoot: boolean,
): Promise<readonly ClusterPut[]> {
  const rows = new Map(found.map((stored) => [stored.row.id, stored]));
  const puts: ClusterPut[] = [];
  for (const id of ctx.bytes.clusters) {
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

type ChangeClusterCtx = Pick<Context, 'metadata' | 'clusterStates'>;

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
    const found = await findCluster(ctx.metadata, id);
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
 * @throws ServiceUnavailable when the cluster of the bytes was found empty after it was chosen
 */
export async function assertNotEmptied(
  ctx: Pick<Context, 'metadata' | 'clusterStates'>,
  cluster: string,
): Promise<void> {
  const { closed, states } = await ctx.clusterStates.view();
  if (states.has(cluster) && !closed.has(cluster)) return;
  const row = (await findCluster(ctx.metadata, cluster))?.row;
  if (row === undefined || (row.state !== 'removed' && row.emptiedAt === undefined)) return;
  throw fail(
    'ServiceUnavailable',
    'The cluster of this write was drained and found empty while the content arrived. Please retry.',
  );
}
