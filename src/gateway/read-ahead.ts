/**
 * Where a read of metadata is a round trip, the head of a key is asked for together with the row of its bucket: a name
 * mostly leads to the bucket that it led to a moment ago. What was read counts only if it did so again; a guess that was
 * wrong costs a read and changes nothing. That there is no live head is an answer to a write, where the bucket has no
 * versions; a read of the object looks again.
 */
import { Bounded } from '../auth/bounded.ts';
import type { Context } from '../context.ts';
import type { Call } from '../handlers/call.ts';
import { findLiveHead, type HeadAhead } from '../metadata/objects.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { MetadataStore } from '../ports/metadata-store.ts';

type Ctx = Pick<Context, 'metadata'>;

/** Buckets as they were when they were last asked for, of each store. */
const seenMax = 1000;
const seenIn = new WeakMap<MetadataStore, Bounded<BucketRow>>();

export function readAhead(
  { metadata }: Ctx,
  { bucketName, key, query }: Pick<Call, 'bucketName' | 'key' | 'query'>,
): HeadAhead | undefined {
  if (!metadata.isDistant || query.get('versionId') !== undefined) return undefined;
  const bucket = seenIn.get(metadata)?.get(bucketName);
  if (bucket === undefined) return undefined;
  // A failure is met again by whoever then asks in the ordinary way.
  const read = findLiveHead(metadata, bucket, key).then(
    (live) => ({ live }),
    () => undefined,
  );
  return { bucketId: bucket.id, read };
}

export function remember({ metadata }: Ctx, bucket: BucketRow): void {
  if (!metadata.isDistant) return;
  let seen = seenIn.get(metadata);
  if (seen === undefined) {
    seen = new Bounded(seenMax);
    seenIn.set(metadata, seen);
  }
  seen.set(bucket.name, bucket);
}
