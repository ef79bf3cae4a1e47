/**
 * How much waits for replication, by destination. The count is bounded: each slot of the queue gets an equal share of what is left to read, so
 * every destination is found, and its oldest version. A process counts for at most a twentieth of its time.
 */
import type { Caches } from '../../../base/caches.ts';
import type { Context } from '../../../context.ts';
import { dueRowsOfHour, listDueHours } from '../../../metadata/background/hourly-consumer.ts';
import { destinationOf, nameDestination, taskOf } from './destination.ts';

type Ctx = Pick<Context, 'metadata' | 'clock'> & { readonly caches: Caches };

/** Rows that a count reads. */
const countedMax = 20_000;
/** A count is used again for this many times the time that it took. */
const reusedFor = 20;

export interface Waiting {
  waiting: number;
  /** The contents that are to be sent. */
  bytes: number;
  /** Store time (ms). */
  oldest: number;
  /** More versions wait than were counted. */
  isCut: boolean;
}

type Counts = ReadonlyMap<string, Readonly<Waiting>>;

class LastCount {
  last: { readonly counts: Promise<Counts>; until: number } | undefined;
}

/** The versions that wait, by destination. */
export function countWaiting(ctx: Ctx): Promise<Counts> {
  const known = ctx.caches.of(LastCount);
  const startedAt = ctx.clock.elapsed();
  if (known.last !== undefined && known.last.until > startedAt) return known.last.counts;
  const last = { counts: count(ctx), until: Number.POSITIVE_INFINITY };
  known.last = last;
  last.counts.then(
    () => {
      const now = ctx.clock.elapsed();
      last.until = now + (now - startedAt) * reusedFor;
    },
    () => {
      known.last = undefined;
    },
  );
  return last.counts;
}

async function count(ctx: Ctx): Promise<Counts> {
  const now = await ctx.metadata.now();
  const counts = new Map<string, Waiting>();
  const places = await listDueHours(ctx, 'replication', now);
  let left = countedMax;
  for (const [index, place] of places.entries()) {
    const max = Math.ceil(left / (places.length - index));
    if (max === 0) break;
    let read = 0;
    let last: Waiting | undefined;
    for await (const row of dueRowsOfHour(ctx, place, { now, max })) {
      const name = nameDestination(destinationOf(row));
      last = counts.get(name) ?? { waiting: 0, bytes: 0, oldest: row.due, isCut: false };
      counts.set(name, last);
      last.waiting += 1;
      last.bytes += taskOf(row).bytes ?? 0;
      last.oldest = Math.min(last.oldest, row.due);
      read += 1;
    }
    if (last !== undefined && read >= max) last.isCut = true;
    left -= read;
  }
  return counts;
}
