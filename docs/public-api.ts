/** Every operation of the public S3 API, for the reference page that says what it does here. */

/** By name; those of today and those that are deprecated. */
export const publicOperations: readonly string[] = `
AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateBucketMetadataConfiguration
CreateBucketMetadataTableConfiguration CreateMultipartUpload CreateSession DeleteBucket DeleteBucketAnalyticsConfiguration
DeleteBucketCors DeleteBucketEncryption DeleteBucketIntelligentTieringConfiguration DeleteBucketInventoryConfiguration
DeleteBucketLifecycle DeleteBucketMetadataConfiguration DeleteBucketMetadataTableConfiguration DeleteBucketMetricsConfiguration
DeleteBucketOwnershipControls DeleteBucketPolicy DeleteBucketReplication DeleteBucketTagging DeleteBucketWebsite DeleteObject
DeleteObjects DeleteObjectTagging DeletePublicAccessBlock GetBucketAbac GetBucketAccelerateConfiguration GetBucketAcl
GetBucketAnalyticsConfiguration GetBucketCors GetBucketEncryption GetBucketIntelligentTieringConfiguration
GetBucketInventoryConfiguration GetBucketLifecycle GetBucketLifecycleConfiguration GetBucketLocation GetBucketLogging
GetBucketMetadataConfiguration GetBucketMetadataTableConfiguration GetBucketMetricsConfiguration GetBucketNotification
GetBucketNotificationConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketReplication
GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetObject GetObjectAcl GetObjectAttributes
GetObjectLegalHold GetObjectLockConfiguration GetObjectRetention GetObjectTagging GetObjectTorrent GetPublicAccessBlock
HeadBucket HeadObject ListBucketAnalyticsConfigurations ListBucketIntelligentTieringConfigurations
ListBucketInventoryConfigurations ListBucketMetricsConfigurations ListBuckets ListDirectoryBuckets ListMultipartUploads
ListObjects ListObjectsV2 ListObjectVersions ListParts PostObject PutBucketAbac PutBucketAccelerateConfiguration PutBucketAcl
PutBucketAnalyticsConfiguration PutBucketCors PutBucketEncryption PutBucketIntelligentTieringConfiguration
PutBucketInventoryConfiguration PutBucketLifecycle PutBucketLifecycleConfiguration PutBucketLogging
PutBucketMetricsConfiguration PutBucketNotification PutBucketNotificationConfiguration PutBucketOwnershipControls
PutBucketPolicy PutBucketReplication PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite PutObject
PutObjectAcl PutObjectLegalHold PutObjectLockConfiguration PutObjectRetention PutObjectTagging PutPublicAccessBlock
RenameObject RestoreObject SelectObjectContent UpdateBucketMetadataInventoryTableConfiguration
UpdateBucketMetadataJournalTableConfiguration UpdateObjectEncryption UploadPart UploadPartCopy WriteGetObjectResponse
`
  .trim()
  .split(/\s+/);

/** Where an operation goes by another name here: the two names ask with the same request. */
export const sameRequest: Readonly<Record<string, string>> = {
  GetBucketLifecycle: 'GetBucketLifecycleConfiguration',
  PutBucketLifecycle: 'PutBucketLifecycleConfiguration',
  DeleteBucketLifecycle: 'DeleteBucketLifecycleConfiguration',
  GetBucketNotification: 'GetBucketNotificationConfiguration',
  PutBucketNotification: 'PutBucketNotificationConfiguration',
};

/** What an operation does less than the public one, or does later. */
export const notes: Readonly<Record<string, string>> = {
  GetBucketLocation: 'the region `default` is shown as empty',
  ListBuckets: 'an anonymous caller gets an empty list',
  PutObject: 'no appends (`write-offset-bytes` is refused)',
  PutBucketReplication: 'one rule; changes are queued, the worker that sends them comes later',
  PutBucketLifecycleConfiguration: 'kept and shown in `expiration`; the worker that executes it comes later',
  PutBucketInventoryConfiguration: 'kept; the worker that writes inventories comes later',
  PutBucketNotificationConfiguration: 'events are queued; the worker that delivers them comes later',
  PutBucketLogging: 'requests are recorded; the worker that writes the log objects comes later',
};

/** Why an operation is not here. */
export const outOfScope: Readonly<Record<string, string>> = {
  CreateSession: 'directory buckets: the specification leaves them out',
  ListDirectoryBuckets: 'directory buckets: the specification leaves them out',
  RenameObject: 'directory buckets: the specification leaves them out',
  SelectObjectContent: 'the specification leaves it out',
  WriteGetObjectResponse: 'belongs to functions of the public service',
  GetObjectTorrent: 'withdrawn by the public service',
  UpdateObjectEncryption: 'young; a copy of an object onto itself changes its encryption',
};

const leftOut = /(Analytics|IntelligentTiering|Metrics|Accelerate)Configurations?$/;
const tables = /Metadata(Inventory|Journal)?(Table)?Configuration$/;

export function outOfScopeBecause(name: string): string | undefined {
  if (leftOut.test(name)) return 'the specification leaves it out';
  if (tables.test(name)) return 'table buckets of the public service';
  if (name.endsWith('Abac')) return 'young; policies see object tags, not bucket tags';
  return outOfScope[name];
}
