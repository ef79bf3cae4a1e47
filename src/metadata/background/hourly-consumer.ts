/**
 * Reads and finishes the rows of the hourly queues, at least once each.
 *
 * A reader starts at the oldest row in every pass, and finished rows are removed by name. So a row that a slow commit adds among rows
 * that are finished already is read in the next pass: a writer draws `due` before it commits.
 */
import type { Caches } from '../../base/bounded-cache.ts';
import type { Clock } from '../../ports/clock.ts';
import { commitLimits, type MetadataStore, type SideChange } from '../../ports/metadata-store.ts';
import type { HourlyRow, QueueHour } from '../records/queues.ts';
import { nextSound } from '../sound-rows.ts';
import {
  EmptyHours,
  formatPlace,
  type HourlyQueue,
  hourAt,
  hourMs,
  placementsEndMs,
  placeRow,
  putHourlyRow,
  type QueueCtx,
  queueHour,
  scanHours,
} from './hourly-queues.ts';
import { applyInTerm, assertLeads, beginTerm, type TaskKind, type Term } from './tasks.ts';

/** Rows that one read returns; a row has up to 24 KiB. */
const pageMax = 200;

type Place = Pick<QueueHour, 'queue' | 'slot' | 'hour'>;

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
 * The announced hours of a queue that may have due rows at `now`, the oldest first. An old hour that is announced late is listed within
 * `oldHoursMs`, and one that was found empty, and got a row of another process, within `placementsEndMs`.
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

/**
 * The rows of one hour and slot that are due at `now`, the oldest first; `max` bounds how many. Rows that were due
 * before `from`, and damaged ones, are passed over.
 */
export async function* dueRowsOfHour(
  { caches, metadata, clock }: ReadCtx,
  place: Place,
  {
    now,
    from,
    max = Number.POSITIVE_INFINITY,
    firstPage = pageMax,
  }: {
    readonly now: number;
    readonly from?: number | undefined;
    readonly max?: number;
    readonly firstPage?: number;
  },
): AsyncGenerator<HourlyRow> {
  if (from !== undefined && from >= (place.hour + 1) * hourMs) return;
  const cursor = metadata.scan(hourAt(place), {
    ...(from === undefined ? {} : { from: { due: from } }),
    before: { due: now + 1 },
  });
  let left = max;
  let isEmpty = true;
  for (let page = await read(firstPage); page.length > 0; page = await read()) {
    isEmpty = false;
    for (const { row } of page) yield row;
    left -= page.length;
    if (left <= 0) return;
  }
  const isOver = now >= (place.hour + 1) * hourMs + placementsEndMs;
  if (isEmpty && isOver && from === undefined)
    caches.of(EmptyHours).since.set(formatPlace(place), clock.elapsed());

  function read(count = pageMax) {
    return nextSound(cursor, Math.min(count, left));
  }
}

/**
 * Reads rows of many places that are due at `now`, at most `max` of them. Each place gets an equal share of what is left to read, so that a
 * backlog in one of them does not hide the rows of others. A row `isCut` where its place may have more rows than its share.
 */
export async function* dueRowsInShares(
  ctx: ReadCtx,
  places: readonly Place[],
  { now, max }: { readonly now: number; readonly max: number },
): AsyncGenerator<{ readonly row: HourlyRow; readonly isCut: boolean }> {
  let left = max;
  for (const [index, place] of places.entries()) {
    const share = Math.ceil(left / (places.length - index));
    if (share === 0) return;
    let read = 0;
    for await (const row of dueRowsOfHour(ctx, place, { now, max: share })) {
      read += 1;
      yield { row, isCut: read === share };
    }
    left -= read;
  }
}

/** Removes a row in the commit that completes its task. */
export const finishedRow = (row: HourlyRow): SideChange => ({
  at: hourAt(row),
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

const lanesKind = (queue: string): TaskKind<never> => ({ kind: `lanes-${queue}`, frees: true });

/**
 * The right of a leader to move rows of the queue. After it returns, no earlier leader can remove a row from its slot.
 * @throws LeaseLost
 */
export const beginLanes = (
  metadata: Pick<MetadataStore, 'get' | 'commit'>,
  queue: HourlyQueue,
  generation: number,
): Promise<Term> => beginTerm(metadata, lanesKind(queue), generation);

/**
 * Moves rows of a queue, the oldest first, to another slot, where they keep their places in time. They are put before
 * they are removed: a kill between the two leaves both, and loses none. Only the removal is bound to the term: a later
 * leader has read the slots after it began, so it has seen the row in one of them, and a row that an earlier one puts
 * late is a second copy.
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
  await assertLeads(ctx.metadata, lanesKind(queue), term);
  const moved: HourlyRow[] = [];
  for (const { row, slot } of moves) {
    const { due, id, task, attempts, requestId, traceparent } = row;
    moved.push(await placeRow(ctx, { queue, slot }, { due, id, task, attempts, requestId, traceparent }));
  }
  for (let n = 0; n < moved.length; n += movedMax)
    await ctx.metadata.apply(moved.slice(n, n + movedMax).map(putHourlyRow));
  for (let n = 0; n < moves.length; n += movedMax) {
    const changes = moves.slice(n, n + movedMax).map(({ row }) => finishedRow(row));
    await applyInTerm(ctx.metadata, lanesKind(queue), { term, changes });
  }
  return moved.map(({ hour }) => hour);
}
