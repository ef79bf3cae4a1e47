/** The body of the ownership operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketOwnershipControls.html */
import { element, type Infer, many, oneOf } from '../../formats/codec.ts';

/** Root `OwnershipControls`. */
export const ownershipControls = element({
  Rule: many(
    element({ ObjectOwnership: oneOf('BucketOwnerPreferred', 'ObjectWriter', 'BucketOwnerEnforced') }),
    { min: 1, max: 1 },
  ),
});
export type OwnershipControls = Infer<typeof ownershipControls>;
