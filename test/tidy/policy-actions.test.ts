/** The policy actions of each operation equal those of the public documentation ("Required permissions for Amazon S3 API operations"). */
import { expect, test } from 'vitest';
import { describeOperation, operationNames } from '../../src/protocol/operations/operations.ts';

const acl = 'acl grant-read grant-write grant-read-acp grant-write-acp grant-full-control';
const written = `${acl}:PutObjectAcl tagging:PutObjectTagging object-lock-mode object-lock-retain-until-date:PutObjectRetention object-lock-legal-hold:PutObjectLegalHold`;
const bypass = 'bypass-governance-retention=true:BypassGovernanceRetention';

/** `operation action [/ the action on a version] [+ headers:action …]`; `each` means a separate decision for every key. */
const documented = `
  ListBuckets ListAllMyBuckets
  CreateBucket CreateBucket + ${acl.replace('acl', 'acl!=private')}:PutBucketAcl object-ownership:PutBucketOwnershipControls bucket-object-lock-enabled=true:PutBucketObjectLockConfiguration,PutBucketVersioning
  DeleteBucket DeleteBucket
  HeadBucket ListBucket
  GetBucketLocation GetBucketLocation
  GetBucketVersioning GetBucketVersioning
  PutBucketVersioning PutBucketVersioning
  GetBucketTagging GetBucketTagging
  PutBucketTagging PutBucketTagging
  DeleteBucketTagging PutBucketTagging
  GetBucketCors GetBucketCORS
  PutBucketCors PutBucketCORS
  DeleteBucketCors PutBucketCORS
  GetBucketLifecycleConfiguration GetLifecycleConfiguration
  PutBucketLifecycleConfiguration PutLifecycleConfiguration
  DeleteBucketLifecycleConfiguration PutLifecycleConfiguration
  GetBucketReplication GetReplicationConfiguration
  PutBucketReplication PutReplicationConfiguration
  DeleteBucketReplication PutReplicationConfiguration
  GetBucketNotificationConfiguration GetBucketNotification
  PutBucketNotificationConfiguration PutBucketNotification
  GetBucketInventoryConfiguration GetInventoryConfiguration
  PutBucketInventoryConfiguration PutInventoryConfiguration
  DeleteBucketInventoryConfiguration PutInventoryConfiguration
  ListBucketInventoryConfigurations GetInventoryConfiguration
  GetBucketLogging GetBucketLogging
  PutBucketLogging PutBucketLogging
  GetBucketWebsite GetBucketWebsite
  PutBucketWebsite PutBucketWebsite
  DeleteBucketWebsite DeleteBucketWebsite
  GetBucketEncryption GetEncryptionConfiguration
  PutBucketEncryption PutEncryptionConfiguration
  DeleteBucketEncryption PutEncryptionConfiguration
  GetBucketOwnershipControls GetBucketOwnershipControls
  PutBucketOwnershipControls PutBucketOwnershipControls
  DeleteBucketOwnershipControls PutBucketOwnershipControls
  GetPublicAccessBlock GetBucketPublicAccessBlock
  PutPublicAccessBlock PutBucketPublicAccessBlock
  DeletePublicAccessBlock PutBucketPublicAccessBlock
  GetBucketRequestPayment GetBucketRequestPayment
  PutBucketRequestPayment PutBucketRequestPayment
  GetObjectLockConfiguration GetBucketObjectLockConfiguration
  PutObjectLockConfiguration PutBucketObjectLockConfiguration
  GetBucketPolicy GetBucketPolicy
  PutBucketPolicy PutBucketPolicy
  DeleteBucketPolicy DeleteBucketPolicy
  GetBucketPolicyStatus GetBucketPolicyStatus
  GetBucketAcl GetBucketAcl
  PutBucketAcl PutBucketAcl
  ListObjects ListBucket
  ListObjectsV2 ListBucket
  ListObjectVersions ListBucketVersions
  ListMultipartUploads ListBucketMultipartUploads
  DeleteObjects DeleteObject each
  PutObject PutObject + ${written}
  PostObject PutObject + ${written}
  CopyObject PutObject + ${written}
  GetObject GetObject / GetObjectVersion
  HeadObject GetObject / GetObjectVersion
  DeleteObject DeleteObject / DeleteObjectVersion + ${bypass}
  GetObjectAttributes GetObjectAttributes / GetObjectVersionAttributes
  RestoreObject RestoreObject
  GetObjectTagging GetObjectTagging / GetObjectVersionTagging
  PutObjectTagging PutObjectTagging / PutObjectVersionTagging
  DeleteObjectTagging DeleteObjectTagging / DeleteObjectVersionTagging
  GetObjectRetention GetObjectRetention
  PutObjectRetention PutObjectRetention + ${bypass}
  GetObjectLegalHold GetObjectLegalHold
  PutObjectLegalHold PutObjectLegalHold
  UpdateObjectEncryption UpdateObjectEncryption
  GetObjectAcl GetObjectAcl / GetObjectVersionAcl
  PutObjectAcl PutObjectAcl / PutObjectVersionAcl
  CreateMultipartUpload PutObject + ${written}
  UploadPart PutObject
  UploadPartCopy PutObject
  CompleteMultipartUpload PutObject
  AbortMultipartUpload AbortMultipartUpload
  ListParts ListMultipartUploadParts
  CreateAccessPoint CreateAccessPoint each
  GetAccessPoint GetAccessPoint each
  DeleteAccessPoint DeleteAccessPoint each
  ListAccessPoints ListAccessPoints each
  PutAccessPointPolicy PutAccessPointPolicy each
  GetAccessPointPolicy GetAccessPointPolicy each
  DeleteAccessPointPolicy DeleteAccessPointPolicy each
  GetAccessPointPolicyStatus GetAccessPointPolicyStatus each
`;

const inLine = (text: string): string => text.trim().replace(/\s+/g, ' ');

/** The row of an operation in the notation of the list. */
function rowOf(name: (typeof operationNames)[number]): string {
  const { action, versionAction, also = {}, authorization } = describeOperation(name);
  const short = (each: string): string => each.replace('s3:', '');
  const byAction = Map.groupBy(Object.entries(also), ([, actions]) => [actions].flat().map(short).join());
  const along = [...byAction].map(
    ([actions, marks]) => `${marks.map(([mark]) => mark).join(' ')}:${actions}`,
  );
  return [
    `${name} ${short(action)}`,
    ...(authorization === undefined ? [] : [authorization]),
    ...(versionAction === undefined ? [] : ['/', short(versionAction)]),
    ...(along.length === 0 ? [] : ['+', ...along]),
  ].join(' ');
}

test('every operation of the table requires the actions that the public documentation lists', () => {
  const listed = documented
    .split('\n')
    .map(inLine)
    .filter((line) => line !== '');
  const rows = operationNames
    .filter((name) => {
      const { action, authorization } = describeOperation(name);
      return action.startsWith('s3:') && authorization !== 'none';
    })
    .map(rowOf);
  const ours = /^(ListAuditRecords|ListNotifyDeadLetters|GetReplicaSite|Replicate\w+) /;
  expect(rows.filter((row) => !ours.test(row)).sort()).toEqual([...listed].sort());
});
