/** The queues, and what lies in each. */
import { table } from '../../ports/metadata-store.ts';
import type { Extent, Owner } from '../../ports/storage/object-bytes.ts';

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

/** A row of a queue that is cut into hours: an hour that is over goes as a whole. */
export interface HourlyRow extends QueueRow {
  /** Hours since the epoch, of `due`. */
  readonly hour: number;
}
export const hourlyQueues = table<HourlyRow>()({
  name: 'hourly_queues',
  kind: 'plain',
  partition: ['queue', 'slot', 'hour'],
  sort: ['due', 'id'],
  columns: {
    queue: 'text',
    slot: 'int',
    hour: 'int',
    due: 'int',
    id: 'text',
    task: 'json',
    attempts: 'int',
    requestId: 'text',
  },
});

/** The hours that a queue may have rows in; written before the first row of an hour. */
export interface QueueHour {
  readonly queue: string;
  readonly hour: number;
  readonly slot: number;
  /** How many rows there were once the hour was over; absent before it was counted. */
  readonly rows?: number;
}
export const queueHours = table<QueueHour>()({
  name: 'queue_hours',
  kind: 'plain',
  partition: ['queue'],
  sort: ['hour', 'slot'],
  columns: { queue: 'text', hour: 'int', slot: 'int', rows: 'int' },
});

/** What lies in the `gc` queue. */
export interface GarbageTask {
  /** Bytes to delete. */
  readonly extents: readonly Extent[];
  /**
   * The back-reference of the one extent, where no commit took an owner away: `gc` looks for an owner again before it
   * deletes, because a rebuild may have made one since. Other rows are queued in the commit that removes their owner.
   */
  readonly owner?: Owner;
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
