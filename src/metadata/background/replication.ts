/** Replication peers, and the versions whose replication was given up. */
import type { At, Change, MetadataStore, Outcome, SideChange, Stored } from '../../ports/metadata-store.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../records/queues.ts';
import { type ReplicationPeerRow, replicationPeers } from '../records/replication-peers.ts';
import { nextSound, soundPages } from '../sound-rows.ts';
import { queueAt, queued, queueSlots } from './queues.ts';

// The replication peers of the installation: one partition, read and committed as one.

const peersAt: At<typeof replicationPeers> = { table: replicationPeers, in: { slot: 0 } };

/** The peers by id, at most `count`. */
export const scanReplicationPeers = (
  metadata: Pick<MetadataStore, 'scan'>,
  count: number,
): Promise<readonly Stored<ReplicationPeerRow>[]> => nextSound(metadata.scan(peersAt), count);

export const findReplicationPeer = (
  metadata: Pick<MetadataStore, 'get'>,
  id: string,
): Promise<Stored<ReplicationPeerRow> | undefined> => metadata.get(peersAt, { id });

export const commitReplicationPeer = (
  metadata: Pick<MetadataStore, 'commit'>,
  change: Change<typeof replicationPeers>,
  then: readonly SideChange[],
): Promise<Outcome<typeof replicationPeers>> => metadata.commit(peersAt, [change], { then });

// Versions whose replication was given up: a queue without a worker, which operators list and retry.

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

/** A failure in the order of the list. */
export type FailurePlace = Pick<QueueRow, 'slot' | 'due' | 'id'>;

/** The failures slot by slot, the oldest of a slot first. */
export async function* everyFailedReplication(
  metadata: Pick<MetadataStore, 'scan'>,
  after?: FailurePlace,
): AsyncGenerator<QueueRow> {
  for (let slot = after?.slot ?? 0; slot < queueSlots; slot += 1) {
    const range = slot === after?.slot ? { after: { due: after.due, id: after.id } } : {};
    const cursor = metadata.scan(queueAt(queue, slot), range);
    for await (const page of soundPages(cursor, 200)) for (const { row } of page) yield row;
  }
}

export const removeFailedReplication = ({ slot, due, id }: QueueRow): SideChange => ({
  at: queueAt(queue, slot),
  remove: { due, id },
});
