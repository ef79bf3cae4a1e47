/** Notifications that were given up: a queue without a worker, read by operators. */
import type { MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { newestFirst } from '../objects/newest-first.ts';
import type { DeadLetter, NotifyTask, QueueRow } from '../records/queues.ts';
import { queueAt, queued, queueSlots } from './queues.ts';

const queue = 'notify-dlq';

export interface GivenUp {
  /** What the last attempt met, fit to be read by an operator. */
  readonly error: string;
  /** Store time (ms): when it was given up, and until when it is kept. */
  readonly now: number;
  readonly expiresAt: number;
}

/** What takes the place of a row of the `notify` queue that is given up. */
export function deadLetter(row: QueueRow, { error, now, expiresAt }: GivenUp): SideChange {
  // The cast: what lies in a queue is of its own kind.
  const { sink, message } = row.task as NotifyTask;
  const letter: DeadLetter = { sink, message, error, since: row.due };
  const { id, requestId, attempts } = row;
  return { ...queued(queue, id, letter, { id, due: now, requestId, attempts }), expiresAt };
}

/** Between two letters: what comes before it is older. */
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
