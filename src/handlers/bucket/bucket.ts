/** CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation (spec "Bucket and object operations"). */
import { callerOf } from '../../auth/principal.ts';
import { createBucket, deleteBucket } from '../../domain/buckets.ts';
import { fail } from '../../errors/refusal.ts';
import { readXml } from '../../protocol/codec.ts';
import { createBucketConfiguration, locationConstraint } from '../../protocol/schemas/bucket.ts';
import { type Call, type HandlerOf, header } from '../call.ts';
import { cannedAclOf } from '../object/object-headers.ts';
import { emptyReply, xmlReply } from '../xml-reply.ts';
import { assertBucketName } from './bucket-name.ts';

const bodyMax = 64 * 1024;

export const CreateBucket: HandlerOf<'CreateBucket'> = async (ctx, call) => {
  const { bucketName, identity } = call;
  if (identity === undefined) throw fail('AccessDenied');
  assertBucketName(bucketName);
  cannedAclOf(call);
  const bucket = await createBucket(ctx, {
    name: bucketName,
    owner: identity.owner,
    ownerName: identity.displayName,
    creator: creatorOf(identity),
    region: regionOf(call, ctx.config.SVC_REGION),
    objectLock: header(call, 'bucket-object-lock-enabled')?.toLowerCase() === 'true',
    documents: {},
    record: call.record,
  });
  return emptyReply(200, [['Location', `/${bucket.name}`]]);
};

/** The user's name, or what stands for the root or a session. */
function creatorOf(identity: NonNullable<Call['identity']>): string {
  const { username, userid } = callerOf(identity);
  return username ?? userid;
}

/** The region of the body; an empty body means this endpoint's own. */
function regionOf({ body }: Call, own: string): string {
  if (body.length === 0) return own;
  const { LocationConstraint, Tags } = readXml(createBucketConfiguration, 'CreateBucketConfiguration', body, {
    maxBytes: bodyMax,
  });
  if (Tags !== undefined && Tags.length > 0)
    throw fail('NotImplemented', 'Tags at the creation of a bucket are not implemented.');
  if (LocationConstraint === undefined || LocationConstraint === '') return own;
  if (/^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/.test(LocationConstraint)) return LocationConstraint;
  throw fail('InvalidLocationConstraint', { elements: { LocationConstraint } });
}

export const HeadBucket: HandlerOf<'HeadBucket'> = async (_ctx, { bucket }) =>
  emptyReply(200, [
    ['*-bucket-region', bucket.region],
    ['*-access-point-alias', 'false'],
    ['Content-Type', 'application/xml'],
  ]);

export const DeleteBucket: HandlerOf<'DeleteBucket'> = async (ctx, { bucket, record, requestId }) => {
  await deleteBucket(ctx, bucket.name, { record, requestId });
  return emptyReply(204);
};

/** The region that is called `default` is shown as empty (spec "GetBucketLocation"). */
export const GetBucketLocation: HandlerOf<'GetBucketLocation'> = async (_ctx, { bucket }) =>
  xmlReply(locationConstraint, 'LocationConstraint', bucket.region === 'default' ? '' : bucket.region);
