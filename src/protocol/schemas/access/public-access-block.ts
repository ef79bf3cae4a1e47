/** The body of the operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutPublicAccessBlock.html */
import { bool, element, type Infer, optional } from '../../formats/codec.ts';

/** Root `PublicAccessBlockConfiguration`; what is absent is false. */
export const publicAccessBlockConfiguration = element({
  BlockPublicAcls: optional(bool),
  IgnorePublicAcls: optional(bool),
  BlockPublicPolicy: optional(bool),
  RestrictPublicBuckets: optional(bool),
});
export type PublicAccessBlockConfiguration = Infer<typeof publicAccessBlockConfiguration>;
