/** HeadBucket, DeleteBucket, GetBucketLocation. */
import { assertUnattached } from '../../domain/access/access-points.ts';
import { deleteBucket } from '../../domain/buckets/buckets.ts';
import { locationConstraint } from '../../protocol/schemas/bucket/bucket.ts';
import { emptyReply, xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

export const HeadBucket: HandlerOf<'HeadBucket'> = async (_ctx, { bucket, accessPoint }) =>
  emptyReply(200, [
    ['*-bucket-region', bucket.region],
    ['*-access-point-alias', String(accessPoint !== undefined)],
    ['Content-Type', 'application/xml'],
  ]);

export const DeleteBucket: HandlerOf<'DeleteBucket'> = async (ctx, { bucket, record, requestId }) => {
  await deleteBucket(ctx, bucket, { record, requestId, assertUnused: () => assertUnattached(ctx, bucket) });
  return emptyReply(204);
};

/** Shown as empty: the region called `default` (specification), and the one that the public API shows so. */
const unnamed = ['default', 'us-east-1'];
export const GetBucketLocation: HandlerOf<'GetBucketLocation'> = async (_ctx, { bucket }) =>
  xmlReply(locationConstraint, 'LocationConstraint', unnamed.includes(bucket.region) ? '' : bucket.region);
