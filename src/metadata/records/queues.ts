/** The queues, and the tasks in each. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';
import type { Extent, Owner } from '../../ports/object-bytes.ts';

const taskColumns = {
  /** Store time (ms) from which the row may be worked on. */
  due: int(),
  id: text(),
  task: json<unknown>(),
  attempts: int(),
  requestId: text(),
};

/**
 * Work for the background. Rows are immutable; a retry is a new row; consumers lease (queue, slot), never a row. Queues such as
 * `notify-dlq/target/hook` are indexes of another one.
 */
export const queues = table({
  name: 'queues',
  kind: 'plain',
  isExported: true,
  partition: ['queue', 'slot'],
  sort: ['due', 'id'],
  columns: { queue: text(), slot: int(), ...taskColumns },
});
export interface QueueRow extends RowOf<typeof queues> {}

/** A row of a queue that is partitioned by hour: a finished hour is removed as a whole. */
export const hourlyQueues = table({
  name: 'hourly_queues',
  kind: 'plain',
  isExported: true,
  partition: ['queue', 'slot', 'hour'],
  sort: ['due', 'id'],
  columns: {
    queue: text(),
    slot: int(),
    /** Hours since the epoch, of `due`. */
    hour: int(),
    ...taskColumns,
    /** The span of the request that queued it; absent where it was not traced. */
    traceparent: optional(text()),
  },
});
export interface HourlyRow extends RowOf<typeof hourlyQueues> {}

/** The hours that a queue may have rows in; written before the first row of an hour. */
export const queueHours = table({
  name: 'queue_hours',
  kind: 'plain',
  isExported: true,
  partition: ['queue'],
  sort: ['hour', 'slot'],
  columns: {
    queue: text(),
    hour: int(),
    slot: int(),
    /** How many rows the hour had once it was over; absent before it was counted. */
    rows: optional(int()),
  },
});
export interface QueueHour extends RowOf<typeof queueHours> {}

/** A task of the `gc` queue. */
export interface GarbageTask {
  /** Bytes to delete. */
  readonly extents: readonly Extent[];
  /**
   * The back-reference of the extent, for a row that was not queued by the commit that removed the owner: `gc` looks for an owner again
   * before it deletes, because a rebuild may have made one since.
   */
  readonly owner?: Owner;
  /** A manifest to delete: its rows, and the extents that they name unless `extents` holds its bytes. */
  readonly manifestId?: string;
  /** A multipart session. */
  readonly uploadId?: string;
  /** What to do about the session; absent in rows of older builds, which did both. */
  readonly to?: UploadStep;
  /** The id of a bucket that was deleted: the uploads that were open in it are aborted. */
  readonly bucketId?: string;
}

/** `settle`: finish or undo an interrupted completion. `clear`: remove the parts of an ended session, once their bytes may go. */
export type UploadStep = 'settle' | 'clear';

/** A task of the `notify` queue: a message for one sink. */
export interface NotifyTask {
  /** Its id in SVC_NOTIFY_TARGETS. */
  readonly sink: string;
  /** The message, delivered as JSON. */
  readonly message: object;
  /** The account of the bucket; absent in rows of older builds. */
  readonly account?: string;
  /** Of the rule; absent in test events, and in rows of older builds. */
  readonly arn?: string;
  /** The class of the object, in events that tell of it in some envelopes only. */
  readonly storageClass?: string;
}

/** The cast: each queue has one type of task. */
export const notifyTask = ({ task }: Pick<QueueRow, 'task'>): NotifyTask => task as NotifyTask;

/** A row of the `notify-dlq` queue. */
export interface DeadLetter extends NotifyTask {
  readonly error: string;
  /** Store time (ms) at which it was first to be delivered. */
  readonly since: number;
  /** Of the event, for the index; '' for none. */
  readonly bucket?: string;
}

/** A task of the `access-log` queue: a line for the log of a bucket. */
export interface AccessLogTask {
  readonly bucketId: string;
  readonly bucket: string;
  /** The bucket's account and region; absent in rows of older builds. */
  readonly account?: string;
  readonly region?: string;
  /** When the request arrived (ms since the epoch); absent in rows of older builds. */
  readonly time?: number;
  /** The log's destination when the line was written. */
  readonly target: {
    readonly bucket: string;
    readonly prefix: string;
    readonly partitionedBy?: 'EventTime' | 'DeliveryTime';
  };
  readonly line: string;
}

/** A task of the `replication` queue: a version to create or update at the peer. */
export interface ReplicationTask {
  readonly bucketId: string;
  readonly bucket: string;
  readonly key: string;
  readonly version: string;
  readonly isNull: boolean;
  readonly marker: boolean;
  /** The id of the rule, and the `Destination` that it named. */
  readonly rule: string;
  readonly destination: ReplicationDestination;
  /** The account of the bucket and the role of its configuration; absent in rows of older builds. */
  readonly account?: string;
  readonly role?: string;
  /** The version was deleted permanently, and the rule replicates that. */
  readonly removed?: true;
  /** Queued by a resync: the peer may have the version. */
  readonly isResync?: true;
  /** The peer takes the version also where it has removed it permanently. */
  readonly restores?: true;
  /** The stamp of the version when it was queued: a later change of the version has a task of its own. */
  readonly stamp?: string;
  /** The content that is to be sent; absent where the peer has it, or where there is none. */
  readonly bytes?: number;
}

/** What a rule says about its destination. */
export interface ReplicationDestination {
  /** The ARN of a bucket. */
  readonly Bucket: string;
  readonly Account?: string | undefined;
  readonly StorageClass?: string | undefined;
  readonly Metrics?:
    | { readonly Status: string; readonly EventThreshold?: { readonly Minutes: number } | undefined }
    | undefined;
  readonly ReplicationTime?:
    | { readonly Status: string; readonly Time: { readonly Minutes: number } }
    | undefined;
  readonly AccessControlTranslation?: object | undefined;
  readonly EncryptionConfiguration?: { readonly ReplicaKmsKeyID?: string | undefined } | undefined;
}

/** A row of the `replication-failed` queue. */
export interface FailedReplication extends ReplicationTask {
  readonly error: string;
  /** Store time (ms) at which the task was first due. */
  readonly since: number;
}
