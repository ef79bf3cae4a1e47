/** Versions whose replication was given up: a queue without a worker, which operators list and retry. */
import type { MetadataStore, SideChange } from '../../../ports/metadata-store.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../../records/queues.ts';
import { allRows, queueAt, queued, queueSlots } from '../queues.ts';

const queue = 'replication-failed';

/** The row that replaces a task of the queue `replication`. */
export function failedReplication(
  { id, requestId, attempts, due, task }: QueueRow,
  { error, now }: { readonly error: string; readonly now: number },
): SideChange {
  // The cast: each queue has one type of task.
  const failed: FailedReplication = { ...(task as ReplicationTask), error, since: due };
  return queued(queue, failed.key, failed, { id, due: now, requestId, attempts });
}

/** The failures slot by slot, the oldest of a slot first. */
export async function* everyFailedReplication(
  metadata: Pick<MetadataStore, 'scan'>,
): AsyncGenerator<QueueRow> {
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const cursor = allRows(metadata, queue, slot);
    for (let page = await cursor.next(200); page.length > 0; page = await cursor.next(200))
      for (const { row } of page) yield row;
  }
}

export const removeFailedReplication = ({ slot, due, id }: QueueRow): SideChange => ({
  at: queueAt(queue, slot),
  remove: { due, id },
});
