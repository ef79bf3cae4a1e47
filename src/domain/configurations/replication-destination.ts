/** The destination of a replication rule, a bucket on a peer, and that of a row of the queue. */
import { memoizeLast } from '../../base/bounded-cache.ts';
import type { HourlyRow, ReplicationTask } from '../../metadata/records/queues.ts';

export interface Destination {
  readonly peer: string;
  readonly bucket: string;
}

/** The peer of rules that name a bucket only, as rules of the public service do. */
export const defaultPeer = 'default';

/** Cached, because the replicator asks several times for each version. @returns undefined for a text that is neither ARN */
export const readDestination = memoizeLast(parseDestination);

function parseDestination(arn: string): Destination | undefined {
  const [, partition, service, region, account = '', bucket = '', ...more] = arn.split(':');
  if (!/^[A-Za-z0-9._-]{3,255}$/.test(bucket) || more.length > 0) return undefined;
  // arn:sluice:replication::<peer>:<bucket>
  if (partition === 'sluice')
    return service === 'replication' && region === '' && account !== ''
      ? { peer: account, bucket }
      : undefined;
  // arn:aws:s3:::<bucket>
  return service === 's3' && region === '' && account === '' ? { peer: defaultPeer, bucket } : undefined;
}

/** The name of a destination as a target of the queue: each has a lane of its own. */
export const nameDestination = ({ peer, bucket }: Destination): string => `${peer}/${bucket}`;

/** The peer of such a name: ids of peers hold no `/`. */
export const peerOfTarget = (target: string): string => target.slice(0, Math.max(0, target.indexOf('/')));

/** The lane of a rule's destination. Rules whose text is neither ARN share one. */
export function nameLane(arn: string): string {
  const destination = readDestination(arn);
  return destination === undefined ? '' : nameDestination(destination);
}

/** The cast: each queue has one type of task. */
export const replicationTask = (row: Pick<HourlyRow, 'task'>): ReplicationTask => row.task as ReplicationTask;

export const rowDestination = (row: HourlyRow): Destination =>
  readDestination(replicationTask(row).destination.Bucket) ?? { peer: '', bucket: '' };
