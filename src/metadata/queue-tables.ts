/** The queues (design §5 "Queues"), and what lies in each. */
import { table } from '../ports/metadata-store.ts';
import type { Extent } from '../ports/object-bytes.ts';

/** Work for the background. Rows are immutable; a retry is a new row; consumers lease (queue, slot), never a row. */
export interface QueueRow {
  readonly queue: string;
  readonly slot: number;
  /** Store time (ms) from which the row may be worked on. */
  readonly due: number;
  readonly id: string;
  readonly task: unknown;
  readonly attempts: number;
  readonly requestId: string;
}
export const queues = table<QueueRow>()({
  name: 'queues',
  kind: 'plain',
  partition: ['queue', 'slot'],
  sort: ['due', 'id'],
  columns: {
    queue: 'text',
    slot: 'int',
    due: 'int',
    id: 'text',
    task: 'json',
    attempts: 'int',
    requestId: 'text',
  },
});

/** What lies in the `gc` queue. */
export interface GarbageTask {
  /** Bytes to delete. */
  readonly extents: readonly Extent[];
  /** A manifest to delete: its rows, and the extents that they name unless `extents` holds its bytes. */
  readonly manifestId?: string;
  /** A multipart session to settle: finish or undo a completion that was cut short, clear what is over. */
  readonly uploadId?: string;
}

/** What lies in the `notify` queue: a message for one sink. */
export interface NotifyTask {
  /** Its id in SVC_NOTIFY_TARGETS. */
  readonly sink: string;
  /** What is delivered, as JSON. */
  readonly message: object;
}

/** What lies in the `notify-dlq` queue. */
export interface DeadLetter extends NotifyTask {
  readonly error: string;
  /** Store time (ms) at which it was first to be delivered. */
  readonly since: number;
}

/** What lies in the `access-log` queue: a line for the log of a bucket. */
export interface AccessLogTask {
  readonly bucketId: string;
  readonly bucket: string;
  /** Where the log goes, as it was when the line was written. */
  readonly target: {
    readonly bucket: string;
    readonly prefix: string;
    readonly partitionedBy?: 'EventTime' | 'DeliveryTime';
  };
  readonly line: string;
}

/** What lies in the `replication` queue: a version that is to be made, or made the same, over there. */
export interface ReplicationTask {
  readonly bucketId: string;
  readonly bucket: string;
  readonly key: string;
  readonly version: string;
  readonly isNull: boolean;
  readonly marker: boolean;
  /** The id of the rule, and the `Destination` that it named. */
  readonly rule: string;
  readonly destination: object;
}
