/** Replication peers, and the versions whose replication was given up. */
import type { At, Change, MetadataStore, Outcome, SideChange, Stored } from '../../ports/metadata-store.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../records/queues.ts';
import { type ReplicationPeerRow, replicationPeers } from '../records/replication-peers.ts';
import { nextSound, soundPages } from '../sound-rows.ts';
import { abandonedAt, abandonedRow, queueSlots, readEntries, removeAbandoned } from './queues.ts';

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

// Versions whose replication was given up: a queue without a worker, which operators list and retry, with an index by bucket.

const queue = 'replication-failed';

/** The row that replaces a task of the queue `replication`, with its entry in the index. */
export function failedReplication(
  { id, requestId, attempts, due, task }: QueueRow,
  { error, now, expiresAt }: { readonly error: string; readonly now: number; readonly expiresAt: number },
): readonly SideChange[] {
  // The cast: each queue has one type of task.
  const failed: FailedReplication = { ...(task as ReplicationTask), error, since: due };
  const options = { task: failed, id, due: now, requestId, attempts, expiresAt };
  return abandonedRow(queue, failed.key, { ...options, indexes: [`bucket/${failed.bucket}`] });
}

/** A failure in the order of the list. */
export type FailurePlace = Pick<QueueRow, 'slot' | 'due' | 'id'>;

interface FailureRange {
  readonly bucket?: string | undefined;
  readonly after?: FailurePlace | undefined;
  /** Store time (ms): without the failures that were given up later. */
  readonly until?: number | undefined;
}

/** The failures slot by slot, the oldest of a slot first: all, or those of a bucket. */
export async function* everyFailedReplication(
  metadata: Pick<MetadataStore, 'scan' | 'get'>,
  { bucket, ...range }: FailureRange = {},
): AsyncGenerator<QueueRow> {
  const rows = scanFailures(metadata, { bucket, ...range });
  yield* bucket === undefined ? rows : readEntries(metadata, queue, rows);
}

async function* scanFailures(
  metadata: Pick<MetadataStore, 'scan'>,
  { bucket, after, until }: FailureRange,
): AsyncGenerator<QueueRow> {
  const index = bucket === undefined ? undefined : (`bucket/${bucket}` as const);
  const before = until === undefined ? {} : { before: { due: until + 1 } };
  for (let slot = after?.slot ?? 0; slot < queueSlots; slot += 1) {
    const range = slot === after?.slot ? { after: { due: after.due, id: after.id } } : {};
    const cursor = metadata.scan(abandonedAt(queue, slot, index), { ...range, ...before });
    for await (const page of soundPages(cursor, 200)) for (const { row } of page) yield row;
  }
}

export const removeFailedReplication = (row: QueueRow): readonly SideChange[] =>
  // The cast: each queue has one type of task.
  removeAbandoned(row, [`bucket/${(row.task as FailedReplication).bucket}`]);
