/** The queues of the background, dead letters, and imported objects that no version names any more. */
import { BoundedCache } from '../../base/bounded-cache.ts';
import { hashToShard } from '../../base/shard.ts';
import {
  type At,
  type Cursor,
  commitLimits,
  type MetadataStore,
  rowBytes,
  type SideChange,
} from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import { mergeRows, newestFirst } from '../objects/objects.ts';
import { importReleased, type ReleasedRow } from '../records/clusters.ts';
import { type DeadLetter, type NotifyTask, type QueueRow, queues } from '../records/queues.ts';
import { countRows, nextSound, undefinedIfDamaged } from '../sound-rows.ts';

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

function queuedRow(
  queue: QueueName,
  slotKey: string,
  { task, id, due, requestId, attempts = 0 }: QueuedOptions & { readonly task: unknown },
): QueueRow {
  return { queue, slot: queueSlot(slotKey), due, id, task, attempts, requestId };
}

/** The side change that queues a task, for the commit that makes the task necessary. */
export function queued(queue: QueueName, slotKey: string, task: unknown, options: QueuedOptions): SideChange {
  const row = queuedRow(queue, slotKey, { ...options, task });
  return { at: queueAt(queue, row.slot), put: row };
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
  const done = taken.filter((row) => !options.failed.has(row));
  if (done.length > 0) await metadata.apply(done.map(removal));
  // One by one, because a row may be large and the size of one commit is bounded.
  for (const row of options.failed) {
    const due = options.now + retryDelayMs(row.attempts);
    await metadata.apply(replacement(row, { ...row, due, attempts: row.attempts + 1 }));
  }
}

/** Puts rows off that were not tried, each to a later due time (store time, ms), with their attempts as they were. */
export async function putOffRows(
  metadata: Pick<MetadataStore, 'apply'>,
  rows: ReadonlyMap<QueueRow, number>,
): Promise<void> {
  let changes: SideChange[] = [];
  let bytes = 0;
  for (const [row, due] of rows) {
    const again: QueueRow = { ...row, due };
    const size = rowBytes(again);
    if (changes.length + 2 > commitLimits.changes || bytes + size > commitLimits.bytes) {
      await metadata.apply(changes);
      [changes, bytes] = [[], 0];
    }
    changes.push(...replacement(row, again));
    bytes += size;
  }
  if (changes.length > 0) await metadata.apply(changes);
}

const removal = (row: QueueRow): SideChange => ({
  at: queueAt(row.queue, row.slot),
  remove: { due: row.due, id: row.id },
});

const replacement = (row: QueueRow, again: QueueRow): readonly SideChange[] => [
  { at: queueAt(row.queue, row.slot), put: again },
  removal(row),
];

/** How many rows a queue or an index has, counted up to `max`. */
export async function countQueue(
  metadata: Pick<MetadataStore, 'scan'>,
  queue: QueueName | `${QueueName}/${IndexName}`,
  { max, signal }: { readonly max: number; readonly signal?: AbortSignal },
): Promise<number> {
  let count = 0;
  for (let slot = 0; slot < queueSlots && count < max; slot += 1) {
    const cursor = metadata.scan(queueAt(queue, slot), { columns: ['due'] });
    count += (await countRows(cursor, { max: max - count, signal })).rows;
  }
  return count;
}

/** How many rows wait in a queue, counted up to `backlogMax`. */
export const backlog = (metadata: Pick<MetadataStore, 'scan'>, queue: QueueName): Promise<number> =>
  countQueue(metadata, queue, { max: backlogMax });

// Tasks that were given up: queues without a worker, read by operators. All rows are in the partitions of the queue; an
// index has the rows of one bucket or target in partitions of its own, so that neither a read nor a count passes over
// the rows of others. An entry of an index has the slot, time and id of its row, and no task.

/** What an index selects by, such as `bucket/photos`. */
type IndexName = `${'bucket' | 'target'}/${string}`;

/** What a new task leaves of its row to the row that replaces it where it is given up: an error, and when it was first due. */
export const failureBytes = 2 * 1024;
/** Bytes of an error as JSON. */
const errorBytesMax = failureBytes - 512;

/**
 * When this process first gave a task up, in store time (ms), by what names the task. The row has its place by this
 * time, so a repetition after an error replaces the same row.
 */
export class AbandonedTasks {
  readonly #byTask = new BoundedCache<number>({ name: 'abandoned-tasks', entriesMax: 10_000 });

  /** Stores the row of the time at which the task was first given up, and removes the task. */
  async giveUp(
    task: string,
    now: number,
    { store, finish }: { store(at: number): Promise<void>; finish(): Promise<void> },
  ): Promise<void> {
    const at = this.#byTask.get(task) ?? now;
    this.#byTask.set(task, at);
    await store(at);
    await finish();
    this.#byTask.delete(task);
  }
}

interface AbandonedRow extends QueuedOptions {
  readonly task: { readonly error: string };
  readonly indexes: readonly IndexName[];
  /** Store time (ms). */
  readonly expiresAt: number;
}

/**
 * The entries are written before the row: an entry without a row is passed over, and a row without an entry would not
 * be found. The error is cut to what fits into the row, so that every task that left `failureBytes` can be given up.
 */
export function abandonedRow(
  queue: QueueName,
  slotKey: string,
  { indexes, expiresAt, task, ...options }: AbandonedRow,
): readonly SideChange[] {
  const bare = queuedRow(queue, slotKey, { ...options, task: { ...task, error: '' } });
  const bytesMax = Math.min(commitLimits.rowBytes - rowBytes(bare), errorBytesMax);
  const row = { ...bare, task: { ...task, error: cutToBytes(task.error, bytesMax) } };
  const entries = indexes.map((index): QueueRow => ({ ...row, queue: `${queue}/${index}`, task: {} }));
  return [...entries, row].map((put) => ({ at: queueAt(put.queue, put.slot), put, expiresAt }));
}

const encoder = new TextEncoder();

/** The beginning of a text that takes so many bytes as JSON. */
function cutToBytes(text: string, bytesMax: number): string {
  let bytes = 0;
  let end = 0;
  for (const char of text) {
    // Without its quotes.
    bytes += encoder.encode(JSON.stringify(char)).length - 2;
    if (bytes > bytesMax) break;
    end += char.length;
  }
  return text.slice(0, end);
}

export const removeAbandoned = (
  { queue, slot, due, id }: QueueRow,
  indexes: readonly IndexName[],
): readonly SideChange[] =>
  [queue, ...indexes.map((index) => `${queue}/${index}`)].map((each) => ({
    at: queueAt(each, slot),
    remove: { due, id },
  }));

/** Rows of entries that are read together. */
const entriesAtOnce = 16;

/** The rows of entries, in their order. */
export async function* readEntries(
  metadata: Pick<MetadataStore, 'get'>,
  queue: QueueName,
  entries: AsyncIterable<QueueRow>,
): AsyncGenerator<QueueRow> {
  let batch: QueueRow[] = [];
  const read = async (): Promise<readonly QueueRow[]> => {
    const found = await Promise.all(
      batch.map(({ slot, due, id }) =>
        metadata.get(queueAt(queue, slot), { due, id }).catch(undefinedIfDamaged),
      ),
    );
    batch = [];
    return found.flatMap((stored) => (stored === undefined ? [] : [stored.row]));
  };
  for await (const entry of entries) {
    batch.push(entry);
    if (batch.length >= entriesAtOnce) yield* await read();
  }
  yield* await read();
}

/** The partitions of an index, or without one of the queue. */
export const abandonedAt = (queue: QueueName, slot: number, index?: IndexName): At<typeof queues> =>
  queueAt(index === undefined ? queue : `${queue}/${index}`, slot);

// Notifications that could not be delivered.

const queue = 'notify-dlq';

interface Abandoned {
  /** The error of the last attempt, as an operator may see it. */
  readonly error: string;
  /** Store time (ms): when delivery was given up, and when the row expires. */
  readonly now: number;
  readonly expiresAt: number;
  /** Of the event; '' for none. */
  readonly bucket: string;
}

/** The row that replaces an undeliverable row of the `notify` queue, with its entries in the indexes. */
export function deadLetter(
  row: QueueRow,
  { error, now, expiresAt, bucket }: Abandoned,
): readonly SideChange[] {
  // The cast: each queue has one type of task.
  const letter: DeadLetter = { ...(row.task as NotifyTask), error, since: row.due, bucket };
  const { id, requestId, attempts } = row;
  const options = { task: letter, id, due: now, requestId, attempts, expiresAt };
  return abandonedRow(queue, id, { ...options, indexes: letterIndexes(letter) });
}

const letterIndexes = ({ sink, bucket = '' }: DeadLetter): readonly IndexName[] => [
  `target/${sink}`,
  ...(bucket === '' ? [] : [`bucket/${bucket}` as const]),
];

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

/** The letters, the oldest first: all, or those of a target or else of a bucket. */
export function everyDeadLetter(
  metadata: Pick<MetadataStore, 'scan' | 'get'>,
  { target, bucket }: { readonly target?: string | undefined; readonly bucket?: string | undefined } = {},
): AsyncGenerator<QueueRow> {
  const ofBucket: IndexName | undefined = bucket === undefined ? undefined : `bucket/${bucket}`;
  const index: IndexName | undefined = target === undefined ? ofBucket : `target/${target}`;
  const rows = mergeRows(
    Array.from({ length: queueSlots }, (_, slot) => metadata.scan(abandonedAt(queue, slot, index))),
    (a: LetterPlace, b: LetterPlace) => isNewer(b, a),
  );
  return index === undefined ? rows : readEntries(metadata, queue, rows);
}

/** How many letters a target has, counted up to `max`. */
export const countDeadLetters = (
  metadata: Pick<MetadataStore, 'scan'>,
  target: string,
  max: number,
): Promise<number> => countQueue(metadata, `${queue}/target/${target}`, { max });

export const removeDeadLetter = (row: QueueRow): readonly SideChange[] =>
  removeAbandoned(row, letterIndexes(row.task as DeadLetter));

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
