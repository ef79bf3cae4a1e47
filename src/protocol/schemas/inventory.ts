/** Bodies of the inventory operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketInventoryConfiguration.html */
import { atMostOne, bool, checked, element, many, oneOf, optional, text, token } from '../formats/codec.ts';
import { configuration } from './common.ts';

const encryption = checked(
  element({ 'SSE-S3': optional(element({})), 'SSE-KMS': optional(element({ KeyId: token })) }),
  atMostOne('SSE-S3', 'SSE-KMS'),
);

const optionalField = oneOf(
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
  'IntelligentTieringAccessTier',
  'BucketKeyStatus',
  'ChecksumAlgorithm',
  'ObjectAccessControlList',
  'ObjectOwner',
  'LifecycleExpirationDate',
);

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
    OptionalFields: optional(many(optionalField, { name: 'Field', max: 16 })),
  }),
  { hasIds: true },
);

/** Root `ListInventoryConfigurationsResult`. */
export const listInventoryConfigurationsResult = element({
  InventoryConfiguration: many(inventoryConfiguration, { max: 100 }),
  IsTruncated: bool,
  ContinuationToken: optional(text),
  NextContinuationToken: optional(text),
});

/** AWS accepts at most 100 configurations in a document. */
