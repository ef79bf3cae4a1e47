/** What a new bucket may be: its name, its region, and its first configurations. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { RequestedAcl } from '../../domain/access/acl.ts';
import { isPlainAcl, resolveGrants } from '../../domain/access/acl.ts';
import type { Ownership } from '../../domain/access/object-ownership.ts';
import {
  bucketAcl,
  bucketTagging,
  type OwnershipControls,
  ownershipControls,
  type Tagging,
} from '../../domain/configurations/families.ts';

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

const withAcls = (fallback: Ownership): Ownership =>
  fallback === 'BucketOwnerEnforced' ? 'ObjectWriter' : fallback;

interface FirstConfigurations {
  readonly acl: RequestedAcl | undefined;
  readonly ownership: Ownership | undefined;
  readonly tags: Tagging;
}

/** The texts of the first configurations of a bucket. @throws InvalidBucketAclWithObjectOwnership */
export function firstDocuments(
  { acl, ownership: asked, tags }: FirstConfigurations,
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
  /--table-s3$/,
  /\.mrap$/,
  /^amzn-s3-demo-/,
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
