/** Every operation, the handler that answers it, and what reads facts of its judgement from its body. A missing operation does not compile. */

import { fail } from '../base/errors.ts';
import { type LeftOutName, leftOutNames, leftOutOperations } from '../protocol/operations/left-out.ts';
import {
  DeleteBucketOwnershipControls,
  DeleteBucketPolicy,
  DeletePublicAccessBlock,
  GetBucketAcl,
  GetBucketOwnershipControls,
  GetBucketPolicy,
  GetBucketPolicyStatus,
  GetPublicAccessBlock,
  PutBucketAcl,
  PutBucketOwnershipControls,
  PutBucketPolicy,
  PutPublicAccessBlock,
} from './bucket/access.ts';
import * as accessPoints from './bucket/access-points.ts';
import {
  CreateBucket,
  creationFacts,
  DeleteBucket,
  DeleteBucketTagging,
  GetBucketLocation,
  GetBucketRequestPayment,
  GetBucketTagging,
  GetReplicaSite,
  HeadBucket,
  PutBucketRequestPayment,
  PutBucketTagging,
} from './bucket/bucket.ts';
import {
  DeleteBucketCors,
  GetBucketCors,
  OptionsBucket,
  OptionsObject,
  PutBucketCors,
} from './bucket/cors.ts';
import { DeleteObject, DeleteObjects } from './bucket/delete-objects.ts';
import { DeleteBucketEncryption, GetBucketEncryption, PutBucketEncryption } from './bucket/encryption.ts';
import {
  DeleteBucketInventoryConfiguration,
  GetBucketInventoryConfiguration,
  inventoryFacts,
  ListBucketInventoryConfigurations,
  PutBucketInventoryConfiguration,
} from './bucket/inventory.ts';
import {
  DeleteBucketLifecycleConfiguration,
  GetBucketLifecycleConfiguration,
  PutBucketLifecycleConfiguration,
} from './bucket/lifecycle.ts';
import {
  ListMultipartUploads,
  ListObjects,
  ListObjectsV2,
  ListObjectVersions,
  ListParts,
} from './bucket/listings.ts';
import { GetBucketLogging, PutBucketLogging } from './bucket/logging.ts';
import {
  GetBucketNotificationConfiguration,
  PutBucketNotificationConfiguration,
} from './bucket/notification.ts';
import { GetObjectLockConfiguration, PutObjectLockConfiguration } from './bucket/object-lock.ts';
import { DeleteBucketReplication, GetBucketReplication, PutBucketReplication } from './bucket/replication.ts';
import { GetBucketVersioning, PutBucketVersioning } from './bucket/versioning.ts';
import { DeleteBucketWebsite, GetBucketWebsite, PutBucketWebsite } from './bucket/website.ts';
import type { HandlerOf, Handlers } from './handler.ts';
import * as absentKinds from './iam/absent-kinds.ts';
import * as accessKeys from './iam/access-keys.ts';
import * as attachments from './iam/attachments.ts';
import * as groups from './iam/groups.ts';
import * as managedPolicies from './iam/managed-policies.ts';
import * as mfa from './iam/mfa.ts';
import * as roles from './iam/roles.ts';
import * as simulations from './iam/simulate.ts';
import * as sts from './iam/sts.ts';
import * as tags from './iam/tags.ts';
import * as users from './iam/users.ts';
import { CopyObject } from './object/copy-object.ts';
import { GetObject, HeadObject } from './object/get-object.ts';
import { GetObjectAttributes } from './object/get-object-attributes.ts';
import {
  AbortMultipartUpload,
  CompleteMultipartUpload,
  CreateMultipartUpload,
  UploadPart,
  UploadPartCopy,
} from './object/multipart-upload.ts';
import { PostObject, PutObject } from './object/put-object.ts';
import * as replicas from './object/replicate.ts';
import {
  DeleteObjectTagging,
  GetObjectAcl,
  GetObjectLegalHold,
  GetObjectRetention,
  GetObjectTagging,
  legalHoldFacts,
  PutObjectAcl,
  PutObjectLegalHold,
  PutObjectRetention,
  PutObjectTagging,
  RestoreObject,
  retentionFacts,
  taggingFacts,
  UpdateObjectEncryption,
} from './object/subresources.ts';
import { ListAuditRecords, ListBuckets, ListNotifyDeadLetters } from './service.ts';

// The answer of every operation that is not implemented.

const refusing =
  (name: LeftOutName): HandlerOf<LeftOutName> =>
  async () => {
    throw fail('NotImplemented', `${name} is not implemented: ${leftOutOperations[name].leftOut}.`);
  };

const leftOut = Object.fromEntries(
  leftOutNames.map((name) => [name, refusing(name)]),
  // The cast: one entry was made of each name.
) as Readonly<Record<LeftOutName, HandlerOf<LeftOutName>>>;

/** Handlers that read no facts from a body. */
const entries = <T extends Readonly<Record<string, unknown>>>(
  plain: T,
): { readonly [N in keyof T]: { readonly handle: T[N] } } =>
  // The cast: one entry was made of each name.
  Object.fromEntries(Object.entries(plain).map(([name, handle]) => [name, { handle }])) as {
    readonly [N in keyof T]: { readonly handle: T[N] };
  };

/** The handlers of every action of IAM and STS. */
const actions = {
  ...users,
  ...accessKeys,
  ...groups,
  ...roles,
  ...managedPolicies,
  ...attachments,
  ...mfa,
  ...simulations,
  ...sts,
  ...tags,
  ...absentKinds,
};

export const handlers: Handlers = {
  ListBuckets: { handle: ListBuckets },
  ListAuditRecords: { handle: ListAuditRecords },
  ListNotifyDeadLetters: { handle: ListNotifyDeadLetters },
  CreateBucket: { handle: CreateBucket, facts: creationFacts },
  DeleteBucket: { handle: DeleteBucket },
  HeadBucket: { handle: HeadBucket },
  GetBucketLocation: { handle: GetBucketLocation },
  GetBucketVersioning: { handle: GetBucketVersioning },
  PutBucketVersioning: { handle: PutBucketVersioning },
  GetBucketTagging: { handle: GetBucketTagging },
  PutBucketTagging: { handle: PutBucketTagging },
  DeleteBucketTagging: { handle: DeleteBucketTagging },
  GetBucketCors: { handle: GetBucketCors },
  PutBucketCors: { handle: PutBucketCors },
  DeleteBucketCors: { handle: DeleteBucketCors },
  GetBucketLifecycleConfiguration: { handle: GetBucketLifecycleConfiguration },
  PutBucketLifecycleConfiguration: { handle: PutBucketLifecycleConfiguration },
  DeleteBucketLifecycleConfiguration: { handle: DeleteBucketLifecycleConfiguration },
  GetBucketReplication: { handle: GetBucketReplication },
  PutBucketReplication: { handle: PutBucketReplication },
  DeleteBucketReplication: { handle: DeleteBucketReplication },
  GetBucketNotificationConfiguration: { handle: GetBucketNotificationConfiguration },
  PutBucketNotificationConfiguration: { handle: PutBucketNotificationConfiguration },
  GetBucketInventoryConfiguration: { handle: GetBucketInventoryConfiguration },
  PutBucketInventoryConfiguration: { handle: PutBucketInventoryConfiguration, facts: inventoryFacts },
  DeleteBucketInventoryConfiguration: { handle: DeleteBucketInventoryConfiguration },
  ListBucketInventoryConfigurations: { handle: ListBucketInventoryConfigurations },
  GetBucketLogging: { handle: GetBucketLogging },
  PutBucketLogging: { handle: PutBucketLogging },
  GetBucketWebsite: { handle: GetBucketWebsite },
  PutBucketWebsite: { handle: PutBucketWebsite },
  DeleteBucketWebsite: { handle: DeleteBucketWebsite },
  GetBucketEncryption: { handle: GetBucketEncryption },
  PutBucketEncryption: { handle: PutBucketEncryption },
  DeleteBucketEncryption: { handle: DeleteBucketEncryption },
  GetBucketOwnershipControls: { handle: GetBucketOwnershipControls },
  PutBucketOwnershipControls: { handle: PutBucketOwnershipControls },
  DeleteBucketOwnershipControls: { handle: DeleteBucketOwnershipControls },
  GetPublicAccessBlock: { handle: GetPublicAccessBlock },
  PutPublicAccessBlock: { handle: PutPublicAccessBlock },
  DeletePublicAccessBlock: { handle: DeletePublicAccessBlock },
  GetBucketRequestPayment: { handle: GetBucketRequestPayment },
  PutBucketRequestPayment: { handle: PutBucketRequestPayment },
  GetObjectLockConfiguration: { handle: GetObjectLockConfiguration },
  PutObjectLockConfiguration: { handle: PutObjectLockConfiguration },
  GetBucketPolicy: { handle: GetBucketPolicy },
  PutBucketPolicy: { handle: PutBucketPolicy },
  DeleteBucketPolicy: { handle: DeleteBucketPolicy },
  GetBucketPolicyStatus: { handle: GetBucketPolicyStatus },
  GetBucketAcl: { handle: GetBucketAcl },
  PutBucketAcl: { handle: PutBucketAcl },
  ListObjects: { handle: ListObjects },
  ListObjectsV2: { handle: ListObjectsV2 },
  ListObjectVersions: { handle: ListObjectVersions },
  ListMultipartUploads: { handle: ListMultipartUploads },
  DeleteObjects: { handle: DeleteObjects },
  PutObject: { handle: PutObject },
  PostObject: { handle: PostObject },
  CopyObject: { handle: CopyObject },
  GetObject: { handle: GetObject },
  HeadObject: { handle: HeadObject },
  DeleteObject: { handle: DeleteObject },
  GetObjectAttributes: { handle: GetObjectAttributes },
  RestoreObject: { handle: RestoreObject },
  GetObjectTagging: { handle: GetObjectTagging },
  PutObjectTagging: { handle: PutObjectTagging, facts: taggingFacts },
  DeleteObjectTagging: { handle: DeleteObjectTagging },
  GetObjectRetention: { handle: GetObjectRetention },
  PutObjectRetention: { handle: PutObjectRetention, facts: retentionFacts },
  GetObjectLegalHold: { handle: GetObjectLegalHold },
  PutObjectLegalHold: { handle: PutObjectLegalHold, facts: legalHoldFacts },
  UpdateObjectEncryption: { handle: UpdateObjectEncryption },
  GetObjectAcl: { handle: GetObjectAcl },
  PutObjectAcl: { handle: PutObjectAcl },
  CreateMultipartUpload: { handle: CreateMultipartUpload },
  UploadPart: { handle: UploadPart },
  UploadPartCopy: { handle: UploadPartCopy },
  CompleteMultipartUpload: { handle: CompleteMultipartUpload },
  AbortMultipartUpload: { handle: AbortMultipartUpload },
  ListParts: { handle: ListParts },
  OptionsBucket: { handle: OptionsBucket },
  OptionsObject: { handle: OptionsObject },
  GetReplicaSite: { handle: GetReplicaSite },
  ...entries(replicas),
  ...entries(accessPoints),
  ...entries(actions),
  ...entries(leftOut),
};
