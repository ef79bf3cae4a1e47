/**
 * `rebalance`: moves bytes off evacuating clusters, and to the clusters that weights ask for where SVC_REBALANCE_WEIGHTS is set. It walks
 * the buckets slot by slot, each slot under a separate lease.
 */
import type { Context } from '../context.ts';
import { readStates } from '../domain/clusters/cluster-states.ts';
import { settledPassFrom } from '../domain/clusters/drains.ts';
import { drawId } from '../domain/common/ids.ts';
import {
  addMoved,
  isLeaving,
  reconcileEvacuations,
  settleDrained,
  sumAmounts,
} from '../domain/rebalance/evacuations.ts';
import type { MoveCtx } from '../domain/rebalance/move-version.ts';
import { behindClients, openPace, type Pace } from '../domain/rebalance/pace.ts';
import { type Tending, walkSlot } from '../domain/rebalance/walk-slot.ts';
import { claimSlot, findRebalance, rebalanceRows, type SlotRow } from '../metadata/background/clusters.ts';
import { acquireLease, LeaseLost, slotLease } from '../metadata/background/leases.ts';
import type { ClusterRow } from '../metadata/records/clusters.ts';
import type { TaskAmount } from '../metadata/records/tasks.ts';
import { isStoreFailure, type Stored } from '../ports/metadata-store.ts';
import type { ClusterView } from '../ports/object-bytes.ts';
import { type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';
import { ShardRound, type Unit, unsupervised } from './worker.ts';

type RebalanceContext = LeaseContext & MoveCtx & Pick<Context, 'random'>;

/** How often bytes are searched that an earlier weight put elsewhere. */
const byWeightEveryMs = 60 * 60_000;

interface Round {
  readonly view: ClusterView;
  /** The clusters that chunks are to leave. */
  readonly leaving: readonly ClusterRow[];
  /** Of these, the clusters with chunks that no pass has found. */
  readonly unmet: ReadonlySet<string>;
  readonly byWeight: boolean;
  readonly now: number;
  /** A pass is due where the last one began before. */
  readonly runAt: number;
  readonly holder: string;
  readonly pace: Pace;
  /** Of all slots, so that a cluster that is away delays the unit once and not each slot. */
  readonly failures: Map<string, number>;
}

/** One unit: a turn with every slot that is due and that no other process works on. */
export const rebalance = (context: RebalanceContext, _generation = 0, services = unsupervised): Unit => {
  const holder = drawId(context.random);
  const rate = behindClients(
    openPace(context.clock, context.config.SVC_REBALANCE_RATE),
    services.yieldToClients,
  );
  const pace: Pace = async (bytes, signal) => {
    await rate(bytes, signal);
    services.report({ done: bytes });
  };
  return async (signal) => {
    const round = await openRound(context, { holder, pace, runAt: services.runAt() ?? 0 });
    if (round === undefined) return 'idle';
    let worked = false;
    const shards = new ShardRound(services, signal);
    for (const row of await rebalanceRows(context.metadata)) {
      if (signal.aborted) break;
      const shard = String(row.slot);
      if (!isDue(context, round, row) || shards.isResting(shard)) continue;
      await shards.work({ id: shard }, async () => {
        worked = (await workSlot(context, round, { row, signal })) || worked;
      });
    }
    shards.end();
    return worked ? 'busy' : 'idle';
  };
};

/** Undefined where there is nothing to move. */
async function openRound(
  context: RebalanceContext,
  { holder, pace, runAt }: Pick<Round, 'holder' | 'pace' | 'runAt'>,
): Promise<Round | undefined> {
  const { metadata, config } = context;
  // The boot step's events come first.
  await context.clusterStates.view();
  const { found, view } = await readStates(context);
  await reconcileEvacuations(context, { clusters: found.map(({ row }) => row), damaged: view.damaged });
  const leaving = found.filter(({ row }) => isLeaving(context, row));
  const byWeight = config.SVC_REBALANCE_WEIGHTS;
  if (leaving.length === 0 && !byWeight) return undefined;
  const unmet = await unmetOn(context, leaving);
  const now = await metadata.now();
  const failures = new Map<string, number>();
  return {
    view,
    leaving: leaving.map(({ row }) => row),
    unmet,
    byWeight,
    now,
    runAt,
    holder,
    pace,
    failures,
  };
}

/** Ends drains that are complete. Called only between passes, because a running pass has no result yet. */
async function unmetOn(
  context: RebalanceContext,
  leaving: readonly Stored<ClusterRow>[],
): Promise<ReadonlySet<string>> {
  const unmet = new Set<string>();
  if ((await rebalanceRows(context.metadata)).some(({ open }) => open !== undefined)) return unmet;
  for (const found of leaving) {
    const { id } = found.row;
    try {
      const { chunks = 0, gcQueue } = await settleDrained(context, found);
      if (chunks > 0 && gcQueue === 0) unmet.add(id);
    } catch (cause) {
      if (isStoreFailure(cause)) throw cause;
      // The others are not to wait for it.
      context.telemetry.log('WARN', 'a cluster that is drained is unavailable', { cluster: id, cause });
    }
  }
  return unmet;
}

/** Whether a pass is under way, or the last one's result is not enough. */
function isDue({ config }: RebalanceContext, round: Round, { open, ended }: SlotRow): boolean {
  if (open !== undefined || ended === undefined || ended.startedAt < round.runAt) return true;
  const age = round.now - ended.endedAt;
  if (round.byWeight && age >= byWeightEveryMs) return true;
  return round.leaving.some((row) => {
    const { id, since } = row;
    if (ended.startedAt < since || !ended.clusters.includes(id)) return true;
    const settledFrom = settledPassFrom(row);
    if (ended.startedAt < settledFrom && round.now >= settledFrom) return true;
    const isClean = ended.found[id] === undefined && !round.unmet.has(id);
    return !isClean && age >= config.SVC_REBALANCE_INTERVAL;
  });
}

/** @returns whether it had its turn: another process may have the slot */
async function workSlot(
  context: RebalanceContext,
  round: Round,
  { row: { slot }, signal }: { readonly row: SlotRow; readonly signal: AbortSignal },
): Promise<boolean> {
  const { metadata } = context;
  const { view, byWeight, pace, holder, leaving, failures } = round;
  const lease = await acquireLease(metadata, {
    name: slotLease('rebalance', slot),
    holder,
    ttlMs: leaseTtlMs,
  });
  if (lease === undefined) return false;
  return withLease(context, { lease, signal }, async (leaseSignal) => {
    const clusters = new Set(leaving.map(({ id }) => id));
    if (!isDue(context, round, await findRebalance(metadata, slot))) return false;
    const moved = new Map<string, Required<TaskAmount>>();
    const movedOff: Tending['movedOff'] = (cluster, amount) =>
      void moved.set(cluster, sumAmounts(moved.get(cluster) ?? { count: 0, bytes: 0 }, amount));
    const tending = {
      view,
      clusters,
      byWeight,
      failures,
      pace,
      signal: leaseSignal,
      movedOff,
    };
    try {
      const claimed = await claimSlot(metadata, slot, lease.generation);
      const { row } = claimed;
      if (!isDue(context, round, row)) return false;
      await walkSlot(context, tending, { claimed, from: isUseful(round, row) ? row : restarted(row) });
      return true;
    } catch (cause) {
      if (!(cause instanceof LeaseLost)) throw cause;
      // This process was paused meanwhile. What it moved is moved; the successor counts for itself.
      context.telemetry.log('WARN', 'a lease was lost', { lease: lease.name, cause });
      return false;
    } finally {
      for (const [cluster, amount] of moved) await addMoved(context, cluster, amount);
    }
  });
}

/** A pass that began before a drain has no result for it. */
const isUseful = ({ leaving }: Round, { open }: SlotRow): boolean =>
  leaving.every(
    ({ id, since }) => open === undefined || (open.startedAt >= since && open.clusters.includes(id)),
  );

const restarted = ({ slot, ended }: SlotRow): SlotRow => ({
  slot,
  ...(ended === undefined ? {} : { ended }),
});
