/** CreateBucket: a bucket with the region, tags, ownership and ACL of the request. */
import { callerOf } from '../../auth/session/principal.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { assertNoAccessPoint } from '../../domain/access/access-points.ts';
import { type GivenAcl, isPlainAcl, resolveGrants } from '../../domain/access/acl.ts';
import { type Ownership, ownerships } from '../../domain/access/object-ownership.ts';
import { createBucket } from '../../domain/buckets/create-bucket.ts';
import {
  bucketAcl,
  bucketTagging,
  type OwnershipControls,
  ownershipControls,
  type Tagging,
} from '../../domain/configurations/families.ts';
import type { Authorized } from '../../gateway/request.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { type CreateBucketConfiguration, createBucketConfiguration } from '../../protocol/schemas/bucket.ts';
import { givenAcl } from '../common/acl.ts';
import type { ReadFacts } from '../common/body.ts';
import { header } from '../common/own-headers.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { checkBucketTags } from './configurations/tagging.ts';

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

/**
 * The region of the body; none means this endpoint's own. Any other is stored with the bucket, because clients name the region that they
 * are configured with, unless regions are strict: then the client could not sign for it.
 */
export function acceptRegion(
  { SVC_REGION, SVC_REGION_STRICT }: Context['config'],
  LocationConstraint = '',
): string | undefined {
  if (LocationConstraint === '' || LocationConstraint === SVC_REGION) return undefined;
  if (!/^[A-Za-z0-9][A-Za-z0-9-]{0,62}$/.test(LocationConstraint))
    throw fail('InvalidLocationConstraint', { elements: { LocationConstraint } });
  if (SVC_REGION_STRICT)
    throw fail('IllegalLocationConstraintException', {
      message: `The ${LocationConstraint} location constraint is incompatible for the region specific endpoint this request was sent to.`,
    });
  return LocationConstraint;
}

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

const withAcls = (fallback: Ownership): Ownership =>
  fallback === 'BucketOwnerEnforced' ? 'ObjectWriter' : fallback;

/** The texts of the first configurations of a bucket. @throws InvalidBucketAclWithObjectOwnership */
export function firstDocuments(
  { acl, ownership: asked, tags }: Pick<Asked, 'acl' | 'ownership' | 'tags'>,
  owner: string,
  fallback: Ownership,
): Record<string, string> {
  const grants = acl === undefined ? [] : resolveGrants(acl, { owner, bucketOwner: owner });
  const isPlain = acl === undefined || isPlainAcl(grants, owner);
  // A request with an ACL enables ACLs, unless it disables them explicitly.
  const ownership = asked ?? (isPlain ? fallback : withAcls(fallback));
  if (ownership === 'BucketOwnerEnforced' && !isPlain) throw fail('InvalidBucketAclWithObjectOwnership');
  const controls: OwnershipControls = { Rule: [{ ObjectOwnership: ownership }] };
  return {
    ...(tags.TagSet.length === 0 ? {} : { [bucketTagging.name]: JSON.stringify(tags) }),
    ...(isPlain ? {} : { [bucketAcl.name]: JSON.stringify(grants) }),
    // Absence means ObjectWriter.
    ...(asked === undefined && ownership === 'ObjectWriter' && fallback === 'ObjectWriter'
      ? {}
      : { [ownershipControls.name]: JSON.stringify(controls) }),
  };
}

// Bucket names: the public API's rules, and the areas of this service.

/** First path segments that mean something else; a bucket of that name could never be addressed by path. */
const reservedNames: ReadonlySet<string> = new Set([
  'admin',
  'console',
  'metrics',
  'healthz',
  'readyz',
  'iam',
]);

const shape = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const forbidden = [
  /\.\./,
  /\.-|-\./,
  /^\d{1,3}(\.\d{1,3}){3}$/,
  /^xn--/,
  /^sthree-/,
  /-s3alias$/,
  /--ol-s3$/,
  /--x-s3$/,
  /^amzn-s3-demo-$/,
];

/** @throws InvalidBucketName saying which rule it breaks */
export function assertBucketName(name: string): void {
  const why = findFault(name);
  if (why !== undefined)
    throw fail('InvalidBucketName', {
      message: `The specified bucket is not valid: ${why}.`,
      elements: { BucketName: name },
    });
}

function findFault(name: string): string | undefined {
  if (reservedNames.has(name)) return `"${name}" is an area of this service`;
  if (!shape.test(name))
    return 'a name has 3 to 63 of a-z, 0-9, "." and "-", and begins and ends with a letter or digit';
  if (forbidden.some((rule) => rule.test(name)))
    return 'it looks like an address, or uses a reserved prefix or suffix, or has adjacent "." and "-"';
  return undefined;
}
