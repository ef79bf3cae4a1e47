/** CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation, the tags, request payment, and the site of a replica. */
import { authorize } from '../../auth/authorize.ts';
import { callerOf } from '../../auth/principal.ts';
import { fail } from '../../base/errors.ts';
import { assertNoAccessPoint, assertUnattached } from '../../domain/access/access-points.ts';
import type { RequestedAcl } from '../../domain/access/acl.ts';
import { type Ownership, ownerships } from '../../domain/access/object-ownership.ts';
import { createBucket, deleteBucket } from '../../domain/buckets/bucket.ts';
import { bucketTagging, requestPayment, type Tagging } from '../../domain/configurations/families.ts';
import { findSite } from '../../metadata/site.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import {
  type CreateBucketConfiguration,
  createBucketConfiguration,
  locationConstraint,
  requestPaymentConfiguration,
} from '../../protocol/schemas/bucket.ts';
import { tagging } from '../../protocol/schemas/object.ts';
import type { ReadFacts } from '../../request/body.ts';
import { checkTag, readChoice, readFlag } from '../../request/parameters.ts';
import { type Authorized, admitToBucket } from '../../request/request.ts';
import { requestedAcl } from '../common/acl.ts';
import { document } from '../common/document.ts';
import { acceptRegion, assertBucketName, firstDocuments } from '../common/new-bucket.ts';
import { emptyReply, type HandlerOf, type WithFacts, xmlReply } from '../handler.ts';

// HeadBucket, DeleteBucket, GetBucketLocation.

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

// GetReplicaSite: tells another site that this service takes replicas with their version ids.

/** The version of the requests between sites. */
const protocol = 1;

export const GetReplicaSite: HandlerOf<'GetReplicaSite'> = async (ctx, request) => {
  const { bucket } = request;
  // A policy about replicas names the objects of the bucket.
  await authorize(ctx, request, { bucket, bucketName: bucket.name, key: '*', action: 's3:ReplicateObject' });
  await admitToBucket(ctx, request);
  const { versioning, objectLock, owner } = bucket;
  return {
    status: 200,
    headers: [['Content-Type', 'application/json']],
    body: JSON.stringify({ protocol, site: await findSite(ctx), versioning, objectLock, owner }),
  };
};

// GetBucketRequestPayment, PutBucketRequestPayment; what they mean for requests is in `auth/authorize.ts`.

const configuration = document({
  family: requestPayment,
  schema: requestPaymentConfiguration,
  unset: { Payer: 'BucketOwner' },
});

export const requestPayer = configuration.configuration;
export const GetBucketRequestPayment = configuration.get;
export const PutBucketRequestPayment = configuration.put;

/** Tags and region are facts of the authorization; tags also require a permission of their own. */
const creationFacts: ReadFacts = (body) => {
  const { LocationConstraint = '', Tags = [] } = creationIn(body);
  const named = new Map<string, string | readonly string[]>([
    ...Tags.map(({ Key, Value }) => [`aws:RequestTag/${Key}`, Value] as const),
    ['aws:TagKeys', Tags.map(({ Key }) => Key)],
  ]);
  if (LocationConstraint !== '') named.set('s3:LocationConstraint', LocationConstraint);
  return { named, along: Tags.length === 0 ? [] : ['s3:TagResource'] };
};

/** CreateBucket: a bucket with the region, tags, ownership and ACL of the request. */
export const CreateBucket: WithFacts<'CreateBucket'> = {
  facts: creationFacts,
  async handle(ctx, request) {
    const { bucketName, identity } = request;
    if (identity === undefined) throw fail('AccessDenied');
    assertBucketName(bucketName);
    await assertNoAccessPoint(ctx, bucketName);
    if (readChoice(request, 'bucket-namespace', ['global', 'account-regional']) === 'account-regional')
      throw fail(
        'NotImplemented',
        'bucket-namespace account-regional is not implemented: leave it out, and the name is taken for all accounts.',
      );
    const asked: Asked = {
      region: acceptRegion(ctx.config, creationIn(request.body).LocationConstraint),
      tags: checkBucketTags({ TagSet: creationIn(request.body).Tags ?? [] }),
      ownership: readChoice(request, 'object-ownership', ownerships),
      acl: await requestedAcl(ctx, request, 'bucket'),
      objectLock: readFlag(request, 'bucket-object-lock-enabled') ?? false,
    };
    const { owner } = identity;
    const bucket = await createBucket(ctx, {
      name: bucketName,
      owner,
      ownerName: (await ctx.credentials.account({ owner }))?.displayName ?? identity.displayName,
      creator: nameCreator(identity),
      ...describeCreator(identity),
      region: asked.region ?? ctx.config.SVC_REGION,
      objectLock: asked.objectLock,
      documents: firstDocuments(asked, owner, ctx.config.SVC_DEFAULT_OWNERSHIP),
      record: request.record,
    });
    return emptyReply(200, [['Location', `/${bucket.name}`]]);
  },
};

/** The user's name, or the id of the root or session. */
function nameCreator(identity: NonNullable<Authorized['identity']>): string {
  const { username, userid } = callerOf(identity);
  return username ?? userid;
}

/** Of an IAM user: a quota of the user counts the buckets that it creates, also by a session of a role of its account. */
function describeCreator(identity: NonNullable<Authorized['identity']>): { readonly creatorId?: string } {
  const { iam, owner, session } = identity;
  if (iam !== undefined && callerOf(identity).kind === 'user') return { creatorId: iam.id };
  const by = session?.by;
  return by?.user !== undefined && by.account === owner ? { creatorId: by.user } : {};
}

interface Asked {
  readonly region: string | undefined;
  readonly tags: Tagging;
  readonly ownership: Ownership | undefined;
  readonly acl: RequestedAcl | undefined;
  readonly objectLock: boolean;
}

/** The configuration in the body; an empty body is an empty configuration. */
const creationIn = (body: Uint8Array): CreateBucketConfiguration =>
  body.length === 0
    ? {}
    : readXml(createBucketConfiguration, 'CreateBucketConfiguration', body, { maxBytes: bodyMaxDefault });

// GetBucketTagging, PutBucketTagging, DeleteBucketTagging.

const tagsMax = 50;

const tagConfiguration = document({
  family: bucketTagging,
  schema: tagging,
  unset: 'NoSuchTagSet',
  putStatus: 204,
  validate: async (_ctx, { checks }, value) => {
    const right = `at most ${tagsMax} tags, each key once`;
    await checks.at({ path: 'TagSet', right }, () => checkTagSet(value));
    for (const [index, { Key, Value }] of value.TagSet.entries())
      await checks.at({ path: `TagSet[${index}]` }, () => checkTag([Key, Value]));
    return sortTags(value);
  },
});

export const bucketTags = tagConfiguration.configuration;
export const GetBucketTagging = tagConfiguration.get;
export const PutBucketTagging = tagConfiguration.put;
export const DeleteBucketTagging = tagConfiguration.remove;

/** The tags in the order of their keys. @throws BadRequest for too many, InvalidTag naming the key */
function checkBucketTags(value: Tagging): Tagging {
  checkTagSet(value);
  for (const { Key, Value } of value.TagSet) checkTag([Key, Value]);
  return sortTags(value);
}

function checkTagSet(value: Tagging): void {
  if (value.TagSet.length > tagsMax)
    throw fail('BadRequest', `Bucket tag count cannot be greater than ${tagsMax}`);
  const keys = new Set<string>();
  for (const { Key } of value.TagSet) {
    if (keys.has(Key))
      throw fail('InvalidTag', {
        message: 'Cannot provide multiple Tags with the same key',
        elements: { TagKey: Key },
      });
    keys.add(Key);
  }
}

const sortTags = ({ TagSet }: Tagging): Tagging => ({
  TagSet: TagSet.toSorted((a, b) => (a.Key < b.Key ? -1 : 1)),
});
