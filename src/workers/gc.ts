/** `gc`: deletes queued bytes slot by slot, each slot under a separate lease. */
import type { Context } from '../context.ts';
import { gcBacklog } from '../domain/clusters/drains.ts';
import { deleteGarbage } from '../domain/common/garbage.ts';
import { drawId } from '../domain/common/ids.ts';
import { isOwned, type Ownership, openOwnership } from '../domain/common/ownership.ts';
import { settleUpload } from '../domain/uploads/complete-upload.ts';
import { acquireLease, slotLease } from '../metadata/background/leases.ts';
import { dueRows, finishRows, queueBatchMax, queueSlots } from '../metadata/background/queues.ts';
import type { GarbageTask, QueueRow } from '../metadata/records/queues.ts';
import { DataUnavailable } from '../ports/object-bytes.ts';
import { isGarbageRetained, type LeaseContext, leaseTtlMs, withLease } from './leadership.ts';
import { ShardRound, type Unit, unsupervised, type WorkerServices } from './worker.ts';

export type GcContext = LeaseContext & Pick<Context, 'bytes' | 'random'>;

/** A task that failed this often is an operator's concern. It is still tried, ever more rarely. */
const concerningAttempts = 8;

type Said = 'busy' | 'idle';

/** One unit: a batch of every slot that has due rows and that no other process works on, then some compaction. */
export const collectGarbage = (context: GcContext, _generation = 0, services = unsupervised): Unit => {
  const holder = drawId(context.random);
  return async (signal) => {
    const said: Said[] = [];
    const round = new ShardRound(services, signal);
    for (let slot = 0; slot < queueSlots && !signal.aborted; slot += 1) {
      const shard = String(slot);
      if (round.isResting(shard)) continue;
      await round.work({ id: shard }, async () => {
        said.push(await collectSlot(context, { slot, holder, signal, services }));
      });
    }
    round.end();
    if (said.includes('busy') || signal.aborted) return 'busy';
    await reportBacklog(context, services);
    return (await context.bytes.compact?.(signal)) ? 'busy' : 'idle';
  };
};

/** Clusters without a backlog are reported too. */
async function reportBacklog(context: GcContext, services: WorkerServices): Promise<void> {
  const { extents } = await gcBacklog(context);
  const none = context.bytes.clusters.map((cluster) => [cluster, 0] as const);
  const backlog = [...new Map([...none, ...extents])];
  context.telemetry.replace(
    'svc_gc_backlog',
    backlog.map(([cluster, count]) => [{ cluster }, count]),
  );
  services.report({ left: backlog.reduce((sum, [, count]) => sum + count, 0) });
}

async function collectSlot(
  context: GcContext,
  run: {
    readonly slot: number;
    readonly holder: string;
    readonly signal: AbortSignal;
    readonly services: WorkerServices;
  },
): Promise<Said> {
  const { metadata } = context;
  const { slot, holder, signal, services } = run;
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
    services.report({ done: await workOff(context, rows, leaseSignal) });
    return rows.length === queueBatchMax ? 'busy' : 'idle';
  });
}

/** Processes a batch until the signal aborts. A failed row is queued again with a growing delay. @returns how many rows are done */
async function workOff(context: GcContext, rows: readonly QueueRow[], signal: AbortSignal): Promise<number> {
  const { metadata, telemetry } = context;
  const hasOwner = ownerLookup(context);
  const done = new Set(await deleteTogether(context, rows.filter(isSimple), signal));
  const failed = new Set<QueueRow>();
  // A cluster that does not answer costs one wait, and not one for each row.
  const away = new Set<string>();
  for (const row of rows) {
    if (done.has(row)) continue;
    if (signal.aborted) break;
    const task = garbageTask(row);
    if (task.extents.some(({ cluster }) => away.has(cluster))) {
      failed.add(row);
      continue;
    }
    try {
      if (task.uploadId !== undefined) await settleUpload(context, task.uploadId);
      if (await hasOwner(task)) {
        telemetry.log('WARN', 'queued bytes have an owner and are not deleted', {
          id: row.id,
          ...task.owner,
        });
        done.add(row);
        continue;
      }
      await deleteGarbage(context, task, signal);
      done.add(row);
    } catch (cause) {
      // Stopped, not failed: leave the row as it is for the next leader.
      if (signal.aborted) break;
      report(context, row, cause);
      failed.add(row);
      if (cause instanceof DataUnavailable) for (const { cluster } of task.extents) away.add(cluster);
    }
  }
  await finishRows(metadata, [...done, ...failed], { failed, now: await metadata.now() });
  return done.size;
}

/** Extents and nothing else, tried for the first time: what most rows are. */
const isSimple = (row: QueueRow): boolean => {
  const { manifestId, uploadId, owner } = garbageTask(row);
  return row.attempts === 0 && manifestId === undefined && uploadId === undefined && owner === undefined;
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

/** One call for all rows. If it fails, nothing is done, and each row is tried alone. */
async function deleteTogether(
  context: GcContext,
  rows: readonly QueueRow[],
  signal: AbortSignal,
): Promise<readonly QueueRow[]> {
  if (rows.length === 0 || signal.aborted) return [];
  try {
    await deleteGarbage(context, { extents: rows.flatMap((row) => garbageTask(row).extents) }, signal);
    return rows;
  } catch (cause) {
    context.telemetry.log('DEBUG', 'a batch of garbage was refused', { rows: rows.length, cause });
    return [];
  }
}

function report({ telemetry }: GcContext, row: QueueRow, cause: unknown): void {
  const { manifestId, uploadId, extents } = garbageTask(row);
  const level = row.attempts >= concerningAttempts ? 'ERROR' : 'WARN';
  const fields = { id: row.id, attempts: row.attempts + 1, extents: extents.length, manifestId, uploadId };
  telemetry.log(level, 'garbage could not be deleted', { ...fields, request_id: row.requestId, cause });
}
