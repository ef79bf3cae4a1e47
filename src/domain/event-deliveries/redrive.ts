/** Puts dead letters back into the queue of events, or discards them. */

import { inParallel } from '../../base/concurrency.ts';
import type { Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { dueRowsInShares, dueRowsOfHour, listDueHours } from '../../metadata/background/hourly-consumer.ts';
import {
  hashToLane,
  laneOfSlot,
  laneSlot,
  queuedByHour,
  scanHours,
} from '../../metadata/background/hourly-queues.ts';
import { countDeadLetters, everyDeadLetter, removeDeadLetter } from '../../metadata/background/queues.ts';
import { type DeadLetter, type HourlyRow, notifyTask, type QueueRow } from '../../metadata/records/queues.ts';
import { inTurns } from '../common/turns.ts';
import { readSubject, type Subject } from '../events/envelope.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

interface LetterAbout {
  readonly bucket: string;
  readonly target: string;
}

/** Which letters are meant: those that match every field that is given. */
export interface LetterFilter {
  readonly target?: string | undefined;
  readonly bucket?: string | undefined;
  readonly id?: string | undefined;
  /** Store time at which delivery was given up: from `since` on, and before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** Why the caller may not change a letter: one that `id` names is refused, others are passed over. */
  readonly denialOf?: ((letter: LetterAbout) => Promise<Refusal | undefined>) | undefined;
}

/** Letters that one call changes. */
const lettersMax = 1_000;

interface Changed {
  readonly letters: number;
  /** More letters match: call again. */
  readonly isTruncated: boolean;
}

/** The cast: each queue has one type of task. */
const letterTask = (row: Pick<QueueRow, 'task'>): DeadLetter => row.task as DeadLetter;

function matches(row: QueueRow, { target, bucket, id, since, until }: LetterFilter): boolean {
  const { sink, message } = letterTask(row);
  return (
    (target === undefined || sink === target) &&
    (bucket === undefined || readSubject(message).bucket === bucket) &&
    (id === undefined || row.id === id) &&
    (since === undefined || row.due >= since) &&
    (until === undefined || row.due < until)
  );
}

async function changeLetters(
  { metadata }: Pick<Ctx, 'metadata'>,
  filter: LetterFilter,
  { change, rest }: { change(row: QueueRow): Promise<void>; readonly rest: () => Promise<void> },
): Promise<Changed> {
  let letters = 0;
  for await (const row of inTurns(everyDeadLetter(metadata, filter), rest)) {
    if (!matches(row, filter)) continue;
    if (letters >= lettersMax) return { letters, isTruncated: true };
    const { sink, message } = letterTask(row);
    const denial = await filter.denialOf?.({ bucket: readSubject(message).bucket, target: sink });
    if (denial !== undefined && filter.id !== undefined) throw denial;
    if (denial !== undefined) continue;
    await change(row);
    letters += 1;
  }
  return { letters, isTruncated: false };
}

/** Rows that are read to find the events that wait behind the letters; further ones may overtake them. */
const waitingMax = 20_000;

const formatSubject = (sink: string, { bucket, key = '' }: Subject): string => `${sink} ${bucket}/${key}`;

/** The oldest waiting event of each object: of one target, or of all. */
async function listWaiting(
  ctx: Ctx,
  now: number,
  target: string | undefined,
): Promise<ReadonlyMap<string, Pick<HourlyRow, 'slot' | 'due'>>> {
  const oldest = new Map<string, Pick<HourlyRow, 'slot' | 'due'>>();
  const lane = target === undefined ? undefined : hashToLane(target);
  const places = (await listDueHours(ctx, 'notify', now)).filter(
    ({ slot }) => lane === undefined || laneOfSlot(slot) === lane,
  );
  for await (const { row } of dueRowsInShares(ctx, places, { now, max: waitingMax })) {
    const { sink, message } = notifyTask(row);
    const name = formatSubject(sink, readSubject(message));
    const known = oldest.get(name);
    if (known === undefined || row.due < known.due) oldest.set(name, { slot: row.slot, due: row.due });
  }
  return oldest;
}

/**
 * Queues the events again, those of an object in their order, and before later ones of it that wait. The event is queued before its letter
 * is removed: a kill between the two leaves both, and loses none.
 * @param rest of `openTurns`
 */
export async function redriveLetters(
  ctx: Ctx,
  filter: LetterFilter,
  rest: () => Promise<void>,
): Promise<Changed> {
  const now = await ctx.metadata.now();
  const waiting = await listWaiting(ctx, now, filter.target);
  const change = async (row: QueueRow): Promise<void> => {
    const { error: _error, since: _since, bucket: _bucket, ...task } = letterTask(row);
    const { sink, message } = task;
    const subject = readSubject(message);
    const { bucket, key } = subject;
    // Right ahead of the event that it goes before, where the consumer finds rows: an old hour that it found empty is not read for a while.
    // That event may be the same one, whose row the consumer removes by its time and id when it has written the letter. Rows of one
    // millisecond sort by their ids, which begin with the sequencer.
    const before = waiting.get(formatSubject(sink, subject));
    const slot = before?.slot ?? laneSlot(sink, key ?? bucket);
    const due = before === undefined ? now : before.due - 1;
    const { id, requestId } = row;
    const at = { queue: 'notify', slot } as const;
    await ctx.metadata.apply([await queuedByHour(ctx, at, { task, id, due, requestId })]);
    await ctx.metadata.apply(removeDeadLetter(row));
  };
  return changeLetters(ctx, filter, { change, rest });
}

export const discardLetters = (ctx: Ctx, filter: LetterFilter, rest: () => Promise<void>): Promise<Changed> =>
  changeLetters(ctx, filter, { change: (row) => ctx.metadata.apply(removeDeadLetter(row)), rest });

// How many events wait for each target, and since when.

/** Rows that are counted of one target; more are shown as this number. */
const countedMax = 10_000;

interface TargetBacklog {
  queued: number;
  /** Store time. */
  oldest: number | undefined;
  deadLetters: number;
}

export async function countBacklogs(
  ctx: Ctx,
  targets: readonly string[],
): Promise<ReadonlyMap<string, TargetBacklog>> {
  const counts = new Map(
    targets.map((id): [string, TargetBacklog] => [id, { queued: 0, oldest: undefined, deadLetters: 0 }]),
  );
  const lanes = Map.groupBy(targets, hashToLane);
  const now = await ctx.metadata.now();
  for await (const place of scanHours(ctx.metadata, 'notify')) {
    const isCounted = (id: string): boolean => (counts.get(id)?.queued ?? 0) >= countedMax;
    const here = lanes.get(laneOfSlot(place.slot)) ?? [];
    if (here.every(isCounted)) continue;
    for await (const { task, due } of dueRowsOfHour(ctx, place, { now, max: countedMax })) {
      const count = counts.get(notifyTask({ task }).sink);
      if (count === undefined) continue;
      count.queued = Math.min(count.queued + 1, countedMax);
      count.oldest = Math.min(count.oldest ?? due, due);
    }
  }
  await inParallel(4, [...counts], async ([id, count]) => {
    count.deadLetters = await countDeadLetters(ctx.metadata, id, countedMax);
  });
  return counts;
}
