/** Bodies of the inventory operations: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketInventoryConfiguration.html */
import { atMostOne, bool, checked, element, many, oneOf, optional, text, token } from '../formats/codec.ts';

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
export const inventoryConfiguration = element({
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
});

/** Root `ListInventoryConfigurationsResult`. */
export const listInventoryConfigurationsResult = element({
  InventoryConfiguration: many(inventoryConfiguration, { max: 100 }),
  IsTruncated: bool,
  ContinuationToken: optional(text),
  NextContinuationToken: optional(text),
});

// The body of the notification operations:
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketNotificationConfiguration.html

/** AWS accepts at most 100 configurations in a document. */
const configurationsMax = 100;

/** The names are `prefix` and `suffix`, in any case. */
const filterRule = element({ Name: token, Value: text });
const filter = element({ S3Key: optional(element({ FilterRule: many(filterRule, { max: 10 }) })) });

const common = {
  Id: optional(token),
  Event: many(token, { min: 1, max: 100 }),
  Filter: optional(filter),
};

const topic = element({ ...common, Topic: token });
const queue = element({ ...common, Queue: token });
/** InvocationRole is of the first version, and had no effect since. */
const cloudFunction = element({ ...common, CloudFunction: token, InvocationRole: optional(token) });

/** Root `NotificationConfiguration`; without an element inside it turns notifications off. */
export const notificationConfiguration = element({
  TopicConfiguration: many(topic, { max: configurationsMax }),
  QueueConfiguration: many(queue, { max: configurationsMax }),
  CloudFunctionConfiguration: many(cloudFunction, { max: configurationsMax }),
  EventBridgeConfiguration: optional(element({})),
});
