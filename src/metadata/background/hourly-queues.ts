/**
 * Queues that grow as fast as requests arrive: `notify` delivers events, `replication` copies, `access-log` writes logs. They are
 * partitioned by the hour in which a row is due, so that an hour that is finished, or exceeds its age limit, is removed by one
 * deletion. `queueHours` lists the hours.
 */

import { BoundedCache, type Caches } from '../../base/bounded-cache.ts';
import { hashToShard } from '../../base/shard.ts';
import type { Clock } from '../../ports/clock.ts';
import {
  type At,
  commitLimits,
  MetadataDamaged,
  type MetadataStore,
  RowTooLong,
  rowBytes,
  type SideChange,
  StoreUnavailable,
} from '../../ports/metadata-store.ts';
import type { Cause } from '../../ports/trace.ts';
import { type HourlyRow, hourlyQueues, type QueueHour, queueHours } from '../records/queues.ts';
import { countRows, soundPages } from '../sound-rows.ts';
import { failureBytes, type QueuedOptions, queueSlot, queueSlots } from './queues.ts';
import { findSoundTask, findTask, putTask, type TaskKind } from './tasks.ts';

export const hourlyQueueNames = ['notify', 'replication', 'access-log'] as const;
export type HourlyQueue = (typeof hourlyQueueNames)[number];

export const hourMs = 60 * 60 * 1000;
export const queueHour = (time: number): number => Math.floor(time / hourMs);

/** The partition of an hour in one slot. */
export const hourAt = ({
  queue,
  slot,
  hour,
}: Pick<QueueHour, 'queue' | 'slot' | 'hour'>): At<typeof hourlyQueues> => ({
  table: hourlyQueues,
  in: { queue, slot, hour },
});
const hoursAt = (queue: string): At<typeof queueHours> => ({ table: queueHours, in: { queue } });

type Metadata = Pick<MetadataStore, 'apply' | 'scan' | 'clear'>;
type Placing = Pick<MetadataStore, 'apply' | 'get' | 'now'>;

/**
 * How long a process caches that an hour is announced, and which hours are closed. Measured by its own monotonic clock, so that a
 * slow wall clock has no effect.
 */
export const placedMaxMs = 60_000;
/** After this time no process uses a cached announcement any more: the cache lasts a minute, and a commit may stall for nine. */
export const placementsEndMs = 10 * 60_000;

/** The hours before `below` are closed: a row that is due in one of them goes into the hour `open`. */
export interface ClosedHours {
  readonly below: number;
  /** The present hour by the clock of the leader, within an hour. */
  readonly open: number;
}
const closedHours: TaskKind<ClosedHours> = { kind: 'queue-hours' };
/** Attempts against leaders that close hours concurrently. */
const closingsMax = 8;

/** What this process knows about the hours, and how long that is valid. */
class KnownHours {
  readonly announced = new BoundedCache<number>({ name: 'queue-hours', entriesMax: 1_024 });
  readonly closed = new Map<HourlyQueue, ClosedHours & { readonly until: number }>();
}

/** When this process last found an hour empty, by its monotonic clock; so an old, empty hour is not read in each pass. */
export class EmptyHours {
  readonly since = new BoundedCache<number>({ name: 'empty-queue-hours', entriesMax: 65_536 });
}
export const formatPlace = ({ queue, hour, slot }: Pick<QueueHour, 'queue' | 'slot' | 'hour'>): string =>
  `${queue} ${hour} ${slot}`;

export interface QueueCtx {
  readonly caches: Caches;
  readonly metadata: Placing;
  readonly clock: Pick<Clock, 'elapsed'>;
  /** The request that queues a task. */
  readonly trace?: Cause;
}

/**
 * Ranges of slots for the targets of events: the rows of a target that does not answer are in partitions of their own, so readers of the
 * other targets do not pass over them. Two targets may share a lane.
 */
const lanes = 65_536;
export const hashToLane = (target: string): number => hashToShard(target, lanes);
/** The slot of a key in the lane of a target. */
export const laneSlot = (target: string, key: string): number =>
  hashToLane(target) * queueSlots + queueSlot(key);

/**
 * Beside its lane a target has a waiting lane for each shard of its tenants, into which the consumer moves rows that
 * shall not stand in the way of others. The highest slot still fits into 31 bits.
 */
const waitingShards = 2_047;
const laneSlots = lanes * queueSlots;
/** The slot of the waiting lane of a tenant that belongs to a slot of the target's lane. */
export const waitingSlot = (slot: number, tenant: string): number =>
  (1 + hashToShard(tenant, waitingShards)) * laneSlots + (slot % laneSlots);
export const isWaitingSlot = (slot: number): boolean => slot >= laneSlots;
/** One number for each lane, those of waiting rows included. */
export const anyLaneOfSlot = (slot: number): number => Math.floor(slot / queueSlots);
/** The lane of the target that a lane, or a waiting lane, belongs to. */
export const targetLane = (lane: number): number => lane % lanes;
export const laneOfSlot = (slot: number): number => targetLane(anyLaneOfSlot(slot));

type Within = { readonly queue: HourlyQueue } & ({ readonly slotKey: string } | { readonly slot: number });
type HourlyOptions = QueuedOptions & { readonly task: unknown };

/**
 * Makes the row of a task in its hour. It announces the hour first, by a write of its own: an announced hour may have no rows, but every
 * row is in an announced hour. A row never goes into a closed hour, because the leader deletes closed hours whole.
 */
export async function placeRow(
  { caches, metadata, clock, trace }: QueueCtx,
  { queue, ...within }: Within,
  { task, id, due, requestId, attempts = 0, traceparent = trace?.traceparent }: HourlyOptions,
): Promise<HourlyRow> {
  const { announced, closed } = caches.of(KnownHours);
  const now = clock.elapsed();
  const until = now + placedMaxMs;
  let known = closed.get(queue);
  if (known === undefined || known.until <= now) {
    known = { ...(await listClosedHours(metadata, queue)), until };
    closed.set(queue, known);
  }
  const hour = queueHour(due) < known.below ? known.open : queueHour(due);
  const slot = 'slot' in within ? within.slot : queueSlot(within.slotKey);
  const place = { queue, slot, hour };
  const name = formatPlace(place);
  caches.of(EmptyHours).since.delete(name);
  if ((announced.get(name) ?? 0) <= now) {
    // Without a count, because the leader's stored count is wrong from now on.
    await metadata.apply([{ at: hoursAt(queue), put: place }]);
    announced.set(name, until);
  }
  const cause = traceparent === undefined ? {} : { traceparent };
  return { ...place, due, id, task, attempts, requestId, ...cause };
}

export const putHourlyRow = (row: HourlyRow): SideChange => ({ at: hourAt(row), put: row });

/** The side change that queues a task in the commit that requires it. */
export const queuedByHour = async (ctx: QueueCtx, at: Within, options: HourlyOptions): Promise<SideChange> =>
  putHourlyRow(await placeRow(ctx, at, options));

/**
 * As `queuedByHour`, for a new task whose failure is stored if it cannot be carried out.
 * @throws RowTooLong where its failure would not fit into a row
 */
export async function queuedTask(
  ctx: QueueCtx,
  at: { readonly queue: HourlyQueue; readonly slot: number },
  options: HourlyOptions,
): Promise<SideChange> {
  const row = await placeRow(ctx, at, options);
  const bytes = rowBytes(row);
  const bytesMax = commitLimits.rowBytes - failureBytes;
  if (bytes > bytesMax)
    throw new RowTooLong(
      `a task of the queue ${at.queue} may take ${bytesMax} bytes; this one takes ${bytes}`,
    );
  return putHourlyRow(row);
}

const noneClosed: ClosedHours = { below: 0, open: 0 };

/** Where the row is damaged, all hours before the present one count as closed, because a row in a closed hour would be deleted. */
async function listClosedHours(
  metadata: Pick<MetadataStore, 'get' | 'now'>,
  queue: HourlyQueue,
): Promise<ClosedHours> {
  try {
    return (await findTask(metadata, closedHours, queue))?.state ?? noneClosed;
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged)) throw cause;
    const present = queueHour(await metadata.now());
    return { below: present, open: present };
  }
}

/**
 * Closes the hours before `below` permanently; hours that another leader closed stay closed. Other processes learn of it within
 * `placedMaxMs`; from `placementsEndMs` after it returned, these hours get no more rows and `clearHour` may delete them.
 */
export async function closeHours(
  metadata: Pick<MetadataStore, 'get' | 'commit'>,
  queue: HourlyQueue,
  { below, open }: ClosedHours,
): Promise<void> {
  for (let attempt = 0; attempt < closingsMax; attempt += 1) {
    const found = await findSoundTask(metadata, closedHours, queue);
    const former = found?.state ?? noneClosed;
    if (former.below >= below && former.open >= open) return;
    const state = { below: Math.max(below, former.below), open: Math.max(open, former.open) };
    const outcome = await putTask(metadata, closedHours, {
      name: queue,
      state,
      expect: found?.revision ?? 'absent',
    });
    if (outcome.applied) return;
  }
  throw new StoreUnavailable(`the closed hours of queue ${queue} never stood still`);
}

/** The hours and slots that may have rows, the oldest first; those before the hour `from` are left out. */
export async function* scanHours(
  metadata: Pick<MetadataStore, 'scan'>,
  queue: HourlyQueue,
  from?: number,
): AsyncGenerator<QueueHour> {
  const cursor = metadata.scan(hoursAt(queue), from === undefined ? {} : { from: { hour: from } });
  for await (const page of soundPages(cursor, 500)) for (const { row } of page) yield row;
}

/** The rows of an hour in one slot, the oldest first. */
export const rowsOfHour = (metadata: Pick<MetadataStore, 'scan'>, hour: QueueHour) =>
  metadata.scan(hourAt(hour));

/** How many rows the hour has, counted up to `max`, and when the first one was due. */
export async function countHour(
  metadata: Pick<MetadataStore, 'scan'>,
  hour: QueueHour,
  { max, signal }: { readonly max: number; readonly signal: AbortSignal },
): Promise<{ readonly rows: number; readonly oldest: number | undefined }> {
  const cursor = metadata.scan(hourAt(hour), { columns: ['due'] });
  const { rows, first } = await countRows(cursor, { max, signal });
  return { rows, oldest: first?.due };
}

/** Stores the count of a finished hour. */
export const rememberCount = (
  metadata: Pick<MetadataStore, 'apply'>,
  { queue, hour, slot }: QueueHour,
  rows: number,
): Promise<void> => metadata.apply([{ at: hoursAt(queue), put: { queue, hour, slot, rows } }]);

/** Deletes a closed hour and all of its rows. Call it no earlier than `placementsEndMs` after the hour was closed. */
export async function clearHour(metadata: Metadata, hour: QueueHour): Promise<void> {
  await metadata.clear(hourAt(hour), {});
  await metadata.apply([{ at: hoursAt(hour.queue), remove: { hour: hour.hour, slot: hour.slot } }]);
}
