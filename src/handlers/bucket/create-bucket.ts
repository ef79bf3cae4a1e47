/** CreateBucket: a bucket with the region, tags, ownership and ACL of the request. */
import { callerOf } from '../../auth/session/principal.ts';
import { fail } from '../../base/errors.ts';
import { assertNoAccessPoint } from '../../domain/access/access-points.ts';
import type { GivenAcl } from '../../domain/access/acl.ts';
import { type Ownership, ownerships } from '../../domain/access/object-ownership.ts';
import { createBucket } from '../../domain/buckets/create-bucket.ts';
import type { Tagging } from '../../domain/configurations/families.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { type CreateBucketConfiguration, createBucketConfiguration } from '../../protocol/schemas/bucket.ts';
import type { ReadFacts } from '../../request/body.ts';
import { header } from '../../request/own-headers.ts';
import type { Authorized } from '../../request/request.ts';
import { givenAcl } from '../common/acl.ts';
import { checkBucketTags } from '../common/bucket-tags.ts';
import { acceptRegion, assertBucketName, firstDocuments } from '../common/new-bucket.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';

export const CreateBucket: HandlerOf<'CreateBucket'> = async (ctx, request) => {
  const { bucketName, identity } = request;
  if (identity === undefined) throw fail('AccessDenied');
  assertBucketName(bucketName);
  await assertNoAccessPoint(ctx, bucketName);
  const asked: Asked = {
    region: acceptRegion(ctx.config, creationIn(request.body).LocationConstraint),
    tags: checkBucketTags({ TagSet: creationIn(request.body).Tags ?? [] }),
    ownership: readOwnership(request),
    acl: await givenAcl(ctx, request, 'bucket'),
    objectLock: header(request, 'bucket-object-lock-enabled')?.toLowerCase() === 'true',
  };
  const { owner } = identity;
  const bucket = await createBucket(ctx, {
    name: bucketName,
    owner,
    ownerName: (await ctx.credentials.account({ owner }))?.displayName ?? identity.displayName,
    creator: nameCreator(identity),
    ...creatorIdOf(identity),
    region: asked.region ?? ctx.config.SVC_REGION,
    objectLock: asked.objectLock,
    documents: firstDocuments(asked, owner, ctx.config.SVC_DEFAULT_OWNERSHIP),
    record: request.record,
  });
  return emptyReply(200, [['Location', `/${bucket.name}`]]);
};

/** The user's name, or the id of the root or session. */
function nameCreator(identity: NonNullable<Authorized['identity']>): string {
  const { username, userid } = callerOf(identity);
  return username ?? userid;
}

/** Of an IAM user: a quota of the user counts the buckets that it creates. */
function creatorIdOf(identity: NonNullable<Authorized['identity']>): { readonly creatorId?: string } {
  const { iam } = identity;
  return iam !== undefined && callerOf(identity).kind === 'user' ? { creatorId: iam.id } : {};
}

interface Asked {
  readonly region: string | undefined;
  readonly tags: Tagging;
  readonly ownership: Ownership | undefined;
  readonly acl: GivenAcl | undefined;
  readonly objectLock: boolean;
}

/** The configuration in the body; an empty body is an empty configuration. */
const creationIn = (body: Uint8Array): CreateBucketConfiguration =>
  body.length === 0
    ? {}
    : readXml(createBucketConfiguration, 'CreateBucketConfiguration', body, { maxBytes: bodyMaxDefault });

/** Tags and region are facts of the authorization; tags also require a permission of their own. */
export const creationFacts: ReadFacts = (body) => {
  const { LocationConstraint = '', Tags = [] } = creationIn(body);
  const named = new Map<string, string | readonly string[]>([
    ...Tags.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value] as const),
    ['aws:TagKeys', Tags.map(({ Key }) => Key)],
  ]);
  if (LocationConstraint !== '') named.set('s3:LocationConstraint', LocationConstraint);
  return { named, along: Tags.length === 0 ? [] : ['s3:TagResource'] };
};

function readOwnership(request: Authorized): Ownership | undefined {
  const raw = header(request, 'object-ownership');
  if (raw === undefined) return undefined;
  const known = ownerships.find((each) => each === raw);
  if (known !== undefined) return known;
  throw fail('InvalidArgument', {
    message: `object-ownership is one of ${ownerships.join(', ')}`,
    elements: { ArgumentName: 'object-ownership', ArgumentValue: raw },
  });
}
