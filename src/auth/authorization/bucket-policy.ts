/** The policy document of a bucket: stored as it was sent, compiled once for each text. */
import type { Family } from '../../domain/configurations/documents.ts';
import { parsePolicy } from '../policy/document/document.ts';
import { type Policy, policyBytes } from '../policy/evaluate.ts';

export interface BucketPolicy extends Policy {
  /** The text as the client sent it. */
  readonly text: string;
}

/** In a trace. */
export const bucketPolicyName = 'bucket policy';

export const bucketPolicy: Family<BucketPolicy> = {
  name: 'policy',
  parse: (text) => ({
    name: bucketPolicyName,
    text,
    document: parsePolicy(text, { kind: 'bucket', isStored: true }),
  }),
  heldBytes: (policy) => policyBytes(policy) + 2 * policy.text.length,
};
