/** The XML body of an ACL: read into grants, written from them (public API "PutObjectAcl", "GetObjectAcl"). */
import type { Context } from '../../../context.ts';
import { fail, Refusal } from '../../../errors/refusal.ts';
import type { BucketRow, Grant } from '../../../metadata/tables.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import type { HeaderPair, Reply } from '../../../protocol/reply/reply.ts';
import {
  type AccessControlPolicy,
  accessControlPolicy,
  type Grantee,
} from '../../../protocol/schemas/access/acl.ts';
import { type Checks, firstRefusal } from '../../common/checks.ts';
import { namedOwner, ownerNames } from '../../common/owners.ts';
import { defined } from '../../common/parameters.ts';
import { xmlReply } from '../../common/xml-reply.ts';
import { emailGrant, groupGrant, uriOf, userGrant } from './given-acl.ts';

const root = 'AccessControlPolicy';

/** @throws MalformedACLError, AccessDenied for another owner, and what grantees are refused with */
export async function readAclBody(
  ctx: Pick<Context, 'credentials'>,
  body: Uint8Array,
  owner: string,
): Promise<readonly Grant[]> {
  return readAcl(ctx, parse(body), { owner, checks: firstRefusal });
}

/** @throws as `readAclBody`, where `checks` does not gather refusals */
export async function readAcl(
  ctx: Pick<Context, 'credentials'>,
  { Owner, AccessControlList }: AccessControlPolicy,
  { owner, checks }: { readonly owner: string; readonly checks: Checks },
): Promise<readonly Grant[]> {
  await checks.at({ path: 'Owner.ID', right: `the owner of the bucket or object, ${owner}` }, () => {
    if (Owner?.ID === undefined) throw fail('MalformedACLError', 'The Owner of an ACL must have an ID.');
    // An ACL cannot change the owner.
    if (Owner.ID !== owner) throw fail('AccessDenied');
  });
  const grants: Grant[] = [];
  for (const [index, { Grantee, Permission }] of AccessControlList.entries()) {
    const path = `AccessControlList[${index}].Grantee`;
    const grant = await checks.at({ path }, () => readGrantee(ctx, Grantee, Permission));
    if (grant !== undefined) grants.push(grant);
  }
  return grants;
}

function parse(body: Uint8Array): AccessControlPolicy {
  try {
    return readXml(accessControlPolicy, root, body, { maxBytes: bodyMaxDefault });
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === 'MalformedXML')
      throw fail('MalformedACLError', { message: cause.message, cause });
    throw cause;
  }
}

/** @throws MalformedACLError, and the refusal of an unknown grantee */
export async function readGrantee(
  ctx: Pick<Context, 'credentials'>,
  { type, ID, EmailAddress, URI }: Grantee,
  permission: Grant['permission'],
): Promise<Grant> {
  const [named, ...others] = Object.entries(defined({ ID, EmailAddress, URI }));
  const wanted = { CanonicalUser: 'ID', AmazonCustomerByEmail: 'EmailAddress', Group: 'URI' }[type];
  if (named === undefined || others.length > 0 || named[0] !== wanted)
    throw fail('MalformedACLError', `A Grantee of type ${type} is named by its ${wanted} alone.`);
  const [, value] = named;
  if (type === 'CanonicalUser') return userGrant(value, permission);
  return type === 'Group' ? groupGrant(value, permission) : emailGrant(ctx, value, permission);
}

export interface ShownAcl {
  readonly bucket: BucketRow;
  readonly owner: string;
  readonly grants: readonly Grant[];
  readonly headers?: readonly HeaderPair[];
}

/** The order in which the public service shows them. */
const groupsFirst = (grants: readonly Grant[]): readonly Grant[] => [
  ...grants.filter(({ grantee }) => grantee.is === 'group'),
  ...grants.filter(({ grantee }) => grantee.is === 'user'),
];

export const aclReply = async (ctx: Pick<Context, 'credentials'>, acl: ShownAcl): Promise<Reply> =>
  xmlReply(accessControlPolicy, root, await toAcl(ctx, acl), acl.headers);

export async function toAcl(
  ctx: Pick<Context, 'credentials'>,
  { bucket, owner, grants }: ShownAcl,
): Promise<AccessControlPolicy> {
  const ids = grants.flatMap(({ grantee }) => (grantee.is === 'user' ? [grantee.id] : []));
  const names = await ownerNames(ctx, bucket, [owner, ...ids]);
  return {
    Owner: namedOwner(names, owner),
    AccessControlList: groupsFirst(grants).map(({ grantee, permission }) => ({
      Grantee:
        grantee.is === 'user'
          ? { type: 'CanonicalUser' as const, ...namedOwner(names, grantee.id) }
          : { type: 'Group' as const, URI: uriOf(grantee.group) },
      Permission: permission,
    })),
  };
}
