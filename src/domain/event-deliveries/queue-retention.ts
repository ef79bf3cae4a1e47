/**
 * Keeps the hourly queues within their bounds (`SVC_QUEUE_RETENTION`, `SVC_QUEUE_ROWS_MAX`), with or without a consumer, and
 * measures them. The oldest hours are deleted first, each with one deletion; the rows are counted and logged before. A
 * queue beyond its rows that has several accounts loses rows of the accounts with the most.
 *
 * Deleting an hour takes two passes: the first one closes it, so that processes with slow clocks add no more rows, and a
 * pass at least `placementsEndMs` later deletes it. Such a process adds its rows to an hour that is kept.
 */
import { inParallel } from '../../base/concurrency.ts';
import { Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { finishHourlyRows } from '../../metadata/background/hourly-consumer.ts';
import {
  type ClosedHours,
  clearHour,
  closeHours,
  countHour,
  type HourlyQueue,
  hashToLane,
  hourlyQueueNames,
  hourMs,
  laneOfSlot,
  placementsEndMs,
  queueHour,
  rememberCount,
  rowsOfHour,
  scanHours,
} from '../../metadata/background/hourly-queues.ts';
import { allRows, countQueue, queueSlots, removeDeadLetter } from '../../metadata/background/queues.ts';
import { removeFailedReplication } from '../../metadata/background/replication.ts';
import type { QueueBacklog } from '../../metadata/records/processes.ts';
import type { HourlyRow, QueueHour } from '../../metadata/records/queues.ts';
import { soundPages } from '../../metadata/sound-rows.ts';
import { type Cursor, commitLimits, type Stored } from '../../ports/metadata-store.ts';
import { passOverDamage } from '../common/damaged-buckets.ts';
import { replicationTask } from '../configurations/replication-destination.ts';
import { storeFailed } from '../replication/store-status.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'config' | 'telemetry' | 'clock' | 'random'>;

/** This hour and the one before may still get rows: they are counted again in each pass, and never deleted. */
const openHours = 2;
/** The largest count of one slot of an open hour; a larger one is reported as this number. */
const openRowsMax = 10_000;
/** The accounts that the log names. */
const namedMax = 10;
/** The largest count of one slot of a past hour. */
const closedRowsMax = 10_000_000;

/** The events that wait for a target. */
interface TargetBacklog {
  readonly target: string;
  readonly rows: number;
  /** The waiting time of the oldest row. */
  readonly oldestSeconds: number;
}

interface Counted extends QueueHour {
  readonly rows: number;
}
interface Measured extends Counted {
  /** When the oldest row was due. */
  readonly oldest: number | undefined;
}

/** What a leader remembers between passes, by its monotonic clock. */
interface Saved {
  /** By queue: the closed hours, and the latest time at which they were closed. */
  readonly closed: Map<HourlyQueue, ClosedHours & { readonly since: number }>;
  /** By queue and hour: when a stored count was first read, and whether it was checked again since. */
  readonly counts: Map<string, { readonly since: number; readonly isChecked: boolean }>;
  /** When the tasks that were given up are counted again. */
  abandonedCountAt: number;
}
export const beginBounds = (): Saved => ({
  closed: new Map(),
  counts: new Map(),
  abandonedCountAt: Number.NEGATIVE_INFINITY,
});

/** One pass over every queue. */
export async function boundQueues(
  ctx: Ctx,
  saved: Saved,
  signal: AbortSignal,
): Promise<{ readonly queues: readonly QueueBacklog[]; readonly targets: readonly TargetBacklog[] }> {
  const queues: QueueBacklog[] = [];
  let targets: readonly TargetBacklog[] = [];
  for (const queue of hourlyQueueNames) {
    const { backlog, left, now } = await boundQueue(ctx, queue, { saved, signal });
    queues.push(backlog);
    if (queue === 'notify') targets = backlogsByTarget(ctx, left, now);
  }
  await boundAbandoned(ctx, saved, signal);
  return { queues, targets };
}

/** Two targets that share a lane have the backlog of both. */
function backlogsByTarget({ config }: Ctx, left: readonly Measured[], now: number): readonly TargetBacklog[] {
  const lanes = Map.groupBy(
    left.filter(({ rows }) => rows > 0),
    ({ slot }) => laneOfSlot(slot),
  );
  return config.SVC_NOTIFY_TARGETS.map(({ id }) => {
    const hours = lanes.get(hashToLane(id)) ?? [];
    const oldest = hours.reduce((least, hour) => Math.min(least, hour.oldest ?? now), now);
    return { target: id, rows: sumHours(hours), oldestSeconds: Math.max(0, now - oldest) / 1000 };
  });
}

interface Step {
  readonly saved: Saved;
  readonly signal: AbortSignal;
}

async function boundQueue(
  ctx: Ctx,
  queue: HourlyQueue,
  step: Step,
): Promise<{ readonly backlog: QueueBacklog; readonly left: readonly Measured[]; readonly now: number }> {
  const { saved, signal } = step;
  const { metadata, config } = ctx;
  const now = await metadata.now();
  const firstOpen = queueHour(now) - openHours + 1;
  const firstRetained = queueHour(now - config.SVC_QUEUE_RETENTION);
  const retained: Measured[] = [];
  const expired: Measured[] = [];
  for await (const hour of scanHours(metadata, queue)) {
    signal.throwIfAborted();
    const isExpired = hour.hour < firstRetained && hour.hour < firstOpen;
    const counted = await count(ctx, hour, { ...step, isOpen: hour.hour >= firstOpen });
    if (isExpired) expired.push(counted);
    else retained.push(counted);
  }
  forgetCounts(saved, queue, [...expired, ...retained]);
  const trimmed = await trimShared(ctx, { queue, retained, firstOpen, signal });
  const max = config.SVC_QUEUE_ROWS_MAX;
  const surplus = trimmed === undefined ? chooseSurplus(retained, { max, firstOpen }) : [];
  const below = [...expired, ...surplus].reduce((most, { hour }) => Math.max(most, hour + 1), 0);
  const deletable = await closeBelow(ctx, queue, { saved, below, open: queueHour(now) });
  const isDeletable = ({ hour }: QueueHour): boolean => hour < deletable;
  const overdue = await drop(ctx, { queue, hours: expired.filter(isDeletable), why: 'age', signal });
  const dropped = surplus.filter(isDeletable);
  const postponed = await drop(ctx, { queue, hours: dropped, why: 'rows', signal });
  const waiting = expired.filter((hour) => !isDeletable(hour));
  const left = [...overdue, ...waiting, ...postponed, ...(trimmed ?? retained.slice(dropped.length))];
  const first = left.find(({ rows }) => rows > 0)?.oldest;
  const oldestSeconds = first === undefined ? 0 : Math.max(0, now - first) / 1000;
  return { backlog: { queue, rows: sumHours(left), oldestSeconds }, left, now };
}

interface Retained {
  readonly queue: HourlyQueue;
  readonly retained: readonly Measured[];
  readonly firstOpen: number;
  readonly signal: AbortSignal;
}

/**
 * Where a queue that is beyond its rows has those of several accounts, each loses what it has more than its share, and no hour is dropped.
 * Rows are removed by name, so no hour has to be closed before.
 * @returns the hours with the rows that are left; undefined where the queue has the rows of one account
 */
async function trimShared(
  ctx: Ctx,
  { queue, retained, firstOpen, signal }: Retained,
): Promise<readonly Measured[] | undefined> {
  const { metadata, config, telemetry } = ctx;
  const max = config.SVC_QUEUE_ROWS_MAX;
  const closed = retained.filter(({ hour }) => hour < firstOpen);
  if (sumHours(retained) <= max || sumHours(closed) === 0) return undefined;
  const { accounts, open } = await countAccounts(ctx, { hours: retained, firstOpen, signal });
  if (accounts.size <= 1) return undefined;
  const closedBuckets = new Set<string>();
  const mayDrop = async (rows: readonly HourlyRow[]): Promise<readonly HourlyRow[]> =>
    queue === 'replication' ? failRows(ctx, rows, { closedBuckets, signal }) : rows;
  const { rows, left, ...trimmed } = await trimAccounts(ctx, {
    hours: closed,
    accounts,
    share: fairShare(accounts, max, open),
    mayDrop,
    signal,
  });
  if (rows > 0) {
    telemetry.count('svc_queue_dropped_total', { queue, why: 'rows' }, rows);
    const fields = { queue, why: 'rows', rows, accounts: trimmed.accounts.slice(0, namedMax) };
    telemetry.log('WARN', 'queued tasks were dropped', fields);
  }
  const counted = closed.map((hour, index) => ({ ...hour, rows: left[index] ?? 0 }));
  for (const [index, hour] of counted.entries())
    if (hour.rows !== closed[index]?.rows) await rememberCount(metadata, hour, hour.rows);
  return [...counted, ...retained.slice(closed.length)];
}

const sumHours = (hours: readonly Counted[]): number => hours.reduce((sum, { rows }) => sum + rows, 0);

/** Closes hours, one step at a time. @returns the hour before which hours may now be deleted */
async function closeBelow(
  { metadata, clock }: Ctx,
  queue: HourlyQueue,
  { saved, below, open }: ClosedHours & { readonly saved: Saved },
): Promise<number> {
  const closed = saved.closed.get(queue) ?? { below: 0, open: 0, since: Number.NEGATIVE_INFINITY };
  const isOver = clock.elapsed() - closed.since >= placementsEndMs;
  const isFurther = isOver && below > closed.below;
  if (isFurther || open > closed.open) {
    const next = { below: isFurther ? below : closed.below, open };
    await closeHours(metadata, queue, next);
    saved.closed.set(queue, { ...next, since: isFurther ? clock.elapsed() : closed.since });
  }
  return isOver ? closed.below : 0;
}

async function count(
  ctx: Ctx,
  hour: QueueHour,
  { isOpen, saved, signal }: Step & { readonly isOpen: boolean },
): Promise<Measured> {
  const { metadata } = ctx;
  if (!isOpen && hour.rows !== undefined && !mustCheck(ctx, hour, saved))
    return recall(ctx, { ...hour, rows: hour.rows }, signal);
  const found = await countHour(metadata, hour, { max: isOpen ? openRowsMax : closedRowsMax, signal });
  if (isOpen) return { ...hour, ...found };
  await rememberCount(metadata, hour, found.rows);
  // A count that an announcement removed is treated like a missing first count.
  if (hour.rows === undefined)
    saved.counts.set(formatHour(hour), { since: ctx.clock.elapsed(), isChecked: false });
  return { ...hour, ...found };
}

/** The stored count, which becomes 0 when a consumer has finished all rows of the hour. */
async function recall({ metadata }: Ctx, hour: Counted, signal: AbortSignal): Promise<Measured> {
  if (hour.rows === 0) return { ...hour, oldest: undefined };
  const { oldest } = await countHour(metadata, hour, { max: 1, signal });
  if (oldest !== undefined) return { ...hour, oldest };
  await rememberCount(metadata, hour, 0);
  return { ...hour, rows: 0, oldest: undefined };
}

/**
 * A process that announced an hour shortly before it was counted may add rows afterwards, so the stored count is verified
 * once after that time. A process that adds rows later announces the hour again, which removes the count.
 */
function mustCheck({ clock }: Ctx, hour: QueueHour, { counts }: Saved): boolean {
  const name = formatHour(hour);
  const met = counts.get(name);
  const now = clock.elapsed();
  if (met === undefined) counts.set(name, { since: now, isChecked: false });
  if (met === undefined || met.isChecked || now - met.since < placementsEndMs) return false;
  counts.set(name, { ...met, isChecked: true });
  return true;
}

const formatHour = ({ queue, hour, slot }: QueueHour): string => `${queue} ${hour} ${slot}`;

/** Forgets the counts of deleted hours. */
function forgetCounts({ counts }: Saved, queue: HourlyQueue, hours: readonly QueueHour[]): void {
  const counted = new Set(hours.map(formatHour));
  for (const name of counts.keys())
    if (name.startsWith(`${queue} `) && !counted.has(name)) counts.delete(name);
}

/** The oldest hours whose removal brings the queue down to `max` rows; open hours stay. */
function chooseSurplus(
  hours: readonly Measured[],
  { max, firstOpen }: { readonly max: number; readonly firstOpen: number },
): readonly Measured[] {
  let rows = sumHours(hours);
  let count = 0;
  for (const hour of hours) {
    if (rows <= max || hour.hour >= firstOpen) break;
    rows -= hour.rows;
    count += 1;
  }
  return hours.slice(0, count);
}

/**
 * Versions whose tasks are dropped no longer wait: their status says so, and lifecycle rules need not leave them alone.
 * @returns the number of rows that a later pass drops; the others of the hour were removed where there are such
 */
async function failVersions(ctx: Ctx, hour: QueueHour, { closedBuckets, signal }: Failing): Promise<number> {
  const cursor = rowsOfHour(ctx.metadata, hour);
  let left = 0;
  for await (const page of soundPages(cursor, pageRows)) {
    const rows = page.map(({ row }) => row);
    const failed = await failRows(ctx, rows, { closedBuckets, signal });
    left += rows.length - failed.length;
    // A later pass over rows that stay would store these failures, and send their events, again.
    await finishHourlyRows(ctx.metadata, failed);
  }
  return left;
}

interface Failing {
  /** Ids of buckets that refused a commit in this pass: their rows wait, because each attempt takes a second. */
  readonly closedBuckets: Set<string>;
  readonly signal: AbortSignal;
}

/** @returns the rows whose failures are stored. Others of a bucket that a change holds closed wait for a later pass, and delay no others. */
async function failRows(
  ctx: Ctx,
  rows: readonly HourlyRow[],
  { closedBuckets, signal }: Failing,
): Promise<readonly HourlyRow[]> {
  const failed = await inParallel(16, rows, async (row): Promise<readonly HourlyRow[]> => {
    signal.throwIfAborted();
    const { bucket, bucketId } = replicationTask(row);
    if (closedBuckets.has(bucketId)) return [];
    try {
      await passOverDamage(ctx, {
        bucket,
        left: 'a version that is dropped from the queue keeps its replication status',
        run: () => storeFailed(ctx, row, { why: 'dropped', isDropped: true }),
      });
      return [row];
    } catch (cause) {
      if (!(cause instanceof Refusal) || cause.code !== 'OperationAborted') throw cause;
      closedBuckets.add(bucketId);
      return [];
    }
  });
  return failed.flat();
}

/** @returns the hours that have rows left, which a later pass drops */
async function drop(
  ctx: Ctx,
  {
    queue,
    hours,
    why,
    signal,
  }: {
    readonly queue: HourlyQueue;
    readonly hours: readonly Measured[];
    readonly why: 'age' | 'rows';
    readonly signal: AbortSignal;
  },
): Promise<readonly Measured[]> {
  const { metadata, telemetry } = ctx;
  const closedBuckets = new Set<string>();
  const postponed: Measured[] = [];
  let dropped = 0;
  try {
    for (const hour of hours) {
      // Count again: a slow writer may have added rows after the first count.
      const { rows } = await countHour(metadata, hour, { max: closedRowsMax, signal });
      const left = queue === 'replication' ? await failVersions(ctx, hour, { closedBuckets, signal }) : 0;
      dropped += Math.max(0, rows - left);
      if (left === 0) await clearHour(metadata, hour);
      else {
        await rememberCount(metadata, hour, left);
        postponed.push({ ...hour, rows: left });
      }
    }
  } finally {
    if (dropped > 0) {
      telemetry.count('svc_queue_dropped_total', { queue, why }, dropped);
      const until = new Date(((hours.at(-1)?.hour ?? 0) + 1) * hourMs).toISOString();
      telemetry.log('WARN', 'queued tasks were dropped', { queue, why, rows: dropped, until });
    }
  }
  return postponed;
}

// Shares a queue that is beyond `SVC_QUEUE_ROWS_MAX` among the accounts of its rows: no account loses a row before the accounts with more
// rows have lost theirs down to the same number. So the queue drops tasks of the account that fills it, and keeps those of all other
// accounts. Rows of the last two hours are never dropped, so an account that fills these makes the queue exceed its limit for two hours.

type SharesCtx = Pick<Context, 'metadata' | 'clock'>;

const pageRows = 200;
/** The rows of further accounts are counted together, with those of older builds, which name no account. */
const accountsMax = 10_000;

type RowsByAccount = ReadonlyMap<string, number>;

interface Task {
  readonly task: unknown;
}

const taskAccount = ({ task }: Task): string => (task as { readonly account?: string }).account ?? '';

const nameIn = (accounts: RowsByAccount, account: string): string =>
  accounts.has(account) || accounts.size < accountsMax ? account : '';

/**
 * Counts the rows of the hours by account, and those of open hours among them. It reads every row: call it for a queue that is beyond its
 * limit.
 */
async function countAccounts(
  { metadata }: SharesCtx,
  {
    hours,
    firstOpen,
    signal,
  }: { readonly hours: readonly QueueHour[]; readonly firstOpen: number; readonly signal: AbortSignal },
): Promise<{ readonly accounts: RowsByAccount; readonly open: RowsByAccount }> {
  const accounts = new Map<string, number>();
  const open = new Map<string, number>();
  for (const hour of hours) {
    const part = hour.hour >= firstOpen ? open : undefined;
    await addByAccount(rowsOfHour(metadata, hour), { accounts, part, signal });
  }
  return { accounts, open };
}

/** Adds the rows of a cursor to the counts of all accounts, and to those of a part of the queue. */
async function addByAccount<T, Row extends Task>(
  cursor: Cursor<T, Row>,
  {
    accounts,
    part,
    signal,
  }: {
    readonly accounts: Map<string, number>;
    readonly part: Map<string, number> | undefined;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  for await (const page of soundPages(cursor, pageRows)) {
    signal.throwIfAborted();
    for (const { row } of page) {
      const name = nameIn(accounts, taskAccount(row));
      accounts.set(name, (accounts.get(name) ?? 0) + 1);
      part?.set(name, (part.get(name) ?? 0) + 1);
    }
  }
}

/**
 * The rows of a page that their accounts lose.
 * @param surplus the rows that each account loses, from which these are subtracted
 */
function takeSurplus<Row extends Task>(
  page: readonly Stored<Row>[],
  { accounts, surplus }: { readonly accounts: RowsByAccount; readonly surplus: Map<string, number> },
): readonly Row[] {
  const rows: Row[] = [];
  for (const { row } of page) {
    const name = nameIn(accounts, taskAccount(row));
    const left = surplus.get(name) ?? 0;
    if (left <= 0) continue;
    surplus.set(name, left - 1);
    rows.push(row);
  }
  return rows;
}

/**
 * The number of rows above which an account loses rows; Infinity where all of them fit. An account whose rows of open
 * hours reach that number can be trimmed no further, and others do not lose rows for it: the queue exceeds `max` by its
 * rows until their hours are over.
 * @param open the rows of each account that stay
 */
export function fairShare(accounts: RowsByAccount, max: number, open: RowsByAccount = new Map()): number {
  const fits = (share: number): boolean => {
    let rows = 0;
    for (const [name, count] of accounts) if ((open.get(name) ?? 0) < share) rows += Math.min(count, share);
    return rows <= max;
  };
  if (fits(Number.POSITIVE_INFINITY)) return Number.POSITIVE_INFINITY;
  // A smaller share never leaves more rows: the largest one that fits is found by bisection.
  let least = 0;
  let above = [...accounts.values()].reduce((most, count) => Math.max(most, count), 0) + 1;
  while (above - least > 1) {
    const middle = Math.floor((least + above) / 2);
    if (fits(middle)) least = middle;
    else above = middle;
  }
  return least;
}

interface Trimmed {
  readonly rows: number;
  readonly accounts: readonly string[];
  /** The rows that are left, by the hours that were passed, in their order. */
  readonly left: readonly number[];
}

/**
 * Removes the oldest rows of the accounts that have more than their share.
 * @param hours those that may lose rows, the oldest first
 * @param mayDrop returns those of the rows that may be removed now
 */
async function trimAccounts(
  { metadata, clock }: SharesCtx,
  {
    hours,
    accounts,
    share,
    mayDrop,
    signal,
  }: {
    readonly hours: readonly QueueHour[];
    readonly accounts: RowsByAccount;
    readonly share: number;
    mayDrop(rows: readonly HourlyRow[]): Promise<readonly HourlyRow[]>;
    readonly signal: AbortSignal;
  },
): Promise<Trimmed> {
  const surplus = new Map([...accounts].map(([name, count]) => [name, Math.max(0, count - share)]));
  const trimmed = new Set<string>();
  const left: number[] = [];
  let removed = 0;
  for (const hour of hours) {
    let retained = 0;
    for await (const page of soundPages(rowsOfHour(metadata, hour), pageRows)) {
      signal.throwIfAborted();
      const rows = await mayDrop(takeSurplus(page, { accounts, surplus }));
      for (const row of rows) trimmed.add(nameIn(accounts, taskAccount(row)));
      await finishHourlyRows(metadata, rows);
      removed += rows.length;
      retained += page.length - rows.length;
      // Millions of rows may go: requests are not to wait for them.
      await clock.sleep(0, signal);
    }
    left.push(retained);
  }
  return { rows: removed, accounts: [...trimmed], left };
}

// No worker delivers the tasks that were given up. The same limit holds for them, shared among their accounts, and the
// worker counts them once an hour.

const removals = { 'notify-dlq': removeDeadLetter, 'replication-failed': removeFailedReplication } as const;
type AbandonedQueue = keyof typeof removals;

async function boundAbandoned(ctx: Ctx, saved: Saved, signal: AbortSignal): Promise<void> {
  if (ctx.clock.elapsed() < saved.abandonedCountAt) return;
  for (const queue of ['notify-dlq', 'replication-failed'] as const) await trimAbandoned(ctx, queue, signal);
  saved.abandonedCountAt = ctx.clock.elapsed() + hourMs;
}

async function trimAbandoned(ctx: Ctx, queue: AbandonedQueue, signal: AbortSignal): Promise<void> {
  const { metadata, config, telemetry, clock } = ctx;
  const max = config.SVC_QUEUE_ROWS_MAX;
  if ((await countQueue(metadata, queue, { max: max + 1, signal })) <= max) return;
  const accounts = new Map<string, number>();
  const bySlot: Map<string, number>[] = [];
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const part = new Map<string, number>();
    bySlot.push(part);
    await addByAccount(allRows(metadata, queue, slot), { accounts, part, signal });
  }
  const share = fairShare(accounts, max);
  let removed = 0;
  for (const [slot, ofSlot] of bySlot.entries()) {
    // Each slot loses its part of what the account has too much, the oldest rows first.
    const surplus = new Map(
      [...ofSlot].map(([name, rows]) => {
        const all = accounts.get(name) ?? rows;
        return [name, Math.ceil((rows * Math.max(0, all - share)) / all)];
      }),
    );
    for await (const page of soundPages(allRows(metadata, queue, slot), pageRows)) {
      signal.throwIfAborted();
      const rows = takeSurplus(page, { accounts, surplus });
      const changes = rows.flatMap(removals[queue]);
      for (let n = 0; n < changes.length; n += commitLimits.changes)
        await metadata.apply(changes.slice(n, n + commitLimits.changes));
      removed += rows.length;
      await clock.sleep(0, signal);
    }
  }
  // Rows may have been removed between the two counts.
  if (removed === 0) return;
  telemetry.count('svc_queue_dropped_total', { queue, why: 'rows' }, removed);
  telemetry.log('WARN', 'tasks that were given up were dropped', { queue, why: 'rows', rows: removed });
}
