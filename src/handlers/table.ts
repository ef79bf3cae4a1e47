/** Every operation and the handler that answers it: a missing one does not compile. */
import * as accessPoints from './access-points/access-points.ts';
import * as accessPointPolicies from './access-points/policies.ts';
import { GetBucketAcl, PutBucketAcl } from './bucket/acl.ts';
import { DeleteBucket, GetBucketLocation, HeadBucket } from './bucket/bucket.ts';
import { DeleteBucketCors, GetBucketCors, PutBucketCors } from './bucket/cors.ts';
import { CreateBucket } from './bucket/create-bucket.ts';
import { DeleteObjects } from './bucket/delete-objects.ts';
import { DeleteBucketEncryption, GetBucketEncryption, PutBucketEncryption } from './bucket/encryption.ts';
import {
  DeleteBucketInventoryConfiguration,
  GetBucketInventoryConfiguration,
  ListBucketInventoryConfigurations,
  PutBucketInventoryConfiguration,
} from './bucket/inventory.ts';
import {
  DeleteBucketLifecycleConfiguration,
  GetBucketLifecycleConfiguration,
  PutBucketLifecycleConfiguration,
} from './bucket/lifecycle.ts';
import { ListObjectVersions } from './bucket/list-object-versions.ts';
import { ListObjects, ListObjectsV2 } from './bucket/list-objects.ts';
import { GetBucketLogging, PutBucketLogging } from './bucket/logging.ts';
import {
  GetBucketNotificationConfiguration,
  PutBucketNotificationConfiguration,
} from './bucket/notification.ts';
import { GetObjectLockConfiguration, PutObjectLockConfiguration } from './bucket/object-lock.ts';
import {
  DeleteBucketOwnershipControls,
  GetBucketOwnershipControls,
  PutBucketOwnershipControls,
} from './bucket/ownership-controls.ts';
import {
  DeleteBucketPolicy,
  GetBucketPolicy,
  GetBucketPolicyStatus,
  PutBucketPolicy,
} from './bucket/policy.ts';
import { OptionsBucket, OptionsObject } from './bucket/preflight.ts';
import {
  DeletePublicAccessBlock,
  GetPublicAccessBlock,
  PutPublicAccessBlock,
} from './bucket/public-access-block.ts';
import { DeleteBucketReplication, GetBucketReplication, PutBucketReplication } from './bucket/replication.ts';
import { GetBucketRequestPayment, PutBucketRequestPayment } from './bucket/request-payment.ts';
import { DeleteBucketTagging, GetBucketTagging, PutBucketTagging } from './bucket/tagging.ts';
import { GetBucketVersioning, PutBucketVersioning } from './bucket/versioning.ts';
import { DeleteBucketWebsite, GetBucketWebsite, PutBucketWebsite } from './bucket/website.ts';
import type { Handlers } from './call.ts';
import { actions } from './iam/table.ts';
import { leftOut } from './left-out.ts';
import { AbortMultipartUpload } from './multipart/abort-multipart-upload.ts';
import { CompleteMultipartUpload } from './multipart/complete-multipart-upload.ts';
import { CreateMultipartUpload } from './multipart/create-multipart-upload.ts';
import { ListMultipartUploads } from './multipart/list-multipart-uploads.ts';
import { ListParts } from './multipart/list-parts.ts';
import { UploadPart, UploadPartCopy } from './multipart/upload-part.ts';
import { GetObjectAcl, PutObjectAcl } from './object/acl.ts';
import { CopyObject } from './object/copy-object.ts';
import { DeleteObject } from './object/delete-object.ts';
import { GetObject, HeadObject } from './object/get-object.ts';
import { GetObjectAttributes } from './object/get-object-attributes.ts';
import { GetObjectLegalHold, PutObjectLegalHold } from './object/legal-hold.ts';
import { PostObject } from './object/post-object.ts';
import { PutObject } from './object/put-object.ts';
import { RestoreObject } from './object/restore-object.ts';
import { GetObjectRetention, PutObjectRetention } from './object/retention.ts';
import { DeleteObjectTagging, GetObjectTagging, PutObjectTagging } from './object/tagging.ts';
import { UpdateObjectEncryption } from './object/update-object-encryption.ts';
import { ListAuditRecords } from './service/list-audit-records.ts';
import { ListBuckets } from './service/list-buckets.ts';
import { ListNotifyDeadLetters } from './service/list-notify-dead-letters.ts';

export const handlers: Handlers = {
  ListBuckets,
  ListAuditRecords,
  ListNotifyDeadLetters,
  CreateBucket,
  DeleteBucket,
  HeadBucket,
  GetBucketLocation,
  GetBucketVersioning,
  PutBucketVersioning,
  GetBucketTagging,
  PutBucketTagging,
  DeleteBucketTagging,
  GetBucketCors,
  PutBucketCors,
  DeleteBucketCors,
  GetBucketLifecycleConfiguration,
  PutBucketLifecycleConfiguration,
  DeleteBucketLifecycleConfiguration,
  GetBucketReplication,
  PutBucketReplication,
  DeleteBucketReplication,
  GetBucketNotificationConfiguration,
  PutBucketNotificationConfiguration,
  GetBucketInventoryConfiguration,
  PutBucketInventoryConfiguration,
  DeleteBucketInventoryConfiguration,
  ListBucketInventoryConfigurations,
  GetBucketLogging,
  PutBucketLogging,
  GetBucketWebsite,
  PutBucketWebsite,
  DeleteBucketWebsite,
  GetBucketEncryption,
  PutBucketEncryption,
  DeleteBucketEncryption,
  GetBucketOwnershipControls,
  PutBucketOwnershipControls,
  DeleteBucketOwnershipControls,
  GetPublicAccessBlock,
  PutPublicAccessBlock,
  DeletePublicAccessBlock,
  GetBucketRequestPayment,
  PutBucketRequestPayment,
  GetObjectLockConfiguration,
  PutObjectLockConfiguration,
  GetBucketPolicy,
  PutBucketPolicy,
  DeleteBucketPolicy,
  GetBucketPolicyStatus,
  GetBucketAcl,
  PutBucketAcl,
  ListObjects,
  ListObjectsV2,
  ListObjectVersions,
  ListMultipartUploads,
  DeleteObjects,
  PutObject,
  PostObject,
  CopyObject,
  GetObject,
  HeadObject,
  DeleteObject,
  GetObjectAttributes,
  RestoreObject,
  GetObjectTagging,
  PutObjectTagging,
  DeleteObjectTagging,
  GetObjectRetention,
  PutObjectRetention,
  GetObjectLegalHold,
  PutObjectLegalHold,
  UpdateObjectEncryption,
  GetObjectAcl,
  PutObjectAcl,
  CreateMultipartUpload,
  UploadPart,
  UploadPartCopy,
  CompleteMultipartUpload,
  AbortMultipartUpload,
  ListParts,
  OptionsBucket,
  OptionsObject,
  ...accessPoints,
  ...accessPointPolicies,
  ...actions,
  ...leftOut,
};
