/** The storage class of what is written to a bucket without one. */
import { toWireClass } from '../../../config/values/storage-classes.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { changeBucket } from '../../../domain/buckets/change-bucket.ts';
import { fail } from '../../../errors/refusal.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const defaultClassJson = ({ name, defaultClass }: BucketRow) => ({
  bucket: name,
  defaultClass: defaultClass ?? 'STANDARD',
  isSet: defaultClass !== undefined,
});

export const GetBucketDefaultClass: AdminHandler<'GetBucketDefaultClass'> = async (ctx, { params }) =>
  jsonReply(defaultClassJson(await openBucket(ctx, params.get('name') ?? '')));

export const PutBucketDefaultClass: AdminHandler<'PutBucketDefaultClass'> = async (
  ctx,
  { params, body, record, match },
) => {
  const asked = body.defaultClass;
  const defaultClass = toWireClass(asked);
  if (defaultClass === undefined)
    throw fail('InvalidStorageClass', { elements: { StorageClassRequested: asked } });
  const change = (bucket: BucketRow): BucketRow => {
    match(defaultClassJson(bucket));
    return { ...bucket, defaultClass };
  };
  return jsonReply(
    defaultClassJson(
      await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change }),
    ),
  );
};

export const DeleteBucketDefaultClass: AdminHandler<'DeleteBucketDefaultClass'> = async (
  ctx,
  { params, record, match },
) => {
  const change = (row: BucketRow): BucketRow => {
    match(defaultClassJson(row));
    const { defaultClass: _, ...bucket } = row;
    return bucket;
  };
  await changeBucket(ctx, await openBucket(ctx, params.get('name') ?? ''), { record, change });
  return { status: 204, headers: [] };
};
