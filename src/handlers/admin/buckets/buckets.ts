/** Creates and deletes buckets for an operator. */
import { callerOf } from '../../../auth/session/principal.ts';
import { assertNoAccessPoint, assertUnattached } from '../../../domain/access/access-points.ts';
import { explainKept } from '../../../domain/buckets/bucket-remains.ts';
import { deleteBucket, lookUpBucket, openBucket } from '../../../domain/buckets/buckets.ts';
import { createBucket } from '../../../domain/buckets/create-bucket.ts';
import { fail } from '../../../errors/refusal.ts';
import { assertBucketName } from '../../bucket/bucket-name.ts';
import { acceptRegion, firstDocuments } from '../../bucket/create-bucket.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const CreateBucket: AdminHandler<'CreateBucket'> = async (ctx, { body, identity, record }) => {
  const { name, owner, region, objectLock = false, versioning = false } = body;
  record?.about(`bucket:${name}`);
  if (identity === undefined) throw fail('AccessDenied');
  assertBucketName(name);
  await assertNoAccessPoint(ctx, name);
  const account = await ctx.credentials.account({ owner });
  if (account === undefined)
    throw fail('InvalidArgument', { message: `There is no account ${owner}.`, field: 'owner' });
  // The storage protocol answers its owner with the bucket that exists; an operator may have asked for another region or lock.
  if ((await lookUpBucket(ctx, name)) !== undefined)
    throw fail('BucketAlreadyExists', {
      message: `There is a bucket ${name}.`,
      elements: { BucketName: name },
    });
  const { username, userid } = callerOf(identity);
  const made = {
    owner: account.owner,
    region: acceptRegion(ctx.config, region) ?? ctx.config.SVC_REGION,
    objectLock,
  };
  record?.change?.(undefined, { ...made, versioning: versioning || objectLock ? 'Enabled' : 'unset' });
  const asked = { acl: undefined, ownership: undefined, tags: { TagSet: [] } };
  const bucket = await createBucket(ctx, {
    name,
    ...made,
    ownerName: account.displayName,
    creator: username ?? userid,
    ...(versioning ? { versioning: 'Enabled' as const } : {}),
    documents: firstDocuments(asked, account.owner, ctx.config.SVC_DEFAULT_OWNERSHIP),
    record,
  });
  return jsonReply(
    {
      name: bucket.name,
      owner: bucket.owner,
      region: bucket.region,
      created: new Date(bucket.created).toISOString(),
      versioning: bucket.versioning || ('unset' as const),
      objectLock: bucket.objectLock,
    },
    201,
  );
};

export const DeleteBucket: AdminHandler<'DeleteBucket'> = async (ctx, { params, record, requestId }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const { owner, region, objectLock, versioning } = bucket;
  record?.change?.({ owner, region, objectLock, versioning: versioning || 'unset' }, undefined);
  try {
    await deleteBucket(ctx, bucket, { record, requestId, assertUnused: () => assertUnattached(ctx, bucket) });
  } catch (cause) {
    throw await explainKept(ctx, bucket, cause);
  }
  return emptyReply(204);
};
