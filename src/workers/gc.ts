/** `gc`: deletes queued bytes slot by slot, each slot under a separate lease. */
import type { Context } from '../context.ts';
import { gcBacklog } from '../domain/clusters/drains.ts';
import { deleteGarbage } from '../domain/common/garbage.ts';
import { drawId } from '../domain/common/ids.ts';
import { isOwned, type Ownership, openOwnership } from '../domain/common/ownership.ts';
import { settleUpload } from '../domain/uploads/complete-upload.ts';
import { abortUploadsIn, type ClearCtx } from '../domain/uploads/upload-session.ts';
import { acquireLease, slotLease } from '../metadata/background/leases.ts';
import { dueRows, finishRows, putOffRows, queueBatchMax, queueSlots } from '../metadata/background/queues.ts';
import type { GarbageTask, QueueRow } from '../metadata/records/queues.ts';
import { DataUnavailable, type Extent, type UploadBytes, unreachable } from '../ports/object-bytes.ts';
import { isGarbageRetained, type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';
import { ShardRound, type Unit, unsupervised, type WorkerServices } from './worker.ts';

export type GcContext = LeaseContext & Pick<Context, 'bytes' | 'random' | 'config'>;

/** A task that failed this often is an operator's concern. It is still tried, ever more rarely. */
const concerningAttempts = 8;
/** How often a busy worker counts what waits. */
const reportEveryMs = 60_000;

type Said = 'busy' | 'idle';

/** One unit: a batch of every slot that has due rows and that no other process works on, then some compaction. */
export const collectGarbage = (context: GcContext, _generation = 0, services = unsupervised): Unit => {
  const holder = drawId(context.random);
  const clusters = new ReachableClusters(context);
  const { clock } = context;
  let reportAt = clock.elapsed() + reportEveryMs;
  return async (signal) => {
    const said: Said[] = [];
    const round = new ShardRound(services, signal);
    for (let slot = 0; slot < queueSlots && !signal.aborted; slot += 1) {
      const shard = String(slot);
      if (round.isResting(shard)) continue;
      await round.work({ id: shard }, async () => {
        said.push(await collectSlot(context, { slot, holder, signal, services, clusters }));
      });
    }
    round.end();
    if (signal.aborted) return 'busy';
    const isBusy = said.includes('busy');
    // A gc that is behind is busy for hours.
    if (!isBusy || clock.elapsed() > reportAt) {
      reportAt = clock.elapsed() + reportEveryMs;
      await reportBacklog(context, services);
    }
    return isBusy || (await context.bytes.compact?.(signal)) ? 'busy' : 'idle';
  };
};

/** Clusters without a backlog are reported too. */
async function reportBacklog(context: GcContext, services: WorkerServices): Promise<void> {
  const { extents, oldest } = await gcBacklog(context);
  const now = await context.metadata.now();
  const none = context.bytes.clusters.map((cluster) => [cluster, 0] as const);
  const backlog = [...new Map([...none, ...extents])];
  context.telemetry.replace(
    'svc_gc_backlog',
    backlog.map(([cluster, count]) => [{ cluster }, count]),
  );
  services.report({
    left: backlog.reduce((sum, [, count]) => sum + count, 0),
    // What waits for SVC_GC_GRACE is not late.
    oldestSeconds: (now - Math.min(now, ...oldest.values())) / 1000,
  });
}

async function collectSlot(
  context: GcContext,
  run: {
    readonly slot: number;
    readonly holder: string;
    readonly signal: AbortSignal;
    readonly services: WorkerServices;
    readonly clusters: ReachableClusters;
  },
): Promise<Said> {
  const { metadata } = context;
  const { slot, holder, signal, services, clusters } = run;
  const look = async (max: number) =>
    dueRows(metadata, { queue: 'gc', slot, now: await metadata.now(), max });
  // Look first, because a read is cheaper than a lease, and in most cases there is nothing to do.
  if ((await look(1)).length === 0) return 'idle';
  const lease = await acquireLease(metadata, { name: slotLease('gc', slot), holder, ttlMs: leaseTtlMs });
  if (lease === undefined) return 'idle';
  return withLease(context, { lease, signal }, async (leaseSignal) => {
    const rows = await look(queueBatchMax);
    // Asked after the read: rows that were queued before a hold are named by no row of its snapshot.
    if (await isGarbageRetained(context)) return 'idle';
    const [done, hasMore] = await workOff(context, rows, { clusters, signal: leaseSignal });
    services.report({ done });
    return hasMore || rows.length === queueBatchMax ? 'busy' : 'idle';
  });
}

interface Removal {
  readonly clusters: ReachableClusters;
  readonly signal: AbortSignal;
}

/** Uploads of deleted buckets that one batch aborts: a bucket may have a million, and the rows of others wait. */
const abortsMax = 256;
/** The next row of the same name is due later by this, because a row is named by its due time. */
const goOnMs = 1;

/**
 * Processes a batch until the signal aborts. A failed row is queued again with a growing delay. A row whose clusters rest is put off to the
 * end of the rest, so that the slot is not read past it again and again.
 * @returns how many rows are done, and whether one of them goes on with the next batch
 */
async function workOff(
  context: GcContext,
  rows: readonly QueueRow[],
  removal: Removal,
): Promise<readonly [done: number, hasMore: boolean]> {
  const { metadata, telemetry } = context;
  const { clusters, signal } = removal;
  const hasOwner = ownerLookup(context);
  const done = new Set(await deleteTogether(context, rows.filter(isSimple), removal));
  const failed = new Set<QueueRow>();
  const restsMs = new Map<QueueRow, number>();
  let aborts = abortsMax;
  for (const row of rows) {
    if (done.has(row)) continue;
    if (signal.aborted) break;
    const task = garbageTask(row);
    const restMs = clusters.restMs(task.extents);
    if (restMs > 0) {
      restsMs.set(row, restMs);
      continue;
    }
    try {
      if (task.uploadId !== undefined) {
        const clearing = { ...context, bytes: clusters.discarding(row.id) };
        await settleUpload(clearing, task.uploadId, task.to);
      }
      if (task.bucketId !== undefined) {
        const asked = { requestId: row.requestId, max: aborts };
        aborts -= await abortUploadsIn(context, task.bucketId, asked);
        if (aborts === 0) {
          restsMs.set(row, goOnMs);
          continue;
        }
      }
      if (await hasOwner(task)) {
        telemetry.log('WARN', 'queued bytes have an owner and are not deleted', {
          id: row.id,
          ...task.owner,
        });
        done.add(row);
        continue;
      }
      const bytes = { remove: (extents: readonly Extent[]) => clusters.remove(extents, row.id) };
      await deleteGarbage({ metadata, bytes }, task, signal);
      done.add(row);
    } catch (cause) {
      // Stopped, not failed: leave the row as it is for the next leader.
      if (signal.aborted) break;
      if (cause instanceof ClusterRests) {
        restsMs.set(row, cause.restMs);
        continue;
      }
      report(context, row, cause);
      failed.add(row);
    }
  }
  const now = await metadata.now();
  await finishRows(metadata, [...done, ...failed], { failed, now });
  await putOffRows(metadata, new Map([...restsMs].map(([row, restMs]) => [row, now + Math.ceil(restMs)])));
  return [done.size, aborts === 0];
}

/** The first rest of a cluster that did not answer; it doubles with each further one. */
const awayMs = { first: 30_000, max: 5 * 60_000 } as const;
/** So many different rows fail without a success between before a cluster rests that seems to answer. */
const failedRowsMax = 2;

/** The bytes were not tried, because their cluster rests for so long (ms). */
class ClusterRests extends Error {
  readonly restMs: number;
  constructor(cluster: string, restMs: number) {
    super(`cluster ${cluster} did not answer a moment ago`);
    this.restMs = restMs;
  }
}

/** A cluster from which the last removal failed. */
interface Doubt {
  /** The rows that failed since it rested last. */
  readonly rows: ReadonlySet<string>;
  /** Of its last rest; 0 where it has had none. */
  readonly restMs: number;
  readonly until: number;
}

const noDoubt: Doubt = { rows: new Set(), restMs: 0, until: Number.NEGATIVE_INFINITY };

/**
 * Removes bytes cluster by cluster. A cluster that did not answer rests: what is to be removed from it does not wait for it again, because
 * each wait takes seconds, and the rows of other clusters are behind it. One failure may be about the one extent; a cluster that says
 * that it answers, and yet does not remove different rows, rests too.
 */
class ReachableClusters {
  readonly #context: Pick<GcContext, 'bytes' | 'clock' | 'telemetry'>;
  readonly #doubts = new Map<string, Doubt>();

  constructor(context: Pick<GcContext, 'bytes' | 'clock' | 'telemetry'>) {
    this.#context = context;
  }

  /** Whether nothing was removed from it since a removal failed. */
  isDoubted(cluster: string): boolean {
    return this.#doubts.has(cluster);
  }

  /** How long (ms) all clusters of the extents rest; 0 where one of them does not, or without extents. */
  restMs(extents: readonly Pick<Extent, 'cluster'>[]): number {
    if (extents.length === 0) return 0;
    const now = this.#context.clock.elapsed();
    return Math.max(0, Math.min(...extents.map(({ cluster }) => this.#doubtOf(cluster).until)) - now);
  }

  /**
   * @param row that the extents are of; absent for those of several
   * @throws where bytes of one cluster were not removed; those of the others are. ClusterRests only where no removal failed
   */
  async remove(extents: readonly Extent[], row?: string): Promise<void> {
    const failures: unknown[] = [];
    for (const [cluster, some] of Map.groupBy(extents, (extent) => extent.cluster)) {
      try {
        await this.#attempt(cluster, row, () => this.#context.bytes.remove(some));
      } catch (cause) {
        failures.push(cause);
      }
    }
    if (failures.length > 0) throw failures.find((each) => !(each instanceof ClusterRests)) ?? failures[0];
  }

  /** The same for an upload whose parts the store holds. */
  discarding(row: string): ClearCtx['bytes'] {
    const { uploads } = this.#context.bytes;
    const discard: UploadBytes['discard'] = (...asked) =>
      this.#attempt(asked[0].cluster, row, async () => uploads?.discard(...asked));
    return { uploads: uploads && { discard } };
  }

  async #attempt(cluster: string, row: string | undefined, remove: () => Promise<void>): Promise<void> {
    const restMs = this.restMs([{ cluster }]);
    if (restMs > 0) throw new ClusterRests(cluster, restMs);
    try {
      await remove();
      this.#doubts.delete(cluster);
    } catch (cause) {
      if (cause instanceof DataUnavailable) await this.#failed(cluster, row, cause);
      throw cause;
    }
  }

  async #failed(cluster: string, row: string | undefined, cause: unknown): Promise<void> {
    const { clock, telemetry } = this.#context;
    const known = this.#doubtOf(cluster);
    const rows = new Set(known.rows);
    if (row !== undefined) rows.add(row);
    if (rows.size < failedRowsMax && (await this.#answers(cluster))) {
      this.#doubts.set(cluster, { ...known, rows });
      return;
    }
    const restMs = known.restMs === 0 ? awayMs.first : Math.min(2 * known.restMs, awayMs.max);
    this.#doubts.set(cluster, { rows: new Set(), restMs, until: clock.elapsed() + restMs });
    telemetry.log('WARN', 'a cluster does not remove garbage; its rows are put off', {
      cluster,
      rest_seconds: restMs / 1000,
      cause,
    });
  }

  #doubtOf(cluster: string): Doubt {
    return this.#doubts.get(cluster) ?? noDoubt;
  }

  async #answers(cluster: string): Promise<boolean> {
    const [health] = await this.#context.bytes.health(cluster);
    return health !== undefined && health.status !== unreachable;
  }
}

/** Extents and nothing else, tried for the first time: what most rows are. */
const isSimple = (row: QueueRow): boolean => {
  const { manifestId, uploadId, bucketId, owner } = garbageTask(row);
  return (
    row.attempts === 0 && [manifestId, uploadId, bucketId, owner].every((absent) => absent === undefined)
  );
};

/** Whether a row owns the bytes now. The list of buckets is read once per batch. */
function ownerLookup(context: GcContext): (task: GarbageTask) => Promise<boolean> {
  let opened: Promise<Ownership> | undefined;
  return async ({ owner, extents }) => {
    if (owner === undefined) return false;
    opened ??= openOwnership(context);
    const ownership = await opened;
    for (const extent of extents) if (await isOwned(context, ownership, { extent, owner })) return true;
    return false;
  };
}

const garbageTask = (row: QueueRow): GarbageTask => row.task as GarbageTask;

/**
 * One call for the rows of each cluster. If it fails, nothing of them counts as done, and each row is tried alone, as are the rows of a
 * cluster that failed before: only a row alone shows whether it is the cause.
 */
async function deleteTogether(
  { telemetry }: GcContext,
  rows: readonly QueueRow[],
  { clusters, signal }: Removal,
): Promise<readonly QueueRow[]> {
  const done: QueueRow[] = [];
  for (const [cluster, some] of Map.groupBy(rows, clusterOf)) {
    if (cluster === undefined || some.length < 2 || clusters.isDoubted(cluster) || signal.aborted) continue;
    try {
      await clusters.remove(some.flatMap((row) => garbageTask(row).extents));
      done.push(...some);
    } catch (cause) {
      telemetry.log('DEBUG', 'a batch of garbage was refused', { cluster, rows: some.length, cause });
    }
  }
  return done;
}

/** The cluster that has all extents of a row; undefined where several have. */
function clusterOf(row: QueueRow): string | undefined {
  const [first, ...others] = garbageTask(row).extents;
  return others.every(({ cluster }) => cluster === first?.cluster) ? first?.cluster : undefined;
}

function report({ telemetry }: GcContext, row: QueueRow, cause: unknown): void {
  const { manifestId, uploadId, extents } = garbageTask(row);
  const level = row.attempts >= concerningAttempts ? 'ERROR' : 'WARN';
  const fields = { id: row.id, attempts: row.attempts + 1, extents: extents.length, manifestId, uploadId };
  telemetry.log(level, 'garbage could not be deleted', { ...fields, request_id: row.requestId, cause });
}
