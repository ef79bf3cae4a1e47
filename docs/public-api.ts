/** Every operation of the public S3 API, for the reference page that says what it does here. */

/** By name; those of today and those that are deprecated. */
export const publicOperations: readonly string[] = `
AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateBucketMetadataConfiguration
CreateBucketMetadataTableConfiguration CreateMultipartUpload CreateSession DeleteBucket DeleteBucketAnalyticsConfiguration
DeleteBucketCors DeleteBucketEncryption DeleteBucketIntelligentTieringConfiguration DeleteBucketInventoryConfiguration
DeleteBucketLifecycle DeleteBucketMetadataConfiguration DeleteBucketMetadataTableConfiguration DeleteBucketMetricsConfiguration
DeleteBucketOwnershipControls DeleteBucketPolicy DeleteBucketReplication DeleteBucketTagging DeleteBucketWebsite DeleteObject
DeleteObjectAnnotation DeleteObjects DeleteObjectTagging DeletePublicAccessBlock GetBucketAbac GetBucketAccelerateConfiguration GetBucketAcl
GetBucketAnalyticsConfiguration GetBucketCors GetBucketEncryption GetBucketIntelligentTieringConfiguration
GetBucketInventoryConfiguration GetBucketLifecycle GetBucketLifecycleConfiguration GetBucketLocation GetBucketLogging
GetBucketMetadataConfiguration GetBucketMetadataTableConfiguration GetBucketMetricsConfiguration GetBucketNotification
GetBucketNotificationConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketReplication
GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetObject GetObjectAcl GetObjectAnnotation GetObjectAttributes
GetObjectLegalHold GetObjectLockConfiguration GetObjectRetention GetObjectTagging GetObjectTorrent GetPublicAccessBlock
HeadBucket HeadObject ListBucketAnalyticsConfigurations ListBucketIntelligentTieringConfigurations
ListBucketInventoryConfigurations ListBucketMetricsConfigurations ListBuckets ListDirectoryBuckets ListMultipartUploads
ListObjectAnnotations ListObjects ListObjectsV2 ListObjectVersions ListParts PostObject PutBucketAbac PutBucketAccelerateConfiguration PutBucketAcl
PutBucketAnalyticsConfiguration PutBucketCors PutBucketEncryption PutBucketIntelligentTieringConfiguration
PutBucketInventoryConfiguration PutBucketLifecycle PutBucketLifecycleConfiguration PutBucketLogging
PutBucketMetricsConfiguration PutBucketNotification PutBucketNotificationConfiguration PutBucketOwnershipControls
PutBucketPolicy PutBucketReplication PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite PutObject
PutObjectAcl PutObjectAnnotation PutObjectLegalHold PutObjectLockConfiguration PutObjectRetention PutObjectTagging PutPublicAccessBlock
RenameObject RestoreObject SelectObjectContent UpdateBucketMetadataAnnotationTableConfiguration UpdateBucketMetadataInventoryTableConfiguration
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
  RestoreObject: 'done when it is answered; no select',
  PutObject: 'no appends (`write-offset-bytes` is refused)',
  UpdateObjectEncryption: 'takes whatever name its key provider knows a key by, not ARNs alone',
  PutBucketReplication: 'one rule',
};

/** Why an operation has no row: its request is that of another one. */
export const withoutRow: Readonly<Record<string, string>> = {
  ListDirectoryBuckets:
    'directory buckets: the specification leaves them out; its request is that of ListBuckets',
  WriteGetObjectResponse: 'belongs to functions of the public service',
};
