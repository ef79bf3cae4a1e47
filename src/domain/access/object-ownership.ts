/**
 * Who owns an object that is written into a bucket, and which ACLs the bucket accepts (public API "Controlling ownership of
 * objects", "Blocking public access").
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { AccessPointRow } from '../../metadata/records/access-points.ts';
import type { BucketRow, Grant } from '../../metadata/tables.ts';
import { readDocument } from '../configurations/documents.ts';
import { type OwnershipControls, ownershipControls, publicAccessBlock } from '../configurations/families.ts';
import {
  type AclOf,
  type AclOwners,
  isPlainAcl,
  isPublicAcl,
  type RequestedAcl,
  resolveGrants,
} from './acl.ts';

type Ctx = Pick<Context, 'caches' | 'metadata'>;
export const ownerships = ['BucketOwnerEnforced', 'BucketOwnerPreferred', 'ObjectWriter'] as const;
export type Ownership = OwnershipControls['Rule'][number]['ObjectOwnership'];

export async function readOwnership(ctx: Ctx, bucket: BucketRow): Promise<Ownership> {
  const controls = await readDocument(ctx, bucket, ownershipControls);
  return controls?.Rule[0]?.ObjectOwnership ?? 'ObjectWriter';
}

/** Under BucketOwnerEnforced an ACL is accepted if it changes nothing: the bucket's owner has full control anyway. */
function changesNothing(input: RequestedAcl, { owner, bucketOwner }: AclOwners): boolean {
  if (!('canned' in input)) return isPlainAcl(input.grants, bucketOwner);
  const { changesNothing: when } = input.canned;
  return when === 'always' || (when === 'for-own-writes' && owner === bucketOwner);
}

/** An object's ACL is stored in its row, beside headers of at most 8 KiB and the manifest. */
const objectAclMax = 7168;

const publicAclBlocked = () => fail('AccessDenied', { blockedBy: 'BlockPublicAcls' });

/**
 * A commit calls this with the bucket row that it rests on. A later block fences the commit.
 * @throws AccessDenied when the ACL is public and the bucket blocks public ACLs
 */
export async function assertUnblocked(ctx: Ctx, bucket: BucketRow, grants: readonly Grant[]): Promise<void> {
  const block = await readDocument(ctx, bucket, publicAccessBlock);
  if (block?.BlockPublicAcls === true && isPublicAcl(grants)) throw publicAclBlocked();
}

interface Taking {
  /** The access point that the request came through. */
  readonly accessPoint?: AccessPointRow | undefined;
  readonly of: AclOf;
  readonly bucket: BucketRow;
  /** The owner of the bucket or object. */
  readonly owner: string;
  readonly ownership: Ownership;
}

/**
 * The grants; undefined when ACLs are turned off and the given one changes nothing.
 * @throws AccessControlListNotSupported when ACLs are turned off, AccessDenied when the bucket blocks public ACLs
 */
async function takeAcl(
  ctx: Ctx,
  input: RequestedAcl,
  { of, bucket, owner, ownership, accessPoint }: Taking,
): Promise<readonly Grant[] | undefined> {
  if (ownership === 'BucketOwnerEnforced') {
    if (changesNothing(input, { owner, bucketOwner: bucket.owner })) return undefined;
    throw fail('AccessControlListNotSupported');
  }
  const grants = resolveGrants(input, { owner, bucketOwner: bucket.owner });
  if (accessPoint?.block.BlockPublicAcls === true && isPublicAcl(grants)) throw publicAclBlocked();
  await assertUnblocked(ctx, bucket, grants);
  if (of === 'object' && JSON.stringify(grants).length > objectAclMax)
    throw fail('InvalidRequest', `The ACL of an object takes at most ${objectAclMax} bytes here.`);
  return grants;
}

/** The ACL to store for a bucket or an existing object. */
export async function acceptAcl(
  ctx: Ctx,
  input: RequestedAcl,
  on: Omit<Taking, 'ownership'>,
): Promise<readonly Grant[] | undefined> {
  const ownership = await readOwnership(ctx, on.bucket);
  // The public service refuses `private` as a change, though it ignores the same ACL where the owner writes an object.
  const isOfWrites = 'canned' in input && input.canned.changesNothing === 'for-own-writes';
  if (ownership === 'BucketOwnerEnforced' && isOfWrites) throw fail('AccessControlListNotSupported');
  return takeAcl(ctx, input, { ...on, ownership });
}

export interface ObjectAccess {
  readonly owner: string;
  readonly acl?: readonly Grant[];
}

/** The owner and the ACL of an object that is about to be written. */
export async function accessOfNew(
  ctx: Ctx,
  bucket: BucketRow,
  {
    writer,
    input,
    accessPoint,
  }: Pick<Taking, 'accessPoint'> & { readonly writer: string; readonly input: RequestedAcl | undefined },
): Promise<ObjectAccess> {
  const ownership = await readOwnership(ctx, bucket);
  const isHandedOver = input !== undefined && 'canned' in input && input.canned.handsOver === true;
  const isBucketOwners =
    ownership === 'BucketOwnerEnforced' || (ownership === 'BucketOwnerPreferred' && isHandedOver);
  const owner = isBucketOwners ? bucket.owner : writer;
  if (input === undefined) return { owner };
  // A writer of another account that sends `private` asks to own the object.
  const meant = ownership === 'BucketOwnerEnforced' ? writer : owner;
  const grants = await takeAcl(ctx, input, { of: 'object', bucket, owner: meant, ownership, accessPoint });
  return grants === undefined || isPlainAcl(grants, owner) ? { owner } : { owner, acl: grants };
}
