/** GetBucketOwnershipControls, PutBucketOwnershipControls, DeleteBucketOwnershipControls (spec "Ownership controls"). */
import { readDocument } from '../../domain/documents.ts';
import { bucketAcl, ownershipControls as family } from '../../domain/families.ts';
import { fail } from '../../errors/refusal.ts';
import { ownershipControls } from '../../protocol/schemas/ownership-controls.ts';
import { document } from '../document.ts';

const documentOf = document({
  family,
  root: 'OwnershipControls',
  schema: ownershipControls,
  unset: 'OwnershipControlsNotFoundError',
  // An ACL that is set at the same moment does no harm: under this setting the engine looks at none.
  validate: async (ctx, { bucket }, value) => {
    if (value.Rule[0]?.ObjectOwnership !== 'BucketOwnerEnforced') return value;
    const grants = (await readDocument(ctx, bucket, bucketAcl)) ?? [];
    const isOwners = grants.every(({ grantee }) => grantee.is === 'user' && grantee.id === bucket.owner);
    if (!isOwners) throw fail('InvalidBucketAclWithObjectOwnership');
    return value;
  },
});

export const GetBucketOwnershipControls = documentOf.get;
export const PutBucketOwnershipControls = documentOf.put;
export const DeleteBucketOwnershipControls = documentOf.remove;
