/**
 * Which bucket a request is about. Where a read of metadata is a round trip, the head of the key is asked for together with
 * the row of the bucket: a name mostly leads to the bucket that it led to a moment ago. What was read counts only if it did
 * so again; a wrong guess costs a read and changes nothing. That there is no live head is an answer to a write, where the
 * bucket has no versions; a read of the object looks again.
 *
 * A read of an object that is there uses the cached row of its bucket, if that is younger than `SVC_CONFIG_CACHE_TTL`.
 */
import type { Context } from '../context.ts';
import { type Reached, reach } from '../domain/access/access-points.ts';
import { findLiveHead, type HeadAhead } from '../metadata/objects.ts';
import { lookAt, rememberBucket, seenBucket } from '../metadata/seen-buckets.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Identified } from './request.ts';

export interface ReadAhead extends HeadAhead {
  /** The cached row of the bucket, where this read may use it. */
  readonly cached: BucketRow | undefined;
}

/** Undefined where metadata is near, or where nothing is known of the bucket. */
export function readAhead(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock' | 'config'>,
  { addressedName, key, query, wire }: Identified,
): ReadAhead | undefined {
  const { metadata, clock, config } = ctx;
  if (!metadata.isDistant || query.get('versionId') !== undefined) return undefined;
  const seen = seenBucket(ctx, addressedName);
  if (seen === undefined) return undefined;
  const { bucket, at } = seen;
  // The ordinary read that follows meets the same failure and reports it.
  const read = findLiveHead(metadata, bucket, key).then(
    (live) => ({ live }),
    () => undefined,
  );
  const isRead = wire.method === 'GET' || wire.method === 'HEAD';
  const isYoung = clock.elapsed() - at < config.SVC_CONFIG_CACHE_TTL;
  return { bucketId: bucket.id, read, cached: isRead && isYoung ? bucket : undefined };
}

/** The cached row that a read uses: there is an object in the bucket, so it was neither deleted nor made anew. */
export const cachedBucket = async ({ read, cached }: ReadAhead): Promise<BucketRow | undefined> =>
  (await read)?.live === undefined ? undefined : cached;

/** The bucket as it is now; cached where reading it is a round trip. @throws NoSuchBucket, NoSuchAccessPoint */
export function findBucket(ctx: Context, { addressedName, virtual }: Identified): Promise<Reached> {
  const by = { isHost: virtual !== undefined };
  return ctx.metadata.isDistant ? findAndCache(ctx, addressedName, by) : reach(ctx, addressedName, by);
}

async function findAndCache(ctx: Context, name: string, by: { readonly isHost: boolean }): Promise<Reached> {
  const look = lookAt(ctx, ctx.clock.elapsed());
  const reached = await reach(ctx, name, by);
  rememberBucket(ctx, reached.bucket, look);
  return reached;
}
