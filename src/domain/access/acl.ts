/** Access control lists as the public API defines them: canned ones as grants, and the tests for public and plain lists. */
import type { Grant } from '../../metadata/tables.ts';

/** Whether an ACL belongs to a bucket or to an object. */
export type AclOf = 'bucket' | 'object';

/** The largest number of grants in one ACL (public API). */
export const grantsMax = 100;

const cannedOfObjects = [
  'private',
  'public-read',
  'public-read-write',
  'authenticated-read',
  'aws-exec-read',
  'bucket-owner-read',
  'bucket-owner-full-control',
] as const;
const cannedNames = { bucket: [...cannedOfObjects, 'log-delivery-write'], object: cannedOfObjects } as const;
type CannedAcl = (typeof cannedNames)['bucket'][number];

/** The canned ACL of that name; undefined when this kind of resource has none. */
export const cannedAcl = (of: AclOf, name: string): CannedAcl | undefined =>
  cannedNames[of].find((each) => each === name);

/** An ACL as a request gives it: a canned ACL, or grants. */
export type RequestedAcl = { readonly canned: CannedAcl } | { readonly grants: readonly Grant[] };

export interface AclOwners {
  /** The account that owns the bucket or object with this ACL. */
  readonly owner: string;
  readonly bucketOwner: string;
}

type Permission = Grant['permission'];
export const toUser = (id: string, permission: Permission): Grant => ({
  grantee: { is: 'user', id },
  permission,
});
export type Group = Extract<Grant['grantee'], { is: 'group' }>['group'];
export const toGroup = (group: Group, permission: Permission): Grant => ({
  grantee: { is: 'group', group },
  permission,
});

export const groupUris: Readonly<Record<Group, string>> = {
  AllUsers: 'http://acs.amazonaws.com/groups/global/AllUsers',
  AuthenticatedUsers: 'http://acs.amazonaws.com/groups/global/AuthenticatedUsers',
  LogDelivery: 'http://acs.amazonaws.com/groups/s3/LogDelivery',
};

/** The grants of a canned ACL, without the owner's full control. */
const beside: Readonly<Record<CannedAcl, (owners: AclOwners) => readonly Grant[]>> = {
  private: () => [],
  'public-read': () => [toGroup('AllUsers', 'READ')],
  'public-read-write': () => [toGroup('AllUsers', 'READ'), toGroup('AllUsers', 'WRITE')],
  'authenticated-read': () => [toGroup('AuthenticatedUsers', 'READ')],
  // The service has no machine images, so there is no image service to grant anything to.
  'aws-exec-read': () => [],
  'bucket-owner-read': ({ bucketOwner }) => [toUser(bucketOwner, 'READ')],
  'bucket-owner-full-control': ({ bucketOwner }) => [toUser(bucketOwner, 'FULL_CONTROL')],
  'log-delivery-write': () => [toGroup('LogDelivery', 'WRITE'), toGroup('LogDelivery', 'READ_ACP')],
};

/** The grants of an ACL, without a grant to the bucket's owner when the bucket's owner has full control already. */
export function resolveGrants(input: RequestedAcl, owners: AclOwners): readonly Grant[] {
  if ('grants' in input) return input.grants;
  const { owner, bucketOwner } = owners;
  const others = beside[input.canned](owners);
  const isOwn = owner === bucketOwner;
  return [
    toUser(owner, 'FULL_CONTROL'),
    ...others.filter(({ grantee }) => !(isOwn && grantee.is === 'user')),
  ];
}

/** Whether the grants are the owner's full control and nothing else, like those of an absent ACL. */
export const isPlainAcl = (grants: readonly Grant[], owner: string): boolean =>
  grants.length > 0 &&
  grants.every(
    ({ grantee, permission }) =>
      permission === 'FULL_CONTROL' && grantee.is === 'user' && grantee.id === owner,
  );

export const isPublicGrant = ({ grantee }: Grant): boolean =>
  grantee.is === 'group' && grantee.group !== 'LogDelivery';

/** Whether an ACL is public, for BlockPublicAcls and the policy status. */
export const isPublicAcl = (grants: readonly Grant[]): boolean => grants.some(isPublicGrant);
