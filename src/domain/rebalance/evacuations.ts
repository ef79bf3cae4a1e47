/**
 * The task of emptying a cluster: how much has been moved off it since its drain began. Several processes move at the same time, so each
 * adds what it moved; a process that dies loses what it has not added yet, which the end of the drain does not depend on.
 */
import type { Context } from '../../context.ts';
import { everyCluster, findCluster, putClusters } from '../../metadata/background/clusters.ts';
import {
  everyTask,
  findSoundTask,
  findTask,
  putTask,
  type Task,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import type { ClusterRow } from '../../metadata/records/clusters.ts';
import type { TaskAmount, TaskProgress, TaskRow } from '../../metadata/records/tasks.ts';
import { undefinedIfDamaged } from '../../metadata/sound-rows.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { chunkBytes, type Extent } from '../../ports/object-bytes.ts';
import { moved } from '../clusters/cluster-states.ts';
import { type DrainProgress, drainProgress } from '../clusters/drains.ts';
import { advanceProgress, amountLeft, type Measure } from '../common/task-progress.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes'>;
type Amount = Required<TaskAmount>;

interface Evacuation {
  readonly cluster: string;
  /** Store time (ms) of the drain, as in the cluster's row. */
  readonly since: number;
  /** Chunks and bytes on the cluster when the worker began, garbage included. */
  readonly held: Amount;
  readonly moved: Amount;
  readonly finishedAt?: number;
  readonly failure?: string;
}
export const evacuations: TaskKind<Evacuation> = { kind: 'evacuation' };

const none: Amount = { count: 0, bytes: 0 };
/** How long a result is kept. */
const retentionMs = 30 * 24 * 60 * 60 * 1000;
/** Attempts against processes that add at the same time. */
const attemptsMax = 16;

export const sumAmounts = (one: Amount, other: Amount): Amount => ({
  count: one.count + other.count,
  bytes: one.bytes + other.bytes,
});

export const extentAmount = ({ size }: Pick<Extent, 'size'>): Amount => ({
  count: Math.max(1, Math.ceil(size / chunkBytes)),
  bytes: Math.max(0, size),
});

const measureEvacuation = ({ cluster, since, moved, finishedAt, failure }: Evacuation): Measure => ({
  cluster,
  startedAt: since,
  finishedAt,
  failure,
  done: moved,
});

async function storedOn({ bytes }: Pick<Ctx, 'bytes'>, cluster: string): Promise<Amount> {
  const [health] = await bytes.health(cluster);
  const pools = health?.pools ?? [];
  return pools
    .map(({ chunkCount, bytesUsed }) => ({ count: chunkCount, bytes: bytesUsed }))
    .reduce(sumAmounts, none);
}

/** Brings the tasks in line with the clusters that are leaving: begins those of new drains, and ends those of drains that are over. */
export async function reconcileEvacuations(
  ctx: Ctx,
  { clusters, damaged }: { readonly clusters: readonly ClusterRow[]; readonly damaged: readonly string[] },
): Promise<void> {
  const leaving = new Map(clusters.filter(({ state }) => state === 'evacuating').map((row) => [row.id, row]));
  const known = new Map<string, Task<Evacuation>>();
  for await (const task of everyTask(ctx.metadata, evacuations)) known.set(task.name, task);
  for (const row of leaving.values()) {
    // What was moved before is counted no more where the row is damaged, and the end of the drain does not depend on it.
    const task = known.get(row.id) ?? (await findSoundTask(ctx.metadata, evacuations, row.id));
    const fresh: Evacuation = { cluster: row.id, since: row.since, held: none, moved: none };
    const isNew = task?.state.since !== row.since;
    const {
      finishedAt: _,
      failure: __,
      ...running
    } = isNew ? { ...fresh, held: await storedOn(ctx, row.id) } : task.state;
    const state: Evacuation =
      row.emptiedAt === undefined ? running : { ...running, finishedAt: row.emptiedAt };
    if (isNew || state.finishedAt !== task.state.finishedAt) await save(ctx, task, state);
  }
  for (const task of known.values()) {
    if (task.state.finishedAt !== undefined || leaving.has(task.name)) continue;
    // Whether the drain is over is not known.
    if (damaged.includes(task.name)) continue;
    const state = clusters.find(({ id }) => id === task.name)?.state ?? 'deregistered';
    const isOver = state === 'deregistered';
    const finishedAt = await ctx.metadata.now();
    await save(ctx, task, {
      ...task.state,
      finishedAt,
      ...(isOver ? {} : { failure: `The drain was stopped: the cluster is ${state}.` }),
    });
  }
}

/** @returns whether it was applied: another process may have changed the task */
async function save(ctx: Ctx, task: Task<Evacuation> | undefined, state: Evacuation): Promise<boolean> {
  const { finishedAt } = state;
  const outcome = await putTask(ctx.metadata, evacuations, {
    name: state.cluster,
    state,
    progress: advanceProgress(task?.progress, measureEvacuation(state), await ctx.metadata.now()),
    expect: task?.revision ?? 'absent',
    ...(finishedAt === undefined ? {} : { expiresAt: finishedAt + retentionMs }),
  });
  return outcome.applied;
}

export async function addMoved(ctx: Ctx, cluster: string, moved: Amount): Promise<void> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const task = await findSoundTask(ctx.metadata, evacuations, cluster);
    if (task === undefined || task.state.finishedAt !== undefined) return;
    if (await save(ctx, task, { ...task.state, moved: sumAmounts(task.state.moved, moved) })) return;
  }
}

/** The tasks, and those of drains that no worker has seen yet. */
export async function listEvacuations({
  metadata,
}: Pick<Ctx, 'metadata'>): Promise<readonly Pick<TaskRow, 'name' | 'progress'>[]> {
  const found = new Map<string, TaskProgress | undefined>();
  for await (const { name, progress } of everyTask(metadata, evacuations)) found.set(name, progress);
  for (const { row } of await everyCluster(metadata)) {
    if (row.state !== 'evacuating' || found.get(row.id)?.startedAt === row.since) continue;
    const measure = { cluster: row.id, startedAt: row.since, done: none };
    found.set(row.id, advanceProgress(undefined, measure, row.since));
  }
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, progress]) => ({ name, ...(progress && { progress }) }));
}

/** An estimate: garbage that was on the cluster when the drain began is deleted and not moved. */
export async function leftToEvacuate(ctx: Ctx, cluster: string): Promise<TaskAmount | undefined> {
  const state = (await findTask(ctx.metadata, evacuations, cluster).catch(undefinedIfDamaged))?.state;
  const stored = state === undefined ? await storedOn(ctx, cluster) : state.held;
  const moved = state?.moved ?? none;
  // A store that does not say what it holds.
  if (stored.count === 0 && moved.count > 0) return undefined;
  return amountLeft(stored, moved);
}

// The end of a drain: marks a cluster that is empty, and writes the tombstone of one that the settings no longer list.

type SettleDrainedCtx = Pick<Context, 'metadata' | 'bytes' | 'clusterStates' | 'telemetry'>;

/** Whether the state of the cluster says that its chunks are moving away, or that it never should have had any. */
export const isLeaving = ({ bytes }: Pick<SettleDrainedCtx, 'bytes'>, { id, state }: ClusterRow): boolean =>
  state === 'evacuating' || (state === 'pending' && !bytes.clusters.includes(id));

const changedMeanwhile = 'The row of the cluster changed meanwhile: ask again.';

/**
 * Marks a cluster as empty, or removes the mark, or writes the tombstone. A cluster counts as empty only if a second count, after the
 * mark, finds it empty too: a write whose bytes that count misses reads the mark before it commits (`assertNotEmptied`). Chunks
 * alone do not remove the mark: they may belong to such a write, which is refused.
 */
export async function settleDrained(
  ctx: SettleDrainedCtx,
  found: Stored<ClusterRow>,
): Promise<DrainProgress> {
  const { slot, emptiedAt, ...row } = found.row;
  const progress = await drainProgress(ctx, found.row);
  const { reasons, seen } = progress;
  const isEmpty = reasons.length === 0;
  const isListed = ctx.bytes.clusters.includes(row.id);
  const now = await ctx.metadata.now();
  const state = isEmpty && !isListed ? moved(row.state, 'deregister') : row.state;
  const wasMarked = emptiedAt !== undefined;
  const isMarked = isEmpty || (wasMarked && seen.manifests === 0 && seen.uploads === 0);
  if (state === undefined || (state === row.state && isMarked === wasMarked)) return progress;
  const next =
    state === row.state ? { ...row, ...(isMarked ? { emptiedAt: now } : {}) } : { ...row, state, since: now };
  const outcome = await putClusters(ctx.metadata, [{ row: next, found }]);
  if (!outcome.applied) return { ...progress, reasons: [...reasons, changedMeanwhile] };
  await ctx.clusterStates.changed();
  const said = state !== row.state ? 'is deregistered' : isEmpty ? 'is empty' : 'holds chunks again';
  ctx.telemetry.log('INFO', `a cluster that was drained ${said}`, { cluster: row.id, state });
  return isEmpty && state === row.state ? drainProgress(ctx, { ...next, slot }) : progress;
}

/** The progress for an operator, who may remove a cluster that is reported empty: marks the cluster first. */
export async function confirmedProgress(ctx: SettleDrainedCtx, row: ClusterRow): Promise<DrainProgress> {
  const progress = await drainProgress(ctx, row);
  const isListed = ctx.bytes.clusters.includes(row.id);
  if (progress.reasons.length > 0 || row.emptiedAt !== undefined || !isListed) return progress;
  const found = await findCluster(ctx.metadata, row.id);
  return found === undefined || found.row.state !== row.state
    ? { ...progress, reasons: [changedMeanwhile] }
    : settleDrained(ctx, found);
}
