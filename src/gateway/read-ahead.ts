/**
 * Where a read of metadata is a round trip, the head of a key is asked for together with the row of its bucket: a name
 * mostly leads to the bucket that it led to a moment ago. What was read counts only if it did so again; a guess that was
 * wrong costs a read and changes nothing. That there is no live head is an answer to a write, where the bucket has no
 * versions; a read of the object looks again.
 *
 * A read of an object that is there believes the bucket's row itself, if it is younger than `SVC_CONFIG_CACHE_TTL`.
 */
import type { Context } from '../context.ts';
import type { Call } from '../handlers/call.ts';
import { findLiveHead, type HeadAhead } from '../metadata/objects.ts';
import { seenBucket } from '../metadata/seen-buckets.ts';
import type { BucketRow } from '../metadata/tables.ts';

type Asking = Pick<Call, 'bucketName' | 'key' | 'query' | 'wire'>;

export interface Ahead extends HeadAhead {
  /** The bucket as it was a moment ago, where a read may believe in that. */
  readonly believed: BucketRow | undefined;
}

export function readAhead(
  { metadata, clock, config }: Pick<Context, 'metadata' | 'clock' | 'config'>,
  { bucketName, key, query, wire }: Asking,
): Ahead | undefined {
  if (!metadata.isDistant || query.get('versionId') !== undefined) return undefined;
  const seen = seenBucket(metadata, bucketName);
  if (seen === undefined) return undefined;
  const { bucket, at } = seen;
  // A failure is met again by whoever then asks in the ordinary way.
  const read = findLiveHead(metadata, bucket, key).then(
    (live) => ({ live }),
    () => undefined,
  );
  const isRead = wire.method === 'GET' || wire.method === 'HEAD';
  const isYoung = clock.elapsed() - at < config.SVC_CONFIG_CACHE_TTL;
  return { bucketId: bucket.id, read, believed: isRead && isYoung ? bucket : undefined };
}

/** The bucket that a read believes in: there is an object in it, so it was neither deleted nor made anew. */
export const believedIn = async ({ read, believed }: Ahead): Promise<BucketRow | undefined> =>
  (await read)?.live === undefined ? undefined : believed;
