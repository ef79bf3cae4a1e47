/** The deletion backlog of each cluster. */
import type { Context } from '../../../context.ts';
import { allRows, backlogMax, queueSlots } from '../../../metadata/background/queues.ts';
import type { GarbageTask } from '../../../metadata/records/queues.ts';

export interface GcBacklog {
  /** Extents, counted in the first `backlogMax` rows of the queue. */
  readonly extents: ReadonlyMap<string, number>;
  /** By cluster, when its oldest extent became due (store time, ms); in the future during `SVC_GC_GRACE`. */
  readonly oldest: ReadonlyMap<string, number>;
  /** There are more rows than were counted. */
  readonly isCut: boolean;
  /** Rows whose clusters are known only when they are processed: large manifests and uploads. */
  readonly elsewhere: number;
}

export async function gcBacklog({ metadata }: Pick<Context, 'metadata'>): Promise<GcBacklog> {
  const extents = new Map<string, number>();
  const oldest = new Map<string, number>();
  let elsewhere = 0;
  let rows = 0;
  for (let slot = 0; slot < queueSlots && rows < backlogMax; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for (
      let page = await cursor.next(500);
      page.length > 0 && rows < backlogMax;
      page = await cursor.next(500)
    ) {
      rows += page.length;
      for (const { row } of page) {
        const task = row.task as GarbageTask;
        if (task.manifestId !== undefined || task.uploadId !== undefined) elsewhere += 1;
        for (const { cluster } of task.extents) {
          extents.set(cluster, (extents.get(cluster) ?? 0) + 1);
          oldest.set(cluster, Math.min(row.due, oldest.get(cluster) ?? row.due));
        }
      }
    }
  }
  return { extents, oldest, elsewhere, isCut: rows >= backlogMax };
}
