/** Every bucket configuration in the names and shapes of the AWS SDKs, shared by the suites of all of them. */

export interface ClientFamily {
  /** `Put<of>`, `Get<of>` and `Delete<of>` are its operations. */
  readonly of: string;
  /** The delete operation if it is not `Delete<of>`; `emptied` if Put with an empty document deletes instead. */
  readonly remove?: string | 'emptied';
  /** The member that carries the document. */
  readonly parameter: string;
  readonly value: object;
  /** The members of the Get response. */
  readonly told: object;
  /** The Get response while the configuration is unset: an error code, or the members of the response. */
  readonly unset: string | object;
  /** Further members of every request. */
  readonly more?: Readonly<Record<string, string>>;
}

const lifecycle = {
  Rules: [
    {
      ID: 'logs',
      Status: 'Enabled',
      Filter: { And: { Prefix: 'logs/', Tags: [{ Key: 'k', Value: 'v' }], ObjectSizeGreaterThan: 10 } },
      Expiration: { Days: 30 },
      Transitions: [{ Days: 3, StorageClass: 'GLACIER' }],
      NoncurrentVersionExpiration: { NoncurrentDays: 5, NewerNoncurrentVersions: 2 },
    },
    {
      ID: 'uploads',
      Status: 'Enabled',
      Filter: { Prefix: '' },
      AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 },
    },
  ],
};
const replication = {
  Role: 'arn:aws:iam::alice-account:role/replication',
  Rules: [
    {
      ID: 'all',
      Priority: 1,
      Status: 'Enabled',
      Filter: { Prefix: 'p' },
      Destination: { Bucket: 'arn:aws:s3:::copy' },
      DeleteMarkerReplication: { Status: 'Enabled' },
    },
  ],
};
const notification = {
  QueueConfigurations: [
    {
      Id: 'q',
      QueueArn: 'arn:aws:sqs:us-east-1::jobs',
      Events: ['s3:ObjectCreated:*'],
      Filter: { Key: { FilterRules: [{ Name: 'prefix', Value: 'images/' }] } },
    },
  ],
  LambdaFunctionConfigurations: [
    {
      Id: 'f',
      LambdaFunctionArn: 'arn:aws:lambda:us-east-1::function:jobs',
      Events: ['s3:ObjectRemoved:Delete'],
    },
  ],
};
const website = {
  IndexDocument: { Suffix: 'index.html' },
  ErrorDocument: { Key: 'error.html' },
  RoutingRules: [
    { Condition: { KeyPrefixEquals: 'docs/' }, Redirect: { ReplaceKeyPrefixWith: 'documents/' } },
  ],
};
const cors = {
  CORSRules: [
    {
      ID: 'a',
      AllowedHeaders: ['*'],
      AllowedMethods: ['GET', 'PUT'],
      AllowedOrigins: ['*'],
      MaxAgeSeconds: 5,
    },
  ],
};
const encryption = {
  Rules: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' }, BucketKeyEnabled: false }],
};
const ownership = { Rules: [{ ObjectOwnership: 'BucketOwnerPreferred' }] };
const block = {
  BlockPublicAcls: true,
  IgnorePublicAcls: true,
  BlockPublicPolicy: false,
  RestrictPublicBuckets: false,
};
const tagging = { TagSet: [{ Key: 'team', Value: 'blue é' }] };

/** @param bucket the configured bucket, which is also the target of its logs and inventories */
export const familiesOf = (bucket: string): readonly ClientFamily[] => {
  const logging = { LoggingEnabled: { TargetBucket: bucket, TargetPrefix: 'logs/' } };
  const inventory = {
    Id: 'daily',
    IsEnabled: true,
    Destination: { S3BucketDestination: { Bucket: `arn:aws:s3:::${bucket}`, Format: 'CSV' } },
    Schedule: { Frequency: 'Daily' },
    IncludedObjectVersions: 'Current',
    OptionalFields: ['Size', 'ETag'],
  };
  return [
    { of: 'BucketTagging', parameter: 'Tagging', value: tagging, told: tagging, unset: 'NoSuchTagSet' },
    {
      of: 'BucketCors',
      parameter: 'CORSConfiguration',
      value: cors,
      told: cors,
      unset: 'NoSuchCORSConfiguration',
    },
    {
      of: 'BucketLifecycleConfiguration',
      remove: 'DeleteBucketLifecycle',
      parameter: 'LifecycleConfiguration',
      value: lifecycle,
      told: { ...lifecycle, TransitionDefaultMinimumObjectSize: 'all_storage_classes_128K' },
      unset: 'NoSuchLifecycleConfiguration',
    },
    {
      of: 'BucketReplication',
      parameter: 'ReplicationConfiguration',
      value: replication,
      told: { ReplicationConfiguration: replication },
      unset: 'ReplicationConfigurationNotFoundError',
    },
    {
      of: 'BucketNotificationConfiguration',
      remove: 'emptied',
      parameter: 'NotificationConfiguration',
      value: notification,
      told: notification,
      unset: {},
    },
    {
      of: 'BucketLogging',
      remove: 'emptied',
      parameter: 'BucketLoggingStatus',
      value: logging,
      told: logging,
      unset: {},
    },
    {
      of: 'BucketWebsite',
      parameter: 'WebsiteConfiguration',
      value: website,
      told: website,
      unset: 'NoSuchWebsiteConfiguration',
    },
    {
      of: 'BucketEncryption',
      parameter: 'ServerSideEncryptionConfiguration',
      value: encryption,
      told: { ServerSideEncryptionConfiguration: encryption },
      unset: 'ServerSideEncryptionConfigurationNotFoundError',
    },
    {
      of: 'BucketOwnershipControls',
      parameter: 'OwnershipControls',
      value: ownership,
      told: { OwnershipControls: ownership },
      unset: 'OwnershipControlsNotFoundError',
    },
    {
      of: 'PublicAccessBlock',
      parameter: 'PublicAccessBlockConfiguration',
      value: block,
      told: { PublicAccessBlockConfiguration: block },
      unset: 'NoSuchPublicAccessBlockConfiguration',
    },
    {
      of: 'BucketInventoryConfiguration',
      parameter: 'InventoryConfiguration',
      value: inventory,
      told: { InventoryConfiguration: inventory },
      unset: 'NoSuchConfiguration',
      more: { Id: 'daily' },
    },
  ];
};

/** The sinks that the notification names. */
export const familySettings = {
  SVC_NOTIFY_TARGETS: JSON.stringify([
    { id: 'jobs', accounts: ['*'], type: 'redis', url: 'redis://127.0.0.1:1', key: 'events' },
  ]),
};

/** The expected Get responses, in order: while unset, after Put, after Delete. */
export const expectedOf = ({ unset, told }: ClientFamily): readonly unknown[] => [unset, told, unset];
