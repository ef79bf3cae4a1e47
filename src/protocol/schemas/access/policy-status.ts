/** The reply of GetBucketPolicyStatus: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketPolicyStatus.html */
import { bool, element, type Infer } from '../../formats/codec.ts';

/** Root `PolicyStatus`. */
export const policyStatus = element({ IsPublic: bool });
export type PolicyStatus = Infer<typeof policyStatus>;
