/** Words of valid requests, and hostile words, for random requests. */
const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Headers of every operation. */
export const headerNames = words(`
  *-acl *-grant-read *-grant-full-control *-copy-source *-copy-source-range *-copy-source-if-match
  *-metadata-directive *-tagging-directive *-tagging *-meta-a *-meta-__proto__ *-storage-class
  *-server-side-encryption *-server-side-encryption-aws-kms-key-id *-server-side-encryption-context
  *-server-side-encryption-customer-algorithm *-server-side-encryption-customer-key
  *-server-side-encryption-customer-key-md5 *-server-side-encryption-bucket-key-enabled *-object-lock-mode
  *-object-lock-retain-until-date *-object-lock-legal-hold *-bypass-governance-retention *-mfa
  *-bucket-object-lock-enabled *-object-ownership *-checksum-crc32 *-checksum-sha256 *-checksum-algorithm
  *-checksum-type *-checksum-mode *-sdk-checksum-algorithm *-mp-object-size *-object-attributes *-max-parts
  *-part-number-marker *-website-redirect-location *-expected-bucket-owner *-source-expected-bucket-owner
  *-request-payer *-optional-object-attributes *-write-offset-bytes *-confirm-remove-self-bucket-access
  *-if-match-size *-security-token if-match if-none-match if-modified-since if-unmodified-since if-range
  range content-md5 content-type content-encoding expires origin access-control-request-method
  access-control-request-headers referer cookie x-forwarded-for
`);

/** Query names beside those of the rows. */
export const queryNames = words(`
  versionId partNumber uploadId prefix delimiter marker max-keys start-after continuation-token
  encoding-type list-type fetch-owner key-marker version-id-marker upload-id-marker max-uploads max-parts
  part-number-marker response-content-type id max-buckets x-id Action UserName RoleName PolicyName
  PolicyDocument Marker MaxItems Version __proto__ nonsense
`);

/** Elements of every XML body. */
export const elements = words(`
  Tagging TagSet Tag Key Value CORSConfiguration CORSRule AllowedOrigin AllowedMethod
  LifecycleConfiguration Rule ID Filter Prefix Status Expiration Days Date AccessControlPolicy Owner
  AccessControlList Grant Grantee Permission Delete Object VersionId CompleteMultipartUpload Part
  PartNumber ETag VersioningConfiguration MfaDelete Retention Mode RetainUntilDate LegalHold
  ObjectLockConfiguration ObjectLockEnabled DefaultRetention RestoreRequest WebsiteConfiguration
  IndexDocument Suffix RoutingRules RoutingRule NotificationConfiguration QueueConfiguration Queue Event
  BucketLoggingStatus LoggingEnabled TargetBucket TargetPrefix ReplicationConfiguration Role Destination
  Bucket InventoryConfiguration Id IsEnabled ServerSideEncryptionConfiguration
  ApplyServerSideEncryptionByDefault SSEAlgorithm KMSMasterKeyID OwnershipControls ObjectOwnership
  PublicAccessBlockConfiguration BlockPublicAcls RequestPaymentConfiguration Payer
  CreateBucketConfiguration LocationConstraint toString
`);

/** Values of anything. */
export const texts = [
  '', '0', '-1', '1', '10001', '99999999999999999999', 'true', 'yes', '*', 'a=b&c=d', 'a=b&a=c', 'null', '__proto__', 'constructor',
  'bytes=0-1', 'bytes=9-1', 'bytes=-', 'STANDARD', 'GLACIER', 'AES256', 'aws:kms', 'COMPLIANCE', 'GOVERNANCE', 'ON', 'Enabled', 'COPY', 'REPLACE',
  'private', 'public-read', 'id="alice-account"', 'uri="http://acs.amazonaws.com/groups/global/AllUsers"', 'emailAddress="a@b"', '/bucket/key',
  'bucket/key?versionId=null', '2030-01-01T00:00:00Z', 'Wed, 21 Oct 2026 07:28:00 GMT', 'CRC32', 'SHA256', 'FULL_OBJECT', 'AAAAAA==', 'rB0=', '"etag"',
  'é', '�', '\t', '$' + '{filename}', '%00', 'arn:aws:s3:::bucket', 'http://a/', '//evil', 'ETag,ObjectParts', 'alice-account', '123 456789', 'requester',
] as const; // biome-ignore format: a list of words
