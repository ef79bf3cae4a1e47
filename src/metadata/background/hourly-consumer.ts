/**
 * Reads and finishes the rows of the hourly queues, at least once each.
 *
 * A reader starts at the oldest row in every pass, and finished rows are removed by name. So a row that a slow commit adds among rows
 * that are finished already is read in the next pass: a writer draws `due` before it commits.
 */
import { BoundedCache, type Caches } from '../../base/bounded-cache.ts';
import type { Clock } from '../../ports/clock.ts';
import { type At, commitLimits, type MetadataStore, type SideChange } from '../../ports/metadata-store.ts';
import { type HourlyRow, hourlyQueues, type QueueHour } from '../records/queues.ts';
import { nextSound } from '../sound-rows.ts';
import {
  type HourlyQueue,
  hourMs,
  placementsEndMs,
  type QueueCtx,
  queuedByHour,
  queueHour,
  scanHours,
} from './hourly-queues.ts';
import { applyInTerm, assertLeads, beginTerm, type TaskKind, type Term } from './tasks.ts';

/** Rows that one read returns; a row has up to 24 KiB. */
const pageMax = 200;

type Place = Pick<QueueHour, 'queue' | 'slot' | 'hour'>;

const rowsAt = ({ queue, slot, hour }: Place): At<typeof hourlyQueues> => ({
  table: hourlyQueues,
  in: { queue, slot, hour },
});

/** When this process last found an hour empty, by its monotonic clock; so an old, empty hour is not read in each pass. */
class EmptyHours {
  readonly since = new BoundedCache<number>({ name: 'empty-queue-hours', entriesMax: 65_536 });
}

/**
 * The announced hours from before `below`, by queue, as they were last read: writers announce old hours only where their clocks are behind,
 * and a consumer lists the hours once a second.
 */
class OldHours {
  readonly byQueue = new Map<
    HourlyQueue,
    { readonly hours: readonly QueueHour[]; readonly below: number; readonly until: number }
  >();
}
/** How long old hours are not read again. */
const oldHoursMs = 60_000;

type ReadCtx = {
  readonly caches: Caches;
  readonly metadata: Pick<MetadataStore, 'scan'>;
  readonly clock: Pick<Clock, 'elapsed'>;
};

/**
 * The announced hours of a queue that may have due rows at `now`, the oldest first; hours that were found empty are left out. An old hour
 * that is announced late is listed within `oldHoursMs`.
 */
export async function listDueHours(
  { caches, metadata, clock }: ReadCtx,
  queue: HourlyQueue,
  now: number,
): Promise<readonly QueueHour[]> {
  const { since } = caches.of(EmptyHours);
  const { byQueue } = caches.of(OldHours);
  const known = byQueue.get(queue);
  const old = known !== undefined && known.until > clock.elapsed() ? known : undefined;
  const mayHaveRows = (place: QueueHour): boolean => {
    const emptySince = since.get(formatPlace(place));
    // Looked up again after a while, because a slow commit may have added a row.
    return emptySince === undefined || clock.elapsed() - emptySince >= placementsEndMs;
  };
  const hours = old?.hours.filter(mayHaveRows) ?? [];
  for await (const place of scanHours(metadata, queue, old?.below)) {
    if (place.hour > queueHour(now)) break;
    if (mayHaveRows(place)) hours.push(place);
  }
  if (old !== undefined) return hours;
  const below = queueHour(now - placementsEndMs);
  const until = clock.elapsed() + oldHoursMs;
  byQueue.set(queue, { hours: hours.filter(({ hour }) => hour < below), below, until });
  return hours;
}

/** When a consumer of the queue must list its hours again, by the monotonic clock, because an old one may have been announced. */
export const listsOldHoursAt = ({ caches }: Pick<ReadCtx, 'caches'>, queue: HourlyQueue): number =>
  caches.of(OldHours).byQueue.get(queue)?.until ?? Number.NEGATIVE_INFINITY;

const formatPlace = ({ queue, hour, slot }: Place): string => `${queue} ${hour} ${slot}`;

/** The rows of one hour and slot that are due at `now`, the oldest first; `max` bounds how many. Damaged rows are passed over. */
export async function* dueRowsOfHour(
  { caches, metadata, clock }: ReadCtx,
  place: Place,
  { now, max = Number.POSITIVE_INFINITY }: { readonly now: number; readonly max?: number },
): AsyncGenerator<HourlyRow> {
  const cursor = metadata.scan(rowsAt(place), { before: { due: now + 1 } });
  let left = max;
  let isEmpty = true;
  for (let page = await read(); page.length > 0; page = await read()) {
    isEmpty = false;
    for (const { row } of page) yield row;
    left -= page.length;
    if (left <= 0) return;
  }
  const isOver = now >= (place.hour + 1) * hourMs + placementsEndMs;
  if (isEmpty && isOver) caches.of(EmptyHours).since.set(formatPlace(place), clock.elapsed());

  function read() {
    return nextSound(cursor, Math.min(pageMax, left));
  }
}

/** Removes a row in the commit that completes its task. */
export const finishedRow = (row: HourlyRow): SideChange => ({
  at: rowsAt(row),
  remove: { due: row.due, id: row.id },
});

/** Removes rows whose task was carried out. */
export async function finishHourlyRows(
  metadata: Pick<MetadataStore, 'apply'>,
  rows: readonly HourlyRow[],
): Promise<void> {
  for (let n = 0; n < rows.length; n += commitLimits.changes)
    await metadata.apply(rows.slice(n, n + commitLimits.changes).map(finishedRow));
}

/** Rows that are put, or removed, together; a row has up to 24 KiB. */
const movedMax = 16;

const lanesTask = (queue: string): TaskKind<never> => ({ kind: `lanes-${queue}` });

/** The right of a leader to move rows of the queue. After it returns, no earlier leader can remove a row from its slot. @throws LeaseLost */
export const beginLanes = (
  metadata: Pick<MetadataStore, 'get' | 'commit'>,
  queue: HourlyQueue,
  generation: number,
): Promise<Term> => beginTerm(metadata, lanesTask(queue), generation);

/**
 * Moves rows of a queue, the oldest first, to another slot, where they keep their places in time. They are put before they are removed: a kill
 * between the two leaves both, and loses none. Only the removal is bound to the term: a later leader has read the slots after it began, so it has
 * seen the row in one of them, and a row that an earlier one puts late is a second copy.
 * @returns the hours that they are in
 * @throws LeaseLost
 */
export async function moveHourlyRows(
  ctx: QueueCtx & { readonly metadata: Pick<MetadataStore, 'commit'> },
  {
    queue,
    moves,
    term,
  }: {
    readonly queue: HourlyQueue;
    readonly moves: readonly { readonly row: HourlyRow; readonly slot: number }[];
    readonly term: Term;
  },
): Promise<readonly number[]> {
  // Most leaders that were paused learn of it here, and put nothing.
  await assertLeads(ctx.metadata, lanesTask(queue), term);
  const puts: SideChange[] = [];
  for (const { row, slot } of moves) {
    const { due, id, task, attempts, requestId, traceparent } = row;
    puts.push(await queuedByHour(ctx, { queue, slot }, { due, id, task, attempts, requestId, traceparent }));
  }
  for (let n = 0; n < puts.length; n += movedMax) await ctx.metadata.apply(puts.slice(n, n + movedMax));
  for (let n = 0; n < moves.length; n += movedMax) {
    const changes = moves.slice(n, n + movedMax).map(({ row }) => finishedRow(row));
    await applyInTerm(ctx.metadata, lanesTask(queue), { term, changes });
  }
  // The cast: each of them puts a row of this table.
  return puts.map((change) => (change as { readonly put: HourlyRow }).put.hour);
}

/**
 * Replaces a row by one that is due later, with one attempt more. The new row is written first: a kill between the two writes leaves both,
 * so the task is carried out twice and never lost.
 */
export async function retryHourlyRow(
  ctx: QueueCtx,
  row: HourlyRow,
  { due, task = row.task }: { readonly due: number; readonly task?: unknown },
): Promise<void> {
  const { slot, id, requestId, traceparent } = row;
  // The cast: only the names of hourly queues are stored in this table.
  const queue = row.queue as HourlyQueue;
  const attempts = row.attempts + 1;
  const later = Math.max(due, row.due + 1);
  await ctx.metadata.apply([
    await queuedByHour(ctx, { queue, slot }, { task, id, due: later, requestId, attempts, traceparent }),
  ]);
  await ctx.metadata.apply([finishedRow(row)]);
}
