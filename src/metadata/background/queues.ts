/** The queues of the background, dead letters, and imported objects that no version names any more. */
import { hashToShard } from '../../base/shard.ts';
import type { At, Cursor, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import { mergeRows, newestFirst } from '../objects/objects.ts';
import { importReleased, type ReleasedRow } from '../records/clusters.ts';
import { type DeadLetter, type NotifyTask, type QueueRow, queues } from '../records/queues.ts';
import { nextSound, soundPages } from '../sound-rows.ts';

// Work for the background: immutable rows, read in order of their due time, slot by slot.

/**
 * The queues with one partition for each slot: `gc` deletes bytes; `notify-dlq` has notifications that could not be delivered,
 * `replication-failed` versions that could not be replicated. The others are in `hourly-queues.ts`.
 */
type QueueName = 'gc' | 'notify-dlq' | 'replication-failed';

/** Consumers lease a slot, so this is how many of them can work on one queue. */
export const queueSlots = 16;
/** Rows that a consumer reads together. */
export const queueBatchMax = 64;
/** A backlog is counted up to this number; a larger one is reported as this number. */
export const backlogMax = 10_000;

const retryFirstMs = 1_000;
const retryMaxMs = 60 * 60_000;

export const queueAt = (queue: string, slot: number): At<typeof queues> => ({
  table: queues,
  in: { queue, slot },
});

export const queueSlot = (key: string): number => hashToShard(key, queueSlots);

export interface QueuedOptions {
  /** Unique among the tasks of one queue that are due in the same millisecond. */
  readonly id: string;
  /** Store time (ms) from which the task may be worked on. */
  readonly due: number;
  readonly requestId: string;
  readonly attempts?: number;
  /** Of the row that this one replaces; the present trace when absent. */
  readonly traceparent?: string | undefined;
}

/** The side change that queues a task, for the commit that makes the task necessary. */
export function queued(queue: QueueName, slotKey: string, task: unknown, options: QueuedOptions): SideChange {
  const slot = queueSlot(slotKey);
  const { id, due, requestId, attempts = 0 } = options;
  const row: QueueRow = { queue, slot, due, id, task, attempts, requestId };
  return { at: queueAt(queue, slot), put: row };
}

/** The rows of a slot that are due at `now`, the oldest first. Damaged rows are passed over. */
export async function dueRows(
  metadata: Pick<MetadataStore, 'scan'>,
  options: { readonly queue: QueueName; readonly slot: number; readonly now: number; readonly max?: number },
): Promise<readonly QueueRow[]> {
  const cursor = metadata.scan(queueAt(options.queue, options.slot), { before: { due: options.now + 1 } });
  const rows = await nextSound(cursor, options.max ?? queueBatchMax);
  return rows.map((stored) => stored.row);
}

/** Every row of a slot, due or not, in order. */
export const allRows = (
  metadata: Pick<MetadataStore, 'scan'>,
  queue: QueueName,
  slot: number,
): Cursor<typeof queues> => metadata.scan(queueAt(queue, slot));

/** The delay before the next attempt of a task that failed `attempts` times: doubling, bounded. */
export const retryDelayMs = (attempts: number): number => Math.min(retryFirstMs * 2 ** attempts, retryMaxMs);

/**
 * Ends a batch of one slot: failed tasks are queued again as new rows, and all rows of the batch are removed.
 *
 * The rows are removed by name and not as a range, although a range would be one deletion: a writer draws the due time before it
 * commits, so a slow writer puts its row among rows that are finished already, and deleting a range would remove that row
 * unprocessed.
 */
export async function finishRows(
  metadata: Pick<MetadataStore, 'apply'>,
  taken: readonly QueueRow[],
  options: { readonly failed: ReadonlySet<QueueRow>; readonly now: number },
): Promise<void> {
  const removal = (row: QueueRow): SideChange => ({
    at: queueAt(row.queue, row.slot),
    remove: { due: row.due, id: row.id },
  });
  const done = taken.filter((row) => !options.failed.has(row));
  if (done.length > 0) await metadata.apply(done.map(removal));
  // One by one, because a row may be large and the size of one commit is bounded.
  for (const row of options.failed) {
    const later = { due: options.now + retryDelayMs(row.attempts), attempts: row.attempts + 1 };
    const again: QueueRow = { ...row, ...later };
    await metadata.apply([{ at: queueAt(row.queue, row.slot), put: again }, removal(row)]);
  }
}

/** How many rows wait in a queue, counted up to `backlogMax`. */
export async function backlog(metadata: Pick<MetadataStore, 'scan'>, queue: QueueName): Promise<number> {
  let count = 0;
  for (let slot = 0; slot < queueSlots && count < backlogMax; slot++) {
    const cursor = allRows(metadata, queue, slot);
    for await (const rows of soundPages(cursor, 500)) {
      count += rows.length;
      if (count >= backlogMax) break;
    }
  }
  return Math.min(count, backlogMax);
}

// Notifications that could not be delivered: a queue without a worker, read by operators.

const queue = 'notify-dlq';

interface Abandoned {
  /** The error of the last attempt, as an operator may see it. */
  readonly error: string;
  /** Store time (ms): when delivery was given up, and when the row expires. */
  readonly now: number;
  readonly expiresAt: number;
}

/** The row that replaces an undeliverable row of the `notify` queue. */
export function deadLetter(row: QueueRow, { error, now, expiresAt }: Abandoned): SideChange {
  // The cast: each queue has one type of task.
  const letter: DeadLetter = { ...(row.task as NotifyTask), error, since: row.due };
  const { id, requestId, attempts } = row;
  return { ...queued(queue, id, letter, { id, due: now, requestId, attempts }), expiresAt };
}

/** A position between two rows: rows before it are older. */
interface LetterPlace {
  readonly due: number;
  readonly id: string;
}

/** A page of the letters, the newest first. */
export async function readDeadLetters(
  metadata: Pick<MetadataStore, 'scan'>,
  { before, max }: { readonly before: LetterPlace | undefined; readonly max: number },
): Promise<{ readonly rows: readonly QueueRow[]; readonly next?: LetterPlace }> {
  const cursors = Array.from({ length: queueSlots }, (_, slot) =>
    metadata.scan(queueAt(queue, slot), { reverse: true, ...(before === undefined ? {} : { before }) }),
  );
  const rows: QueueRow[] = [];
  for await (const row of newestFirst(cursors, isNewer)) {
    const last = rows.at(-1);
    if (rows.length >= max && last !== undefined) return { rows, next: { due: last.due, id: last.id } };
    rows.push(row);
  }
  return { rows };
}

const isNewer = (a: LetterPlace, b: LetterPlace): boolean =>
  a.due > b.due || (a.due === b.due && a.id > b.id);

/** The letters, the oldest first. */
export const everyDeadLetter = (metadata: Pick<MetadataStore, 'scan'>): AsyncGenerator<QueueRow> =>
  mergeRows(
    Array.from({ length: queueSlots }, (_, slot) => allRows(metadata, queue, slot)),
    (a: LetterPlace, b: LetterPlace) => isNewer(b, a),
  );

export const removeDeadLetter = ({ slot, due, id }: QueueRow): SideChange => ({
  at: queueAt(queue, slot),
  remove: { due, id },
});

// Upstream objects that were imported and that no version names any more.

const releasedSlots = 16;

const releasedAt = (bucketId: string, slot: number): At<typeof importReleased> => ({
  table: importReleased,
  in: { bucketId, slot },
});

/** Records the foreign extents that a version gives up, in the same commit. */
export const releaseUnmanaged = (bucketId: string, extents: readonly Extent[]): readonly SideChange[] =>
  extents.flatMap(({ cluster, foreign: unmanaged }) => {
    if (unmanaged === undefined) return [];
    const slot = hashToShard(unmanaged.key, releasedSlots);
    return [{ at: releasedAt(bucketId, slot), put: { bucketId, slot, ...unmanaged, cluster } }];
  });

export const findReleased = async (
  metadata: Pick<MetadataStore, 'get'>,
  bucketId: string,
  { key, cluster }: Pick<ReleasedRow, 'key' | 'cluster'>,
): Promise<ReleasedRow | undefined> =>
  (await metadata.get(releasedAt(bucketId, hashToShard(key, releasedSlots)), { key, cluster }))?.row;

/** Yields the rows slot by slot, ordered by key within a slot. */
export async function* everyReleased(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): AsyncGenerator<ReleasedRow> {
  for (let slot = 0; slot < releasedSlots; slot += 1) {
    const cursor = metadata.scan(releasedAt(bucketId, slot));
    for (let page = await cursor.next(500); page.length > 0; page = await cursor.next(500))
      for (const { row } of page) yield row;
  }
}
