/** Bodies of the inventory operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketInventoryConfiguration.html */
import { atMostOne, bool, element, many, oneOf, optional, text, token } from '../formats/codec.ts';
import { configuration } from './common.ts';

const encryption = atMostOne({
  'SSE-S3': optional(element({})),
  'SSE-KMS': optional(element({ KeyId: token })),
});

const optionalFields = [
  'Size',
  'LastModifiedDate',
  'StorageClass',
  'ETag',
  'IsMultipartUploaded',
  'ReplicationStatus',
  'EncryptionStatus',
  'ObjectLockRetainUntilDate',
  'ObjectLockMode',
  'ObjectLockLegalHoldStatus',
  'ObjectLockEventHoldStatus',
  'ObjectLockEventHoldDuration',
  'IntelligentTieringAccessTier',
  'BucketKeyStatus',
  'ChecksumAlgorithm',
  'ObjectAccessControlList',
  'ObjectOwner',
  'LifecycleExpirationDate',
  'IntelligentTieringReferenceDate',
] as const;

/** Root `InventoryConfiguration`. */
export const inventoryConfiguration = configuration(
  'inventory',
  'InventoryConfiguration',
  element({
    Id: token,
    IsEnabled: bool,
    Filter: optional(element({ Prefix: text })),
    Destination: element({
      S3BucketDestination: element({
        AccountId: optional(token),
        Bucket: token,
        Format: oneOf('CSV', 'ORC', 'Parquet'),
        Prefix: optional(text),
        Encryption: optional(encryption),
      }),
    }),
    Schedule: element({ Frequency: oneOf('Daily', 'Weekly') }),
    IncludedObjectVersions: oneOf('All', 'Current'),
    OptionalFields: optional(many(oneOf(...optionalFields), { name: 'Field', max: optionalFields.length })),
  }),
  { hasIds: true },
);

/** Root `ListInventoryConfigurationsResult`, with at most 100 configurations, as in the public API. */
export const listInventoryConfigurationsResult = element({
  InventoryConfiguration: many(inventoryConfiguration, { max: 100 }),
  IsTruncated: bool,
  ContinuationToken: optional(text),
  NextContinuationToken: optional(text),
});
