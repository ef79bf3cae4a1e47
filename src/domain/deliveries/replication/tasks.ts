/** The rows of the queue `replication`. */
import type { HourlyRow, ReplicationTask } from '../../../metadata/records/queues.ts';
import { type Destination, readDestination } from './destination.ts';

/** The cast: each queue has one type of task. */
export const taskOf = (row: Pick<HourlyRow, 'task'>): ReplicationTask => row.task as ReplicationTask;

export const destinationOf = (row: HourlyRow): Destination =>
  readDestination(taskOf(row).destination.Bucket) ?? { peer: '', bucket: '' };
