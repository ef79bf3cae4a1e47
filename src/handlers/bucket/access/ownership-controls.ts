/** GetBucketOwnershipControls, PutBucketOwnershipControls, DeleteBucketOwnershipControls. */
import { readDocument } from '../../../domain/configurations/documents.ts';
import { bucketAcl, ownershipControls as family } from '../../../domain/configurations/families.ts';
import { fail } from '../../../errors/refusal.ts';
import { ownershipControls } from '../../../protocol/schemas/access/ownership-controls.ts';
import { document } from '../../common/document.ts';

const configuration = document({
  family,
  root: 'OwnershipControls',
  schema: ownershipControls,
  unset: 'OwnershipControlsNotFoundError',
  amend: async (row, value, ctx) => {
    if (value?.Rule[0]?.ObjectOwnership !== 'BucketOwnerEnforced') return row;
    const grants = (await readDocument(ctx, row, bucketAcl)) ?? [];
    const isOwners = grants.every(({ grantee }) => grantee.is === 'user' && grantee.id === row.owner);
    if (!isOwners) throw fail('InvalidBucketAclWithObjectOwnership');
    return row;
  },
});

export const ownership = configuration.configuration;
export const GetBucketOwnershipControls = configuration.get;
export const PutBucketOwnershipControls = configuration.put;
export const DeleteBucketOwnershipControls = configuration.remove;
