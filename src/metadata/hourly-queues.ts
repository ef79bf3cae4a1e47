/**
 * Queues whose rows come as fast as requests do (spec item 13): `notify` delivers events, `replication` copies, `access-log`
 * writes logs. They are partitioned by the hour in which a row is due, so that an hour that is worked off, or older than
 * it may become, goes as one deletion. `queueHours` says which hours there are.
 */
import { BoundedCache } from '../ports/bounded-cache.ts';
import type { At, MetadataStore, SideChange } from '../ports/metadata-store.ts';
import { ofEach } from '../ports/remembered.ts';
import { type HourlyRow, hourlyQueues, type QueueHour, queueHours } from './queue-tables.ts';
import { type QueuedOptions, slotOf } from './queues.ts';

export const hourlyQueueNames = ['notify', 'replication', 'access-log'] as const;
export type HourlyQueue = (typeof hourlyQueueNames)[number];

export const hourMs = 60 * 60 * 1000;
export const hourOf = (time: number): number => Math.floor(time / hourMs);

const hourAt = ({ queue, slot, hour }: Omit<QueueHour, 'rows'>): At<typeof hourlyQueues> => ({
  table: hourlyQueues,
  in: { queue, slot, hour },
});
const hoursAt = (queue: string): At<typeof queueHours> => ({ table: queueHours, in: { queue } });

type Metadata = Pick<MetadataStore, 'apply' | 'scan' | 'clear'>;

/** Hours that this process has written into `queueHours`. */
const announcedIn = ofEach((_: object) => new BoundedCache<true>({ name: 'queue-hours', entriesMax: 1_024 }));

/**
 * A task, as the side change of the commit that makes it necessary. The hour is written first and on its own: it may
 * name an hour without rows, but no row lies in an hour that is not named.
 */
export async function queuedByHour(
  metadata: Pick<MetadataStore, 'apply'>,
  { queue, slotKey }: { readonly queue: HourlyQueue; readonly slotKey: string },
  { task, id, due, requestId, attempts = 0 }: QueuedOptions & { readonly task: unknown },
): Promise<SideChange> {
  const place = { queue, slot: slotOf(slotKey), hour: hourOf(due) };
  const announced = announcedIn(metadata);
  const name = `${queue} ${place.slot} ${place.hour}`;
  if (announced.get(name) === undefined) {
    await metadata.apply([{ at: hoursAt(queue), put: place }]);
    announced.set(name, true);
  }
  const row: HourlyRow = { ...place, due, id, task, attempts, requestId };
  return { at: hourAt(place), put: row };
}

/** The hours and slots that may have rows, the oldest first. */
export async function* hoursOf(
  metadata: Pick<MetadataStore, 'scan'>,
  queue: HourlyQueue,
): AsyncGenerator<QueueHour> {
  const cursor = metadata.scan(hoursAt(queue));
  for (let page = await cursor.next(500); page.length > 0; page = await cursor.next(500))
    for (const { row } of page) yield row;
}

/** The rows of an hour in one slot, the oldest first. */
export const rowsOfHour = (metadata: Pick<MetadataStore, 'scan'>, hour: QueueHour) =>
  metadata.scan(hourAt(hour));

/** How many rows lie there, counted up to `max`; and when the first one was due. */
export async function countHour(
  metadata: Pick<MetadataStore, 'scan'>,
  hour: QueueHour,
  { max, signal }: { readonly max: number; readonly signal: AbortSignal },
): Promise<{ readonly rows: number; readonly oldest: number | undefined }> {
  const cursor = metadata.scan({ ...hourAt(hour) }, { columns: ['due'] });
  let rows = 0;
  let oldest: number | undefined;
  for (let page = await cursor.next(1_000); page.length > 0; page = await cursor.next(1_000)) {
    signal.throwIfAborted();
    oldest ??= page[0]?.row.due;
    rows += page.length;
    if (rows >= max) break;
  }
  return { rows, oldest };
}

/** Keeps what was counted of an hour that is over. */
export const rememberCount = (
  metadata: Pick<MetadataStore, 'apply'>,
  hour: QueueHour,
  rows: number,
): Promise<void> => metadata.apply([{ at: hoursAt(hour.queue), put: { ...hour, rows } }]);

/** Forgets an hour with all of its rows. */
export async function clearHour(metadata: Metadata, hour: QueueHour): Promise<void> {
  await metadata.clear(hourAt(hour), {});
  await metadata.apply([{ at: hoursAt(hour.queue), remove: { hour: hour.hour, slot: hour.slot } }]);
}
