/** How many events wait for each target, and since when. */
import type { Context } from '../../../context.ts';
import { everyDeadLetter } from '../../../metadata/background/dead-letters.ts';
import { dueRowsOfHour } from '../../../metadata/background/hourly-consumer.ts';
import { laneOf, laneOfSlot, scanHours } from '../../../metadata/background/hourly-queues.ts';
import type { DeadLetter, NotifyTask } from '../../../metadata/records/queues.ts';

/** Rows that are counted of one target; more are shown as this number. */
export const countedMax = 10_000;

export interface TargetBacklog {
  queued: number;
  /** Store time. */
  oldest: number | undefined;
  deadLetters: number;
}

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

export async function countBacklogs(
  ctx: Ctx,
  targets: readonly string[],
): Promise<ReadonlyMap<string, TargetBacklog>> {
  const counts = new Map(
    targets.map((id): [string, TargetBacklog] => [id, { queued: 0, oldest: undefined, deadLetters: 0 }]),
  );
  const lanes = Map.groupBy(targets, laneOf);
  const now = await ctx.metadata.now();
  for await (const place of scanHours(ctx.metadata, 'notify')) {
    const isCounted = (id: string): boolean => (counts.get(id)?.queued ?? 0) >= countedMax;
    const here = lanes.get(laneOfSlot(place.slot)) ?? [];
    if (here.every(isCounted)) continue;
    for await (const { task, due } of dueRowsOfHour(ctx, place, { now, max: countedMax })) {
      // The casts: each queue has one type of task.
      const count = counts.get((task as NotifyTask).sink);
      if (count === undefined) continue;
      count.queued = Math.min(count.queued + 1, countedMax);
      count.oldest = Math.min(count.oldest ?? due, due);
    }
  }
  let read = 0;
  for await (const { task } of everyDeadLetter(ctx.metadata)) {
    const count = counts.get((task as DeadLetter).sink);
    if (count !== undefined) count.deadLetters += 1;
    read += 1;
    if (read >= countedMax) break;
  }
  return counts;
}
