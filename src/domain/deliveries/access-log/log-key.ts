/** The keys of access log objects: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ServerLogs.html#server-log-keyname-format */
import { toUpperHex } from '../../../base/text/hex.ts';
import type { AccessLogTask } from '../../../metadata/records/queues.ts';
import type { Random } from '../../../ports/random.ts';

export interface LogSource {
  readonly bucket: string;
  readonly account: string;
  readonly region: string;
}

const dayMs = 24 * 60 * 60 * 1000;
/** The first moment of the UTC day of a time. */
export const dayOf = (time: number): number => Math.floor(time / dayMs) * dayMs;

/** `YYYY-mm-DD-HH-MM-SS` in UTC. */
export const momentText = (time: number): string =>
  new Date(time).toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '-');

/** @param time of the delivery; for `EventTime` any time of the events' day */
export function drawLogKey(
  { random }: { readonly random: Random },
  {
    source,
    target,
    time,
  }: { readonly source: LogSource; readonly target: AccessLogTask['target']; readonly time: number },
): string {
  const unique = toUpperHex(random.bytes(8));
  const { prefix, partitionedBy } = target;
  if (partitionedBy === undefined) return `${prefix}${momentText(time)}-${unique}`;
  const moment = momentText(partitionedBy === 'EventTime' ? dayOf(time) : time);
  const { account, region, bucket } = source;
  const day = moment.slice(0, 10).replaceAll('-', '/');
  return `${prefix}${account}/${region}/${bucket}/${day}/${moment}-${unique}`;
}
