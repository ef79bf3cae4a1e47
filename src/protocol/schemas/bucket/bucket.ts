/** Bodies of CreateBucket, GetBucketLocation and the versioning operations. */
import { element, type Infer, limitedByHandler, many, oneOf, optional, token } from '../../formats/codec.ts';
import { tag } from '../tagging.ts';

/**
 * Newer SDKs also send Location, Bucket (both for directory buckets) and Tags. They are read, so that a handler can
 * honour or refuse them instead of dropping them unseen.
 */
export const createBucketConfiguration = element(
  {
    LocationConstraint: optional(token),
    Location: optional(element({ Name: optional(token), Type: optional(token) }, { unknown: 'ignore' })),
    Bucket: optional(
      element({ DataRedundancy: optional(token), Type: optional(token) }, { unknown: 'ignore' }),
    ),
    Tags: optional(many(tag, { name: 'Tag', ...limitedByHandler })),
  },
  { unknown: 'ignore' },
);
export type CreateBucketConfiguration = Infer<typeof createBucketConfiguration>;

/** The reply of GetBucketLocation is one element; empty for the default region. */
export const locationConstraint = token;

export const versioningConfiguration = element({
  Status: optional(oneOf('Enabled', 'Suspended')),
  MfaDelete: optional(oneOf('Enabled', 'Disabled')),
});
export type VersioningConfiguration = Infer<typeof versioningConfiguration>;
