/** Access control lists as the public API defines them: canned ones as grants, and the tests for public and plain lists. */
import type { Grant } from '../../metadata/tables.ts';

/** Whether an ACL belongs to a bucket or to an object. */
export type AclOf = 'bucket' | 'object';

/** The largest number of grants in one ACL (public API). */
export const grantsMax = 100;

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

interface CannedAcl {
  /** The grants, without the owner's full control. */
  readonly beside: (owners: AclOwners) => readonly Grant[];
  readonly isForBucketsOnly?: true;
  /** Under BucketOwnerPreferred, the bucket's owner owns an object that is written with it. */
  readonly handsOver?: true;
  /**
   * Under BucketOwnerEnforced it is accepted, because it changes nothing: always, or only when the bucket's owner writes an object. Absent:
   * refused.
   */
  readonly changesNothing?: 'always' | 'for-own-writes';
}

const cannedAcls: ReadonlyMap<string, CannedAcl> = /* @__PURE__ */ new Map(
  /* @__PURE__ */ Object.entries<CannedAcl>({
    private: { beside: () => [], changesNothing: 'for-own-writes' },
    'public-read': { beside: () => [toGroup('AllUsers', 'READ')] },
    'public-read-write': { beside: () => [toGroup('AllUsers', 'READ'), toGroup('AllUsers', 'WRITE')] },
    'authenticated-read': { beside: () => [toGroup('AuthenticatedUsers', 'READ')] },
    // The service has no machine images, so there is no image service to grant anything to.
    'aws-exec-read': { beside: () => [] },
    'bucket-owner-read': { beside: ({ bucketOwner }) => [toUser(bucketOwner, 'READ')] },
    'bucket-owner-full-control': {
      beside: ({ bucketOwner }) => [toUser(bucketOwner, 'FULL_CONTROL')],
      handsOver: true,
      changesNothing: 'always',
    },
    'log-delivery-write': {
      beside: () => [toGroup('LogDelivery', 'WRITE'), toGroup('LogDelivery', 'READ_ACP')],
      isForBucketsOnly: true,
    },
  }),
);

/** The canned ACL of that name; undefined when this kind of resource has none. */
export function cannedAcl(of: AclOf, name: string): CannedAcl | undefined {
  const found = cannedAcls.get(name);
  return found?.isForBucketsOnly === true && of === 'object' ? undefined : found;
}

/** The grants of an ACL, without a grant to the bucket's owner when the bucket's owner has full control already. */
export function resolveGrants(input: RequestedAcl, owners: AclOwners): readonly Grant[] {
  if ('grants' in input) return input.grants;
  const { owner, bucketOwner } = owners;
  const others = input.canned.beside(owners);
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
