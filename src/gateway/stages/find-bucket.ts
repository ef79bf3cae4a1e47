/**
 * Finds the bucket of a request. Where a read of metadata is a round trip, the head of the key is requested together with the bucket's
 * row, based on the bucket that the name led to last. The head is used only if the name still leads to that bucket; a wrong guess
 * costs a read and changes nothing.
 *
 * A read of an existing object uses the cached row of its bucket, if that is younger than `SVC_CONFIG_CACHE_TTL`.
 */
import type { Context } from '../../context.ts';
import { type Reached, reach } from '../../domain/access/access-points.ts';
import { lookAt, rememberBucket, seenBucket } from '../../metadata/buckets/seen-buckets.ts';
import { askAhead, withHeadAhead } from '../../metadata/objects/head-ahead.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Identified, Selected } from '../request.ts';

export interface BucketReader {
  /** Its metadata answers the first read of the head by the one that began beforehand. */
  readonly ctx: Context;
  /** The cached row of the bucket, where this request may use it. */
  cached(): Promise<BucketRow | undefined>;
}

const noCached = async (): Promise<undefined> => undefined;

/** Begins to read the head of an operation on an object, where metadata is distant and the bucket is known. */
export function openBucketReader(ctx: Context, request: Selected): BucketReader {
  const { addressedName, key, query, wire, row } = request;
  const { metadata, clock, config } = ctx;
  const needsHead = row.about === 'version' || row.about === 'head';
  if (!metadata.isDistant || !needsHead || query.get('versionId') !== undefined)
    return { ctx, cached: noCached };
  const seen = seenBucket(ctx, addressedName);
  if (seen === undefined) return { ctx, cached: noCached };
  const ahead = askAhead(ctx, seen.bucket, key);
  const isRead = wire.method === 'GET' || wire.method === 'HEAD';
  const isYoung = clock.elapsed() - seen.at < config.SVC_CONFIG_CACHE_TTL;
  return {
    ctx: { ...ctx, metadata: withHeadAhead(ctx, ahead, { isAbsenceKnown: !isRead }) },
    // The bucket has an object, so it was neither deleted nor created again.
    cached: async () =>
      isRead && isYoung && (await ahead.head.catch(() => undefined)) !== undefined ? seen.bucket : undefined,
  };
}

/** The current row of the bucket, also cached where reading it is a round trip. @throws NoSuchBucket, NoSuchAccessPoint */
export function findBucket(
  ctx: Context,
  { addressedName, virtual }: Pick<Identified, 'addressedName' | 'virtual'>,
): Promise<Reached> {
  const by = { isHost: virtual !== undefined };
  return ctx.metadata.isDistant ? findAndCache(ctx, addressedName, by) : reach(ctx, addressedName, by);
}

async function findAndCache(ctx: Context, name: string, by: { readonly isHost: boolean }): Promise<Reached> {
  const look = lookAt(ctx, ctx.clock.elapsed());
  const reached = await reach(ctx, name, by);
  rememberBucket(ctx, reached.bucket, look);
  return reached;
}
