/**
 * Keeps the hourly queues within their bounds (`SVC_QUEUE_RETENTION`, `SVC_QUEUE_ROWS_MAX`), whether or not a consumer works
 * them off, and measures them. The oldest hours go first, each as one deletion; what goes is counted and logged before.
 */
import type { Context } from '../context.ts';
import {
  clearHour,
  countHour,
  type HourlyQueue,
  hourlyQueueNames,
  hourMs,
  hourOf,
  hoursOf,
  rememberCount,
} from '../metadata/hourly-queues.ts';
import type { QueueHour } from '../metadata/queue-tables.ts';
import type { QueueBacklog } from '../ports/telemetry.ts';

type Ctx = Pick<Context, 'metadata' | 'config' | 'telemetry'>;

/** Rows may still come to this hour and the one before: they are counted anew each time, and never dropped. */
const openHours = 2;
/** So far an open hour of one slot is counted; a larger one is shown as this number. */
const openRowsMax = 10_000;
/** Counted at most of an hour of one slot that is over. */
const closedRowsMax = 10_000_000;

interface Counted extends QueueHour {
  readonly rows: number;
}

/** One look at every queue. */
export async function boundQueues(ctx: Ctx, signal: AbortSignal): Promise<readonly QueueBacklog[]> {
  const backlogs: QueueBacklog[] = [];
  for (const queue of hourlyQueueNames) backlogs.push(await boundQueue(ctx, queue, signal));
  return backlogs;
}

async function boundQueue(ctx: Ctx, queue: HourlyQueue, signal: AbortSignal): Promise<QueueBacklog> {
  const { metadata, config } = ctx;
  const now = await metadata.now();
  const firstOpen = hourOf(now) - openHours + 1;
  const firstKept = hourOf(now - config.SVC_QUEUE_RETENTION);
  const kept: Counted[] = [];
  const expired: QueueHour[] = [];
  let oldest: number | undefined;
  for await (const hour of hoursOf(metadata, queue)) {
    signal.throwIfAborted();
    if (hour.hour < firstKept && hour.hour < firstOpen) expired.push(hour);
    else {
      const counted = await count(ctx, hour, { isOpen: hour.hour >= firstOpen, signal });
      if (counted.rows > 0) oldest ??= counted.oldest;
      kept.push(counted);
    }
  }
  await drop(ctx, { queue, hours: expired, why: 'age', signal });
  const surplus = surplusOf(kept, { max: config.SVC_QUEUE_ROWS_MAX, firstOpen });
  await drop(ctx, { queue, hours: surplus, why: 'rows', signal });
  const left = kept.slice(surplus.length);
  const first = surplus.length === 0 ? oldest : firstOf(left);
  return {
    queue,
    rows: sumOf(left),
    oldestSeconds: first === undefined ? 0 : Math.max(0, now - first) / 1000,
  };
}

const sumOf = (hours: readonly Counted[]): number => hours.reduce((sum, { rows }) => sum + rows, 0);
const firstOf = (hours: readonly Counted[]): number | undefined => {
  const first = hours.find(({ rows }) => rows > 0);
  return first && first.hour * hourMs;
};

async function count(
  { metadata }: Ctx,
  hour: QueueHour,
  { isOpen, signal }: { readonly isOpen: boolean; readonly signal: AbortSignal },
): Promise<Counted & { readonly oldest: number | undefined }> {
  if (!isOpen && hour.rows !== undefined) return { ...hour, rows: hour.rows, oldest: hour.hour * hourMs };
  const found = await countHour(metadata, hour, { max: isOpen ? openRowsMax : closedRowsMax, signal });
  if (!isOpen) await rememberCount(metadata, hour, found.rows);
  return { ...hour, ...found };
}

/** The oldest hours, as many as it takes to hold `max` rows; those that are open stay. */
function surplusOf(
  hours: readonly Counted[],
  { max, firstOpen }: { readonly max: number; readonly firstOpen: number },
): readonly Counted[] {
  let rows = sumOf(hours);
  let count = 0;
  for (const hour of hours) {
    if (rows <= max || hour.hour >= firstOpen) break;
    rows -= hour.rows;
    count += 1;
  }
  return hours.slice(0, count);
}

async function drop(
  { metadata, telemetry }: Ctx,
  {
    queue,
    hours,
    why,
    signal,
  }: {
    readonly queue: HourlyQueue;
    readonly hours: readonly QueueHour[];
    readonly why: 'age' | 'rows';
    readonly signal: AbortSignal;
  },
): Promise<void> {
  let dropped = 0;
  try {
    for (const hour of hours) {
      // Counted once more: a slow writer may have come after the first count.
      const { rows } = await countHour(metadata, hour, { max: closedRowsMax, signal });
      await clearHour(metadata, hour);
      dropped += rows;
    }
  } finally {
    if (dropped > 0) {
      telemetry.queueDropped(queue, why, dropped);
      const until = new Date(((hours.at(-1)?.hour ?? 0) + 1) * hourMs).toISOString();
      telemetry.log('WARN', 'queued tasks were dropped', { queue, why, rows: dropped, until });
    }
  }
}
