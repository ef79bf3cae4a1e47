/** Notifications that could not be delivered: a queue without a worker, read by operators. */
import type { MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { mergeRows, newestFirst } from '../objects/newest-first.ts';
import type { DeadLetter, NotifyTask, QueueRow } from '../records/queues.ts';
import { allRows, queueAt, queued, queueSlots } from './queues.ts';

const queue = 'notify-dlq';

export interface GivenUp {
  /** The error of the last attempt, as an operator may see it. */
  readonly error: string;
  /** Store time (ms): when delivery was given up, and when the row expires. */
  readonly now: number;
  readonly expiresAt: number;
}

/** The row that replaces an undeliverable row of the `notify` queue. */
export function deadLetter(row: QueueRow, { error, now, expiresAt }: GivenUp): SideChange {
  // The cast: each queue has one type of task.
  const letter: DeadLetter = { ...(row.task as NotifyTask), error, since: row.due };
  const { id, requestId, attempts } = row;
  return { ...queued(queue, id, letter, { id, due: now, requestId, attempts }), expiresAt };
}

/** A position between two rows: rows before it are older. */
export interface LetterPlace {
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
