/** The actions that the grants of an ACL allow (the public API's table of permissions and actions). */
import { isPublicGrant } from '../../domain/access/acl.ts';
import type { Grant } from '../../metadata/tables.ts';
import type { Reach } from './document/principals.ts';
import type { Principal } from './request.ts';

export type { Grant } from '../../metadata/tables.ts';

export type Permission = Grant['permission'];

interface Need {
  /** Whose ACL: the bucket's or the object's. */
  readonly acl: 'bucket' | 'object';
  readonly permission: Exclude<Permission, 'FULL_CONTROL'>;
}
const needs = (
  acl: Need['acl'],
  permission: Need['permission'],
  actions: string,
): readonly [string, Need][] =>
  actions.split(' ').map((action) => [`s3:${action.toLowerCase()}`, { acl, permission }]);

/** By action in lower case; an action that is not here is never granted by an ACL. */
const needByAction: ReadonlyMap<string, Need> = new Map([
  ...needs('bucket', 'READ', 'ListBucket ListBucketVersions ListBucketMultipartUploads'),
  ...needs('bucket', 'WRITE', 'PutObject DeleteObject'),
  ...needs('bucket', 'READ_ACP', 'GetBucketAcl'),
  ...needs('bucket', 'WRITE_ACP', 'PutBucketAcl'),
  ...needs('object', 'READ', 'GetObject GetObjectVersion GetObjectTorrent'),
  ...needs('object', 'READ_ACP', 'GetObjectAcl GetObjectVersionAcl'),
  ...needs('object', 'WRITE_ACP', 'PutObjectAcl PutObjectVersionAcl'),
]);

/** Actions on an object or upload that the object's owner decides, when new objects belong to their writer. */
const ownerActions = new Set(
  [
    'GetObject GetObjectVersion GetObjectTorrent GetObjectVersionTorrent GetObjectAttributes',
    'GetObjectVersionAttributes GetObjectAcl GetObjectVersionAcl PutObjectAcl PutObjectVersionAcl',
    'AbortMultipartUpload ListMultipartUploadParts',
  ]
    .join(' ')
    .split(' ')
    .map((name) => `s3:${name.toLowerCase()}`),
);
export const isObjectOwnerAction = (action: string): boolean => ownerActions.has(action.toLowerCase());

const logDelivery = 'logging.s3.amazonaws.com';

function reachOfGrantee(grantee: Grant['grantee'], principal: Principal): Reach | undefined {
  if (grantee.is === 'user') {
    if (principal.account === '' || grantee.id !== principal.account) return undefined;
    return principal.kind === 'root' ? 'direct' : 'account';
  }
  if (grantee.group === 'AllUsers') return 'direct';
  if (grantee.group === 'LogDelivery') return principal.service === logDelivery ? 'direct' : undefined;
  return principal.account === '' ? undefined : 'direct';
}

export interface Acls {
  readonly bucket: readonly Grant[];
  /** Undefined when the request is not about an existing object. */
  readonly object?: readonly Grant[] | undefined;
}

/** How the ACLs reach the caller for an action, or undefined. */
export function reachOfAcls(
  { action, principal }: { readonly action: string; readonly principal: Principal },
  acls: Acls,
  ignorePublic: boolean,
): Reach | undefined {
  const need = needByAction.get(action.toLowerCase());
  if (need === undefined) return undefined;
  let best: Reach | undefined;
  for (const grant of acls[need.acl] ?? []) {
    if (grant.permission !== need.permission && grant.permission !== 'FULL_CONTROL') continue;
    if (ignorePublic && isPublicGrant(grant)) continue;
    const reach = reachOfGrantee(grant.grantee, principal);
    if (reach === 'direct') return reach;
    best ??= reach;
  }
  return best;
}
